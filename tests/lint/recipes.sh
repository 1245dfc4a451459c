#!/bin/sh
# recipes.sh STEPTUNE - fails unless the recipes of ci/cluster have three lines to
# change each, and those that a shell runs end with one policy and one page: with
# stand-ins for torchrun and Slurm that start their processes here.
set -eu
recipes=$(cd "$(dirname "$0")/../../ci/cluster" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/path"
ln -s "$1" "$dir/path/steptune"
export PATH="$dir/path:$PATH" CUDA_VISIBLE_DEVICES='' on=h100x2_nccl2.30 port=$((20000 + $$ % 12000))
bad=0

complain() {
	echo "ci/cluster/$*"
	bad=1
}

for file in "$recipes"/*; do
	name=${file##*/}
	[ "$name" != README.md ] || continue
	grep -q "\`$name\`" "$recipes/README.md" || complain "README.md: no word about $name"
	n=$(grep -c CHANGE "$file")
	[ "$n" = 3 ] || complain "$name: $n lines to change, expected 3"
	case $name in
	*.sh | *.sbatch) sh -n "$file" || complain "$name: no shell script" ;;
	esac
done

# torchrun's options of the recipe, then what it starts, in the processes of a host.
cat >"$dir/path/torchrun" <<'END'
#!/bin/sh
while [ "$1" != --no-python ]; do
	case $1 in
	--nnodes) nodes=$2 ;;
	--nproc-per-node) per_node=$2 ;;
	--node-rank) node=$2 ;;
	--master-addr) first=$2 ;;
	--master-port) port=$2 ;;
	*) echo "torchrun: no option $1"; exit 2 ;;
	esac
	shift 2
done
shift
export nodes per_node first port
exec sh "$recipes/ranks.sh" "$node" "$@"
END
# A job of three tasks on one host.
cat >"$dir/path/srun" <<'END'
#!/bin/sh
export SLURM_STEP_NUM_TASKS=3 SLURM_STEP_NODELIST=here SLURM_STEP_ID=$$
status=0
pids=
for i in 0 1 2; do
	SLURM_PROCID=$i SLURM_LOCALID=$i "$@" &
	pids="$pids $!"
done
for pid in $pids; do
	wait "$pid" || status=$?
done
exit $status
END
cat >"$dir/path/scontrol" <<'END'
#!/bin/sh
[ "$*" = "show hostnames here" ] && echo 127.0.0.1
END
chmod +x "$dir/path/torchrun" "$dir/path/srun" "$dir/path/scontrol"
export recipes nodes=2 per_node=2 first=127.0.0.1

# has FOLDER - whether it has what a recipe ends with, and no second writer did.
has() {
	[ -s "$dir/$1/steptune.conf" ] && [ -s "$dir/$1/steptune.report.html" ] &&
		[ ! -e "$dir/$1/steptune.conf.~1~" ] && [ ! -e "$dir/$1/steptune.unfinished" ]
}

both() {
	sh "$recipes/torchrun_nodes.sh" 1 &
	out=$dir/torchrun sh "$recipes/torchrun_nodes.sh" 0 && wait $!
}

(export out="$dir/other"; both) >"$dir/log" 2>&1 && has torchrun ||
	{ complain "torchrun_nodes.sh: no policy and page"; cat "$dir/log"; }
[ -z "$(ls "$dir/other")" ] || complain "torchrun_nodes.sh: the second host wrote $(ls "$dir/other")"

SLURM_JOB_ID=$$ SLURM_JOB_NODELIST=here out=$dir/slurm sh "$recipes/steptune.sbatch" >"$dir/log" 2>&1 &&
	has slurm || { complain "steptune.sbatch: no policy and page"; cat "$dir/log"; }
exit $bad
