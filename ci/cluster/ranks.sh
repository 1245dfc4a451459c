#!/bin/sh
# ranks.sh NODE COMMAND... - the ranks of one host, with torchrun's variables and
# without torchrun: NODE is the number of the host, from 0.  The first rank that
# fails decides the status.
nodes=${nodes:-2}            # CHANGE: hosts
per_node=${per_node:-8}      # CHANGE: GPUs of each
first=${first:-gpu0}         # CHANGE: the host that is number 0
set -eu
node=$1
shift
export WORLD_SIZE=$((nodes * per_node)) LOCAL_WORLD_SIZE="$per_node" \
	MASTER_ADDR="$first" MASTER_PORT="${port:-29500}"
status=0
pids=
for i in $(seq 0 $((per_node - 1))); do
	RANK=$((node * per_node + i)) LOCAL_RANK=$i "$@" &
	pids="$pids $!"
done
for pid in $pids; do
	wait "$pid" || status=$?
done
exit $status
