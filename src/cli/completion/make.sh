#!/bin/sh
# make.sh STEPTUNE OUT - writes the completions of bash (OUT/steptune) and zsh
# (OUT/_steptune): steptune.bash and steptune.zsh beside this script, with the
# commands and options that STEPTUNE prints.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
steptune=$1 out=$2
mkdir -p "$out"

# COMMAND, NAMES, KIND, WORDS, HELP of every option, with tabs between; NAMES of
# the arguments is "arguments".
options() {
	"$steptune" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | while read -r command; do
		"$steptune" "$command" --print-options </dev/null |
			awk -v command="$command" 'BEGIN { FS = OFS = "\t" }
			$1 == "" {
				$1 = "arguments"
				$2 = /COMMAND/ ? "command" : /MACHINE/ ? "machine" : /NAME/ ? "word" : $2 == "" ? "none" : "file"
			}
			{ print command, $0 }'
		printf '%s\t--help -h\tnone\t\tPrint help\n' "$command"
	done
}

# The specifications that _arguments takes, in a branch for each command.
zsh_specs() {
	awk -F'\t' '
	function action() {
		if ($3 == "machine") return ":machine:_steptune_machines"
		if ($3 == "folder") return ":folder:_files -/"
		if ($3 == "file") return ":file:_files"
		if ($3 == "command") return "::command:_normal"
		if ($4 == "") return ":value: "
		return $3 == "list" ? ":list:_values -s , value " $4 : ":value:(" $4 ")"
	}
	$1 != last { if (last != "") print "\t\t;;"; print "\t" $1 ")"; print "\t\tspecs=("; last = $1; close_at = 1 }
	$2 == "arguments" {
		if ($3 != "none") print "\t\t\t\x27*:" action() "\x27"
		next
	}
	{
		help = $5
		sub(/[;:(\[].*|\. .*/, "", help)
		sub(/ *$/, "", help)
		gsub(/\x27/, "\x27\\\x27\x27", help)
		n = split($2, names, " ")
		for (i = 1; i <= n; i++) {
			takes = $3 == "none" ? "" : names[i] ~ /^--/ ? "=" : "+"
			print "\t\t\t\x27(" $2 ")" names[i] takes "[" help "]" ($3 == "none" ? "" : action()) "\x27"
		}
		if ($2 == "--help -h") print "\t\t)"
	}
	END { print "\t\t;;" }'
}

# fill TEMPLATE MARK FILE - the template with the file in the place of the line
# MARK.
fill() {
	sed -e "/^$2\$/{r $3
		d
	}" "$1"
}

rows=$(mktemp)
part=$(mktemp)
trap 'rm -f "$rows" "$part"' EXIT
options >"$rows"
[ -s "$rows" ] || { echo "make.sh: $steptune prints no options" >&2; exit 1; }

cut -f1-4 "$rows" | tr '\t' '|' >"$part"
fill "$here/steptune.bash" @ROWS@ "$part" >"$out/steptune.tmp"
zsh_specs <"$rows" >"$part"
fill "$here/steptune.zsh" @SPECS@ "$part" >"$out/_steptune.half"
"$steptune" --help | sed -n "s/'/'\\\\''/g;s/^  \([a-z]*\)  *\(.*\)/\t\t'\1:\2'/p" >"$part"
fill "$out/_steptune.half" @COMMANDS@ "$part" >"$out/_steptune.tmp"
rm "$out/_steptune.half"
mv "$out/steptune.tmp" "$out/steptune"
mv "$out/_steptune.tmp" "$out/_steptune"
