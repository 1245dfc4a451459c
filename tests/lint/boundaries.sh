#!/bin/sh
# boundaries.sh TOP - fails if a file includes what its folder may not (design:
# an arrow means "may include"), or if core/ reaches for what it must be given.
set -eu
cd "$1"
bad=0

# may FOLDER ALLOWED... - every #include "..." of FOLDER begins with one of them.
may() {
	folder=$1
	shift
	pattern=$(printf '%s|' "$@")
	found=$(grep -rnE '^#include "' "$folder" --include='*.[ch]' --include='*.cc' |
		grep -vE "#include \"(${pattern%|})" || true)
	if [ -n "$found" ]; then
		echo "$folder may include only: $*"
		echo "$found"
		bad=1
	fi
}

may src/nccl_abi nccl_tuner_abi.h
may src/core core/ nccl_tuner_abi.h
may src/backend backend/ agree/ core/ nccl_tuner_abi.h
may src/agree agree/ core/
may src/plugin plugin/ agree/ core/ nccl_tuner_abi.h nccl_profiler_abi.h
may src/launch launch/ core/
may src/bench bench/ launch/ core/ nccl_tuner_abi.h nccl_profiler_abi.h mock_nccl.h
may src/analyse analyse/ bench/ core/ nccl_tuner_abi.h mock_nccl.h mock_ranks.h mock_job.h
may src/report report/ analyse/ bench/ core/ nccl_tuner_abi.h
may mock_nccl '[a-z_]+\.h"'
for header in $(find src -name '*.h' | grep -v nccl_abi); do
	if grep -rqE "#include \"(.*/)?$(basename "$header")\"" mock_nccl &&
		[ ! -e "mock_nccl/$(basename "$header")" ]; then
		echo "mock_nccl includes $header"
		bad=1
	fi
done

# Only device_mock, explain, check, traces and the contract suite know mock NCCL.
found=$(grep -rlE '#include "mock_nccl.h"' src | grep -vE 'src/(bench/device_mock\.c|bench/mock_[a-z]+\.[ch]|bench/operation\.c|analyse/explain\.h|analyse/check_machine\.c|analyse/constants_model\.c|analyse/trace\.h|analyse/contract_suite\.h|cli/)' || true)
[ -z "$found" ] || { echo "mock_nccl.h is included by $found"; bad=1; }

found=$(grep -rnE '\b(getenv|dlopen|dlsym|clock_gettime|time|syslog|fprintf|puts)\(' src/core || true)
[ -z "$found" ] || { echo "core/ must be given what it needs:"; echo "$found"; bad=1; }
exit $bad
