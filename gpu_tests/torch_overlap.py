"""A job whose all-reduces overlap with GEMMs, as in DDP, and which the GPU bounds.

Each step has LAYERS GEMMs of M x N x K in bf16, each followed by an all-reduce of BYTES on
another stream; the next step begins when all of them have ended. NCCL is called through
ctypes, as PyTorch's process group takes longer to launch than these kernels run. Prints the
mean step of the last half by GPU clock:

    torchrun --nproc-per-node 2 torch_overlap.py --gemm 4096,4096,704 --bytes 8388608
"""
import argparse
import ctypes
import os

import torch
import torch.distributed as dist

NCCL_BFLOAT16, NCCL_SUM = 9, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 128)]


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gemm", default="4096,4096,704")
    parser.add_argument("--bytes", type=int, default=8 << 20)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10000)
    return parser.parse_args()


def check(status):
    if status != 0:
        raise RuntimeError(f"NCCL failed with status {status}")


def make_communicator(nccl):
    unique = UniqueId()
    if dist.get_rank() == 0:
        check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
    words = [bytes(unique)]
    dist.broadcast_object_list(words)
    ctypes.memmove(ctypes.byref(unique), words[0], 128)
    comm = ctypes.c_void_p()
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    check(nccl.ncclCommInitRank(ctypes.byref(comm), dist.get_world_size(), unique, dist.get_rank()))
    nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                                   ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    return comm


def main():
    o = parse()
    m, n, k = (int(side) for side in o.gemm.split(","))
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("gloo")
    torch.manual_seed(42)
    kind = {"device": device, "dtype": torch.bfloat16}
    a, b = torch.randn(m, k, **kind), torch.randn(k, n, **kind)
    c = torch.empty(m, n, **kind)
    gradients = [torch.zeros(o.bytes // 2, **kind) for _ in range(o.layers)]
    nccl = ctypes.CDLL("libnccl.so.2")
    comm = make_communicator(nccl)
    compute, network = torch.cuda.Stream(), torch.cuda.Stream()
    done = [torch.cuda.Event() for _ in range(o.layers)]
    torch.cuda.synchronize()

    def step():
        for gradient, event in zip(gradients, done):
            torch.mm(a, b, out=c)
            event.record(compute)
            network.wait_event(event)
            check(nccl.ncclAllReduce(gradient.data_ptr(), gradient.data_ptr(), o.bytes // 2,
                                     NCCL_BFLOAT16, NCCL_SUM, comm, network.cuda_stream))
        compute.wait_stream(network)

    half = o.steps // 2
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    with torch.cuda.stream(compute):
        for i in range(o.steps):
            if i == half:
                events[0].record()
            step()
        events[1].record()
    torch.cuda.synchronize()
    if dist.get_rank() == 0:
        ms = events[0].elapsed_time(events[1]) / (o.steps - half)
        print(f"step {ms:.5f} ms", flush=True)
    dist.barrier()
    nccl.ncclCommDestroy(comm)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
