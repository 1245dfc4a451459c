"""What a policy and registered buffers are worth to a PyTorch job.

A tensor-parallel stack of LAYERS layers, whose activations (tokens x width, bf16) all ranks
sum up after each layer, as one CUDA graph a step. At each size of the activations the same
step runs in four ways, in one process and in blocks that take turns:

    alone    NCCL alone
    again    the same once more: by how much equal steps differ here
    policy   the policy
    memory   the policy, and buffers registered where steptune_memory.wants() says so

Prints for each the gain over the first, with its 95 percent interval, and the greatest
difference between its result and that of the first, in units of the largest result:

    torchrun --nproc-per-node 2 torch_memory.py --policy steptune.conf

The memory policy is the policy's, with .memory behind its name, or --memory FILE.
"""
import argparse
import functools
import math
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../src/python"))
import steptune_memory  # noqa: E402

WAYS = ("alone", "again", "policy", "memory")


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", required=True)
    parser.add_argument("--memory")
    parser.add_argument("--plugin", default="libnccl-tuner-steptune.so",
                        help="the tuner plugin, if NCCL_TUNER_PLUGIN is not set")
    parser.add_argument("--min-ctas", type=int,
                        help="ncclConfig_t.minCTAs of the communicator that registers buffers "
                        "(default: as the memory policy says)")
    parser.add_argument("--mib", default="1,2,4,8,16", help="sizes of the activations")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=30, help="blocks of each way")
    parser.add_argument("--block", type=int, default=10, help="steps in a block")
    return parser.parse_args()


def make_group(policy, setup=steptune_memory.Setup("plain", 0)):
    """A communicator of its own, for which the plugin reads the policy, and of that setup."""
    os.environ["NCCL_TUNER_CONFIG_FILE"] = policy
    options = steptune_memory.options(setup)
    group = dist.new_group(list(range(dist.get_world_size())), pg_options=options)
    dist.all_reduce(torch.ones(1, device="cuda"), group=group)
    torch.cuda.synchronize()
    return group


def make_groups(o):
    """NCCL alone has the plugin, too, with a policy without rules."""
    with tempfile.NamedTemporaryFile("w") as nothing:
        nothing.write("# no rules\n")
        nothing.flush()
        groups = {way: make_group(nothing.name) for way in WAYS[:2]}
    groups["policy"] = make_group(os.path.abspath(o.policy))
    with open("/proc/self/maps") as maps:
        if "nccl-tuner-steptune" not in maps.read():
            sys.exit("NCCL loaded no Steptune plugin: set NCCL_TUNER_PLUGIN, or --plugin, "
                     "to the path of libnccl-tuner-steptune.so")
    return groups


class Step:
    """The stack at one size, with one group and one buffer for its sums."""

    def __init__(self, layers, x, z, group):
        self.layers, self.x, self.z, self.group = layers, x, z, group
        self.y = None
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.run()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.run()

    def run(self):
        y = self.x
        for up, down in self.layers:
            torch.mm(F.gelu(y @ up), down, out=self.z)
            dist.all_reduce(self.z, group=self.group)
            y = F.layer_norm(y + self.z, (y.shape[1],))
        self.y = y

    def result(self):
        self.graph.replay()
        return self.y.float()


def make_layers(o):
    hidden = 4 * o.width // dist.get_world_size()
    make = functools.partial(torch.randn, device="cuda", dtype=torch.bfloat16)
    torch.manual_seed(dist.get_rank())
    return [(0.02 * make(o.width, hidden), 0.02 * make(hidden, o.width))
            for _ in range(o.layers)]


def make_steps(o, groups, layers, n_bytes, memory):
    tokens = n_bytes // (2 * o.width)
    kind = {"dtype": torch.bfloat16}
    torch.manual_seed(1)
    x = torch.randn(tokens, o.width, device="cuda", **kind)
    buffers = steptune_memory.pool(groups["memory"], n_bytes, memory)
    steps = {}
    for way in WAYS:
        z = (buffers.empty(tokens, o.width, **kind) if way == "memory" else
             torch.empty(tokens, o.width, device="cuda", **kind))
        steps[way] = Step(layers, x, z, groups[way])
    return steps, buffers


# ---- times ----

def time_block(step, n_steps, device):
    """The mean step of a block, in ms of the GPU's clock."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    dist.barrier(device_ids=[device])
    begin.record()
    for _ in range(n_steps):
        step.graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / n_steps


def measure(o, steps, device):
    times = {way: [] for way in WAYS}
    for way in WAYS * 2:
        time_block(steps[way], o.block, device)
    for i in range(o.rounds):
        order = WAYS[i % 4:] + WAYS[:i % 4]
        for way in order if i // 4 % 2 == 0 else reversed(order):
            times[way].append(time_block(steps[way], o.block, device))
    return times


def quantile(freedom):
    """Student's, for 95 percent on both sides; within 0.5 percent from 5 on."""
    z = 1.959964
    return (z + (z**3 + z) / (4 * freedom)
            + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2))


def gain(baseline, times):
    """The geometric mean of the rounds' ratios, and its interval."""
    logs = [math.log(a / b) for a, b in zip(baseline, times)]
    mean = sum(logs) / len(logs)
    variance = sum((v - mean)**2 for v in logs) / (len(logs) - 1)
    half = quantile(len(logs) - 1) * math.sqrt(variance / len(logs))
    return tuple(math.exp(v) for v in (mean, mean - half, mean + half))


def setup_name(setup):
    return setup.memory + (f", minCTAs {setup.min_ctas}" if setup.min_ctas else "")


def report(n_bytes, setup, times, differences):
    alone = sorted(times["alone"])[len(times["alone"]) // 2]
    print(f"{n_bytes / 2**20:g} MiB: a step takes {alone:.3f} ms with NCCL alone")
    for way in WAYS[1:]:
        name = f"memory ({setup_name(setup)})" if way == "memory" else way
        print("  {:24} gain {:.4f} ({:.4f} to {:.4f}), greatest difference {:.3g}".format(
            name, *gain(times["alone"], times[way]), differences[way]), flush=True)


def compare_results(steps):
    """The greatest difference from NCCL alone on any rank."""
    alone = steps["alone"].result()
    scale = alone.abs().max()
    differences = {}
    for way in WAYS[1:]:
        most = (steps[way].result() - alone).abs().max() / scale
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        differences[way] = most.item()
    return differences


def main():
    o = parse()
    if o.rounds < 6:
        sys.exit("--rounds is below 6, too few for an interval")
    device = int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()
    torch.cuda.set_device(device)
    # With device_id the first communicator is made here, and NCCL that found no plugin for
    # it looks for none again.
    os.environ.setdefault("NCCL_TUNER_PLUGIN", o.plugin)
    dist.init_process_group("nccl", device_id=torch.device("cuda", device))
    policy = steptune_memory.load(o.memory or o.policy + ".memory")
    groups = make_groups(o)
    made = {steptune_memory.Setup("plain", 0): groups["policy"]}
    layers = make_layers(o)
    kept = []  # pools and graphs: NCCL knows them until the process ends
    for mib in o.mib.split(","):
        n_bytes = int(float(mib) * 2**20)
        setup = policy.setup("allreduce", n_bytes)
        if o.min_ctas is not None:
            setup = setup._replace(min_ctas=o.min_ctas)
        if setup not in made:
            made[setup] = make_group(os.path.abspath(o.policy), setup)
        groups["memory"] = made[setup]
        steps, buffers = make_steps(o, groups, layers, n_bytes, setup.memory)
        kept.append((steps, buffers))
        differences = compare_results(steps)
        times = measure(o, steps, device)
        if dist.get_rank() == 0:
            report(n_bytes, setup, times, differences)
    torch.cuda.synchronize()
    dist.barrier(device_ids=[device])
    sys.stdout.flush()
    os._exit(0)  # destroying communicators waits for graphs that hold them


main()
