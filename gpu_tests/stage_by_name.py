"""All-reduces of an NCCL that is opened by its name, as vLLM and JAX open it:

    steptune run --stage=RULES --nccl /path/of/libnccl.so.2 -- \\
        torchrun --nproc-per-node 4 stage_by_name.py

PyTorch has loaded its own NCCL by a path before that.  Each size is reduced eagerly and in a CUDA
graph, and every element is checked; rank 0 prints a line a size.  Status 1 after a wrong one.
"""
import argparse
import ctypes
import os
import sys

import torch
import torch.distributed as dist

FLOAT, SUM = 7, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def check(result):
    if result != 0:
        sys.exit(f"NCCL failed with result {result}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="65536,1048576,4194304", help="bytes")
    parser.add_argument("--times", type=int, default=20, help="in the graph, and eagerly")
    o = parser.parse_args()
    rank, n_ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("gloo")
    nccl = ctypes.CDLL("libnccl.so.2")
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                                   ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    nccl.ncclCommDestroy.argtypes = [ctypes.c_void_p]
    uid = UniqueId()
    if rank == 0:
        check(nccl.ncclGetUniqueId(ctypes.byref(uid)))
    box = [bytes(uid)]
    dist.broadcast_object_list(box, src=0)
    uid = UniqueId.from_buffer_copy(box[0])
    comm = ctypes.c_void_p()
    check(nccl.ncclCommInitRank(ctypes.byref(comm), n_ranks, uid, rank))

    def reduce(source, target):
        check(nccl.ncclAllReduce(source.data_ptr(), target.data_ptr(), source.numel(), FLOAT, SUM,
                                 comm, torch.cuda.current_stream().cuda_stream))

    n_wrong = 0
    for size in [int(s) for s in o.sizes.split(",")]:
        source = torch.arange(size // 4, device="cuda", dtype=torch.float32) % 1000 + rank
        expected = (torch.arange(size // 4, device="cuda", dtype=torch.float32) % 1000) * n_ranks
        expected += n_ranks * (n_ranks - 1) / 2
        target = torch.empty_like(source)
        for _ in range(o.times):
            reduce(source, target)
        torch.cuda.synchronize()
        wrong = int((target != expected).sum())
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(o.times):
                reduce(source, target)
        target.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph.replay()
        dist.barrier()
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        wrong += int((target != expected).sum())
        graph.reset()  # NCCL's destroy waits for graphs that have its kernels
        n_wrong += wrong
        if rank == 0:
            print(f"{size} bytes: {begin.elapsed_time(end) * 1e3 / o.times:.1f} us in a graph, "
                  f"{wrong} wrong", flush=True)
    check(nccl.ncclCommDestroy(comm))
    dist.destroy_process_group()
    return n_wrong != 0


if __name__ == "__main__":
    sys.exit(main())
