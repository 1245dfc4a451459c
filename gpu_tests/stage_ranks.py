"""Ranks of a real NCCL under libsteptune-stage.so: results, and what goes wrong.

    stage_ranks.py LIBRARY NCCL [--ranks N] [--cases good,many,...]

Each rank is a process that opens the library by its name, as vLLM and JAX open NCCL, and has NCCL
preloaded, as `steptune run --nccl` has it: PyTorch's own is loaded, too.  The cases:

    good     collectives alone, in groups, in graphs and on two streams, also of a group: right, and staged
    nolib    a rank has NCCL itself     rules    a rank has other rules
    memory   a rank has other settings  windows  the application registers windows of its own
    abort    a rank never calls, and the others abort; with NCCL alone, too, and with its own windows
    kill     a rank is killed (SIGKILL) while the others call; they abort; with NCCL alone as well
    init     a rank is killed while communicators are made; with NCCL alone, too
    many     a communicator after the other: time and GPU memory of each; with NCCL alone, too
    cost     microseconds of the host for a call, by the library and by NCCL alone in turns

Prints a line a case, and exits with 1 if a result is wrong, an abort takes a second, a rank hangs where
none does with NCCL alone on windows of its own, calls are staged that must not be, or none where they must.
"""
import argparse
import csv
import ctypes
import glob
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

BF16, F32, SUM = 9, 7, 0
RULES = "collective,min_bytes,max_bytes,memory,min_ctas,nNodes,nRanks,graph\n" + "".join(
    f"{c},256K,8M,stage,16,1,2-inf,-1\n" for c in ("allreduce", "allgather", "reducescatter"))


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def size(n):
    return ctypes.c_size_t(n)


def call(library, name, *arguments):
    result = getattr(library, name)(*arguments)
    if result != 0:
        raise RuntimeError(f"{name} returned {result}")


def open_communicator(nccl, path, rank, n_ranks):
    """Ranks meet by a file, which rank 0 makes."""
    identity, comm = UniqueId(), ctypes.c_void_p()
    if rank == 0:
        call(nccl, "ncclGetUniqueId", ctypes.byref(identity))
        with open(path + ".new", "wb") as file:
            file.write(bytes(identity))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.005)
    with open(path, "rb") as file:
        ctypes.memmove(ctypes.byref(identity), file.read(), 128)
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    call(nccl, "ncclCommInitRank", ctypes.byref(comm), n_ranks, identity, rank)
    return comm


class Rank:
    """A rank's NCCL: in the environment, RANK, RANKS, NCCL_FILE and FOLDER."""

    def __init__(self):
        import torch
        self.torch = torch
        self.rank, self.n = int(os.environ["RANK"]), int(os.environ["RANKS"])
        self.folder = os.environ["FOLDER"]
        torch.cuda.set_device(self.rank % torch.cuda.device_count())
        torch.ones(1, device="cuda")
        self.nccl = ctypes.CDLL(os.environ["NCCL_FILE"])

    def call(self, name, *arguments):
        call(self.nccl, name, *arguments)

    def communicator(self, number=0):
        return open_communicator(self.nccl, f"{self.folder}/id{number}", self.rank, self.n)

    def run(self, comm, kind, n_bytes, stream=None, in_place=False, step=0):
        """A collective and a check, on the stream; returns a flag on the GPU, 1 if it is right."""
        torch, n, me = self.torch, self.n, self.rank
        count = n_bytes // 2
        part = count // n
        where = ctypes.c_void_p((stream or torch.cuda.current_stream()).cuda_stream)
        with torch.cuda.stream(stream or torch.cuda.current_stream()):
            base = torch.arange(count, device="cuda", dtype=torch.int32) * 3 + step
            value = lambda r: ((base + 7 * r) % 32).bfloat16()  # noqa: E731
            mine = value(me)
            send = mine[me * part:(me + 1) * part].clone() if kind == "AllGather" else mine.clone()
            recv = torch.zeros(part if kind == "ReduceScatter" else count, device="cuda",
                               dtype=torch.bfloat16)
            if in_place and kind == "AllReduce":
                recv = send
            if kind == "AllGather":
                self.call("ncclAllGather", ctypes.c_void_p(send.data_ptr()),
                          ctypes.c_void_p(recv.data_ptr()), size(part), BF16, comm, where)
                wanted = torch.cat([value(r)[r * part:(r + 1) * part] for r in range(n)])
            else:
                self.call("nccl" + kind, ctypes.c_void_p(send.data_ptr()),
                          ctypes.c_void_p(recv.data_ptr()),
                          size(part if kind == "ReduceScatter" else count), BF16, SUM, comm, where)
                wanted = sum(value(r).float() for r in range(n)).bfloat16()
                if kind == "ReduceScatter":
                    wanted = wanted[me * part:(me + 1) * part]
            return (recv == wanted).all()

    def run_group(self, comm, streams, n_bytes):
        """A group on two streams, each with the data of the call on the other; returns flags on the GPU."""
        torch = self.torch
        data = [torch.zeros(n // 2, device="cuda", dtype=torch.bfloat16) for n in (1 << 20, n_bytes)]
        streams[1].wait_stream(streams[0])
        for i in range(2):
            with torch.cuda.stream(streams[1 - i]):
                torch.cuda._sleep(1_000_000)
                data[i].fill_(1)
        self.call("ncclGroupStart")
        for i in range(2):
            where = ctypes.c_void_p(data[i].data_ptr())
            self.call("ncclAllReduce", where, where, size(data[i].numel()), BF16, SUM, comm,
                      ctypes.c_void_p(streams[i].cuda_stream))
        self.call("ncclGroupEnd")
        flags = []
        for i in range(2):
            with torch.cuda.stream(streams[1 - i]):
                flags.append((data[i] == self.n).all())
        streams[0].wait_stream(streams[1])
        return flags + data  # which live as long

    def good(self, comm, n_steps=3):
        torch = self.torch
        kinds = ("AllReduce", "AllGather", "ReduceScatter")
        streams = [torch.cuda.Stream() for _ in range(2)]
        torch.cuda.synchronize()
        flags = []
        for step in range(n_steps):
            for n_bytes in (4096, 1 << 18, 1 << 20, 4 << 20, 8 << 20, 16 << 20):
                for i, kind in enumerate(kinds):
                    flags.append(self.run(comm, kind, n_bytes, streams[(step + i) % 2],
                                          in_place=step % 2 == 1, step=step))
        graphs = []
        for step in range(3):
            graph, held = torch.cuda.CUDAGraph(), []
            with torch.cuda.graph(graph, stream=streams[0]):
                for kind in kinds:
                    held.append(self.run(comm, kind, (1 << 20) << step, streams[0], step=step))
            graphs.append((graph, held))
        for step in range(6):  # graphs on two streams, and calls in between
            graph, held = graphs[step % 3]
            with torch.cuda.stream(streams[step % 2]):
                graph.replay()
                flags.append(torch.stack(held).all())
            flags.append(self.run(comm, kinds[step % 3], 2 << 20, streams[(step + 1) % 2]))
            if step % 3 == 2:
                torch.cuda.synchronize()
        torch.cuda.synchronize()
        for n_bytes in (4096, 1 << 20):  # of a plain call, and of a staged one
            with torch.cuda.stream(streams[0]):
                groups = [self.run_group(comm, streams, n_bytes) for _ in range(10)]
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=streams[0]):
                groups += [self.run_group(comm, streams, n_bytes) for _ in range(3)]
            for _ in range(3):
                graph.replay()
            torch.cuda.synchronize()
            flags += [flag for group in groups for flag in group[:2]]
        return all(bool(flag) for flag in flags)

    def buffer(self, comm, n_bytes):
        """An address of the GPU's memory; in a window of NCCL's, if the environment says so."""
        if "WINDOWS" not in os.environ:
            self.held = self.torch.ones(n_bytes // 2, device="cuda", dtype=self.torch.bfloat16)
            return ctypes.c_void_p(self.held.data_ptr())
        memory, window = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("ncclMemAlloc", ctypes.byref(memory), size(n_bytes))
        self.call("ncclCommWindowRegister", comm, memory, size(n_bytes), ctypes.byref(window), 1)
        return memory

    def abort(self, comm):
        start = time.time()
        self.call("ncclCommAbort", comm)
        print(f"aborted in {(time.time() - start) * 1e3:.0f} ms", flush=True)

    def loop(self, comm):
        """Calls until the folder says that a rank is gone, then aborts from another thread."""
        buffer = self.buffer(comm, 4 << 20)
        where = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)

        def watch():
            while not os.path.exists(f"{self.folder}/gone"):
                time.sleep(0.01)
            time.sleep(0.5)
            self.abort(comm)
            os._exit(0)

        threading.Thread(target=watch, daemon=True).start()
        print("calling", flush=True)
        while True:
            self.nccl.ncclAllReduce(buffer, buffer, size(2 << 20), BF16, SUM, comm, where)
            self.torch.cuda.current_stream().synchronize()

    def cost(self, comm):
        """Prints what a call takes of the host: by the library, and by NCCL alone on the same communicator, in turns
        of 50 calls, with 95 percent intervals of the difference."""
        torch, alone = self.torch, ctypes.CDLL(os.environ["NCCL"])
        for n_bytes in (1024, 1 << 18):
            buffer = torch.ones(n_bytes // 2, device="cuda", dtype=torch.bfloat16)
            arguments = (ctypes.c_void_p(buffer.data_ptr()), ctypes.c_void_p(buffer.data_ptr()), size(n_bytes // 2),
                         BF16, SUM, comm, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
            us = ([], [])
            for turn in range(200):
                for nccl in ((self.nccl, alone), (alone, self.nccl))[turn % 2]:
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    for _ in range(50):
                        nccl.ncclAllReduce(*arguments)
                    us[nccl is alone].append((time.perf_counter() - start) / 50 * 1e6)
            torch.cuda.synchronize()
            more = sorted(a - b for a, b in zip(*us))[20:-20]
            mean = sum(more) / len(more)
            half = 2 * (sum((m - mean) ** 2 for m in more) / len(more) / (len(more) - 1)) ** .5
            print(f"{n_bytes} B: {sorted(us[0])[100]:.2f} us, NCCL alone {sorted(us[1])[100]:.2f},"
                  f" {mean:+.3f} ({mean - half:+.3f} to {mean + half:+.3f})", end="; ")
        print(flush=True)

    def case(self, name):
        torch = self.torch
        if name == "many":
            free, start = torch.cuda.mem_get_info()[0], time.time()
            comms = [self.communicator(i) for i in range(40)]
            torch.cuda.synchronize()
            print(f"{(time.time() - start) / 40 * 1e3:.1f} ms and "
                  f"{(free - torch.cuda.mem_get_info()[0]) / 40 / 2**20:.1f} MiB each", end=", ")
            right = all(self.good(c, 1) for c in comms[::13])
            for c in comms:
                self.call("ncclCommDestroy", c)
            print("right" if right else "WRONG", flush=True)
            return
        if name == "init":
            for i in range(20):
                self.communicator(i)
            return
        comm = self.communicator()
        if name in ("kill",):
            self.loop(comm)
        if name == "abort":
            buffer = self.buffer(comm, 4 << 20)
            if self.rank != self.n - 1:
                self.nccl.ncclAllReduce(
                    buffer, buffer, size(2 << 20), BF16, SUM, comm,
                    ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
                time.sleep(1)
                self.abort(comm)
            return
        if name == "cost":
            self.cost(comm)
        elif name == "windows":
            memory, window = ctypes.c_void_p(), ctypes.c_void_p()
            right = self.good(comm, 1)
            self.call("ncclMemAlloc", ctypes.byref(memory), size(1 << 21))
            self.call("ncclCommWindowRegister", comm, memory, size(1 << 21), ctypes.byref(window), 1)
            print("right" if right and self.good(comm, 1) else "WRONG", flush=True)
        else:
            print("right" if self.good(comm) else "WRONG", flush=True)
        torch.cuda.synchronize()
        self.call("ncclCommDestroy", comm)


def start(args, name, plain=False, windows=False):
    """Runs a case; returns each rank's output and status, the staged calls, and the log."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/rules.stage", "w") as file:
            file.write(RULES)
        with open(f"{folder}/others.stage", "w") as file:
            file.write(RULES.replace("8M", "4M"))
        processes = []
        for rank in range(args.ranks):
            odd = rank == 1 and not plain
            env = dict(os.environ, RANK=str(rank), RANKS=str(args.ranks), FOLDER=folder,
                       NCCL_FILE=args.nccl if plain or (odd and name == "nolib") else args.library,
                       NCCL=args.nccl, LD_PRELOAD=args.nccl, STEPTUNE_STAGE_REPORT=folder, NCCL_DEBUG="WARN",
                       STEPTUNE_STAGE_FILE=f"{folder}/" + (
                           "others.stage" if odd and name == "rules" else "rules.stage"))
            if windows:
                env["WINDOWS"] = "1"
            if odd and name == "memory":
                env["STEPTUNE_STAGE_MEMORY"] = "2048"
            processes.append(subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), "--rank", name], env=env, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        if name in ("kill", "init"):
            if name == "kill":
                processes[0].stdout.readline()
                time.sleep(random.uniform(0.2, 1))
            else:
                while not os.path.exists(f"{folder}/id1"):
                    time.sleep(0.01)
                time.sleep(random.uniform(0, 1))
            processes[1].send_signal(signal.SIGKILL)
            open(f"{folder}/gone", "w").close()
        end, ranks, log = time.time() + (20 if name in ("kill", "init", "abort") else 100), [], ""
        for rank, process in enumerate(processes):
            try:
                out, err = process.communicate(timeout=max(1, end - time.time()))
                status = process.returncode
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                status = "hangs"
            ranks.append((out.strip().replace("\n", " "), status))
            log += "".join(f"  rank {rank}: {line}\n" for line in err.splitlines()
                           if "steptune-stage" in line or "Error" in line)[:600]
        staged = 0
        for path in glob.glob(f"{folder}/*.csv"):
            with open(path) as file:
                staged += sum(int(row["calls_staged"]) for row in csv.DictReader(
                    line for line in file if not line.startswith("#")))
        return ranks, staged, log


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("nccl")
    parser.add_argument("--ranks", type=int, default=len(glob.glob("/dev/nvidia[0-9]*")), help="one a GPU")
    parser.add_argument("--cases", default="good,nolib,rules,memory,windows,abort,kill,kill,init,many,cost")
    args = parser.parse_args()
    args.library = os.path.abspath(args.library)
    bad = 0
    for name in args.cases.split(","):
        begin = time.time()
        ranks, staged, log = start(args, name)
        dies = name in ("kill", "init")
        texts = [text for i, (text, _) in enumerate(ranks) if not (dies and i == 1)]
        hangs = [i for i, (_, status) in enumerate(ranks)
                 if status == "hangs" and not (name == "abort" and i == args.ranks - 1)]
        fails = [i for i, (_, status) in enumerate(ranks) if status not in (0, "hangs")]
        ok = not any("WRONG" in text for text in texts)
        if name in ("good", "windows", "many"):
            ok &= staged > 0 and not fails and not hangs
        elif name in ("nolib", "rules", "memory"):
            ok &= staged == 0 and not fails and not hangs
        elif name in ("abort", "kill"):
            waits = [int(ms) for text in texts for ms in re.findall(r"aborted in (\d+) ms", text)]
            ok &= len(waits) + len(hangs) == args.ranks - 1 and max(waits, default=0) < 1000
        print(f"{'ok ' if ok else 'BAD'} {name}: {time.time() - begin:.1f} s, {staged} staged; {texts[0]};"
              f" hang: {hangs}; failed: {fails}", flush=True)
        for what, windows in (("alone", False), ("with windows", True)):
            if name in ("abort", "kill") or (name in ("init", "many") and not windows):
                ranks, _, _ = start(args, name, plain=True, windows=windows)
                also = [i for i, (_, status) in enumerate(ranks) if status == "hangs"]
                print(f"    NCCL {what}: {ranks[0][0]}; hang: {also}", flush=True)
                hangs = hangs if not also else []
        ok &= not hangs
        if not ok or name in ("nolib", "rules", "memory"):
            print(log, end="", flush=True)
        bad |= not ok
    sys.exit(bad)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        Rank().case(sys.argv[2])
    else:
        main()
