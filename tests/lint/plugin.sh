#!/bin/sh
# plugin.sh PLUGIN.so - fails unless the plugin exports NCCL's symbols only,
# needs libc (and libm) only, and no glibc symbol newer than 2.28.
set -eu
so=$1
bad=0

complain() { echo "$so: $*"; bad=1; }

exports=$(nm -D --defined-only "$so" | awk '{print $NF}')
for symbol in $exports; do
	case $symbol in
	ncclTunerPlugin_v[2-7] | ncclProfiler_v[4-7]) ;;
	*) complain "exports $symbol" ;;
	esac
done
for version in 2 3 4 5 6 7; do
	echo "$exports" | grep -qx "ncclTunerPlugin_v$version" ||
		complain "does not export ncclTunerPlugin_v$version"
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
