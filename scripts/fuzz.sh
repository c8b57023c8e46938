#!/bin/bash
# fuzz.sh FUZZTIME   every fuzz target of pkg and internal for FUZZTIME. Each package's tests are built once.
#
# Go before 1.27 fails a target now and then because FUZZTIME is over (https://go.dev/issue/75804): it says "context deadline exceeded" and
# nothing else. That is no finding: an input that fails is written to testdata/fuzz and named. Whatever else fails a target fails this script.
# Inputs are made smaller in few steps: by default that may take a minute, which is longer than CI fuzzes a target.
set -euo pipefail
time=${1:?for how long, such as 20s}
go=${GO:-go}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# onlyOver says whether the output of a failed run has no other reason than the end of FUZZTIME.
onlyOver() {
	awk '/^ *--- FAIL: /  { failed = 1; next }
	     failed && /^ *context deadline exceeded$/ { over = 1; next }
	     /Failing input|panic:|fatal error:|^ +[A-Za-z0-9_]+\.go:[0-9]+: / { other = 1 }
	     failed && !/^(FAIL|exit status [0-9]+)?$/ { other = 1 }
	     END { exit !(over && !other) }' "$1"
}

cache=$("$go" env GOCACHE)/fuzz
module=$("$go" list -m)
failed=0
for package in $(grep -rl --include='*_test.go' '^func Fuzz' pkg internal | xargs -n1 dirname | sort -u); do
	"$go" test -c -fuzz . -o "$work/tests" "./$package"
	for target in $(grep -rhoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' "$package"/*_test.go | cut -d' ' -f2); do
		echo "== $package $target"
		(cd "$package" && "$work/tests" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.fuzzminimizetime 100x -test.fuzzcachedir "$cache/$module/$package") 2>&1 | tee "$work/output" && continue
		if onlyOver "$work/output"; then
			echo "$target: the time was over, which this Go takes for a failure"
		else
			echo "--- FAIL: $package $target"
			failed=1
		fi
	done
done
exit $failed
