"""What a call of a small collective costs while the plugin learns, beside NCCL alone in the same process.

    learn_cost.py PLUGIN NCCL [--bytes 8,65536] [--rounds 1200]

A process for each GPU opens the file NCCL three times, as copies that know nothing of one another: for NCCL alone,
for the plugin frozen (STEPTUNE_FREEZE=1) and for the plugin that learns.  A communicator of each runs the same
all-reduces in turns of 200 calls, so that what differs from process to process and from second to second is in all.
For each size and way it prints microseconds a call, of the host (until the call returned) and in all (until the
GPU had run it), their difference to NCCL alone of the same round with 95 percent intervals (a tenth of the rounds
is cut on either side), and the difference of all rounds with nothing cut.  Rounds of the first 20,000 calls, in
which arms are tried, are also told apart.
"""
import argparse
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HALF, SUM, CALLS, WAYS = 6, 0, 200, ("alone", "frozen", "learns")


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def check(result, what):
    if result != 0:
        raise RuntimeError(f"{what} returned {result}")


def make_communicator(nccl, way, number):
    """Ranks meet by a file; only the environment says which plugin NCCL loads."""
    for name in ("NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN"):
        os.environ.pop(name, None)
        if way != "alone":
            os.environ[name] = os.environ["PLUGIN"]
    os.environ["STEPTUNE_FREEZE"] = "1" if way == "frozen" else "0"
    path, identity, comm = f"{os.environ['FOLDER']}/{way}{number}", UniqueId(), ctypes.c_void_p()
    if os.environ["RANK"] == "0":
        check(nccl.ncclGetUniqueId(ctypes.byref(identity)), "ncclGetUniqueId")
        with open(path + ".new", "wb") as file:
            file.write(bytes(identity))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.005)
    with open(path, "rb") as file:
        ctypes.memmove(ctypes.byref(identity), file.read(), 128)
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    check(nccl.ncclCommInitRank(ctypes.byref(comm), int(os.environ["RANKS"]), identity, int(os.environ["RANK"])),
          "ncclCommInitRank")
    return comm


def describe(times, way, rounds):
    """Host's and all microseconds a call, the difference to NCCL alone, and that of all rounds."""
    text = []
    for what in range(2):
        own, alone = ([t[what] for t in times[w][rounds]] for w in (way, "alone"))
        more = sorted(a - b for a, b in zip(own, alone))
        cut = more[len(more) // 10:len(more) - len(more) // 10]
        half = 2 * statistics.stdev(cut) / len(cut) ** .5
        text.append(f"{statistics.median(own):.2f} ({statistics.fmean(cut):+.3f} +- {half:.3f}, "
                    f"{statistics.fmean(more):+.3f} uncut)")
    return f"host {text[0]}, in all {text[1]}"


def be_rank():
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, stream, buffer = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDeviceGet(ctypes.byref(device), int(os.environ["RANK"])), "cuDeviceGet")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    check(cuda.cuStreamCreate(ctypes.byref(stream), 1), "cuStreamCreate")
    libraries = {way: ctypes.CDLL(f"{os.environ['FOLDER']}/{way}.so", os.RTLD_NOW | os.RTLD_DEEPBIND)
                 for way in WAYS}
    for number, n_bytes in enumerate(map(int, os.environ["SIZES"].split(","))):
        check(cuda.cuMemAlloc_v2(ctypes.byref(buffer), ctypes.c_size_t(n_bytes)), "cuMemAlloc")
        check(cuda.cuMemsetD8_v2(buffer, 0, ctypes.c_size_t(n_bytes)), "cuMemsetD8")
        comms = {way: make_communicator(libraries[way], way, number) for way in WAYS}
        times = {way: [] for way in WAYS}

        def run(way):
            call, arguments = libraries[way].ncclAllReduce, (
                buffer, buffer, ctypes.c_size_t(n_bytes // 2), HALF, SUM, comms[way], stream)
            begin = time.perf_counter()
            for _ in range(CALLS):
                call(*arguments)
            returned = time.perf_counter()
            check(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize")
            return (returned - begin) / CALLS * 1e6, (time.perf_counter() - begin) / CALLS * 1e6

        for way in WAYS:
            run(way)
        for i in range(int(os.environ["ROUNDS"])):
            for way in WAYS if i % 2 == 0 else reversed(WAYS):
                times[way].append(run(way))
        if os.environ["RANK"] == "0":
            host, both = (statistics.median(t[what] for t in times["alone"]) for what in range(2))
            print(f"{n_bytes} B, NCCL alone: host {host:.2f} us, in all {both:.2f} us", flush=True)
            for way in WAYS[1:]:
                print(f"  {way}: {describe(times, way, slice(None))}", flush=True)
            print(f"  learns, first 20,000 calls: {describe(times, 'learns', slice(20000 // CALLS))}", flush=True)
        for way in WAYS:
            check(libraries[way].ncclCommDestroy(comms[way]), "ncclCommDestroy")
        check(cuda.cuMemFree_v2(buffer), "cuMemFree")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plugin", type=os.path.abspath)
    parser.add_argument("nccl")
    parser.add_argument("--bytes", default="8,65536")
    parser.add_argument("--rounds", type=int, default=1200, help="of each size")
    parser.add_argument("--ranks", type=int, default=2, help="one a GPU")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for way in WAYS:
            shutil.copy(o.nccl, f"{folder}/{way}.so")
        ranks = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--rank"], env=dict(
            os.environ, PLUGIN=o.plugin, FOLDER=folder, RANK=str(rank), RANKS=str(o.ranks), SIZES=o.bytes,
            ROUNDS=str(o.rounds), STEPTUNE_LEARNED="/dev/null", STEPTUNE_WARM_START="none"))
            for rank in range(o.ranks)]
        sys.exit(max(rank.wait() != 0 for rank in ranks))


if __name__ == "__main__":
    if sys.argv[1:] == ["--rank"]:
        be_rank()
    else:
        main()
