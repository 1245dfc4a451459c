#!/bin/sh
# reruns.sh TOP - fails unless run_tests() of ci/lib.sh lets a few tests pass that fail
# beside others and not alone, and no other.
set -eu
. "$1/ci/lib.sh"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
bad=0
# NAME TIMES - a test that fails so many times
echo 'echo >>"$1"; [ "$(wc -l <"$1")" -gt "$2" ]' >fails

# tell STATUS NAME TIMES... - whether it returns this status, of such tests.
tell() {
	wanted=$1
	shift
	tests=$*
	mkdir run && cd run
	while [ $# -gt 0 ]; do
		echo "add_test($1 sh ../fails $1 $2)" >>CTestTestfile.cmake
		shift 2
	done
	status=0
	(run_tests ctest.log --test-dir . -j 4) >../out 2>&1 || status=1
	mv ctest.log ..
	cd .. && rm -r run
	[ $status = "$wanted" ] && return
	echo "run_tests() returns $status, expected $wanted, of tests that fail so often: $tests"
	cat out
	bad=1
}

tell 0 a 0 b 0
tell 0 a 1 b 0
tell 0 a 1 b 1 c 1
tell 1 a 1 b 1 c 1 d 1
tell 1 a 2 b 0
tell 1 a 1 b 9
tell 1 a.Storm.b 1
grep -q "What the tests printed" out || { echo "what failed is not printed"; bad=1; }
tell 0 a 1
grep -q "^These failed beside others, and passed alone: a$" ctest.log ||
	{ echo "the log does not name what passed alone"; bad=1; }
exit $bad
