#!/bin/sh
# headers.sh TOP CC CXX - fails unless every header has #pragma once, but for those
# that other programs include, and those of src and mock_nccl compile alone, as C11:
# a file of the same name includes its header first, and the others are compiled
# here; those meant for C++ (they say extern "C") compile together as C++17, and those
# that a test includes by g++, which takes less of C in C++ than clang++, which may be
# CXX, does.
set -eu
cd "$1"
bad=0
installed='mock_nccl/mock_(kernels|nccl|ranks)|src/nccl_abi/nccl_(profiler|tuner)_abi|src/memory/steptune_memory'
unguarded=$(find src mock_nccl tests gpu_tests -name '*.h' -exec grep -L '^#pragma once' {} + | grep -vE "^($installed)\.h$" || true)
[ -z "$unguarded" ] || { echo "$unguarded: no #pragma once"; bad=1; }
options="-Wall -Wextra -Wno-unused-function -Werror -D_XOPEN_SOURCE=700 -I. -Isrc
	-Isrc/nccl_abi -Imock_nccl -fsyntax-only"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
grep -rhoE --include='*.cc' --include='*.h' '#include "[^"]+"' tests gpu_tests | sort -u >"$dir/tests"
# of CUDA and the like, where those are not installed
for header in $(find src mock_nccl -name '*.h' -exec grep -lE '#include <(cuda|gloo)' {} +); do
	grep -oE '#include <(cuda|gloo)[^>]*>' "$header" | "$3" -fsyntax-only -x c++ - 2>/dev/null ||
		echo "$header"
done >"$dir/foreign"
echo 'extern "C" {' >"$dir/of_tests.cc"
find src mock_nccl -name '*.[ch]' -exec grep -E '^#include "|extern "C"' /dev/null {} + | cat "$dir/foreign" "$dir/tests" - | awk -v dir="$dir" '
	!/:/ { if (/^#/) in_tests[$2] = 1; else foreign[$0] = 1; next }
	{ file = $0; sub(/:.*/, "", file); sub(/^[^:]*:/, "") }
	/extern/ { for_cxx[file] = 1 }
	/^#include/ && !(file in first) { first[file] = $2 }
	END {
		while (("find src mock_nccl -name \"*.h\"" | getline header) > 0) {
			name = "\"" header "\""
			sub(/src\/nccl_abi\/|src\/|mock_nccl\//, "", name)
			source = header
			sub(/h$/, "c", source)
			include = "#include \"" header "\""
			if (header in foreign)
				continue
			if (first[source] != name)
				print include >(dir "/" ++n ".c")
			if (header in for_cxx)
				print include >(dir "/for_c++.cc")
			else if (name in in_tests)
				print include >>(dir "/of_tests.cc")
		}
	}'
echo '}' >>"$dir/of_tests.cc"
# shellcheck disable=SC2086 # a list
"$2" -std=c11 $options "$dir"/*.c || bad=1
# shellcheck disable=SC2086 # a list
"$3" -std=c++17 $options "$dir/for_c++.cc" || bad=1
# shellcheck disable=SC2086 # a list
! command -v g++ >/dev/null || g++ -std=c++17 $options "$dir/of_tests.cc" || bad=1
exit $bad
