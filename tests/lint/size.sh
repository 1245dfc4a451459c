#!/bin/sh
# size.sh TOP - fails if functions in src/ and mock_nccl/ are longer than agreed
# (median 20 lines, 90 percent within 45, none above 100), or a file there or of
# the tests is longer than 900 lines; 77 without universal-ctags.
set -eu
cd "$1"
if ! ctags --version 2>/dev/null | grep -q 'Universal Ctags'; then
	echo "no universal-ctags here"
	exit 77
fi
files=$(find src mock_nccl -name '*.[ch]' -o -name '*.cu' -o -name '*.cc')
# shellcheck disable=SC2086 # a list
ctags -x --kinds-C=f --kinds-C++=f --_xformat='%{end} %n %F %N' $files |
	awk '{ print $1 - $2 + 1, $3, $4 }' | sort -n |
	awk '
	{ lines[NR] = $1; if ($1 > 100) { print $2 ": " $3 " has " $1 " lines, expected at most 100"; bad = 1 } }
	END {
		median = lines[int((NR + 1) / 2)]; p90 = lines[int(NR * 0.9 + 0.5)]
		print NR " functions: median " median " lines, p90 " p90 ", longest " lines[NR]
		if (NR == 0 || median > 20 || p90 > 45) { print "expected a median of at most 20 and a p90 of at most 45"; bad = 1 }
		exit bad
	}'
# shellcheck disable=SC2046
wc -l $(find src mock_nccl tests gpu_tests -name '*.[ch]' -o -name '*.cu' -o -name '*.cc') | awk '$2 != "total" && $1 > 900 { print $2 ": " $1 " lines, expected at most 900"; bad = 1 } END { exit bad }'
