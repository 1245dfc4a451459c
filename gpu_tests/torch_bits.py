"""Whether a job computes the same bits with a policy as with NCCL alone, and what it gains.

DistributedDataParallel trains a small transformer in float32, deterministically, for STEPS
steps: once with NCCL alone and once with each policy that is given, in one process, in blocks
of steps that take turns, each step a CUDA graph (--eager: none). Prints for each policy in how
many steps the loss is another one, whether the parameters are in the end, and the gain of a
step with its 95 percent interval. Exit status 1 if the first policy changed any bit:

    torchrun --nproc-per-node 2 torch_bits.py --policy same.conf --other steptune.conf

The bytes of the all-reduces are printed, for `steptune sweep --bytes`; --sizes ends there.
"""
import argparse
import math
import os
import sys
import tempfile

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

WARMUP = 11  # that DistributedDataParallel wants before its step is captured


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", help="that keeps the bits")
    parser.add_argument("--other", action="append", default=[], help="another policy")
    parser.add_argument("--plugin", default="libnccl-tuner-steptune.so",
                        help="the tuner plugin, if NCCL_TUNER_PLUGIN is not set")
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--block", type=int, default=10, help="steps in a block")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=128, help="of a rank")
    parser.add_argument("--bucket-mb", type=float, default=4)
    return parser.parse_args()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        tokens, width = x.shape
        q, k, v = (part.view(tokens, width // 64, 64).transpose(0, 1)
                   for part in self.qkv(self.norms[0](x)).chunk(3, dim=1))
        scores = torch.softmax(q @ k.transpose(1, 2) / 8, dim=2)
        x = x + self.out((scores @ v).transpose(0, 1).reshape(tokens, width))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Job:
    """A model of its own, and its steps on one communicator."""

    def __init__(self, o, policy, device):
        os.environ["NCCL_TUNER_CONFIG_FILE"] = policy
        torch.manual_seed(7)
        model = nn.Sequential(*[Block(o.width) for _ in range(o.layers)]).to(device)
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.model = nn.parallel.DistributedDataParallel(
                model, device_ids=[device.index], bucket_cap_mb=o.bucket_mb,
                gradient_as_bucket_view=True,
                process_group=dist.new_group(list(range(dist.get_world_size()))))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, foreach=False)
        torch.manual_seed(dist.get_rank())
        self.x, self.target = (torch.randn(o.tokens, o.width, device=device) for _ in range(2))
        self.losses = torch.zeros(WARMUP + o.steps + 1, device=device)
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        with torch.cuda.stream(self.stream):
            for _ in range(WARMUP):
                self.step()
        torch.cuda.synchronize()
        self.graph = None
        if not o.eager and not o.sizes:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.step()
            self.run = self.graph.replay
        else:
            self.run = self.step

    def step(self):
        self.optimizer.zero_grad(set_to_none=False)
        loss = F.mse_loss(self.model(self.x), self.target)
        loss.backward()
        self.optimizer.step()
        self.losses.index_copy_(0, self.at, loss.detach().view(1))
        self.at.add_(1)

    def time_block(self, n):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        dist.barrier()
        with torch.cuda.stream(self.stream):
            begin.record()
            for _ in range(n):
                self.run()
            end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / n

    def sizes(self):
        data = self.model._get_ddp_logging_data()
        text = data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes", "")
        return text.replace(" ", "")


def gain(baseline, times):
    """The geometric mean of the blocks' ratios, and its interval."""
    logs = [math.log(a / b) for a, b in zip(baseline, times)]
    mean = sum(logs) / len(logs)
    variance = sum((v - mean)**2 for v in logs) / (len(logs) - 1)
    half = 2.1 * math.sqrt(variance / len(logs))
    return tuple(math.exp(v) for v in (mean, mean - half, mean + half))


def main():
    o = parse()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    if not o.sizes:
        os.environ.setdefault("NCCL_TUNER_PLUGIN", o.plugin)
    dist.init_process_group("nccl", device_id=device)
    with tempfile.NamedTemporaryFile("w") as nothing:
        nothing.write("# no rules\n")
        nothing.flush()
        jobs = [Job(o, nothing.name, device)]
    is_first = dist.get_rank() == 0
    if is_first:
        print("all-reduces of", jobs[0].sizes(), "bytes", flush=True)
    policies = [] if o.sizes else ([o.policy] if o.policy else []) + o.other
    for policy in policies:
        jobs.append(Job(o, os.path.abspath(policy), device))
    if policies:
        with open("/proc/self/maps") as maps:
            if "nccl-tuner-steptune" not in maps.read():
                sys.exit("NCCL loaded no Steptune plugin: set NCCL_TUNER_PLUGIN, or --plugin, "
                         "to the path of libnccl-tuner-steptune.so")
    times = [[] for _ in jobs]
    for block in range(o.steps // o.block if policies else 0):
        for i in range(len(jobs)):
            k = (i + block) % len(jobs)
            times[k].append(jobs[k].time_block(o.block))
    changed = False
    for i, policy in enumerate(policies, 1):
        alone, job = jobs[0], jobs[i]
        other = (alone.losses.view(torch.int32) != job.losses.view(torch.int32)).sum()
        weights = sum((a.view(torch.int32) != b.view(torch.int32)).sum() for a, b in zip(
            alone.model.parameters(), job.model.parameters()))
        counts = torch.stack([other, weights])
        dist.all_reduce(counts)
        changed |= i == 1 and bool(o.policy) and counts.sum().item() > 0
        if is_first:
            warm = slice(1, None)
            print("{}: {} of {} losses and {} parameters differ, gain {:.4f} ({:.4f} to {:.4f}), "
                  "a step takes {:.3f} ms with NCCL alone".format(
                      policy, counts[0].item(), job.at.item() * dist.get_world_size(),
                      counts[1].item(), *gain(times[0][warm], times[i][warm]),
                      sorted(times[0])[len(times[0]) // 2]), flush=True)
    torch.cuda.synchronize()
    dist.barrier()
    sys.stdout.flush()
    os._exit(1 if changed else 0)  # graphs hold the communicators


main()
