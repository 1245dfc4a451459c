// Steps of the ranks of a job, with and without the library.
#pragma once

#include "stage/jobs.h"

namespace stage_jobs
{

inline const Libraries &TheLibraries()
{
    static const Libraries libraries; // static TLS is scarce

    return libraries;
}

struct Step {
    int comm; // of two
    int coll;
    size_t n_bytes; // 1,536 are staged
    int stream;
};

constexpr Step Reduce(size_t n_bytes, int stream = 1, int comm = 0)
{
    return {comm, ncclFuncAllReduce, n_bytes, stream};
}

const Step kStaged = Reduce(1536), kPlain = Reduce(512);
const Step kGather = {0, ncclFuncAllGather, 1536, 1};
const Step kScatter = {0, ncclFuncReduceScatter, 1536, 1};

inline ncclResult_t RunStep(const Api &api, const Step &s, const void *in,
                            void *out, ncclComm_t comm, cudaStream_t stream)
{
    const size_t n = s.n_bytes / sizeof(float);

    return api.Collective(s.coll, in, out,
                          s.coll == ncclFuncAllReduce ? n : n / 2, 7, 0, comm,
                          stream);
}

// Two ranks, threads of a job.
inline void
OnTwoRanks(const char *version,
           const std::function<void(int, const ncclUniqueId &)> &run,
           uint64_t seed = 1)
{
    std::vector<std::thread> threads;
    ncclUniqueId id;

    setenv("FAKE_NCCL_VERSION", version, 1);
    fake::BeginJob(seed, 2);
    TheLibraries().plain->ncclGetUniqueId(&id);
    for (int r = 0; r < 2; r++)
        threads.emplace_back([&, r] {
            fake::EnterThread(r);
            run(r, id);
            fake::LeaveThread({});
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(fake::EndJob(), "");
}

} // namespace stage_jobs
