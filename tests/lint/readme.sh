#!/bin/sh
# readme.sh STEPTUNE - fails unless the commands in README's blocks run, one after
# the other, in a build as that of ci/demo: without a GPU, without gnuplot, and
# without the modules that want packages.  Each ends with 0, or with 77 and what to
# install or to play instead; a job's program that is not here is named.
set -eu
readme=$(cd "$(dirname "$0")/../.." && pwd)/README.md
built=$(cd "$(dirname "$1")/.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin" "$dir/lib" "$dir/here" "$dir/path"
cp "$1" "$dir/bin/steptune"
cp "$built"/lib/libnccl-tuner-*.so "$dir/lib"
ln -s "$built/share" "$dir/share"
unset STEPTUNE_GNUPLOT STEPTUNE_MACHINES
bad=0

# expect STATUS COMMAND - whether out has what a command may end with.
expect() {
	case $1:$2 in
	0:*) return 0 ;;
	77:*) grep -qE '^steptune [a-z]+: .*(expected --on .*, such as `steptune|install .*\(Debian: )' out ;;
	127:"steptune run "*) grep -q "cannot run 'torchrun'" out ;;
	1:"steptune doctor "*) grep -q '^problems: [1-9]' out ;;
	*) return 1 ;;
	esac
}

# run COMMAND - as a shell without gnuplot and torchrun would.
run() {
	status=0
	(
		eval "set -- ${1#steptune }"
		CUDA_VISIBLE_DEVICES='' PATH=$dir/path "$dir/bin/steptune" "$@"
	) >out 2>&1 </dev/null || status=$?
	expect $status "$1" && return
	echo "README: $1: status $status, expected 0, or 77 and what is missing"
	cat out
	bad=1
}

# What configures the build wants no package of the tests.
configure=$(sed -n 's/^\(cmake --preset [^&]*\).*/\1/p' "$readme")
(cd "$(dirname "$readme")" && eval "$configure" -B "$dir/build" -DSTEPTUNE_CUDA=OFF \
	-DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON) >"$dir/configured" 2>&1 ||
	{ echo "README: $configure: fails without GoogleTest"; cat "$dir/configured"; bad=1; }

cd "$dir/here"
awk '/^```sh/ { on = 1; next } /^```/ { on = 0 } on && /^steptune / { sub(/  *#.*/, ""); print }' \
	"$readme" >commands
[ "$(wc -l <commands)" -ge 10 ] || { echo "README: found $(wc -l <commands) commands, expected 10 or more"; bad=1; }
run "steptune tune --on h200x4" # as ci/demo does first
while read -r command; do
	run "$command"
done <commands
exit $bad
