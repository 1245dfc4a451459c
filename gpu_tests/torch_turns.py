"""What the learning plugin is worth in a job, beside NCCL alone and a policy, in one process.

One process group each for NCCL alone (twice, to see how far equal ones differ), for a policy
and for the plugin that learns.  The last one runs by itself first, for LEARN seconds; then all
run the same steps in turns of TURN seconds, of which the later half counts: clocks follow what
a GPU does within some 0.1 s.  Gains are ratios of step times to NCCL alone of the same round,
with 95 percent intervals:

    torchrun --nproc-per-node 2 torch_turns.py --plugin libnccl-tuner-steptune-online.so step

Jobs: step (tensor-parallel layers in one stream), ddp (all-reduces of 4 MiB beside GEMMs), fsdp
(all-gathers and reduce-scatters), megatron (four kinds of messages), planted (all-gathers of 4
MiB between GEMMs of --rows rows, which say what share of a step a faster all-gather saves) and
small (all-reduces of --bytes, one after the other).

With --steps a job knows nothing of tuners: it runs so many steps and prints how long one takes,
to be the COMMAND of `steptune tune`, `run` or `compare`.
"""
import argparse
import math
import os
import statistics

import torch
import torch.distributed as dist
import torch.nn.functional as F

LAYERS = 12
BF16 = {"device": "cuda", "dtype": torch.bfloat16}


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=list(JOBS))
    parser.add_argument("--plugin", help="needed without --steps")
    parser.add_argument("--policy", help="also a group with this policy")
    parser.add_argument("--learn", type=float, default=4.0)
    parser.add_argument("--turn", type=float, default=0.6)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--journal", default="", help="what the plugin tried, a CSV")
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--bytes", type=int, default=100 << 10)
    parser.add_argument("--steps", type=int)
    o = parser.parse_args()
    if (o.plugin is None) == (o.steps is None):
        parser.error("expected either --plugin or --steps")
    return o


def randn(*shape):
    return torch.randn(*shape, **BF16)


class Step:
    def __init__(self, _):
        self.x = randn(512, 2048)
        self.weights = [(randn(2048, 12 * 2048) * .02, randn(12 * 2048, 2048) * .02)
                        for _ in range(LAYERS)]

    def __call__(self, group):
        y = self.x
        for a, b in self.weights:
            z = (y @ a) @ b
            dist.all_reduce(z, group=group)
            y = F.layer_norm(z, (2048,))


class Gemms:
    """Compute of three jobs: products of 4096 x 2048 x 2048, which take a GPU longer than it
    takes a host to launch them and the collectives between them."""

    def __init__(self, _, rows=4096):
        self.a, self.b = randn(rows, 2048), randn(2048, 2048) * .02
        self.c = torch.empty(rows, 2048, **BF16)

    def compute(self, n):
        for _ in range(n):
            torch.mm(self.a, self.b, out=self.c)


class Ddp(Gemms):
    def __init__(self, o):
        super().__init__(o)
        self.gradients = [torch.zeros(2 << 20, **BF16) for _ in range(LAYERS)]

    def __call__(self, group):
        works = []
        self.compute(LAYERS)
        for gradient in self.gradients:
            self.compute(2)
            works.append(dist.all_reduce(gradient, group=group, async_op=True))
        for work in works:
            work.wait()


class Fsdp(Gemms):
    def __init__(self, o):
        super().__init__(o)
        n = 2 << 20
        self.shards = [torch.zeros(n // dist.get_world_size(), **BF16) for _ in range(LAYERS)]
        self.full = [torch.zeros(n, **BF16) for _ in range(LAYERS)]

    def gather(self, i, group):
        return dist.all_gather_into_tensor(self.full[i], self.shards[i], group=group, async_op=True)

    def __call__(self, group):
        work = self.gather(0, group)
        for i in range(LAYERS):
            work.wait()
            if i + 1 < LAYERS:
                work = self.gather(i + 1, group)
            self.compute(2)
        works = []
        for shard, full in zip(self.shards, self.full):
            self.compute(2)
            works.append(dist.reduce_scatter_tensor(shard, full, group=group, async_op=True))
        for work in works:
            work.wait()


class Megatron(Gemms):
    def __init__(self, o):
        super().__init__(o)
        self.activations = torch.zeros(1 << 20, **BF16)
        self.sequence = torch.zeros(2 << 20, **BF16)
        self.shard = torch.zeros((2 << 20) // dist.get_world_size(), **BF16)
        self.norm = torch.zeros(128 << 10, **BF16)
        self.gradients = torch.zeros(8 << 20, **BF16)

    def __call__(self, group):
        for _ in range(LAYERS):
            self.compute(1)
            dist.all_reduce(self.activations, group=group)
            self.compute(1)
            dist.all_gather_into_tensor(self.sequence, self.shard, group=group)
            self.compute(1)
            dist.all_reduce(self.norm, group=group)
        dist.all_reduce(self.gradients, group=group)


class Planted(Gemms):
    def __init__(self, o):
        super().__init__(o, o.rows)
        self.full = torch.zeros(2 << 20, **BF16)
        self.shard = torch.zeros((2 << 20) // dist.get_world_size(), **BF16)

    def __call__(self, group):
        for _ in range(LAYERS):
            self.compute(1)
            dist.all_gather_into_tensor(self.full, self.shard, group=group)


class Small:
    def __init__(self, o):
        self.norms = torch.zeros(o.bytes // 2, **BF16)

    def __call__(self, group):
        for _ in range(LAYERS):
            dist.all_reduce(self.norms, group=group)


JOBS = {"step": Step, "ddp": Ddp, "fsdp": Fsdp, "megatron": Megatron, "planted": Planted,
        "small": Small}


def make_group(o, way):
    os.environ["STEPTUNE_FREEZE"] = "0" if way == "learns" else "1"
    os.environ["STEPTUNE_WARM_START"] = o.policy if way == "policy" else "none"
    os.environ["STEPTUNE_JOURNAL"] = o.journal if way == "learns" else ""
    group = dist.new_group(backend="nccl")
    dist.all_reduce(torch.ones(1, device="cuda"), group=group)
    torch.cuda.synchronize()
    dist.barrier()
    return group


def time_steps(step, group, n_before, n):
    """Milliseconds of a step, by the GPU's clock, of the last n."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    torch.cuda.synchronize()
    dist.barrier()
    for i in range(n_before + n):
        if i == n_before:
            events[0].record()
        step(group)
    events[1].record()
    torch.cuda.synchronize()
    return events[0].elapsed_time(events[1]) / n


def agree(number):
    box = [number]
    dist.broadcast_object_list(box)
    return box[0]


def describe_gain(name, before, after):
    logs = [math.log(a / b) for a, b in zip(before, after)]
    mean = statistics.fmean(logs)
    t975 = {4: 2.776, 5: 2.571, 9: 2.262, 11: 2.201, 14: 2.145, 19: 2.093}.get(len(logs) - 1, 2.1)
    half = t975 * statistics.stdev(logs) / math.sqrt(len(logs))
    return (f"{name}: step {statistics.median(after):.4f} ms, {math.exp(mean):.4f}x as fast "
            f"({math.exp(mean - half):.4f} to {math.exp(mean + half):.4f})")


def run_alone(o):
    """Steps in blocks of 50; the launcher, and what it starts, may end them at any time."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    step = JOBS[o.job](o)
    times = [time_steps(step, None, 0, 50) for _ in range(math.ceil(o.steps / 50))]
    if dist.get_rank() == 0:
        print(f"step: {statistics.median(times[len(times) // 4:]):.4f} ms", flush=True)
    dist.destroy_process_group()


def main():
    o = parse()
    if o.steps is not None:
        run_alone(o)
        return
    os.environ["NCCL_TUNER_PLUGIN"] = os.environ["NCCL_PROFILER_PLUGIN"] = o.plugin
    os.environ["STEPTUNE_LEARNED"] = "/dev/null"
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("gloo")
    torch.manual_seed(42 + dist.get_rank())
    step = JOBS[o.job](o)
    ways = ["alone", "alone again"] + (["policy"] if o.policy else []) + ["learns"]
    groups = {way: make_group(o, way) for way in ways}
    alone = time_steps(step, groups["alone"], 50, 200)
    n = agree(max(10, math.ceil(o.turn * 500 / alone)))
    alone = time_steps(step, groups["alone"], n, n)
    n_learn = agree(math.ceil(o.learn * 1000 / alone))
    first = time_steps(step, groups["learns"], 0, n_learn)
    times = {way: [] for way in ways}
    for i in range(o.rounds):
        for way in ways if i % 2 == 0 else reversed(ways):
            times[way].append(time_steps(step, groups[way], n, n))
    if dist.get_rank() == 0:
        alone = statistics.median(times["alone"])
        print(f"{o.job}: NCCL alone {alone:.4f} ms a step; first {n_learn} steps of the learning "
              f"group {first:.4f} ms, {(first - alone) * n_learn:+.1f} ms in all", flush=True)
        for way in ways[1:]:
            print(describe_gain(way, times["alone"], times[way]), flush=True)
    for group in groups.values():
        dist.destroy_process_group(group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
