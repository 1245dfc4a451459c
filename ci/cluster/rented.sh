#!/bin/sh
# rented.sh - tune the GPUs of a machine that is rented by the hour, with an image
# that has CUDA's toolkit and NCCL: copies the repository there, builds, tunes,
# and brings back the policy and the page.  From the folder of the repository:
#   sh ci/cluster/rented.sh
host=${host:-root@gpu0}      # CHANGE: what ssh takes
port=${port:-22}             # CHANGE: the port that the landlord names
out=${out:-steptune-rented}  # CHANGE: a folder, here
on=${on:-cuda}   # or a recorded machine such as h200x4, to try this file
set -eu
git archive HEAD | ssh -p "$port" "$host" 'rm -rf steptune && mkdir steptune && tar -x -C steptune'
ssh -p "$port" "$host" "cd steptune && . ci/lib.sh && install ci/packages &&
	build release && mkdir out && cd out && ../build/release/bin/steptune tune --on $on -o steptune.conf"
mkdir -p "$out"
ssh -p "$port" "$host" 'tar -c -C steptune/out .' | tar -x -C "$out"
ls "$out/steptune.conf" "$out/steptune.report.html"
