"""FSDP2 whose buffers are registered where a memory policy says that this is
faster.  fully_shard() allocates them itself, and has a switch for each block.

    steptune tune -o steptune.conf
    NCCL_TUNER_CONFIG_FILE=steptune.conf \\
        torchrun --nproc-per-node 2 fsdp2.py
"""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import steptune_memory  # noqa: E402

WIDTH, BLOCKS, STEPS = 2048, 4, 3


def find_setups(block):
    """What suits the block's all-gathers and reduce-scatters, which run while
    other blocks compute."""
    n_bytes = sum(p.numel() * p.element_size() for p in block.parameters())
    return [steptune_memory.setup(op, n_bytes, overlap=True)
            for op in ("allgather", "reducescatter")]


def make_mesh(setups):
    """All ranks, in a group of as many CTAs as the setups want; of the fewest
    where they differ, as both collectives run in one group."""
    setup = min(setups, key=lambda setup: setup.min_ctas)
    group = dist.new_group(pg_options=steptune_memory.options(setup))
    return DeviceMesh.from_group(group, "cuda")


def shard(block, mesh, setups):
    """fully_shard(), with the registration that suits the block's size.

    One switch is for both collectives: it is set where both are to be
    registered.  NCCL moves registered buffers for sums only, so that FSDP
    divides apart."""
    wanted = {setup.memory for setup in setups}
    fully_shard(block, mesh=mesh)
    if "plain" in wanted:
        return
    block.set_force_sum_reduction_for_comms(True)
    if "reg" not in wanted and hasattr(block, "set_symm_mem_for_comm"):
        block.set_symm_mem_for_comm()  # windows; recent PyTorch
    else:  # NCCL's allocator and ncclCommRegister(), where GPUs have multicast
        block.set_allocate_memory_from_process_group_for_comm(True)


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(1)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU())
                            for _ in range(BLOCKS)])
    model = model.to(device, torch.bfloat16)
    setups = find_setups(model[0])  # the blocks are equal
    mesh = make_mesh(setups)
    for block in model:
        shard(block, mesh, setups)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.ones(256, WIDTH, device=device, dtype=torch.bfloat16)
    for step in range(STEPS):
        loss = model(x).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.6f}")
    dist.destroy_process_group()


main()
