#!/bin/sh
# hardening.sh BUILD - installs the build, and fails unless each program and each
# shared object of it is position-independent, has its relocations done and made
# read-only when it is loaded, no stack or segment that is both written and run,
# no text relocation, no path where the loader would look (RPATH), stack
# protectors, and exports what it is meant to and no more.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cmake --install "$1" --prefix "$dir" >/dev/null
bad=0
n=0

complain() { echo "${file#"$dir/"}: $*"; bad=1; }

# exports FILE - the pattern of the names that it may export.
exports() {
	case ${1##*/} in
	# Mock NCCL gives plugins its virtual time by these.
	steptune) echo '^(clock_gettime|gettimeofday|time)$' ;;
	libnccl-tuner-*) echo '^nccl(TunerPlugin|Profiler)_v[0-9]+$' ;;
	libsteptune_memory.*) echo '^steptune_memory_(open|ask|min_ctas|close)$' ;;
	libsteptune-stage.so) echo '^p?nccl[A-Z][A-Za-z0-9]*$' ;; # those that it hands on
	# It is NCCL's tuner and profiler while it measures.
	steptune-cuda.so) echo '^(stp_steptune_module|nccl(TunerPlugin|Profiler)_v[0-9]+)$' ;;
	steptune-*.so) echo '^stp_steptune_module$' ;;
	*) echo '^(not installed until now)$' ;;
	esac
}

for file in $(find "$dir" -type f | sort); do
	[ "$(head -c 4 "$file" | tail -c 3)" = ELF ] || continue
	n=$((n + 1))
	header=$(readelf -hW "$file")
	segments=$(readelf -lW "$file")
	dynamic=$(readelf -dW "$file")
	symbols=$(readelf --dyn-syms -W "$file")
	echo "$header" | grep -q 'Type: *DYN' || complain "is not position-independent"
	echo "$segments" | grep -q GNU_RELRO || complain "has no RELRO"
	echo "$dynamic" | grep -q 'FLAGS.*NOW' || complain "binds lazily, expected -z now"
	echo "$segments" | grep -E 'GNU_STACK|LOAD' | grep -q 'RWE' &&
		complain "has a segment that may be written and run"
	echo "$segments" | grep -q GNU_STACK || complain "says nothing of its stack, which may be run then"
	echo "$dynamic" | grep -q TEXTREL && complain "has text relocations"
	echo "$dynamic" | grep -qE '\((RPATH|RUNPATH)\)' && complain "has an RPATH"
	echo "$symbols" | grep -q __stack_chk_fail || complain "has no stack protectors"
	for name in $(nm -D --defined-only "$file" | awk '$2 ~ /[TDBR]/ && $3 !~ /@GLIBC/ { sub(/@.*/, "", $3); print $3 }'); do
		echo "$name" | grep -qE "$(exports "$file")" || complain "exports $name"
	done
done
echo "$n programs and shared objects"
[ "$n" -ge 4 ] || { echo "expected steptune, two plugins and libsteptune_memory at least"; bad=1; }
exit $bad
