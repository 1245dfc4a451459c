#!/bin/sh
# man.sh TOP MAN1 STEPTUNE - fails if mandoc finds fault with a man page, or if a
# command has none; 77 without mandoc or without the pages of the commands.
set -eu
if ! command -v mandoc >/dev/null || [ ! -d "$2" ]; then
	echo "no mandoc here, or no help2man when this was built"
	exit 77
fi
bad=0
mandoc -Tlint -W warning "$2"/*.1 "$1"/src/cli/man/*.[57] || bad=1
for command in $("$3" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
	[ -s "$2/steptune-$command.1" ] || { echo "$2/steptune-$command.1: missing"; bad=1; }
done
# A page has a hyphen in its name, and no command has.
! grep -n '^steptune-[a-z]* \\-[^ ]' "$2"/*.1 || bad=1
# A header of options is no text of the option before it.
! grep -n '^\.IP$' "$2"/*.1 || bad=1
# What a message says of versions the pages say, too.
cuda=$(sed -n 's/.*older than \(CUDA [0-9.]*[0-9]\).*/\1/p' "$1/src/stage/stage.c")
grep -q "$cuda or later" "$1/src/cli/man/steptune-plugins.7" || { echo "steptune-plugins.7: staging needs '$cuda or later'"; bad=1; }
us=$(sed -n 's/^#define STP_DERIVE_GRAPH_US  *//p' "$1/src/analyse/derive.h")
for page in derive.h2m steptune-policy.5; do
	grep -q "CUDA graph.*saves\{0,1\} .*\<$us microseconds" "$1/src/cli/man/$page" || { echo "$page: a staged collective in a CUDA graph must save '$us microseconds'"; bad=1; }
done
exit $bad
