#!/usr/bin/env bash
# Runs the tests on real Apache Kafka: those whose names begin with TestKafka, in all modules.
#
# Only packages that have such a test are built, those with the most tests first, so that the last to begin are short.
# They run two at a time, since they wait for brokers and timeouts most of the time (a third of one core, measured); how
# many tests of a package go side by side is what its TestMain says, else as many as there are cores. Arguments go to
# go test.
#
# -vet=off: "make check" vets the same files, with more analyzers.
set -eu
cd "$(dirname "$0")/.."

directories=$(grep -rc --include='*_test.go' '^func TestKafka' . |
	awk -F: '$2 > 0 { sub("/[^/]*$", "", $1); tests[$1] += $2 } END { for (dir in tests) print tests[dir], dir }' |
	sort -k1,1nr -k2 | cut -d' ' -f2)
# shellcheck disable=SC2086 # one word, one package
go test -count=1 -vet=off -p 2 -timeout "${HOLDFAST_TEST_TIMEOUT:-15m}" -run '^TestKafka' "$@" $directories
