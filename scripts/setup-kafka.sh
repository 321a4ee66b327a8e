#!/usr/bin/env bash
# Makes real-Kafka tests possible on this machine: Java with its compiler (some tests run a small Java
# client), Maven, and Kafka's jars in the cache.
#
# As root on Debian or Ubuntu it installs what is missing. Elsewhere it prints the command; under CI it
# then fails, because a skipped test would look like a passed one. Arguments are Kafka versions to
# fetch; without any it is the one that the tests run against (HOLDFAST_KAFKA_VERSION).
set -eu
cd "$(dirname "$0")/.."

complete() { command -v java >/dev/null && command -v javac >/dev/null && command -v mvn >/dev/null; }

packages="openjdk-17-jdk-headless maven"
if ! complete && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "setup-kafka: Java, its compiler or Maven is missing: installing $packages with apt-get"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	if ! apt-cache show openjdk-17-jdk-headless >/dev/null 2>&1; then
		packages="default-jdk-headless maven" # releases that have dropped 17; any later one runs Kafka
	fi
	# shellcheck disable=SC2086 # two words, two packages
	apt-get install -y -qq --no-install-recommends $packages >/dev/null
fi
if ! complete; then
	echo "setup-kafka: Java 17 (a JDK) or Maven is missing. Install both, on Debian or Ubuntu with:" >&2
	echo "    sudo apt-get install -y --no-install-recommends $packages" >&2
	if [ -n "${CI:-}" ]; then
		exit 1
	fi
	echo "setup-kafka: tests on real Kafka will be skipped" >&2
	exit 0
fi
exec go run ./internal/kafkatest/fetch "$@"
