"""A tensor-parallel step whose all-reduces use registered buffers where a
memory policy says that they are faster; otherwise the same program.

    steptune tune -o steptune.conf
    NCCL_TUNER_CONFIG_FILE=steptune.conf \\
        torchrun --nproc-per-node 2 tensor_parallel.py
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import steptune_memory  # noqa: E402

TOKENS, WIDTH, LAYERS = 512, 2048, 8


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    hidden = 2 * WIDTH // dist.get_world_size()
    options = {"device": device, "dtype": torch.bfloat16}
    layers = [(0.02 * torch.randn(WIDTH, hidden, **options),
               0.02 * torch.randn(hidden, WIDTH, **options))
              for _ in range(LAYERS)]

    # Activations that all ranks sum up, one after the other in one buffer.
    n_bytes = TOKENS * WIDTH * 2
    setup = steptune_memory.setup("allreduce", n_bytes)
    group = dist.new_group(pg_options=steptune_memory.options(setup))
    with steptune_memory.pool(group, n_bytes, setup.memory) as buffers:
        z = buffers.empty(TOKENS, WIDTH, dtype=torch.bfloat16)
        x = torch.ones(TOKENS, WIDTH, **options)
        with torch.no_grad():
            for up, down in layers:
                torch.mm(F.gelu(x @ up), down, out=z)
                dist.all_reduce(z, group=group)
                x = F.layer_norm(x + z, (WIDTH,))
        if dist.get_rank() == 0:
            print(f"buffers are {setup.memory}; mean {x.abs().mean().item():.6f}")
    dist.destroy_process_group()


main()
