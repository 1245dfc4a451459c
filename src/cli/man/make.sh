#!/bin/sh
# make.sh STEPTUNE VERSION DATE OUT - writes steptune.1 and a page for every
# command into the folder OUT: the option list from --help by help2man, the prose
# from NAME.h2m beside this script.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
steptune=$1 version=$2 date=$3 out=$4
mkdir -p "$out"

# page NAME SUMMARY [COMMAND] - one page; help2man writes a date that mandoc
# does not know, the name as it is typed, and headers of options as if they were
# text of the option before.
page() {
	command=${3:-}
	help2man --no-info --help-option=--help --version-string="$version" \
		--name="$2" --include="$here/${command:-steptune}.h2m" "$steptune${command:+ $command}" |
		sed -e "s/^\.TH .*/.TH $(echo "$1" | tr a-z A-Z) 1 $date \"Steptune $version\"/" \
			-e "s/^steptune $command \\\\- /$1 \\\\- /" -e '/^$/d' -e 's/[ \t]*$//' |
		sed -e '/^\.IP$/{N;s/^\.IP\n\(.*[^:]\):*$/.SS "\1"/;}' >"$out/$1.1.tmp"
	mv "$out/$1.1.tmp" "$out/$1.1"
}

page steptune 'make NCCL choose what gives the shortest training step'
"$steptune" --help | sed -n 's/^  \([a-z]*\)  *\(.*\)$/\1 \2/p' |
	while read -r command summary; do
		page "steptune-$command" "$summary" "$command" </dev/null
	done
