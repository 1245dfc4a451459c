#!/bin/sh
# headers.sh TOP CC CXX - fails unless every header compiles alone, as C11 and,
# if it is meant for C++ (it says extern "C"), as C++17.
set -eu
cd "$1"
bad=0
for header in $(find src mock_nccl -name '*.h'); do
	# of CUDA and the like, where those are not installed
	foreign=$(grep -oE '#include <(cuda|gloo|mpi)[^>]*>' "$header" || true)
	[ -z "$foreign" ] || echo "$foreign" | "$3" -fsyntax-only -x c++ - 2>/dev/null || continue
	"$2" -std=c11 -Wall -Wextra -Wno-unused-function -Werror -D_XOPEN_SOURCE=700 -Isrc \
		-Isrc/nccl_abi -Imock_nccl -fsyntax-only -x c "$header" || bad=1
	grep -q 'extern "C"' "$header" || continue
	"$3" -std=c++17 -Wall -Wextra -Wno-unused-function -Werror -D_XOPEN_SOURCE=700 -Isrc \
		-Isrc/nccl_abi -Imock_nccl -fsyntax-only -x c++ "$header" || bad=1
done
exit $bad
