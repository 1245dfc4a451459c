#!/bin/sh
# budget.sh TOP - prints the lines of code of each folder that budget.txt names and
# its static functions that are called exactly once, and fails above what
# budget.txt allows.  With LIST=1 in the environment it prints these functions,
# those of at most 14 lines alone unless ANY=1.  77 without universal-ctags.
set -eu
cd "$1"
if ! ctags --version 2>/dev/null | grep -q 'Universal Ctags'; then
	echo "no universal-ctags here"
	exit 77
fi
code=$(git ls-files src mock_nccl gpu_tests tests 2>/dev/null | grep -E '\.(c|h|cc|cu|cuh)$') ||
	code=$(find src mock_nccl gpu_tests tests -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh')
statics=$(mktemp)
trap 'rm -f "$statics"' EXIT
# shellcheck disable=SC2086 # a list
ctags -x --kinds-C=f --kinds-C++=f --_xformat='%{file} %F %N %{end} %n' $code |
	awk '$1 != "-" && $2 !~ /^(tests|gpu_tests)\// { print $2, $3, $4 - $5 + 1 }' >"$statics"
# shellcheck disable=SC2086 # a list
awk -v list="${LIST:-}" -v any="${ANY:-}" '
	FILENAME ~ /budget\.txt$/ {
		if ($1 != "" && $1 !~ /^#/) {
			budget[$1] = $2
			order[++n_budgets] = $1
		}
		next
	}
	FILENAME == ARGV[2] { length_of[$1, $2] = $3; next }
	FNR == 1 {
		in_comment = 0
		folder = FILENAME
		while (!(folder in budget) && sub(/\/[^\/]*$/, "", folder)) ;
		if (!(folder in budget)) { print FILENAME ": budget.txt has no line for its folder"; bad = 1 }
	}
	{ lines[folder]++ }
	FILENAME ~ /^(src|mock_nccl).*\.c$/ { n_c++ }
	folder == "tests" || /^[A-Za-z]/ { next } # a definition or a prototype is no use
	{
		text = $0
		if (in_comment && !sub(/.*\*\//, "", text)) next
		in_comment = 0
		gsub(/"([^"\\]|\\.)*"/, "", text)
		gsub(/\/\*[^*]*\*\//, "", text)
		sub(/\/\/.*/, "", text)
		if (sub(/\/\*.*/, "", text)) in_comment = 1
		while (match(text, /[A-Za-z_][A-Za-z0-9_]*/)) {
			name = substr(text, RSTART, RLENGTH)
			text = substr(text, RSTART + RLENGTH)
			if ((FILENAME, name) in length_of) {
				uses[FILENAME, name]++
				if (text ~ /^\(/) calls[FILENAME, name]++
				folder_of[FILENAME, name] = folder
			}
		}
	}
	END {
		for (key in uses)
			if (uses[key] == 1 && calls[key] == 1) {
				split(key, part, SUBSEP)
				once[folder_of[key]]++
				n_once++
				if (length_of[key] <= 14) { short[folder_of[key]]++; n_short++ }
				if (list && (any || length_of[key] <= 14))
					print part[1] ": " part[2] " has " length_of[key] " lines and one caller"
			}
		for (i = 1; i <= n_budgets; i++) {
			name = order[i]
			if (name ~ /^(once_called|short_once_called|total|total_tests)$/) continue
			if (name ~ /^tests/) total_tests += lines[name]; else total += lines[name]
			printf "%-14s %6d lines of %6d, %4d static functions with one caller, %3d of them short\n", \
				name, lines[name], budget[name], once[name], short[name]
			if (lines[name] > budget[name] + 0) { print name ": " lines[name] " lines, expected at most " budget[name]; bad = 1 }
		}
		got["total"] = total
		got["total_tests"] = total_tests
		got["once_called"] = sprintf("%.1f", n_once * 1000 / n_c)
		got["short_once_called"] = sprintf("%.1f", n_short * 1000 / n_c)
		for (name in got) {
			printf "%-17s %6s of %6s\n", name, got[name], budget[name]
			if (got[name] + 0 > budget[name] + 0) { print name ": " got[name] ", expected at most " budget[name]; bad = 1 }
		}
		exit bad
	}' tests/lint/budget.txt "$statics" $code
