#!/bin/sh
# plans.sh TOP CC - searches all states of tests/agree/plans.pml with spin: no
# error may be in the model, and one in each with a planted error.  Fails also if
# the model does not name each function of planner.c that asks or takes; 77
# without spin.
set -eu
top=$1
cc=$2
model=$top/tests/agree/plans.pml
command -v spin >/dev/null || {
	echo "no spin here"
	exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

grep -oE '^(static .*)?planner_(ask|take)_[a-z_]+\(' "$top/src/agree/planner.c" |
	grep -oE 'planner_(ask|take)_[a-z_]+' | sort -u >functions
grep -oE 'planner_(ask|take)_[a-z_]+' "$model" | sort -u >named
[ -s functions ] && diff functions named || {
	echo "plans.pml and planner.c (<) differ in the functions above"
	exit 1
}

# search OPTIMIZATION OPTION... - the output of a search in "out".
search() {
	optimize=$1
	shift
	spin -a "$@" "$model"
	"$cc" "$optimize" -w -DSAFETY -DNOCOMP -DMEMLIM=1900 -o pan pan.c
	./pan -m10000 -w22 >out 2>&1
	grep -q 'Full statespace search' out
	sed -n 's/^ *\([0-9]* states\), stored.*/\1/p' out | tr '\n' ' '
}

# holds OPTION... - fails unless the search is complete and without errors.
holds() {
	search -Og "$@" # -O1 compiles longer than it saves
	echo "without error: $*"
	if ! grep -q 'errors: 0$' out || grep -qE 'not completed|too small|out of memory' out; then
		cat out
		exit 1
	fi
}

# finds OPTION... - fails unless an assertion is violated.
finds() {
	search -O0 "$@"
	echo "until an error: $*"
	grep -q 'assertion violated' out || {
		cat out
		exit 1
	}
}

holds -DPLANS=1 -DFAILURES=1
holds -DPLANS=1 -DFAILURES=1 -DIMPATIENT=1
holds -DPLANS=1 -DFAILURES=2 -DOUTAGES=0
holds -DPLANS=2 -DFAILURES=0
finds -DPLANS=1 -DFAILURES=0 -DPLANTED=1
finds -DPLANS=1 -DFAILURES=1 -DPLANTED=2 -DLOSSES=0 -DCRASHES=0
finds -DPLANS=1 -DFAILURES=1 -DPLANTED=3 -DCRASHES=0 -DOUTAGES=0
finds -DPLANS=1 -DFAILURES=0 -DPLANTED=4
