#!/usr/bin/env bash
# Runs the tests on real Apache Kafka: those whose names begin with TestKafka, in all modules.
#
# Only packages that have such a test are built. They run two at a time, since they wait for brokers and timeouts
# most of the time (a third of one core, measured); how many tests of a package
# go side by side is what its TestMain says, else as many as there are cores. Arguments go to go test.
set -eu
cd "$(dirname "$0")/.."

for module in $(go list -m -f '{{.Dir}}'); do
	cd "$module"
	# A nested module's files are found from its parent as well: go list keeps them out.
	with_tests=$(grep -rl --include='*_test.go' '^func TestKafka' . | xargs -r -n1 dirname | sort -u)
	packages=""
	for dir in $with_tests; do
		package=$(go list -f '{{.Module.Dir}}|{{.ImportPath}}' "$dir")
		if [ "${package%%|*}" = "$module" ]; then
			packages="$packages ${package#*|}"
		fi
	done
	if [ -n "$packages" ]; then
		# shellcheck disable=SC2086 # one word, one package
		go test -count=1 -p 2 -timeout "${HOLDFAST_TEST_TIMEOUT:-15m}" -run '^TestKafka' "$@" $packages
	fi
done
