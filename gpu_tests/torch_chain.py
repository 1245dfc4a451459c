"""What a job loses where Steptune's plugin displaces another tuner, and keeps where it chains it.

A tensor-parallel stack, captured as a CUDA graph, with a new communicator for each arm of each
round, since NCCL loads another tuner only once all communicators of the last one are gone:

    below      the other tuner, as the job has it
    displaced  Steptune's plugin alone, without a policy, so that NCCL chooses
    chained    Steptune's plugin above the other tuner

Gains are ratios of step times to "below" of the same round, with 95 percent intervals, and the
results are compared with those of NCCL's own choice:

    torchrun --nproc-per-node 2 torch_chain.py --below THEIRS.so --plugin libnccl-tuner-steptune.so

Gains of 1 throughout say that the other tuner was not loaded, or decides nothing at this size.
"""
import argparse
import math
import os
import statistics

import torch
import torch.distributed as dist
import torch.nn.functional as F

ARMS = ("below", "displaced", "chained")


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--below", required=True, help="library of the other tuner")
    parser.add_argument("--plugin", required=True, help="libnccl-tuner-steptune.so")
    parser.add_argument("--mib", type=float, default=2, help="size of the activations")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--steps", type=int, default=60)
    return parser.parse_args()


def time_arm(o, arm, layers, x):
    """The mean step in ms of the GPU's clock, and what the stack computed."""
    os.environ.pop("NCCL_TUNER_CONFIG_FILE", None)
    below, plugin = os.path.abspath(o.below), os.path.abspath(o.plugin)
    os.environ["NCCL_TUNER_PLUGIN"] = below if arm == "below" else plugin
    os.environ["STEPTUNE_CHAIN"] = below if arm == "chained" else "none"
    group = dist.new_group(backend="nccl")

    def run():
        y = x
        for up, down in layers:
            z = F.gelu(y @ up) @ down
            dist.all_reduce(z, group=group)
            y = F.layer_norm(y + z, (o.width,))
        return y

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        result = run()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    for _ in range(o.steps // 2):
        graph.replay()
    torch.cuda.synchronize()
    dist.barrier()
    events[0].record()
    for _ in range(o.steps):
        graph.replay()
    events[1].record()
    torch.cuda.synchronize()
    kept = result.clone()
    del result
    graph.reset()  # NCCL waits for graphs that hold a communicator
    dist.destroy_process_group(group)
    return events[0].elapsed_time(events[1]) / o.steps, kept


def main():
    o = parse()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    make = {"device": "cuda", "dtype": torch.bfloat16}
    hidden = 4 * o.width // dist.get_world_size()
    layers = [(.02 * torch.randn(o.width, hidden, **make), .02 * torch.randn(hidden, o.width, **make))
              for _ in range(o.layers)]
    torch.manual_seed(1)
    x = torch.randn(int(o.mib * 2**20) // (2 * o.width), o.width, **make)
    times = {arm: [] for arm in ARMS}
    results = {}
    for i in range(-1, o.rounds):
        for arm in ARMS if i % 2 == 0 else reversed(ARMS):
            ms, results[arm] = time_arm(o, arm, layers, x)
            if i >= 0:
                times[arm].append(ms)
    if dist.get_rank() == 0:
        print(f"{o.mib:g} MiB: a step takes {statistics.median(times['below']):.4f} ms with the tuner "
              f"below, {o.rounds} rounds")
        for arm in ARMS[1:]:
            logs = [math.log(a / b) for a, b in zip(times["below"], times[arm])]
            mean, half = statistics.fmean(logs), 2.05 * statistics.stdev(logs) / math.sqrt(o.rounds)
            off = (results[arm] - results["displaced"]).abs().max().item()
            print(f"  {arm:10} {math.exp(mean):.4f}x as fast ({math.exp(mean - half):.4f} to "
                  f"{math.exp(mean + half):.4f}), greatest difference from NCCL's own {off:.3g}",
                  flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
