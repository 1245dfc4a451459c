// Training iterations on the GPUs of this host: every mode and kind of compute,
// as launches and as CUDA graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

extern "C" {
#include "bench/iterate.h"
#include "core/names.h"
}

#include "gpu_engines.h"

namespace
{

constexpr uint64_t kBytes = 16 << 20; // of 1 MiB launches are the most
constexpr unsigned kLayers = 2;
constexpr unsigned kRounds = 2;
constexpr unsigned kIters = 20;
constexpr int kModes[] = {STP_MODE_SEQUENTIAL, STP_MODE_OVERLAP, STP_MODE_FSDP};

struct Case {
    int compute;
    unsigned graph; // launches
};

std::string ArmName(const stp_arm &arm)
{
    char name[STP_ARM_NAME];
    stp_arm_name(&arm, name);
    return name;
}

// The measurements of one case.
struct Measured {
    unsigned n_ranks = 0;
    std::vector<stp_measurement> rows;
    std::vector<double> sample_us;
    std::map<std::pair<int, std::string>, bool> runs; // by mode and arm
};

// Opens the GPUs for one case and measures all modes.
class Machine
{
  public:
    explicit Machine(const Case &c) : case_(c)
    {
    }

    ~Machine()
    {
        stp_iterations_free(&out_);
        stp_device_close(&device_);
    }

    void Measure(Measured *measured)
    {
        ASSERT_NO_FATAL_FAILURE(Open());
        measured->n_ranks = info_.n_ranks;
        if (info_.n_ranks == 1)
            return;
        ASSERT_EQ(STP_OK,
                  stp_arms_parse("auto,auto2,simple,ll128", &arms_, &err_));
        for (int mode : kModes)
            for (size_t a = 0; a < arms_.n; a++)
                measured->runs[{mode, ArmName(arms_.arm[a])}] =
                    Runs(arms_.arm[a], mode);
        ASSERT_NO_FATAL_FAILURE(Run());
        measured->rows.assign(out_.data.rows,
                              out_.data.rows + out_.data.n_rows);
        measured->sample_us.assign(out_.sample_us,
                                   out_.sample_us + out_.n_samples);
    }

  private:
    void Open()
    {
        stp_device_options options{};

        options.max_bytes = 2 * kBytes; // sizes are rounded up
        options.graph = case_.graph > 0;
        options.time_limit_s = 60;
        ASSERT_EQ(STP_OK, OpenGpuDevice(&options, &device_, &err_))
            << err_.text;
        stp_device_get_info(&device_, &info_);
    }

    void Run()
    {
        const stp_sizes sizes{{kBytes}, 1};
        const double ratio = 1;
        stp_iterate_plan plan{};

        plan.modes = kModes;
        plan.n_modes = std::size(kModes);
        plan.sizes = &sizes;
        plan.ratios = &ratio;
        plan.n_ratios = 1;
        plan.compute = case_.compute;
        plan.coll = ncclFuncAllReduce;
        plan.arms = &arms_;
        for (int mode : kModes)
            plan.layers[mode] = kLayers;
        plan.rounds = kRounds;
        plan.warmup = 5;
        plan.iters = kIters;
        plan.graph = case_.graph;
        plan.type = STP_TYPE_BF16;
        plan.op = STP_OP_SUM;
        plan.alone = true;
        plan.rotate = true;
        ASSERT_EQ(STP_OK, stp_iterate_run(&device_, &plan, nullptr, nullptr,
                                          &out_, &err_))
            << err_.text;
    }

    // Whether NCCL takes the arm for one of the collectives of a mode.
    bool Runs(const stp_arm &arm, int mode)
    {
        stp_workload work{};
        stp_collective collective{};
        stp_collective colls[STP_MAX_LAYER_COLLS];
        bool runs = false;

        work.mode = mode;
        work.compute = case_.compute;
        collective.coll = ncclFuncAllReduce;
        collective.n_bytes = kBytes / (2 * info_.n_ranks) * (2 * info_.n_ranks);
        collective.type = STP_TYPE_BF16;
        const size_t n = stp_workload_collectives(&work, &collective, colls);
        EXPECT_EQ(STP_OK, stp_device_select_arm(&device_, &arm, &err_));
        for (size_t i = 0; i < n; i++) {
            stp_device_run run{};
            EXPECT_EQ(STP_OK, stp_device_probe(&device_, &colls[i], &run,
                                               nullptr, &err_))
                << err_.text;
            runs |= stp_arm_ran(&arm, run.algo, run.proto);
        }
        return runs;
    }

    const Case case_;
    stp_device device_{};
    stp_device_info info_{};
    stp_error err_{};
    stp_arms arms_{};
    stp_iterations out_{};
};

class Iterate : public testing::TestWithParam<Case>
{
  protected:
    // Measures a case when the first test asks for it.
    void SetUp() override
    {
        static std::map<std::pair<int, unsigned>, Measured> all;
        if (GetParam().graph > 0 && RanksShareAGpu())
            GTEST_SKIP() << "ranks of a process that share a GPU run no graphs";
        const auto [at, is_new] =
            all.insert({{GetParam().compute, GetParam().graph}, {}});

        measured_ = &at->second;
        if (is_new)
            Machine(GetParam()).Measure(&at->second);
        if (measured_->n_ranks == 1)
            GTEST_SKIP() << "needs two GPUs: one rank asks no tuner";
        ASSERT_FALSE(measured_->rows.empty()) << "nothing was measured";
    }

    const std::vector<stp_measurement> &Rows() const
    {
        return measured_->rows;
    }

    const Measured *measured_ = nullptr;
};

std::string Describe(const stp_measurement &row)
{
    return std::string(stp_mode_name(row.work.mode)) + ", round " +
           std::to_string(row.round) + ", " + ArmName(row.arm);
}

TEST_P(Iterate, MeasuresEveryArmInEveryRoundOfEveryMode)
{
    std::map<std::tuple<int, unsigned, std::string>, int> want, got;
    for (const auto &[arm, runs] : measured_->runs)
        for (unsigned round = 0; round < kRounds && runs; round++)
            want[{arm.first, round, arm.second}]++;

    for (const stp_measurement &row : Rows())
        got[{row.work.mode, row.round, ArmName(row.arm)}]++;

    EXPECT_EQ(want, got);
    for (int mode : kModes) // what every machine has
        for (const char *arm : {"auto", "auto2", "simple"})
            EXPECT_EQ(1, (got[{mode, 0, arm}])) << arm;
}

TEST_P(Iterate, EveryRowHasItsSamples)
{
    const unsigned launches = std::max(GetParam().graph, 1u);
    const double *us = measured_->sample_us.data();

    ASSERT_EQ(Rows().size() * kIters * launches, measured_->sample_us.size());
    for (const stp_measurement &row : Rows()) {
        SCOPED_TRACE(Describe(row));
        ASSERT_EQ(kIters * launches, row.iters);
        for (unsigned i = 0; i < row.iters; i++)
            EXPECT_GT(us[i], 0) << i;
        EXPECT_NEAR(row.us.mean,
                    std::accumulate(us, us + row.iters, 0.0) / row.iters,
                    row.us.mean * 1e-6);
        us += row.iters;
    }
}

TEST_P(Iterate, RowsSayWhatWasRun)
{
    for (const stp_measurement &row : Rows()) {
        SCOPED_TRACE(Describe(row));
        EXPECT_EQ(row.work.mode == STP_MODE_FSDP ? ncclFuncAllGather
                                                 : ncclFuncAllReduce,
                  row.coll);
        EXPECT_GE(row.n_bytes, kBytes);
        EXPECT_LT(row.n_bytes, kBytes + 2 * measured_->n_ranks);
        EXPECT_EQ(GetParam().compute, row.work.compute);
        EXPECT_EQ(kLayers, row.work.layers);
        EXPECT_EQ(1, row.work.ratio);
        EXPECT_EQ(STP_TYPE_BF16, row.work.gemm.type);
        EXPECT_EQ(measured_->n_ranks, row.n_ranks);
        EXPECT_EQ(STP_SOURCE_MEASURED, row.source);
        EXPECT_GT(row.work.compute_us, 0);
        EXPECT_GT(row.alone_us, 0);
    }
}

TEST_P(Iterate, ArmsRunAsForced)
{
    for (const stp_measurement &row : Rows()) {
        SCOPED_TRACE(Describe(row));
        EXPECT_TRUE(stp_arm_ran(&row.arm, row.ran_algo, row.ran_proto))
            << stp_algo_name(row.ran_algo) << "/"
            << stp_proto_name(row.ran_proto);
        EXPECT_GE(row.ran_channels, 1);
    }
}

TEST_P(Iterate, NoIterationIsShorterThanItsCompute)
{
    for (const stp_measurement &row : Rows())
        EXPECT_GE(row.us.mean, 0.95 * kLayers * row.work.compute_us)
            << Describe(row);
}

TEST_P(Iterate, OneAfterTheOtherNothingIsHidden)
{
    for (const stp_measurement &row : Rows())
        if (row.work.mode == STP_MODE_SEQUENTIAL) {
            EXPECT_GE(row.us.mean,
                      0.8 * kLayers * (row.work.compute_us + row.alone_us))
                << Describe(row);
        }
}

TEST_P(Iterate, ComputeTakesWhatNcclsOwnChoiceDoes)
{
    if (RanksShareAGpu())
        GTEST_SKIP() << "products slow each other down on a GPU that is shared";
    for (int mode : kModes) {
        double compute_us = 0;
        double comm_us = 0;
        for (const stp_measurement &row : Rows())
            if (row.work.mode == mode && row.arm.kind == STP_ARM_AUTO) {
                compute_us += row.work.compute_us;
                comm_us += row.alone_us;
            }

        EXPECT_NEAR(1, compute_us / comm_us, 0.25) << stp_mode_name(mode);
    }
}

constexpr Case kCases[] = {
    {STP_COMPUTE_GEMM, 0},
    {STP_COMPUTE_TRAINING, 0},
    {STP_COMPUTE_GEMM, 3},
    {STP_COMPUTE_TRAINING, 3},
};

INSTANTIATE_TEST_SUITE_P(Cuda, Iterate, testing::ValuesIn(kCases),
                         [](const auto &c) {
                             return std::string(
                                        stp_compute_name(c.param.compute)) +
                                    (c.param.graph > 0 ? "_graph" : "");
                         });

} // namespace
