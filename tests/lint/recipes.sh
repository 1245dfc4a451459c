#!/bin/sh
# recipes.sh STEPTUNE - fails unless the recipes of ci/cluster have three lines to
# change each, and those that a shell runs end with one policy and one page: with
# stand-ins for torchrun, Slurm and ssh that start their processes here.  Those for
# other programs are read as far as this machine can.
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
	*.def)
		twice=$(grep -o '^%[a-z]*' "$file" | sort | uniq -d)
		[ -z "$twice" ] || complain "$name: $twice twice"
		sed -n '/^%post/,/^%env/p' "$file" | grep -v '^%' | sh -n || complain "$name: no shell script"
		;;
	Dockerfile) ! grep -n '^[A-Z].* #' "$file" || complain "$name: a comment in an instruction" ;;
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
# Another machine: a shell in another folder that knows nothing of this one.
cat >"$dir/path/ssh" <<'END'
#!/bin/sh
[ "$1" = -p ] || exit 2
shift 3
cd "$rented" && exec env -i HOME="$rented" PATH="$rented/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
	CUDA_VISIBLE_DEVICES='' sh -c "$*" sh
END
# A compiler would take minutes: what was built here is what it builds there.
mkdir -p "$dir/rented/bin"
cat >"$dir/rented/bin/cmake" <<END
#!/bin/sh
grep -q '"name": "release"' CMakePresets.json || exit
[ "\$1" != --build ] || { mkdir -p build && ln -s '$(cd "$(dirname "$1")/.." && pwd)' build/release; }
END
cat >"$dir/rented/bin/dpkg" <<'END'
#!/bin/sh
echo 'Status: install ok installed'
END
chmod +x "$dir"/path/* "$dir"/rented/bin/*
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

if git -C "$recipes" rev-parse HEAD >/dev/null 2>&1; then # it sends what is committed
	(cd "$recipes/../.." && rented=$dir/rented out=$dir/from_rented sh "$recipes/rented.sh") >"$dir/log" 2>&1 &&
		has from_rented || { complain "rented.sh: no policy and page"; cat "$dir/log"; }
fi

# gpu8 begins no step that may take too long, and no step twice.
gpu8() {
	on=h100x2 LIMIT=$1 steptune=$dir/path/steptune sh "$recipes/../gpu8" "$dir/gpu8" sweep tune record replay >"$dir/log" 2>&1
}
status=0
gpu8 70 || status=$?
[ $status = 75 ] && grep -q 'No time was left for: tune record replay' "$dir/log" ||
	{ complain "../gpu8: status $status of a call that ends early"; cat "$dir/log"; }
gpu8 1000 && grep -q 'All steps passed' "$dir/log" && ! grep -q 'sweep' "$dir/log" &&
	grep -q '^steptune.conf: [1-9][0-9]* rules are in both' "$dir/gpu8/replay/log" &&
	[ -s "$dir/gpu8/tune/steptune.report.html" ] && [ -s "$dir/gpu8/sweep/results_2gpu_allreduce.txt" ] ||
	{ complain "../gpu8: no recording and policy"; cat "$dir/log" "$dir"/gpu8/*/log; }

mkdir "$dir/python"
cat >"$dir/python/modal.py" <<'END'
class Image:
    from_dockerfile = classmethod(lambda cls, path, context_dir, add_python: cls())
    entrypoint = lambda self, words: self


class App:
    def __init__(self, name):
        self.remote = []

    def function(self, image, gpu, timeout):
        return lambda f: setattr(f, "remote", lambda: {"steptune.conf": b"rules"}) or f

    def local_entrypoint(self):
        return lambda f: f


def is_local():
    return True
END
(cd "$dir/python" && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$recipes:. python3 -c 'import modal_app; modal_app.main()') >"$dir/log" 2>&1 &&
	grep -q rules "$dir/python/steptune-modal/steptune.conf" ||
	{ complain "modal_app.py: writes no files"; cat "$dir/log"; }
mkdir "$dir/python/spack"
cat >"$dir/python/spack/package.py" <<'END'
said = []


class CMakePackage:
    define = define_from_variant = staticmethod(lambda *words: words)


class CudaPackage:
    pass


def depends_on(what, type=None, when=None):
    said.append(what)


license = version = generator = lambda *words, **named: None
END
(cd "$dir/python" && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=. /usr/bin/python3 - "$recipes/.." <<'END') >"$dir/log" 2>&1 ||
import re, runpy, sys, yaml
from spack import package

cmake = open(sys.argv[1] + "/../CMakeLists.txt").read()
options = {name for name, *_ in runpy.run_path(sys.argv[1] + "/packaging/package.py")["Steptune"]().cmake_args()}
assert options - {"BUILD_TESTING"} <= set(re.findall(r"\bSTEPTUNE_\w+", cmake)), options
conda = yaml.safe_load(re.sub(r"{{.*}}", "compiler", open(sys.argv[1] + "/packaging/meta.yaml").read()))
assert conda["package"]["version"] == re.search(r"project\(steptune VERSION (\S+)", cmake)[1], conda
libraries = {re.split(r"[@ -]", name)[0] for name in package.said}
assert {re.split(" ", name)[0] for name in conda["requirements"]["host"]} <= libraries, libraries
list(yaml.safe_load_all(open(sys.argv[1] + "/cluster/kubernetes.yaml")))
END
	{ complain "../packaging: not as it should be"; cat "$dir/log"; }
exit $bad
