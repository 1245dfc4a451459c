"""Two ranks of a PyTorch job, one of which differs in one thing: the job must
end, and each rank must say why the plugin is inactive, in one warning.

    python3 odd_rank.py PATH/libnccl-tuner-steptune.so

Exits with 77 where there are no two GPUs or no PyTorch.
"""

import os
import subprocess
import sys
import tempfile

try:
    import torch
    if torch.cuda.device_count() < 2 and os.environ.get("NCCL_MULTI_RANK_GPU_ENABLE") != "1":
        sys.exit(77)
except ImportError:
    sys.exit(77)

PLUGIN = os.path.abspath(sys.argv[1])
TREE = "allreduce,0,inf,tree,simple,-1,-1,-1\n"
RING = "allreduce,0,inf,ring,ll,-1,-1,-1\n"
BY_GPU = ("collective,min_bytes,max_bytes,algorithm,protocol,gpu\n"
          "allreduce,0,inf,tree,simple,A\nallreduce,0,inf,ring,ll,*\n")

OTHER_SHM = ["unshare", "-m", "sh", "-c",
             "mount -t tmpfs tmpfs /dev/shm && exec \"$0\" \"$@\""]

# What rank 1 has otherwise: files, variables (None: unset), a prefix of its
# command; then what the warnings of ranks 0 and 1 contain (None: no warning).
CASES = [
    ("nothing", {}, {}, [], None, None),
    ("policy", {"p.conf": RING}, {}, [], "rank 1 holds another policy",
     "rank 0 holds another policy"),
    ("no policy", {"p.conf": None}, {}, [], "rank 1 has no policy in force",
     "p.conf: cannot be opened"),
    ("GPU", {"p.conf": BY_GPU}, {"STEPTUNE_GPU": "A"}, [],
     "rank 1 sees another GPU model", "rank 0 sees another GPU model"),
    ("no plugin", {}, {"NCCL_TUNER_PLUGIN": "none"}, [],
     "rank 1 did not join", None),
    # NCCL takes it for another host, and hosts compare in the job's TCPStore.
    ("another /dev/shm", {}, {"NCCL_SHM_DISABLE": "1"}, OTHER_SHM, None, None),
    ("another /dev/shm and policy", {"p.conf": RING}, {"NCCL_SHM_DISABLE": "1"}, OTHER_SHM,
     "holds another policy than this rank", "holds another policy than this rank"),
    ("a FIFO as the policy", {"p.conf": "FIFO"}, {}, [],
     "rank 1 has no policy in force", "p.conf: "),
]

JOB = """
import os, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
gpu = rank % torch.cuda.device_count()
torch.cuda.set_device(gpu)
dist.init_process_group("nccl", device_id=torch.device("cuda", gpu))
for n in (1, 1024, 1 << 20, 1 << 24):
    x = torch.full((n,), rank + 1.0, device="cuda")
    dist.all_reduce(x)
    assert x[-1].item() == 3.0
dist.destroy_process_group()
print("done", flush=True)
"""


def write(folder, files):
    for name, text in files.items():
        path = os.path.join(folder, name)
        if os.path.exists(path):
            os.unlink(path)
        if text == "FIFO":
            os.mkfifo(path)
        elif text is not None:
            with open(path, "w") as f:
                f.write(text)


def start(folder, rank, port, files, variables, prefix):
    os.makedirs(folder)
    write(folder, {"p.conf": TREE})
    write(folder, files)
    env = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank),
               MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
               NCCL_TUNER_PLUGIN=PLUGIN, NCCL_TUNER_CONFIG_FILE="p.conf",
               NCCL_DEBUG="WARN",
               NCCL_SHM_DISABLE=os.environ.get("NCCL_SHM_DISABLE", "0"))
    env.update(variables)
    return subprocess.Popen(prefix + [sys.executable, "-c", JOB], cwd=folder,
                            env=env, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)


def run(case, port, folder):
    name, files, variables, prefix, first, second = case
    # Of both ranks, or they would differ in more than the one thing.
    shm = {"NCCL_SHM_DISABLE": "1"} if prefix else {}
    policy = files if name == "GPU" else {}
    ranks = [start(folder + "/0", 0, port, policy, shm, []),
             start(folder + "/1", 1, port, files, variables, prefix)]
    failures = []
    for rank, expected in enumerate((first, second)):
        try:
            out = ranks[rank].communicate(timeout=60)[0]
        except subprocess.TimeoutExpired:
            for process in ranks:
                process.kill()
            return ["rank %d hangs" % rank]
        warnings = [line for line in out.splitlines()
                    if "NCCL WARN steptune" in line]
        if ranks[rank].returncode != 0 or "done" not in out:
            failures.append("rank %d: %s" % (rank, out[-2000:]))
        elif (len(warnings) != (expected is not None) or
              (expected is not None and expected not in warnings[0])):
            failures.append("rank %d warns %s, expected %r" %
                            (rank, warnings, expected))
    return failures


def main():
    failed = 0
    for number, case in enumerate(CASES):
        with tempfile.TemporaryDirectory() as folder:
            failures = run(case, 29600 + number, folder + "/job")
        failed += bool(failures)
        print("%-24s %s" % (case[0], "; ".join(failures) or "ok"), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
