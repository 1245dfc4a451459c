"""A training job of PyTorch, to be started by torchrun with or without a tuner.

Trains a stack of linear layers on random data, data-parallel (ddp) or sharded
(fsdp), with fixed seeds, and writes the loss and the time of every step:

    torchrun --nproc-per-node 2 torch_job.py --mode ddp --steps 60 --out run.csv

Losses of two runs are the same bit for bit if every sum was made in the same
order.
"""
import argparse
import os

import torch
import torch.distributed as dist
from torch import nn


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=["ddp", "fsdp"], default="ddp")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--bucket-mb", type=float, default=25.0)
    parser.add_argument("--out", required=True)
    return parser.parse_args()


def make_model(o, device):
    blocks = [nn.Sequential(nn.Linear(o.width, 2 * o.width, bias=False),
                            nn.ReLU(),
                            nn.Linear(2 * o.width, o.width, bias=False))
              for _ in range(o.layers)]
    model = nn.Sequential(*blocks).to(device=device, dtype=torch.bfloat16)
    if o.mode == "ddp":
        return nn.parallel.DistributedDataParallel(
            model, device_ids=[device.index], bucket_cap_mb=o.bucket_mb,
            gradient_as_bucket_view=True)
    from torch.distributed.fsdp import fully_shard
    for block in model:
        fully_shard(block)
    return fully_shard(model)


def main():
    o = parse()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(42)
    torch.use_deterministic_algorithms(True)
    model = make_model(o, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator(device=device).manual_seed(7 + dist.get_rank())
    rows = []
    for step in range(o.steps):
        x = torch.randn(o.batch, o.width, device=device, dtype=torch.bfloat16,
                        generator=generator)
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        loss = (model(x) - x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        end.record()
        rows.append((step, loss.detach(), begin, end))
        if step % 8 == 7:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    if dist.get_rank() == 0:
        with open(o.out, "w", encoding="ascii") as out:
            out.write("step,loss,us\n")
            for step, loss, begin, end in rows:
                us = begin.elapsed_time(end) * 1e3
                out.write(f"{step},{loss.item().hex()},{us:.1f}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
