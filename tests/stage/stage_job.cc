// stage_job.cc - stage_job BYTES...: a job that is linked with the fake NCCL.
// Two ranks, threads with a GPU each, sum floats of each size five times; the
// last sum must be right.  stage_job opens FILE: a program that loads its NCCL
// by a path, and then opens libnccl.so.2; it prints what it got.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "fake_gpu.h"

#define DECLARE(result, name, parameters, arguments)                           \
    extern "C" result name parameters;
NCCL_MANAGING_CALLS(DECLARE)
NCCL_STAGED_CALLS(DECLARE)

namespace
{

enum { kRanks = 2, kTimes = 5 };

int n_wrong[kRanks];

void Run(int rank, ncclUniqueId id, const std::vector<size_t> &sizes)
{
    ncclComm_t comm;

    fake::EnterThread(rank);
    cudaStream_t stream = fake::NewStream();
    n_wrong[rank] += ncclCommInitRank(&comm, kRanks, id, rank) != ncclSuccess &&
                     getenv("NCCL_COMM_BLOCKING") == nullptr;
    for (size_t n_bytes : sizes) {
        std::vector<float> in(n_bytes / sizeof(float), 1.5f * (rank + 1)),
            out(in.size());

        for (int i = 0; i < kTimes; i++)
            n_wrong[rank] +=
                ncclAllReduce(in.data(), out.data(), in.size(), 7 /* float */,
                              0 /* sum */, comm, stream) != ncclSuccess;
        fake::Synchronize(stream);
        for (float x : out)
            n_wrong[rank] += x != 4.5f;
    }
    ncclCommDestroy(comm);
    fake::LeaveThread({});
}

int Open(const char *path)
{
    Dl_info info{};

    if (dlopen(path, RTLD_NOW) == nullptr)
        return 1;
    dladdr(dlsym(dlopen("libnccl.so.2", RTLD_NOW), "ncclGetVersion"), &info);
    printf("%s\n", info.dli_fname);
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "opens") == 0)
        return Open(argv[2]);

    std::vector<size_t> sizes;
    std::vector<std::thread> ranks;
    ncclUniqueId id;

    for (int i = 1; i < argc; i++)
        sizes.push_back(strtoull(argv[i], nullptr, 10));
    fake::BeginJob(1, kRanks);
    ncclGetUniqueId(&id);
    for (int r = 0; r < kRanks; r++)
        ranks.emplace_back(Run, r, id, std::cref(sizes));
    for (std::thread &rank : ranks)
        rank.join();
    printf("%d wrong, %d symmetric kernels%s\n", n_wrong[0] + n_wrong[1],
           static_cast<int>(fake::CountSymmetric()), fake::EndJob().c_str());
    return 0;
}
