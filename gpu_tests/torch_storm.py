"""Jobs of real NCCL in which one rank is killed, stopped, or has other files than the rest.

    python3 torch_storm.py STATIC_PLUGIN ONLINE_PLUGIN [--seconds S] [--at-once N] [--seed SEED]

A job has 2 to 4 ranks on as many GPUs, which run random collectives in one or two communicators
and check all results; N jobs (4) run at once on the same GPUs, for S seconds (60).  Each runs
twice in one folder: disturbed, then undisturbed with the files that the first run left.  A job
fails if a rank that nobody killed hangs, ends otherwise than with 0 or has a wrong result; if
ranks of a disturbed run step aside and one with the plugin does not say so, once a communicator
at most; or if the undisturbed run warns of anything.  Prints how many jobs there were of each
kind, and exits with 1 if one failed or had not ended when this was stopped, with 77 where there are no two GPUs or no PyTorch.
"""
import argparse
import collections
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings

# PyTorch's import starts threads, of which none holds what the processes need.
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # counts GPUs, and the process may fork
try:
    import torch
    import torch.distributed as dist
except ImportError:
    sys.exit(77)

LIMIT = 60.0  # seconds of one run
POLICY = ("collective,min_bytes,max_bytes,algorithm,protocol,channels\n"
          "allreduce,0,64K,tree,ll,-1\nallreduce,1M,16M,ring,simple,8\n"
          "allgather,0,inf,ring,simple,-1\nreducescatter,0,1M,ring,ll,-1\n")
OTHER = "allreduce,0,inf,ring,ll,-1,-1,-1\n"
SIZES = (1, 257, 4096, 65536, 1 << 20, 4 << 20)


def write(path, text):
    if os.path.exists(path):
        os.unlink(path)
    if text == "FIFO":
        os.mkfifo(path)
    elif text is not None:
        with open(path, "w") as f:
            f.write(text)


def times(r, n, latest):
    return sorted(r.uniform(0, latest) for _ in range(n))


def half(r):
    return POLICY[:r.randrange(len(POLICY))]


# What is otherwise with one rank: its files, its variables, signals and the seconds at which they
# are sent; "all" are variables of all ranks.
KINDS = {
    "nothing": lambda r: {},
    "killed": lambda r: {"signals": [(r.uniform(0, 8), signal.SIGKILL)]},
    "terminated": lambda r: {"signals": [(r.uniform(0, 8), signal.SIGTERM)]},
    "stopped": lambda r: {"signals": [(t, s) for t in times(r, r.randint(1, 4), 6)
                                      for t, s in ((t, signal.SIGSTOP),
                                                   (t + r.uniform(0.01, 1.5), signal.SIGCONT))]},
    "another policy": lambda r: {"files": {"p.conf": OTHER}},
    "half a policy": lambda r: {"files": {"p.conf": half(r)}},
    "no policy": lambda r: {"files": {"p.conf": None}},
    "FIFO as policy": lambda r: {"files": {"p.conf": "FIFO"}},
    "policy replaced": lambda r: {"replace": r.uniform(0, 6)},
    "no plugin": lambda r: {"env": {"NCCL_TUNER_PLUGIN": "none", "NCCL_PROFILER_PLUGIN": "none"}},
    "another plugin": lambda r: {"swap": True},
    "other settings": lambda r: {"env": dict([r.choice([
        ("STEPTUNE_STRATEGY", "epsilon"), ("STEPTUNE_FREEZE", "1"), ("STEPTUNE_BUDGET", "0.5"),
        ("STEPTUNE_STRATEGY", "none of these"), ("STEPTUNE_AGREE", "compare"),
        ("STEPTUNE_GPU", "A100"), ("STEPTUNE_MIN_GAIN", "0.2")])])},
    "full disk": lambda r: {"all": {"STEPTUNE_LEARNED": "/dev/full", "STEPTUNE_JOURNAL": "/dev/full",
                                    "STEPTUNE_TRACE": "/dev/full"}},
}


def collective(r, world, rank, group):
    """One random collective, the same in all ranks; whether its result is right."""
    kind, n, value = r.randrange(4), r.choice(SIZES), r.randrange(1, 100)
    mine = torch.full((n,), float(value + rank), device="cuda")
    total = float(sum(value + i for i in range(world)))
    if kind == 0:
        dist.all_reduce(mine, group=group)
        return torch.all(mine == total)
    if kind == 1:
        out = torch.empty(n * world, device="cuda")
        dist.all_gather_into_tensor(out, mine, group=group)
        parts = torch.arange(world, device="cuda").repeat_interleave(n) + float(value)
        return torch.all(out == parts)
    if kind == 2:
        out = torch.empty(n, device="cuda")
        dist.reduce_scatter_tensor(out, mine.repeat(world), group=group)
        return torch.all(out == total)
    root = r.randrange(world)
    dist.broadcast(mine, root, group=group)
    return torch.all(mine == float(value + root))


def replay(r, world, rank):
    """All-reduces of a CUDA graph, replayed."""
    n = r.choice(SIZES)
    mine, out = torch.full((n,), rank + 1.0, device="cuda"), torch.empty(n, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out.copy_(mine)
        dist.all_reduce(out)
    for _ in range(20):
        graph.replay()
    return torch.all(out == world * (world + 1) / 2)


def draw_groups(seed):
    """The job's source of random numbers, and how many communicators it has."""
    r = random.Random(seed)
    return r, r.choice((1, 1, 2))


def run_rank(folder, seed, world, rank, gpu):
    r, n_groups = draw_groups(seed)
    torch.cuda.set_device(gpu)
    dist.init_process_group("nccl", init_method="file://%s/meet" % folder, rank=rank,
                            world_size=world, device_id=torch.device("cuda", gpu))
    groups = [None] + [dist.new_group() for _ in range(n_groups - 1)]
    right = []
    for step in range(r.randint(20, 300)):
        right.append(collective(r, world, rank, r.choice(groups)))
        if step % 50 == 19:
            right.append(replay(r, world, rank))
            if not all(x.item() for x in right):
                sys.exit("wrong result before step %d" % step)
            right = []
    if not all(x.item() for x in right):
        sys.exit("wrong result at the end")
    dist.destroy_process_group()


def fork_rank(folder, env, *arguments):
    rank = arguments[2]
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.chdir("%s/%d" % (folder, rank))
        log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.update(env)
        run_rank(folder, *arguments)
        status = 0
    except SystemExit as e:
        print(e, flush=True)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(status)


def watch(pids, odd, events, act):
    """Waits for all ranks, doing act(event) when it is time; the statuses, None: killed by us."""
    begin = time.monotonic()
    status, ending = {}, None
    while len(status) < len(pids):
        now = time.monotonic() - begin
        while events and events[0][0] <= now:
            what = events.pop(0)[1]
            if odd not in status:
                act(what)
                if what in (signal.SIGKILL, signal.SIGTERM):
                    ending = now + 1.0  # others wait for it: a launcher ends them
        for rank, pid in enumerate(pids):
            if rank not in status and (done := os.waitpid(pid, os.WNOHANG))[0]:
                status[rank] = done[1]
        if now > LIMIT or (ending is not None and now > ending):
            for rank, pid in enumerate(pids):
                if rank not in status:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                    status[rank] = None if ending is not None else -1
        time.sleep(0.01)
    return [status[rank] for rank in range(len(pids))], ending is not None


def run(folder, world, gpus, seed, plugins, odd, change):
    """One run of the job; what is wrong with it, whether ranks stepped aside."""
    for path in [folder + "/meet"] + [f"{folder}/{rank}/log" for rank in range(world)]:
        if os.path.exists(path):
            os.unlink(path)
    pids = []
    for rank in range(world):
        mine = f"{folder}/{rank}"
        os.makedirs(mine, exist_ok=True)
        files = {"p.conf": POLICY}
        env = {"NCCL_TUNER_PLUGIN": plugins[0], "NCCL_PROFILER_PLUGIN": plugins[0],
               "NCCL_TUNER_CONFIG_FILE": "p.conf",
               "STEPTUNE_LEARNED": folder + "/learned.conf",
               "STEPTUNE_JOURNAL": folder + "/journal.csv", "NCCL_DEBUG": "WARN"}
        env.update(change.get("all", {}))
        if rank == odd:
            files.update(change.get("files", {}))
            env.update(change.get("env", {}))
            if change.get("swap"):
                env["NCCL_TUNER_PLUGIN"] = env["NCCL_PROFILER_PLUGIN"] = plugins[1]
        for name, text in files.items():
            write(f"{mine}/{name}", text)
        pids.append(fork_rank(folder, env, seed, world, rank, gpus[rank]))

    def act(what):
        if what == "replace":
            write(f"{folder}/{odd}/new", OTHER)
            os.rename(f"{folder}/{odd}/new", f"{folder}/{odd}/p.conf")
        else:
            os.kill(pids[odd], what)

    events = list(change.get("signals", []))
    if "replace" in change:
        events.append((change["replace"], "replace"))
    statuses, was_ended = watch(pids, odd, sorted(events, key=lambda e: e[0]), act)
    said = []
    for rank in range(world):
        with open(f"{folder}/{rank}/log", errors="replace") as f:
            text = f.read()
        said.append([line for line in text.splitlines() if "NCCL WARN steptune" in line])
        if "wrong result" in text:
            return f"rank {rank}: {text[-1500:]}", False
        if not was_ended and statuses[rank] != 0:
            what = "hangs" if statuses[rank] == -1 else "ends with %s" % statuses[rank]
            return f"rank {rank} {what}: {text[-1500:]}", False
    n_groups = draw_groups(seed)[1]
    is_aside = any("stepping aside" in w for rank in said for w in rank)
    if not change:
        return "".join(f"rank {i} warns: {w}; " for i, w in enumerate(said) if w), is_aside
    has_none = "none" in change.get("env", {}).values()
    if is_aside and not was_ended:
        for rank, lines in enumerate(said):
            if not 1 <= len(lines) <= n_groups and not (rank == odd and has_none):
                return f"rank {rank} warns {len(lines)} times: {lines}", True
    return "", is_aside


def run_job(seed, plugins, folder):
    r = random.Random(seed)
    kind = r.choice(list(KINDS))
    n_gpus = torch.cuda.device_count()
    world = r.randint(2, min(4, n_gpus))
    gpus = r.sample(range(n_gpus), world)
    is_online = r.random() < 0.7
    plugins = plugins[::-1] if is_online else plugins
    change = KINDS[kind](r)
    odd = r.randrange(world)
    begin = time.monotonic()
    wrong, is_aside = run(folder, world, gpus, seed, plugins, odd, change)
    again = "" if wrong else run(folder, world, gpus, seed + 1, plugins, odd, {})[0]
    shutil.rmtree(folder)
    return {"kind": kind, "plugin": "online" if is_online else "static", "world": world,
            "odd": odd, "seed": seed, "aside": is_aside, "wrong": wrong, "again": again,
            "s": round(time.monotonic() - begin, 1)}


def start_job(seed, plugins, folder):
    """A process that runs the job and writes its outcome to a pipe: its pid and the pipe."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(theirs)
        return pid, ours
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setpgid(0, 0)  # its ranks end with it
    try:
        os.write(theirs, json.dumps(run_job(seed, plugins, folder)).encode()[:60000])
    except BaseException:
        traceback.print_exc()
        os._exit(2)
    os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("static")
    parser.add_argument("online")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args()
    if torch.cuda.device_count() < 2:
        sys.exit(77)
    plugins = (os.path.abspath(o.static), os.path.abspath(o.online))
    folders = tempfile.TemporaryDirectory(prefix="storm")
    begin, n_started, n_wrong, running = time.monotonic(), 0, 0, {}
    tally = collections.defaultdict(lambda: [0, 0, 0])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while running or time.monotonic() - begin < o.seconds:
            while len(running) < o.at_once and time.monotonic() - begin < o.seconds:
                seed = o.seed * 1000003 + n_started * 2
                running.update([start_job(seed, plugins, f"{folders.name}/{n_started}")])
                n_started += 1
            pid, status = os.wait()
            if pid not in running:
                continue
            with os.fdopen(running.pop(pid), "rb") as f:
                text = f.read()
            job = json.loads(text) if status == 0 else {"kind": "?", "wrong": "no outcome",
                                                        "again": "", "aside": False}
            is_wrong = bool(job["wrong"] or job["again"])
            n_wrong += is_wrong
            for i, is_so in enumerate((True, job["aside"], is_wrong)):
                tally[job["kind"]][i] += is_so
            if is_wrong and n_wrong <= 20:
                print(job, flush=True)
    except KeyboardInterrupt:
        print("stopped; %d jobs had not ended" % len(running))
        for pid in running:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    print("%-18s %6s %6s %6s" % ("one rank is", "jobs", "aside", "failed"))
    for kind, counts in sorted(tally.items()):
        print("%-18s %6d %6d %6d" % (kind, *counts))
    print("%d jobs of two runs in %.0f s, %d failed" %
          (n_started - len(running), time.monotonic() - begin, n_wrong))
    return 1 if n_wrong or running else 0


if __name__ == "__main__":
    sys.exit(main())
