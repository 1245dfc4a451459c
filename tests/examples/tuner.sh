#!/bin/sh
# tuner.sh TOP BUILD - fails unless what BUILD installs serves projects elsewhere:
# the example tuner is configured, built and tested against a new prefix by CMake's
# find_package() and by pkg-config, and the installed command finds its machines.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset DESTDIR STEPTUNE_MACHINES

# attempt COMMAND... - prints what the command printed if it fails.
attempt() {
	"$@" >"$dir/log" 2>&1 && return
	echo "fails: $*"
	cat "$dir/log"
	exit 1
}

cp -r "$1/examples/tuner" "$dir/tuner"
attempt cmake --install "$2" --prefix "$dir/prefix"
if grep -rlF -e "$1" -e "$2" "$dir/prefix" --include='*.cmake' --include='*.pc'; then
	echo "names folders of this build, expected the prefix alone"
	exit 1
fi

attempt cmake -S "$dir/tuner" -B "$dir/build" -DCMAKE_PREFIX_PATH="$dir/prefix" -DCMAKE_BUILD_TYPE=Debug \
	-DCMAKE_C_FLAGS=-Werror
attempt cmake --build "$dir/build"
attempt ctest --test-dir "$dir/build" --output-on-failure
grep -q '100% tests passed, 0 tests failed out of 1' "$dir/log" || { cat "$dir/log"; exit 1; }

PKG_CONFIG_PATH=$(dirname "$(find "$dir/prefix" -name mock_nccl.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046 # flags
attempt "${CC:-cc}" "$dir/tuner/tuner_test.c" -o "$dir/tuner_test" $(pkg-config --cflags --libs mock_nccl)
attempt "$dir/tuner_test" "$dir/build/libnccl-tuner-example.so" "$(pkg-config --variable=machines mock_nccl)/h200x4"

# As a user looks at any vendor's tuner.
attempt "$dir/prefix/bin/steptune" explain --on h200x4 --collective allgather \
	--plugin "$dir/build/libnccl-tuner-example.so"
