#!/usr/bin/env bash
# Runs every fuzz target of every module for FUZZTIME (30s unless set), one after another. FUZZ is a
# pattern for the names of the targets; unset, all of them. A crasher is left in testdata/fuzz of its package, from where
# every run of the tests has it from then on.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=()
count=0
while IFS=: read -r file line; do
	dir=$(dirname "$file")
	target=${line#func }
	target=${target%%(*}
	[[ $target =~ ${FUZZ:-.} ]] || continue
	echo "== $dir $target"
	count=$((count + 1))
	# -parallel: each worker is a process, and the machine may have other things to do.
	(cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" -fuzzminimizetime 10s -parallel "${FUZZ_WORKERS:-2}" .) ||
		failed+=("$dir $target")
done < <(grep -rE '^func Fuzz[A-Za-z0-9_]*\(f \*testing\.F\)' --include='*_test.go' --exclude-dir=bin . | sort)

if ((count == 0)); then
	echo "no fuzz target is named like ${FUZZ:-.}" >&2
	exit 1
fi
if ((${#failed[@]})); then
	printf 'failed: %s\n' "${failed[@]}" >&2
	exit 1
fi
echo "$count fuzz targets ran for ${FUZZTIME:-30s} each"
