#!/bin/sh
# plugin.sh LIBRARY.so [SYMBOL...] - fails unless the library exports these
# symbols, a plugin NCCL's, and no others, needs libc (and libm) only, and no
# glibc symbol newer than 2.28.
set -eu
so=$1
shift
bad=0
optional=
if [ $# = 0 ]; then
	set -- ncclTunerPlugin_v2 ncclTunerPlugin_v3 ncclTunerPlugin_v4 \
		ncclTunerPlugin_v5 ncclTunerPlugin_v6 ncclTunerPlugin_v7
	optional='ncclProfiler_v4 ncclProfiler_v5 ncclProfiler_v6 ncclProfiler_v7'
fi

complain() { echo "$so: $*"; bad=1; }

exports=$(nm -D --defined-only "$so" | awk '{print $NF}')
for symbol in $exports; do
	case " $* $optional " in
	*" $symbol "*) ;;
	*) complain "exports $symbol" ;;
	esac
done
for symbol in "$@"; do
	echo "$exports" | grep -qx "$symbol" || complain "does not export $symbol"
done
for library in $(readelf -d "$so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
	case $library in
	libc.so.6 | libm.so.6) ;;
	*) complain "needs $library" ;;
	esac
done
for version in $(objdump -T "$so" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -u); do
	[ "$(printf '%s\n2.28\n' "$version" | sort -V | tail -n 1)" = 2.28 ] ||
		complain "needs glibc $version: $(objdump -T "$so" | grep -F "GLIBC_$version" | awk '{print $NF}' | tr '\n' ' ')"
done
exit $bad
