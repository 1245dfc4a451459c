"""What a call of a small collective costs while the plugin learns, beside NCCL alone in the same process.

    learn_cost.py PLUGIN NCCL [--bytes 8,65536] [--starts 8] [--rounds 300]

A process for each GPU opens the file NCCL three times, as copies that know nothing of one another: for NCCL alone,
for the plugin frozen (STEPTUNE_FREEZE=1) and for the plugin that learns.  A communicator of each runs the same
all-reduces in turns of 200 calls.  Where a copy lies in memory costs or saves some 0.3 us a call, so all begins anew
in each start, with the copies in another order.

For each size it prints microseconds a call, of the host (until the call returned) and in all (until the GPU had run
it): the median of NCCL alone, and what the others take more, a mean of starts with a 95 percent interval, and the least
and the most of a start.  Trials may lose 1 percent of all that time, in which others have their turns, too.  Of a start
it takes the mean of all rounds but the tenths on either side; rounds of the first 20,000 calls are also told apart.
--journal FOLDER keeps what the plugin tried in each start.
"""
import argparse
import ctypes
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from stage_ranks import call, open_communicator

HALF, SUM, CALLS, WAYS = 6, 0, 200, ("alone", "frozen", "learns")


def make_communicator(nccl, way, number):
    """Only the environment says which plugin NCCL loads."""
    for name in ("NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN"):
        os.environ.pop(name, None)
        if way != "alone":
            os.environ[name] = os.environ["PLUGIN"]
    os.environ["STEPTUNE_FREEZE"] = "1" if way == "frozen" else "0"
    os.environ["STEPTUNE_JOURNAL"] = os.environ["JOURNAL"].replace("%", str(number)) if way == "learns" else ""
    return open_communicator(nccl, f"{os.environ['FOLDER']}/{way}{number}", int(os.environ["RANK"]),
                             int(os.environ["RANKS"]))


def summarise(times, way, rounds):
    """What a call takes more than NCCL alone in the same round: of the host, and in all."""
    more = []
    for what in range(2):
        m = sorted(a[what] - b[what] for a, b in zip(times[way][rounds], times["alone"][rounds]))
        more.append(statistics.fmean(m[len(m) // 10:len(m) - len(m) // 10]))
    return more


def be_rank():
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, stream, buffer = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    call(cuda, "cuInit", 0)
    call(cuda, "cuDeviceGet", ctypes.byref(device), int(os.environ["RANK"]))
    call(cuda, "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call(cuda, "cuCtxSetCurrent", context)
    call(cuda, "cuStreamCreate", ctypes.byref(stream), 1)
    order = WAYS[int(os.environ["ORDER"]) % 3:] + WAYS[:int(os.environ["ORDER"]) % 3]
    libraries = {way: ctypes.CDLL(f"{os.environ['FOLDER']}/{way}.so", os.RTLD_NOW | os.RTLD_DEEPBIND)
                 for way in order}
    for number, n_bytes in enumerate(map(int, os.environ["SIZES"].split(","))):
        call(cuda, "cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(n_bytes))
        call(cuda, "cuMemsetD8_v2", buffer, 0, ctypes.c_size_t(n_bytes))
        comms = {way: make_communicator(libraries[way], way, number) for way in order}
        times = {way: [] for way in WAYS}

        def run(way):
            reduce, arguments = libraries[way].ncclAllReduce, (
                buffer, buffer, ctypes.c_size_t(n_bytes // 2), HALF, SUM, comms[way], stream)
            begin = time.perf_counter()
            for _ in range(CALLS):
                reduce(*arguments)
            returned = time.perf_counter()
            call(cuda, "cuStreamSynchronize", stream)
            return (returned - begin) / CALLS * 1e6, (time.perf_counter() - begin) / CALLS * 1e6

        for way in WAYS:
            run(way)
        for i in range(int(os.environ["ROUNDS"])):
            for way in order if i % 2 == 0 else reversed(order):
                times[way].append(run(way))
        if os.environ["RANK"] == "0":
            print(json.dumps({
                "bytes": n_bytes,
                "NCCL alone": [statistics.median(t[what] for t in times["alone"]) for what in range(2)],
                "frozen": summarise(times, "frozen", slice(None)),
                "learns": summarise(times, "learns", slice(None)),
                "learns, first 20,000 calls": summarise(times, "learns", slice(20000 // CALLS))}), flush=True)
        for way in WAYS:
            call(libraries[way], "ncclCommDestroy", comms[way])
        call(cuda, "cuMemFree_v2", buffer)


def describe(values, is_difference):
    mean = statistics.fmean(values)
    if not is_difference or len(values) < 3:
        return f"{mean:.2f}"
    t975 = {2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}.get(len(values) - 1, 2.2)
    return (f"{mean:+.2f} +- {t975 * statistics.stdev(values) / len(values) ** .5:.2f}"
            f" ({min(values):+.2f} to {max(values):+.2f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plugin", type=os.path.abspath)
    parser.add_argument("nccl")
    parser.add_argument("--bytes", default="8,65536")
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=300, help="of each size and start")
    parser.add_argument("--ranks", type=int, default=2, help="one a GPU")
    parser.add_argument("--journal", default="", help="a folder")
    o = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for way in WAYS:
            shutil.copy(o.nccl, f"{folder}/{way}.so")
        for start in range(o.starts):
            for path in glob.glob(f"{folder}/*[0-9]"):
                os.unlink(path)
            ranks = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--rank"], env=dict(
                os.environ, PLUGIN=o.plugin, FOLDER=folder, RANK=str(rank), RANKS=str(o.ranks), SIZES=o.bytes,
                ROUNDS=str(o.rounds), ORDER=str(start), STEPTUNE_LEARNED="/dev/null", STEPTUNE_WARM_START="none",
                JOURNAL=f"{o.journal}/start{start}.size%.csv" if o.journal else ""),
                stdout=None if rank else subprocess.PIPE) for rank in range(o.ranks)]
            found += [json.loads(line) for line in ranks[0].stdout if line.startswith(b"{")]
            if any([rank.wait() != 0 for rank in ranks]):
                sys.exit(1)
    for n_bytes in map(int, o.bytes.split(",")):
        print(f"{n_bytes} B")
        for name in list(found[0])[1:]:
            host, both = ([f[name][what] for f in found if f["bytes"] == n_bytes] for what in range(2))
            print(f"  {name}: host {describe(host, name != 'NCCL alone')},"
                  f" in all {describe(both, name != 'NCCL alone')} us")


if __name__ == "__main__":
    if sys.argv[1:] == ["--rank"]:
        be_rank()
    else:
        main()
