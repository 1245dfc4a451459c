#!/bin/sh
# headers.sh TOP CC CXX - fails unless every header has #pragma once, but for those
# that other programs include, and those of src and mock_nccl compile alone, as C11;
# if one is meant for C++ (it says extern "C"), as C++17; and if a test includes it,
# by g++, which takes less of C in C++ than clang++, which may be CXX, does.
set -eu
cd "$1"
bad=0
installed='mock_nccl/mock_(kernels|nccl|ranks)|src/nccl_abi/nccl_(profiler|tuner)_abi|src/memory/steptune_memory'
unguarded=$(find src mock_nccl tests gpu_tests -name '*.h' -exec grep -L '^#pragma once' {} + | grep -vE "^($installed)\.h$" || true)
[ -z "$unguarded" ] || { echo "$unguarded: no #pragma once"; bad=1; }
options="-Wall -Wextra -Wno-unused-function -Werror -D_XOPEN_SOURCE=700 -I. -Isrc
	-Isrc/nccl_abi -Imock_nccl -fsyntax-only"
of_tests=$(grep -rhoE --include='*.cc' --include='*.h' '#include "[^"]+"' tests gpu_tests | sort -u)
command -v g++ >/dev/null || of_tests=
for header in $(find src mock_nccl -name '*.h'); do
	# of CUDA and the like, where those are not installed
	foreign=$(grep -oE '#include <(cuda|gloo)[^>]*>' "$header" || true)
	[ -z "$foreign" ] || echo "$foreign" | "$3" -fsyntax-only -x c++ - 2>/dev/null || continue
	# shellcheck disable=SC2086 # a list
	printf '#include "%s"\n' "$header" | "$2" -std=c11 $options -x c - || bad=1
	# shellcheck disable=SC2086 # a list
	if grep -q 'extern "C"' "$header"; then
		printf '#include "%s"\n' "$header" | "$3" -std=c++17 $options -x c++ - || bad=1
	elif echo "$of_tests" | grep -qF "\"$(echo "$header" | sed 's,^src/nccl_abi/\|^src/\|^mock_nccl/,,')\""; then
		printf 'extern "C" {\n#include "%s"\n}\n' "$header" | g++ -std=c++17 $options -x c++ - || bad=1
	fi
done
exit $bad
