// The times of recorded machines, and of machines without records.
#include <cmath>
#include <numeric>
#include <tuple>

#include "support/mock_times.h"

using namespace mock_test;

namespace
{

double GridMean(const Machine &machine, const mock_run &run, double round)
{
    const int n = 4000; // .5 and .95 fall on the grid's edges
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += At(machine, run, round, (i + .5) / n).us;
    return sum / n;
}

TEST(H200x4Timings, SpreadAroundTheRecordedMeans)
{
    Machine machine = LoadMachine("h200x4");
    const size_t sizes[] = {8,       4096,    524288,     600000,
                            3905536, 9536512, kMiB * 1024};

    for (size_t n_bytes : sizes)
        for (int proto = 0; proto < NCCL_NUM_PROTOCOLS; proto++) {
            mock_run run = RingOf(n_bytes, proto);
            double sum = 0;
            for (double round : {0., .25, .5, .75})
                sum += GridMean(machine, run, round);
            double want = Mean(machine, run).us;
            EXPECT_NEAR(want, sum / 4, want * 1e-9) << n_bytes << " " << proto;
        }
}

// ---- the recording ----

using Key = std::tuple<std::string, size_t, int, int>;

TEST(H200x4Timings, ReproduceEveryInterleavedMean)
{
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl({});
    Comm comm = MakeComm(nccl, machine);
    std::map<Key, std::map<int, std::vector<double>>> rounds;
    for (const Row &row :
         ReadCsv(STP_FIXTURES "/machines/h200x4/timings.csv")) {
        if (row.at("run") != "window")
            continue;
        int coll = Find(kColls, row.at("collective"));
        size_t n_bytes = std::stoull(row.at("bytes"));
        int algo = Find(kAlgos, row.at("algorithm"));
        int proto = Find(kProtos, row.at("protocol"));
        if (algo < 0) {
            mock_call call = Call(static_cast<ncclFunc_t>(coll), n_bytes);
            mock_outcome chosen;
            ASSERT_EQ(ncclSuccess,
                      mock_comm_collective(comm.get(), &call, &chosen));
            algo = chosen.algo;
            proto = chosen.proto;
        }
        rounds[{row.at("collective"), n_bytes, algo, proto}]
              [std::stoi(row.at("round"))]
                  .push_back(std::stod(row.at("mean_us")));
    }
    ASSERT_EQ(228u, rounds.size());

    for (const auto &[key, by_round] : rounds) {
        const auto &[coll, n_bytes, algo, proto] = key;
        mock_run run{static_cast<ncclFunc_t>(Find(kColls, coll)), n_bytes, algo,
                     proto, 0};
        double sum = 0;
        for (const auto &[round, means] : by_round)
            sum += std::accumulate(means.begin(), means.end(), 0.) /
                   static_cast<double>(means.size());
        ASSERT_EQ(4u, by_round.size());
        mock_time got = Mean(machine, run);
        EXPECT_NEAR(sum / 4, got.us, 1e-9) << coll << " " << n_bytes;
        EXPECT_EQ(MOCK_TIME_RECORDED, got.source);
    }
}

TEST(H200x4Timings, ReproduceTheMeasuredGains)
{
    const struct {
        ncclFunc_t coll;
        size_t n_bytes;
        int proto; // of the ring that beats NCCL's choice
        double gain;
    } cases[] = {
        {ncclFuncAllGather, 3905536, NCCL_PROTO_LL128, 1.38},
        {ncclFuncReduceScatter, 3905536, NCCL_PROTO_LL, 1.20},
        {ncclFuncAllReduce, 9536512, NCCL_PROTO_LL128, 1.07},
    };
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl({});
    Comm comm = MakeComm(nccl, machine);

    for (const auto &c : cases) {
        mock_call call = Call(c.coll, c.n_bytes);
        mock_outcome chosen;
        ASSERT_EQ(ncclSuccess,
                  mock_comm_collective(comm.get(), &call, &chosen));
        mock_run forced{c.coll, c.n_bytes, NCCL_ALGO_RING, c.proto, 0};
        EXPECT_NEAR(c.gain,
                    Mean(machine, mock_outcome_run(&call, &chosen)).us /
                        Mean(machine, forced).us,
                    .01);
    }
}

// ---- no recording ----

TEST(MachineTime, RefusesWhatHasNone)
{
    // clang-format off
    const struct {
        mock_run run;
        double round;
        double iteration;
        const char *error;
    } cases[] = {
        {{ncclFuncAllGather, 8, NCCL_ALGO_TREE, NCCL_PROTO_LL, 0}, 0, 0, "no time for allgather with tree/ll: nothing was recorded on h200x4, and NCCL rules it out"},
        {{ncclFuncAllReduce, 8, -1, -1, 0}, 0, 0, "no time for collective 4, algorithm -1 and protocol -1"},
        {{static_cast<ncclFunc_t>(NCCL_NUM_TUNED_FUNCS), 8, 1, 0, 0}, 0, 0, "no time for collective 5, algorithm 1 and protocol 0"},
        {{ncclFuncAllReduce, 8, MOCK_NUM_WAYS, 0, 0}, 0, 0, "no time for collective 4, algorithm 15 and protocol 0"},
        {{ncclFuncAllReduce, 8, 1, NCCL_NUM_PROTOCOLS, 0}, 0, 0, "no time for collective 4, algorithm 1 and protocol 3"},
        {{ncclFuncAllReduce, 0, 1, 0, 0}, 0, 0, "no time for 0 bytes"},
        {{ncclFuncAllReduce, 8, 1, 0, -1}, 0, 0, "no time for -1 channels"},
        {{ncclFuncAllReduce, 8, 1, 0, 0}, 1, 0, "round 1 or iteration 0 is not in [0, 1)"},
        {{ncclFuncAllReduce, 8, 1, 0, 0}, -.5, 0, "round -0.5 or iteration 0 is not in [0, 1)"},
        {{ncclFuncAllReduce, 8, 1, 0, 0}, 0, 1, "round 0 or iteration 1 is not in [0, 1)"},
        {{ncclFuncAllReduce, 8, 1, 0, 0}, 0, -.5, "round 0 or iteration -0.5 is not in [0, 1)"},
        {{ncclFuncAllReduce, 8, 1, 0, 0}, 0, std::nan(""), "round 0 or iteration nan is not in [0, 1)"},
    };
    // clang-format on
    Machine machine = LoadMachine("h200x4");

    for (const auto &c : cases) {
        mock_time time{-1, MOCK_TIME_MODELLED};
        EXPECT_EQ(ncclInvalidArgument,
                  mock_machine_time(machine.get(), &c.run, c.round, c.iteration,
                                    &time));
        EXPECT_STREQ(c.error, mock_last_error());
        EXPECT_EQ(-1, time.us);
    }
}

} // namespace
