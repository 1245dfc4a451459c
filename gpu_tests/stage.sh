#!/bin/sh
# stage.sh LIBRARY FOLDER [RANKS [ROUNDS]] - runs nccl-tests' own programs, which
# are in the folder, as they are and with libsteptune-stage.so in front of NCCL, in
# turn; prints the times of both and how many times as fast the better one of two
# rules (16 and 32 CTAs) is, eagerly and in CUDA graphs.  Fails if a result is
# wrong, if nothing was staged, or if the log of either has a warning of the
# library.  ROUNDS=0: one short run alone, with the kernels that NCCL took.
# ROUNDS=types: all types and operations from 8 B to 512 MiB, whose results are checked.
#
# Ranks are threads of a process, which wait for one another's locks in CUDA, or,
# with LAUNCH="mpirun -n 4" and programs that were built with MPI=1, processes.
# SIZES="-b 512K -e 32M -f 2" are nccl-tests' options of sizes.
set -u
library=$1 folder=$2 ranks=${3:-4} rounds=${4:-2}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0
threads="-t $ranks -p 1"
[ -z "${LAUNCH:-}" ] || threads="-t 1"

for ctas in 16 32; do
	{
		echo collective,min_bytes,max_bytes,memory,min_ctas,nNodes,nRanks,graph
		for c in allreduce allgather reducescatter; do
			echo "$c,256K,64M,stage,$ctas,1,2-inf,-1"
		done
	} >"$tmp/$ctas.conf.stage"
done

# run NAME PROGRAM RULES OPTIONS... - the program's rows: bytes, then microseconds
# out of place and in place, then wrong elements of both
run() {
	name=$1 program=$2 rules=$3
	shift 3
	(
		if [ "$rules" != plain ]; then
			mkdir -p "$tmp/report"
			export LD_PRELOAD="$library" STEPTUNE_STAGE_FILE="$tmp/$rules.conf.stage" \
				STEPTUNE_STAGE_REPORT="$tmp/report" NCCL_DEBUG="${DEBUG:-WARN}"
		fi
		# Without -p 1 a thread makes all communicators in a group, and none is staged.
		# shellcheck disable=SC2086 # a command and its options
		timeout "${SECONDS_A_RUN:-120}" ${LAUNCH:-} "$folder/${program}_perf" -g 1 -d bfloat16 -c 1 $threads "$@"
	) >"$tmp/$name.log" 2>&1 || {
		echo "$name: status $?"
		tail -20 "$tmp/$name.log"
		bad=1
	}
	if grep -E 'steptune-stage.*(warning|no call)' "$tmp/$name.log"; then bad=1; fi
	awk -v name="$name" '$1 ~ /^[0-9]+$/ && NF >= 13 {
		print $1, $6, $10, $9, $13
		if ($9 != 0 || $13 != 0) print name ": wrong results at " $1 " bytes" > "/dev/stderr"
	}' "$tmp/$name.log" >"$tmp/$name.rows"
	if awk '$4 != 0 || $5 != 0 { exit 1 }' "$tmp/$name.rows" && [ -s "$tmp/$name.rows" ]; then :; else bad=1; fi
}

if [ "$rounds" = 0 ]; then
	DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING,REG
	export NCCL_DEBUG_SUBSYS
	run short all_reduce 16 -b 2M -e 4M -f 2 -n 3 -w 1
	grep -E 'steptune-stage|Symmetric' "$tmp/short.log" | sort | uniq -c | head -20
	cat "$tmp/short.rows" "$tmp"/report/*.csv
	exit $bad
fi
if [ "$rounds" = types ]; then
	for mode in "" "-G 2"; do
		for program in all_reduce all_gather reduce_scatter; do
			# shellcheck disable=SC2086 # options
			run types $program 16 ${SIZES:--b 8 -e 512M -f 4} -n 1 -w 0 -d all -o all $mode
			awk -v what="$program $mode, $ranks ranks" '{ wrong += $4 + $5 } END {
				print what ": " NR " rows, " wrong + 0 " wrong elements" }' "$tmp/types.rows"
		done
	done
fi
for mode in "-n 20 -w 5" "-n 20 -w 2 -G 20"; do
	[ "$rounds" != types ] || break
	for program in all_reduce all_gather reduce_scatter; do
		for round in $(seq "$rounds"); do
			for rules in plain 16 32; do
				# shellcheck disable=SC2086 # options
				run "$rules.$round" $program $rules ${SIZES:--b 512K -e 32M -f 2} $mode
			done
		done
		echo "$program, $ranks ranks, $mode: us plain and staged (16, 32 CTAs), out of place and in place"
		for rules in plain 16 32; do
			cat "$tmp/$rules".*.rows | awk -v rules=$rules '{
				if (!($1 in n)) order[++k] = $1
				n[$1]++; o[$1] += $2; i[$1] += $3 }
				END { for (j = 1; j <= k; j++) { b = order[j]; print b, rules, o[b] / n[b], i[b] / n[b] } }'
		done | awk '{ o[$1, $2] = $3; i[$1, $2] = $4; if ($2 == "plain") order[++k] = $1 }
			function best(t, b) { return t[b, "16"] < t[b, "32"] ? t[b, "16"] : t[b, "32"] }
			END { for (j = 1; j <= k; j++) { b = order[j]
				printf "%10d  %7.1f %7.1f %7.1f  %5.3fx   %7.1f %7.1f %7.1f  %5.3fx\n", b,
					o[b, "plain"], o[b, "16"], o[b, "32"], o[b, "plain"] / best(o, b),
					i[b, "plain"], i[b, "16"], i[b, "32"], i[b, "plain"] / best(i, b) } }'
		rm -f "$tmp"/*.rows
	done
done
grep -h -v '^#' "$tmp"/report/*.csv | awk -F, '$6 > 0 { staged += $6 } { captured += $8 } END {
	print staged + 0 " calls were staged, " captured + 0 " captured"; exit staged == 0 }' || bad=1
exit $bad
