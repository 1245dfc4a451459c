#!/bin/sh
# boundaries.sh TOP - fails if a file includes what its folder may not (an arrow
# means "may include"; includes run down only), if core/ reaches for what it must
# be given, if a test makes temporary files by itself, or if a folder holds more
# than 32 files.
set -eu
cd "$1"
bad=0

# may FOLDER ALLOWED... - every #include "..." of FOLDER, but of its subfolders,
# begins with one of them.
may() {
	folder=$1
	shift
	pattern=$(printf '%s|' "$@")
	found=$(find "$folder" -maxdepth 1 -name '*.[ch]' -o -maxdepth 1 -name '*.cc' -o -maxdepth 1 -name '*.cu*' |
		xargs -r grep -nE '^#include "' /dev/null |
		grep -vE "#include \"(${pattern%|})" || true)
	if [ -n "$found" ]; then
		echo "$folder may include only: $*"
		echo "$found"
		bad=1
	fi
}

abi='nccl_(tuner|profiler|comm)_abi.h"'
may src/nccl_abi $abi
may src/core 'core/[a-z_0-9]+.h"' $abi
may src/core/policy core/policy/ 'core/[a-z_0-9]+.h"' $abi
may src/core/learn core/ $abi
may src/store 'store/[a-z_]+.h"' core/
may src/agree agree/ store/ core/
may src/plugin 'plugin/[a-z_]+.h"' agree/ store/ core/ $abi
may src/plugin/online plugin/ agree/ core/ $abi
may src/memory memory/ 'plugin/[a-z_]+.h"' core/
may src/launch launch/ store/ core/
may src/child child/ core/
may src/device 'device/[a-z_0-9]+.h"' launch/ 'plugin/chain.h"' core/ $abi
may src/device/cpu device/cpu/ 'device/[a-z_]+.h"' launch/ core/ $abi
may src/device/cuda device/cuda/ 'device/[a-z_]+.h"' launch/ core/ $abi
may src/device/mock device/mock/ 'device/[a-z_]+.h"' launch/ core/ $abi mock_nccl.h
may src/bench bench/ 'device/[a-z_]+.h"' launch/ core/ $abi
may src/train train/ 'device/[a-z_]+.h"' launch/ core/ $abi
analyse='analyse/[a-z_]+.h"|launch/take.h"'
mock='mock_(nccl|ranks).h"'
may src/analyse "$analyse" bench/ device/ core/ $abi
may src/analyse/check analyse/check/ "$analyse" core/ $abi
may src/analyse/explain analyse/explain/ "$analyse" bench/ device/ core/ $abi "$mock"
may src/analyse/replay analyse/replay/ "$analyse" bench/ child/ device/ core/ $abi "$mock"
may src/analyse/jobs analyse/jobs/ analyse/replay/ "$analyse" core/
may src/analyse/traces analyse/traces/ analyse/replay/ "$analyse" bench/ device/ core/ $abi
may src/analyse/contract analyse/contract/ "$analyse" child/ core/ $abi "$mock"
below='analyse/|train/|bench/|device/|core/|launch/take.h"|'$abi
report='report/[a-z_]+.h"'
may src/report "$report" launch/stop.h $below
for folder in jobs measurements results charts learning; do
	may src/report/$folder report/$folder/ "$report" $below
done
may src/report/logs report/logs/ report/results/ report/measurements/ "$report" $below
may src/report/iterations report/iterations/ report/charts/ report/measurements/ "$report" $below
may src/report/training report/training/ report/charts/ "$report" $below
may src/report/page report/ $below
may src/tune tune/ report/ $below launch/ store/

# Inside mock NCCL, which knows nothing of src/ but the ABI.
public='mock_[a-z]+.h"'
allowed="$abi|$public"
for folder in base versions model machine plugins comm ranks; do
	allowed="$allowed|$folder/"
	may mock_nccl/$folder "$allowed"
done
may mock_nccl $abi "$public" base/

# Only what plays NCCL knows mock NCCL.
found=$(grep -rlE '#include "mock_(nccl|ranks)\.h"' src |
	grep -vE '^src/(device/mock|analyse/(contract|explain|replay)|cli)/' || true)
[ -z "$found" ] || { echo "mock_nccl.h is included by $found"; bad=1; }

found=$(grep -rnE '\b(getenv|dlopen|dlsym|clock_gettime|time|syslog|fprintf|puts)\(' src/core || true)
[ -z "$found" ] || { echo "core/ must be given what it needs:"; echo "$found"; bad=1; }

# Tests run at the same time, each in a folder of its own.
found=$(grep -rnE '\b(mk[ds]temp|TempDir|temp_directory_path)\(' tests gpu_tests --include='*.cc' --include='*.h' |
	grep -v '^tests/support/temporary_folder.h:' || true)
[ -z "$found" ] || { echo "a test must use support/temporary_folder.h:"; echo "$found"; bad=1; }

# A room that one can look through.
for folder in $(find src mock_nccl tests gpu_tests -type d); do
	n=$(find "$folder" -maxdepth 1 -name '*.[ch]' -o -maxdepth 1 -name '*.cc' -o -maxdepth 1 -name '*.cu*' | wc -l)
	[ "$n" -le 32 ] || { echo "$folder has $n files, expected at most 32"; bad=1; }
done
exit $bad
