#!/bin/sh
# options.sh TOP STEPTUNE - fails if a message, a help text or a man page names an option
# that its command has not: that of `steptune COMMAND --OPTION`, else of the command whose
# source, help or page it is, else any.
set -eu
cd "$1"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# "tune --rounds"; of other programs: "- --nnodes"
for command in $("$2" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
	echo "$command --help"
	"$2" "$command" --print-options </dev/null | cut -f1 | tr ' ' '\n' | sed -n "s/^-/$command &/p"
done >"$dir/has"
for option in help usage version print-options install shm-size nnodes nodes node-rank node_rank \
	no-python nproc-per-node ntasks-per-node master-addr; do
	echo "- --$option"
done >>"$dir/has"
# "FILE TAB TEXT": literals that are more than an option, lines of pages, help by section
find src -name '*.[ch]' -exec awk -v RS='\001' '{
	code = $0
	gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, " ", code); gsub(/'\''"'\''/, " ", code); gsub(/"[ \t\n]*"/, "", code)
	n = split(code, part, "\n")
	for (i = 1; i <= n; i++)
		while (match(part[i], /"([^"\\]|\\.)*"/)) {
			text = substr(part[i], RSTART + 1, RLENGTH - 2); part[i] = substr(part[i], RSTART + RLENGTH)
			if (text !~ /^--[a-z-]*$/) print FILENAME "\t" text
		}
}' {} + >"$dir/texts"
awk '{ gsub(/\\f[BIR]/, ""); gsub(/\\-/, "-"); print FILENAME "\t" $0 }' src/cli/man/*.h2m src/cli/man/*.[57] >>"$dir/texts"
awk '/^\[/ { section = $0; gsub(/[][]/, "", section) } { print "src/cli/" section ".help\t" $0 }' src/cli/help.txt >>"$dir/texts"
awk -F'\t' '
function check(command, text, is_named,   option) {
	while (match(text, /(^|[^-a-z])--?[a-zA-Z][a-z_-]*/)) {
		option = substr(text, RSTART, RLENGTH); text = substr(text, RSTART + RLENGTH)
		sub(/^[^-]/, "", option); sub(/-$/, "", option)
		if (option ~ /^-[^-]/ && !(is_named && option ~ /^-.$/)) continue
		if (!(("- " option) in has) && !((command " " option) in has)) {
			printf "%s: %s has no %s: %s\n", $1, command == "" ? "steptune" : "steptune " command, option, $2; bad = 1
		}
	}
}
FNR == NR { split($0, word, " "); has[$0]; has[" " word[2]]; of[word[1]]; next }
{
	own = $1; sub(/^src\/cli\/(man\/)?/, "", own); sub(/[.\/].*/, "", own)
	text = $2
	while (match(text, /steptune [a-z]+ /)) {
		named = substr(text, RSTART + 9, RLENGTH - 10)
		before = substr(text, 1, RSTART - 1)
		rest = text = substr(text, RSTART + RLENGTH)
		check(own in of ? own : "", before, 0)
		sub(/(`| -- | && |[,;.#)] |steptune ).*/, "", rest)
		if (named in of) { check(named, " " rest, 1); text = substr(text, length(rest) + 1) }
	}
	check(own in of ? own : "", text, 0)
}
END { exit bad }' "$dir/has" "$dir/texts"
