"""A Hugging Face Llama with random weights, as a job that knows nothing of any tuner.

--mode forward: tensor parallelism (tp_plan="auto"), the forward pass as one CUDA graph at each
number of --tokens; every rank prints a hash of its logits, rank 0 the median time of a pass:

    torchrun --nproc-per-node 4 torch_llama.py --tokens 256,512 --out run.csv

--mode fsdp or ddp: trains a smaller model for --steps on fixed random tokens, eagerly or with
--compile, and writes loss and time of each step.  The first run writes the weights of the
forward pass to --weights, which later runs read.
"""
import argparse
import hashlib
import os
import statistics
import sys

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=["forward", "fsdp", "ddp"], default="forward")
    parser.add_argument("--tokens", default="64,128,256,512,1024")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--eager", action="store_true", help="forward without a CUDA graph")
    parser.add_argument("--blocks", type=int, default=12, help="blocks of 20 passes that are timed")
    parser.add_argument("--steps", type=int, default=30, help="of training")
    parser.add_argument("--compile", action="store_true", help="torch.compile the training step")
    parser.add_argument("--weights", default="/dev/shm/steptune_llama")
    parser.add_argument("--out", help="a CSV of what rank 0 timed")
    return parser.parse_args()


def make_config(o):
    return LlamaConfig(hidden_size=o.width, intermediate_size=11 * o.width // 4 // 64 * 64,
                       num_hidden_layers=o.layers, num_attention_heads=o.width // 128,
                       num_key_value_heads=o.width // 128, vocab_size=32000,
                       max_position_embeddings=4096, use_cache=False)


def write_weights(o, rank):
    """Random weights, written by rank 0 where no earlier run did."""
    if rank == 0 and not os.path.exists(os.path.join(o.weights, "config.json")):
        torch.manual_seed(1)
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("cuda"):
            model = LlamaForCausalLM(make_config(o))
        model.save_pretrained(o.weights)
        del model
        torch.cuda.empty_cache()
        torch.set_default_dtype(torch.float32)
    dist.barrier()


def pass_times(run, blocks):
    """Microseconds of a pass, a number a block of 20, by the GPU's clock."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    times = []
    for _ in range(blocks):
        torch.cuda.synchronize()
        dist.barrier()
        events[0].record()
        for _ in range(20):
            run()
        events[1].record()
        torch.cuda.synchronize()
        times.append(events[0].elapsed_time(events[1]) * 1e3 / 20)
    return times


@torch.no_grad()
def time_forward(o, rank, device):
    write_weights(o, rank)
    model = AutoModelForCausalLM.from_pretrained(o.weights, tp_plan="auto", dtype=torch.bfloat16,
                                                 attn_implementation="sdpa").eval()
    rows = []
    for n in map(int, o.tokens.split(",")):
        generator = torch.Generator().manual_seed(n)
        ids = torch.randint(0, 32000, (1, n), generator=generator).to(device)
        box = {}

        def step():
            box["logits"] = model(input_ids=ids, use_cache=False).logits

        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                step()
        torch.cuda.synchronize()
        run = step
        if not o.eager:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            run = graph.replay
        pass_times(run, 2)
        times = pass_times(run, o.blocks)
        logits = box["logits"]
        if hasattr(logits, "full_tensor"):
            logits = logits.full_tensor()
        digest = hashlib.sha256(logits.float().cpu().numpy().tobytes()).hexdigest()[:16]
        digests = [None] * dist.get_world_size()
        dist.all_gather_object(digests, digest)
        rows.append((n, statistics.median(times), len(set(digests)) == 1, digest,
                     float(logits.float().abs().mean())))
        if rank == 0:
            print(f"{n} tokens: {rows[-1][1]:.1f} us a pass, logits {digest}, "
                  f"{'equal' if rows[-1][2] else 'NOT EQUAL'} on all ranks, "
                  f"mean {rows[-1][4]:.6f}", flush=True)
    return "tokens,us,equal,logits,mean", rows


def train(o, rank, device):
    torch.manual_seed(1)
    model = LlamaForCausalLM(make_config(o)).to(device=device, dtype=torch.bfloat16)
    if o.mode == "fsdp":
        from torch.distributed.fsdp import fully_shard
        for layer in model.model.layers:
            fully_shard(layer)
        fully_shard(model)
    else:
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index],
                                                          gradient_as_bucket_view=True)
    run = torch.compile(model) if o.compile else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(7 + rank)
    rows = []
    for step in range(o.steps):
        ids = torch.randint(0, 32000, (4, 512), generator=generator).to(device)
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record()
        loss = run(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        events[1].record()
        torch.cuda.synchronize()
        rows.append((step, events[0].elapsed_time(events[1]) * 1e3, loss.item().hex()))
    if rank == 0:
        late = [us for _, us, _ in rows[o.steps // 3:]]
        print(f"{o.mode}{' compiled' if o.compile else ''}: {statistics.median(late):.1f} us a "
              f"step, last loss {float.fromhex(rows[-1][2]):.6f}", flush=True)
    return "step,us,loss", rows


def main():
    o = parse()
    # several ranks on a GPU (NCCL_MULTI_RANK_GPU_ENABLE=1): transformers reads the variable, too
    os.environ["LOCAL_RANK"] = str(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    rank = dist.get_rank()
    head, rows = time_forward(o, rank, device) if o.mode == "forward" else train(o, rank, device)
    if rank == 0 and o.out:
        with open(o.out, "w", encoding="ascii") as out:
            out.write(head + "\n")
            out.writelines(",".join(map(str, row)) + "\n" for row in rows)
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
