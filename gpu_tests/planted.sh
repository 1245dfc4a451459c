#!/bin/sh
# planted.sh FOLDER STARTS [PERCENT...] - whether `steptune tune --for 60s` finds gains of
# 5, 2 and 1 percent (or these) in a PyTorch job on 2 GPUs, in each of so many starts:
# all-gathers of 4 MiB between GEMMs that are as long as makes ring/ll128 worth that
# much of a step.  Prints what each start says, and what the rule is worth in truth, in
# turns with NCCL's own choice.  steptune is on the PATH; a minute a start.
set -eu
out=$1 starts=$2
shift 2
[ $# -gt 0 ] || set -- 5 2 1
here=$(cd "$(dirname "$0")" && pwd)
online=$(dirname "$(command -v steptune)")/../lib/libnccl-tuner-steptune-online.so
mkdir -p "$out"
cd "$out"
{
	echo collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks
	echo allgather,3M,6M,ring,ll128,-1,1,2
} >rule.conf

# turns ROWS - the ms of a step, and how many times as fast it is by the rule
turns() {
	torchrun --nproc-per-node 2 "$here/torch_turns.py" planted --rows "$1" --plugin "$online" \
		--policy "$PWD/rule.conf" --learn .2 --turn .4 --rounds 8 2>&1 | tee "turns.$1.txt" |
		sed -n 's/^planted: NCCL alone \([0-9.]*\) ms.*/\1/p; s/^policy: .* ms, //p' | paste -sd' '
}

# A step grows with the rows; what the rule saves of it does not.
short=$(turns 8192)
long=$(turns 32768)
for percent in "$@"; do
	rows=$(echo "$short $long $percent" | awk '{
		split($2, gain, "x"); for (i = 3; i <= NF; i++) if ($i ~ /^[0-9.]+$/) { far = $i; break }
		saved = $1 * (1 - 1 / gain[1]); slope = (far - $1) / (32768 - 8192)
		rows = 8192 + (100 * saved / $NF - $1) / slope
		print rows < 256 ? 256 : int(rows / 64) * 64 }')
	for start in $(seq "$starts"); do
		steptune tune --for 60s -o "$percent.$start.conf" -- torchrun --nproc-per-node 2 \
			"$here/torch_turns.py" planted --rows "$rows" --steps 10000000 >"$percent.$start.txt" 2>&1 || true
		echo "$percent percent, start $start: $(grep -c '^allgather' "$percent.$start.conf") rule;" \
			"$(grep -E '^[0-9]+ rules? won|^No arm' "$percent.$start.txt")"
	done
	echo "$percent percent, in truth: $(turns "$rows")"
done
