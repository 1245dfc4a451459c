"""What `steptune train` trains, by PyTorch: to be compared with, by torchrun.

The same layers, data, batches and precisions; DistributedDataParallel with its
buckets.  Prints a line for each epoch, and the mean step of all but the first:

    torchrun --nproc-per-node 4 torch_mlp.py --size base --precision bf16
"""
import argparse
import contextlib
import os

import torch
import torch.distributed as dist
from torch import nn

WIDTHS = {
    "tiny": [784, 64, 32, 10],
    "base": [784, 4096, 4096, 4096, 4096, 2048, 1024, 10],
    "large": [784, 8192, 8192, 8192, 8192, 4096, 2048, 10],
    "xlarge": [784, 16384, 16384, 16384, 8192, 4096, 2048, 10],
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=list(WIDTHS), default="base")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"],
                        default="fp32")
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--samples", type=int, default=65536)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--ga", type=int, default=1)
    parser.add_argument("--bucket-mb", type=float, default=25.0)
    return parser.parse_args()


def make_model(o, device):
    widths = WIDTHS[o.size]
    layers = []
    for k, n in zip(widths, widths[1:]):
        layers += [nn.Linear(k, n), nn.ReLU()]
    model = nn.Sequential(*layers[:-1]).to(device)
    if dist.get_world_size() == 1:
        return model
    return nn.parallel.DistributedDataParallel(
        model, device_ids=[device.index], bucket_cap_mb=o.bucket_mb,
        gradient_as_bucket_view=True)


def step(o, model, optimizer, x, y, amp):
    micro = x.shape[0] // o.ga
    total = torch.zeros((), device=x.device)
    for g in range(o.ga):
        last = g == o.ga - 1
        quiet = (contextlib.nullcontext() if last or not
                 hasattr(model, "no_sync") else model.no_sync())
        part = slice(g * micro, (g + 1) * micro)
        with quiet:
            with amp():
                loss = nn.functional.cross_entropy(model(x[part]), y[part])
            (loss / o.ga).backward()
        total += loss.detach() / o.ga
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    return total


def main():
    o = parse()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(42)
    torch.backends.cuda.matmul.allow_tf32 = o.precision == "tf32"
    model = make_model(o, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def amp():
        return torch.autocast("cuda", dtype=torch.bfloat16,
                              enabled=o.precision == "bf16")

    share = o.batch // dist.get_world_size()
    rows = o.samples // dist.get_world_size()
    x = torch.randn(rows, WIDTHS[o.size][0], device=device)
    y = torch.randint(0, WIDTHS[o.size][-1], (rows,), device=device)
    for _ in range(o.warmup):
        step(o, model, optimizer, x[:share], y[:share], amp)
    times = []
    for epoch in range(o.epochs):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        dist.barrier()
        torch.cuda.synchronize()
        begin.record()
        losses = [step(o, model, optimizer, x[i:i + share], y[i:i + share],
                       amp) for i in range(0, rows, share)]
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
        loss = torch.stack(losses).mean().item()
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}: {times[-1]:.4f} s, loss {loss:.6f}")
    if dist.get_rank() == 0:
        steps = o.samples // o.batch
        kept = times[1:] or times
        print(f"step {sum(kept) / len(kept) / steps * 1e3:.4f} ms")
    dist.destroy_process_group()


main()
