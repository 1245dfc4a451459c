#!/bin/sh
# words.sh TOP - fails if code or documents use words that CONTRIBUTING's glossary
# replaces, if more than one comment in 100 of a file begins with a word that
# needs the line above, or if static functions of several files share a name:
# none may occur in four files or more, and at most 12 percent of all may share
# theirs; 77 without universal-ctags.
set -eu
cd "$1"
bad=0

# Phrases, and what to write instead.  In code, documents and man pages.
while IFS='|' read -r phrase instead; do
	[ -n "$phrase" ] || continue
	found=$(grep -rniE "$phrase" src mock_nccl README.md CONTRIBUTING.md \
		--include='*.[ch]' --include='*.cc' --include='*.cu*' --include='*.md' \
		--include='*.h2m' --include='*.[57]' --include='*.html' --include='*.gp' || true)
	if [ -n "$found" ]; then
		echo "write \"$instead\" for /$phrase/:"
		echo "$found"
		bad=1
	fi
done <<'END'
how manieth|sequence number
as (all_reduce_perf or )?we call it|(name the source of the names)
\bbegin anew\b|start over
goes on where it\b|resumes
under whom|tuner
what is odd about|lint
times less\b|x faster
beside compute\b|overlapped with compute
behind each layer|after each layer
\bwhoever\b|(a noun of the glossary)
\bcompanion\b|online hooks
\bhopeless\b|drop_gain
\bheed_policy\b|disable_on_mismatch
\bsend_home\b|reject_joined
\bcrew\b|thread pool
\bwishe?s?\b|proposal, request
\bstp_published\b|agreement
\bmatrix products?\b|GEMM
END

# Comments that begin with no subject: "Of all ranks", "What is left".
find src mock_nccl gpu_tests tests \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu*' \) \
	-exec awk '
	function judge() {
		if (100 * n_bad <= n)
			return
		printf "%d of %d comments of %s begin with Of, What, Those or Whether its, expected one in 100 at most:\n%s",
			n_bad, n, file, lines
		bad = 1
	}
	FNR == 1 { judge(); file = FILENAME; n = n_bad = goes_on = opened = 0; lines = "" }
	{
		line_comment = /^[ \t]*\/\//
		begins = /\/\*/ || (/(^|[^:"])\/\// && !(goes_on && line_comment))
		n += begins
		if ((begins || opened) && /(\/[*\/]|^[ \t]*\*) *(Of|What|Those|Whether its) /) {
			n_bad++
			lines = lines FILENAME ":" FNR ":" $0 "\n"
		}
		opened = /^[ \t]*\/\*+$/ # the text begins in the next line
		goes_on = line_comment && !/^[ \t]*\/\/$/
	}
	END { judge(); exit bad }' {} + || bad=1

if ! ctags --version 2>/dev/null | grep -q 'Universal Ctags'; then
	echo "no universal-ctags here"
	[ $bad = 0 ] && exit 77
	exit $bad
fi
files=$(find src mock_nccl -name '*.[ch]' -o -name '*.cc' -o -name '*.cu')
# shellcheck disable=SC2086 # a list
ctags -x --kinds-C=f --kinds-C++=f '--_xformat=%N %F %{file}' $files |
	awk 'NF == 3 || $2 ~ /\.h$/ { print $1, $2 }' | sort -u |
	awk '
	{ n++; files[$1]++; where[$1] = where[$1] " " $2 }
	END {
		for (name in files) {
			if (files[name] > 1) shared += files[name]
			if (files[name] > 3) { print "static " name "() is in" where[name] ", expected at most three files"; bad = 1 }
		}
		printf "%d of %d static functions (%.1f percent) share their name\n", shared, n, 100 * shared / n
		if (n == 0 || shared > 0.12 * n) { print "expected at most 12 percent"; bad = 1 }
		exit bad
	}' || bad=1
exit $bad
