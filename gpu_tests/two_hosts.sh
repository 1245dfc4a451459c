#!/bin/sh
# two_hosts.sh FOLDER [PAIRS] - `steptune tune -- torchrun` on two hosts, which are halves
# of this machine's GPUs with a /dev/shm each, and sockets of the loopback device between
# them: a job of all-reduces of 100 KiB runs twice by its schedule; then the job alone
# and with the rules found take turns, in so many pairs of runs (20).  Takes root.
# steptune is on the PATH.
set -eu
out=$1 pairs=${2:-20}
here=$(cd "$(dirname "$0")" && pwd)
gpus=$(nvidia-smi --list-gpus | grep -c '^GPU')
own=$((gpus / 2)) job="$here/torch_turns.py small"
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
mkdir -p "$out"
cd "$out"

# on_host HOST COMMAND - in a host of its own
on_host() {
	# shellcheck disable=SC2016 # the inner shell's
	CUDA_VISIBLE_DEVICES=$(seq -s, $(($1 * own)) $(($1 * own + own - 1))) NCCL_HOSTID=host$1 \
		unshare -m sh -c 'mount -t tmpfs none /dev/shm; exec sh -c "$0"' "$2"
}

# learn NAME OPTION STEPS
learn() {
	for host in 0 1; do
		on_host $host "steptune tune $2 -o steptune.conf -- torchrun --nnodes 2 --node-rank $host \
			--nproc-per-node $own --master-addr 127.0.0.1 --master-port 29701 $job --steps $3" \
			>"$1.$host.txt" 2>&1 &
	done
	wait
	cat "$1.0.txt"
}

# run PAIR ARM [PREFIX] - the ms of a step
run() {
	for host in 0 1; do
		on_host $host "for l in $(seq -s' ' 0 $((own - 1))); do
			MASTER_ADDR=127.0.0.1 MASTER_PORT=$((29720 + $1)) WORLD_SIZE=$gpus LOCAL_WORLD_SIZE=$own \
			RANK=\$(($host * $own + l)) LOCAL_RANK=\$l ${3:-} python3 $job --steps 1500 \
			>pair.$1.$2.$host.\$l.txt 2>&1 & done; wait" &
	done
	wait
	sed -n 's/^step: \([0-9.]*\) ms/\1/p' "pair.$1.$2.0.0.txt"
}

learn first "" 9000
learn second --resume 5000
with="steptune run --policy $PWD/steptune.conf --"
for pair in $(seq "$pairs"); do
	if [ $((pair % 2)) = 0 ]; then
		alone=$(run "$pair" alone) rules=$(run "$pair" rules "$with")
	else
		rules=$(run "$pair" rules "$with") alone=$(run "$pair" alone)
	fi
	echo "$alone $rules"
done | awk '{
	n++; g = log($1 / $2); sum += g; square += g * g; better += g > 0
	print "pair " n ": " $1 " ms a step alone, " $2 " by the rules"
} END {
	mean = sum / n; half = 2.1 * sqrt((square - n * mean * mean) / (n - 1) / n)
	printf "%d pairs: %.4fx as fast by the rules (%.4f to %.4f), faster in %d\n", n, exp(mean),
		exp(mean - half), exp(mean + half), better
}'
