// Machines with an overlap.csv, and queries of them.
#pragma once

#include <algorithm>

#include <gmock/gmock.h>

#include "support/mock_folder.h"
#include "support/mock_times.h"

namespace mock_test
{

inline mock_overlap Beside(const Machine &machine, const mock_run &run,
                           double compute_us, double round = 0,
                           double iteration = .5,
                           mock_mode mode = MOCK_MODE_OVERLAP)
{
    mock_overlap overlap{-1, -1, -1, MOCK_TIME_RECORDED};
    EXPECT_EQ(ncclSuccess,
              mock_machine_overlap(machine.get(), &run, mode, compute_us, round,
                                   iteration, &overlap))
        << mock_last_error();
    return overlap;
}

// NCCL's own choice.
inline mock_run OwnChoice(const Machine &machine, size_t n_bytes)
{
    static const Nccl nccl = MakeNccl({});
    Comm comm = MakeComm(nccl, machine);
    mock_call call = Call(ncclFuncAllReduce, n_bytes);
    mock_outcome out;

    EXPECT_EQ(ncclSuccess, mock_comm_collective(comm.get(), &call, &out));
    return {ncclFuncAllReduce, n_bytes, out.algo, out.proto, 0};
}

inline constexpr char kHeader[] =
    "collective,bytes,algorithm,protocol,channels,nRanks,run,round,iters,"
    "layers,compute_us,mean_us,median_us,p95_us,min_us\n";

// An h200x4 on which these collectives take 10 us without overlap, and which
// has recorded iterations of two layers that overlap them: compute + max +
// collective + min x (slowdown - 1).
class Overlap : public testing::Test
{
  protected:
    void Add(const std::string &arm, int round, double compute_us,
             double slowdown)
    {
        AddMean(arm, round, compute_us,
                compute_us + std::max(compute_us, 10.) + 10 +
                    std::min(compute_us, 10.) * (slowdown - 1));
    }
    void AddMean(const std::string &arm, int round, double compute_us,
                 double mean)
    {
        std::stringstream row;
        row.precision(17);
        row << arm << ",4,o," << round << ",9,2," << compute_us << "," << mean
            << "," << mean << "," << mean << "," << mean << "\n";
        rows_ += row.str();
    }
    Machine Load()
    {
        std::string timings = kTimingsHeader;
        for (const char *pair : {"ring,simple,0", "ring,simple,8", "ring,ll,0",
                                 "ring,ll128,0", "tree,simple,0", "ce,ce,0"})
            for (const char *n_bytes : {"1048576", "67108864"})
                for (const char *round : {"1", "2"})
                    timings += "allreduce," + std::string(n_bytes) + "," +
                               pair + ",4,w," + round + ",9,10,10,10,10\n";
        folder_.Write("timings.csv", timings);
        if (!rows_.empty())
            folder_.Write("overlap.csv", kHeader + rows_);
        return LoadFolder(folder_.Path());
    }
    // The error of loading the folder, without its name.
    std::string Error()
    {
        mock_machine *machine = nullptr;
        folder_.Write("overlap.csv", kHeader + rows_);
        EXPECT_NE(ncclSuccess,
                  mock_machine_load(folder_.Path().c_str(), &machine));
        std::string error = mock_last_error();
        size_t at = error.find("overlap.csv");
        return at == std::string::npos ? error : error.substr(at);
    }

    Folder folder_;
    std::string rows_;
};

inline constexpr char kSimple4[] = "allreduce,4194304,ring,simple,0";
inline constexpr char kSimple16[] = "allreduce,16777216,ring,simple,0";

} // namespace mock_test
