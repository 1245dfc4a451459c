#!/bin/sh
# torchrun_nodes.sh NODE - tune all GPUs of several hosts: start this on each of
# them, with its number from 0, for example
#   ssh gpu0 sh ci/cluster/torchrun_nodes.sh 0 & ssh gpu1 sh ci/cluster/torchrun_nodes.sh 1
nodes=${nodes:-2} per_node=${per_node:-8}   # CHANGE: hosts, and GPUs of each
first=${first:-gpu0}                        # CHANGE: the host that is number 0
out=${out:-$HOME/steptune}                  # CHANGE: a folder; host 0 has the files in it
on=${on:-cuda}   # or a recorded machine such as h200x4, to try this file
set -eu
mkdir -p "$out"
cd "$out"

torchrun --nnodes "$nodes" --nproc-per-node "$per_node" --node-rank "$1" \
	--master-addr "$first" --master-port "${port:-29500}" --no-python \
	steptune tune --on "$on" -o steptune.conf
[ "$1" != 0 ] || ls "$out/steptune.conf" "$out/steptune.report.html"
