// The loop of training iterations, where all times are known.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

extern "C" {
#include "bench/iterate.h"
}

#include "bench/fake_streams.h"
#include "support/measured_data.h"
#include "support/mock_device.h"
#include "support/mock_test.h"
#include "support/owned.h"
#include "support/with_param.h"

namespace
{

using testing::ElementsAre;

class IterateLoop : public testing::Test
{
  protected:
    IterateLoop()
    {
        stp_arms_parse("ring/simple,tree/ll", &arms_, nullptr);
        stp_sizes_add(&sizes_, 1 << 20, 8, nullptr);
        plan_.modes = &mode_;
        plan_.n_modes = 1;
        plan_.coll = ncclFuncAllReduce;
        plan_.sizes = &sizes_;
        plan_.ratios = ratios_;
        plan_.n_ratios = 1;
        plan_.arms = &arms_;
        SetLayers(4);
        plan_.rounds = 2;
        plan_.warmup = 1;
        plan_.iters = 3;
        plan_.type = STP_TYPE_BF16;
    }
    stp_status Run(stp_sweep_progress progress = nullptr, void *user = nullptr)
    {
        stp_iterations_free(&out_);
        return stp_iterate_run(fake_.Open(), &plan_, progress, user, &out_,
                               &err_);
    }
    const stp_measurement &Row(size_t i) const
    {
        return out_.data.rows[i];
    }
    void SetLayers(unsigned n)
    {
        for (unsigned &layers : plan_.layers)
            layers = n;
    }
    std::vector<std::string> Arms() const
    {
        std::vector<std::string> names;
        for (size_t i = 0; i < out_.data.n_rows; i++)
            names.push_back(measured::Name(Row(i).arm));
        return names;
    }

    FakeStreams fake_;
    int mode_ = STP_MODE_OVERLAP;
    stp_arms arms_;
    stp_sizes sizes_{};
    double ratios_[2] = {0.5, 1};
    stp_iterate_plan plan_{};
    Owned<stp_iterations, stp_iterations_free> out_;
    stp_error err_{};
};

// ---- its times ----

struct TimeCase {
    const char *name;
    int mode;
    unsigned layers;
    double gemm_us, comm_us; // of the product, and of AUTO's collective
    double want;
};

using IterationTime = WithParam<IterateLoop, TimeCase>;

TEST_P(IterationTime, IsThatOfBothStreams)
{
    const TimeCase &c = GetParam();
    const stp_gemm gemm{64, 64, 64, STP_TYPE_BF16};
    mode_ = c.mode;
    SetLayers(c.layers);
    plan_.gemm = &gemm;
    fake_.rate = 2. * 64 * 64 * 64 / (c.gemm_us - 2);
    fake_.comm_us["auto"] = c.comm_us;

    ASSERT_EQ(STP_OK, Run());

    EXPECT_NEAR(c.want, Row(0).us.mean, 1e-6);
    EXPECT_NEAR(c.gemm_us, Row(0).work.compute_us, 1e-9);
    EXPECT_EQ(0, Row(0).work.ratio);
    EXPECT_EQ(64u, Row(0).work.gemm.k);
}

// Side by side a microsecond's work takes 1.5.
INSTANTIATE_TEST_SUITE_P(
    Table, IterationTime,
    testing::Values(
        TimeCase{"sequential", STP_MODE_SEQUENTIAL, 3, 10, 7, 51},
        // compute 10, beside each other 10 x 1.5, the last collective 10
        TimeCase{"overlap", STP_MODE_OVERLAP, 2, 10, 10, 35},
        TimeCase{"overlap_of_one_layer", STP_MODE_OVERLAP, 1, 10, 7, 17},
        // gather 10; gather beside compute 15; scatter beside compute 15,
        // the rest of it 10; scatter 20
        TimeCase{"fsdp", STP_MODE_FSDP, 2, 10, 10, 70}),
    CaseName());

TEST_F(IterateLoop, TimesEveryArmInEveryRound)
{
    plan_.alone = true;
    fake_.source = STP_SOURCE_INTERPOLATED;

    ASSERT_EQ(STP_OK, Run());

    ASSERT_EQ(6u, out_.data.n_rows);
    const double comm_us[] = {100, 120, 150};
    for (size_t i = 0; i < out_.data.n_rows; i++) {
        const stp_measurement &row = Row(i);
        const mock_overlap o{row.work.compute_us, comm_us[i % 3], 1.5,
                             MOCK_TIME_MODELLED};
        double want = mock_iteration_us(MOCK_MODE_OVERLAP, &o, 0, 4);
        EXPECT_EQ(i / 3, row.round);
        EXPECT_TRUE(stp_arm_equal(&arms_.arm[i % 3], &row.arm));
        EXPECT_NEAR(want, row.us.mean, 1e-6);
        EXPECT_NEAR(want, row.us.median, 1e-6);
        EXPECT_NEAR(want, row.us.min, 1e-6);
        EXPECT_EQ(3u, row.iters);
        EXPECT_EQ(STP_SOURCE_INTERPOLATED, row.source);
        EXPECT_EQ(ncclFuncAllReduce, row.coll);
        EXPECT_EQ(1u << 20, row.n_bytes);
        EXPECT_EQ(4u, row.n_ranks);
        EXPECT_EQ(STP_MODE_OVERLAP, row.work.mode);
        EXPECT_EQ(4u, row.work.layers);
        EXPECT_EQ(.5, row.work.ratio);
        EXPECT_EQ(-1, row.n_wrong);
        EXPECT_NEAR(comm_us[i % 3], row.alone_us, 1e-9);
    }
    EXPECT_STREQ("fake", out_.data.machine);
    ASSERT_EQ(18u, out_.n_samples);
    for (size_t i = 0; i < out_.n_samples; i++)
        EXPECT_NEAR(Row(i / 3).us.mean, out_.sample_us[i], 1e-6);
}

TEST_F(IterateLoop, EveryLaunchOfAGraphCounts)
{
    ASSERT_EQ(STP_OK, Run());
    const size_t n_launched_once = fake_.n_runs;
    fake_.n_runs = 0;
    plan_.graph = 4;

    ASSERT_EQ(STP_OK, Run());

    EXPECT_EQ(12u, Row(0).iters);
    EXPECT_EQ(6u * 12, out_.n_samples);
    EXPECT_EQ(n_launched_once + 6 * 3, fake_.n_runs);
}

// A layer of compute and a collective takes 150 us, 4 of them 600.
TEST_F(IterateLoop, RunsAsManyIterationsAsFitIntoATurn)
{
    const struct {
        double turn_us;
        unsigned iters, want;
    } cases[] = {{0, 40, 40}, {6100, 40, 10}, {100, 40, 3}, {100, 2, 2}};
    fake_.rate = 1e9;
    for (const auto &c : cases) {
        plan_.turn_us = c.turn_us;
        plan_.iters = c.iters;

        ASSERT_EQ(STP_OK, Run());

        EXPECT_EQ(c.want, Row(0).iters) << c.turn_us;
    }
}

// ---- the product ----

// 2 us and 2 side^2 k / rate: the time with a k that is a multiple of 64.
TEST_F(IterateLoop, ChoosesTheProductByItsTime)
{
    const struct {
        double rate, ratio;
        unsigned side; // expected
    } cases[] = {
        {1e9, .5, 4096}, {1e9, 1, 8192}, {1e9, 4, 8192},
        {1e8, .5, 2048}, {1e8, 1, 2048}, {1e7, 1, 1024},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.rate * c.ratio);
        fake_.rate = c.rate;
        ratios_[0] = c.ratio;

        ASSERT_EQ(STP_OK, Run());

        const stp_workload &w = Row(0).work;
        double grain = 2. * c.side * c.side * 64 / c.rate; // us
        EXPECT_EQ(c.side, w.gemm.m);
        EXPECT_EQ(c.side, w.gemm.n);
        EXPECT_EQ(0u, w.gemm.k % 64);
        EXPECT_NEAR(2 + grain * w.gemm.k / 64, w.compute_us, 1e-9);
        EXPECT_NEAR(100 * c.ratio, w.compute_us,
                    std::max(grain / 2, 3 * c.ratio) + 1e-9);
        EXPECT_EQ(c.ratio, w.ratio);
    }
}

// Three products and two elementwise kernels; gathers twice, scatters once.
TEST_F(IterateLoop, RatiosAreOfAllThatALayerDoes)
{
    mode_ = STP_MODE_FSDP;
    plan_.compute = STP_COMPUTE_TRAINING;
    fake_.rate = 1e9;

    ASSERT_EQ(STP_OK, Run());

    const stp_workload &w = Row(0).work;
    EXPECT_NEAR(.5 * (2 * 100 + 200), w.compute_us, 13); // half a k of 64
    EXPECT_NEAR(3 * (2 + 2. * w.gemm.m * w.gemm.n * w.gemm.k / 1e9) + 2,
                w.compute_us, 1e-9);
}

struct Progress {
    size_t n_calls = 0, done = 0, total = 0;
};

bool Count(void *user, size_t done, size_t total)
{
    auto *p = static_cast<Progress *>(user);
    *p = {p->n_calls + 1, done, total};
    return true;
}

TEST_F(IterateLoop, MeasuresTheSameProductOnce)
{
    fake_.rate = 1e5;
    ratios_[1] = .25;
    plan_.n_ratios = 2;
    Progress progress;

    ASSERT_EQ(STP_OK, Run(Count, &progress));

    EXPECT_EQ(256u, Row(0).work.gemm.m); // the shortest, of 86 us
    EXPECT_EQ(64u, Row(0).work.gemm.k);
    EXPECT_EQ(6u, out_.data.n_rows);
    EXPECT_EQ(7u, progress.n_calls); // 2 rounds of 3 arms, and the rest
    EXPECT_EQ(12u, progress.done);
    EXPECT_EQ(12u, progress.total);
}

TEST_F(IterateLoop, MeasuresTheSameProductOnOtherRanksAgain)
{
    ASSERT_EQ(STP_OK, Run());
    const stp_device *device = fake_.Open();
    size_t n = out_.data.n_rows;

    for (size_t i = 0; i < n; i++)
        out_.data.rows[i].n_ranks++;
    ASSERT_EQ(STP_OK,
              stp_iterate_run(device, &plan_, nullptr, nullptr, &out_, &err_));
    EXPECT_EQ(2 * n, out_.data.n_rows);
    ASSERT_EQ(STP_OK,
              stp_iterate_run(device, &plan_, nullptr, nullptr, &out_, &err_));
    EXPECT_EQ(2 * n, out_.data.n_rows) << "but not on as many";
}

TEST_F(IterateLoop, MeasuresEveryModeSizeAndRatio)
{
    const int modes[] = {STP_MODE_SEQUENTIAL, STP_MODE_FSDP};
    Progress progress;
    plan_.modes = modes;
    plan_.n_modes = 2;
    plan_.n_ratios = 2;
    plan_.rounds = 1;
    fake_.rate = 1e9;
    stp_sizes_add(&sizes_, (1 << 20) + 1, 1, nullptr);

    ASSERT_EQ(STP_OK, Run(Count, &progress));

    EXPECT_EQ(24u, progress.total);
    EXPECT_EQ(24u, progress.done);
    ASSERT_EQ(24u, out_.data.n_rows);
    for (size_t i = 0; i < 8; i++) {
        const stp_measurement &row = Row(3 * i);
        bool is_fsdp = i >= 4;
        uint64_t odd = (1 << 20) + (is_fsdp ? 8 : 2); // 4 ranks of bf16
        EXPECT_EQ(modes[i / 4], row.work.mode);
        EXPECT_EQ(is_fsdp ? ncclFuncAllGather : ncclFuncAllReduce, row.coll);
        EXPECT_EQ(i / 2 % 2 == 0 ? 1u << 20 : odd, row.n_bytes);
        EXPECT_EQ(ratios_[i % 2], row.work.ratio);
    }
}

// ---- rounds and arms ----

TEST_F(IterateLoop, RunsEveryArmOnceARound)
{
    ASSERT_EQ(STP_OK, Run());
    // its GEMM is fitted to the collectives of all rounds
    EXPECT_THAT(fake_.log, ElementsAre("round 0", "round 0", "round 1",
                                       "round 0", "round 0", "auto",
                                       "ring/simple", "tree/ll", "round 1"));
    EXPECT_THAT(Arms(), ElementsAre("auto", "ring/simple", "tree/ll", "auto",
                                    "ring/simple", "tree/ll"));
}

// Rounds begin with another arm where times drift.
TEST_F(IterateLoop, RunsTheArmsThatNcclDoesNotRuleOut)
{
    // clang-format off
    const int reduces = ncclFuncAllReduce, gathers = ncclFuncAllGather, scatters = ncclFuncReduceScatter;
    const struct {
        int mode;
        bool rotate;
        std::set<std::pair<std::string, int>> ruled_out;
        std::vector<std::string> arms; // of three rounds
    } cases[] = {
        {STP_MODE_OVERLAP, true, {}, {"auto", "ring/simple", "tree/ll", "ring/simple", "tree/ll", "auto",
                                      "tree/ll", "auto", "ring/simple"}},
        {STP_MODE_OVERLAP, false, {{"ring/simple", reduces}},
         {"auto", "tree/ll", "auto", "tree/ll", "auto", "tree/ll"}},
        // one of two collectives is enough
        {STP_MODE_FSDP, false, {{"ring/simple", gathers}, {"tree/ll", gathers}, {"tree/ll", scatters}},
         {"auto", "ring/simple", "auto", "ring/simple", "auto", "ring/simple"}},
    };
    // clang-format on
    plan_.rounds = 3;

    for (const auto &c : cases) {
        mode_ = c.mode;
        plan_.rotate = c.rotate;
        fake_.ruled_out = c.ruled_out;

        ASSERT_EQ(STP_OK, Run());

        EXPECT_EQ(c.arms, Arms());
    }
}

TEST_F(IterateLoop, SaysWhatRanOtherwiseThanByItself)
{
    mode_ = STP_MODE_FSDP;
    plan_.rounds = 1;
    fake_.ruled_out = {{"ring/simple", ncclFuncAllGather}};

    ASSERT_EQ(STP_OK, Run());

    EXPECT_EQ(NCCL_PROTO_LL, Row(0).ran_proto);
    EXPECT_EQ(NCCL_PROTO_SIMPLE, Row(1).ran_proto);
    EXPECT_EQ(NCCL_ALGO_TREE, Row(2).ran_algo);
}

// ---- how it ends ----

TEST_F(IterateLoop, KeepsCompleteRoundsWhenTheDeviceFails)
{
    ASSERT_EQ(STP_OK, Run());
    fake_.fail_at = fake_.n_runs - 1; // in the last row
    fake_.n_runs = 0;

    EXPECT_EQ(STP_ERR_DEVICE, Run());

    EXPECT_STREQ("the GPU fell off", err_.text);
    EXPECT_THAT(Arms(), ElementsAre("auto", "ring/simple", "tree/ll"));
    EXPECT_EQ(9u, out_.n_samples);
}

TEST_F(IterateLoop, KeepsCompleteRoundsWhenItIsToldToStop)
{
    plan_.n_ratios = 2;
    for (size_t at : {1, 3, 5, 7}) { // turns
        size_t n_rounds = at / 3;
        EXPECT_EQ(
            STP_ERR_STOPPED,
            Run([](void *user, size_t done,
                   size_t) { return done < *static_cast<size_t *>(user); },
                &at));

        EXPECT_EQ("stopped after " + std::to_string(n_rounds) + " of 4 rounds",
                  err_.text);
        EXPECT_EQ(3 * n_rounds, out_.data.n_rows);
        EXPECT_EQ(9 * n_rounds, out_.n_samples);
    }
}

// ---- all modes of a recorded machine ----

struct PlayedCase {
    const char *name;
    int mode;
    int coll;
    unsigned layers;
    unsigned mib;
};

class PlayedIterations : public IterateLoop,
                         public testing::WithParamInterface<PlayedCase>
{
  protected:
    // The recorded means, over rounds, of the setting's first GEMM; its sides.
    std::map<std::string, double> Recorded(stp_gemm *gemm)
    {
        const PlayedCase &c = GetParam();
        std::map<std::string, std::vector<double>> us;
        std::map<std::string, double> means;

        *gemm = {0, 0, 0, STP_TYPE_BF16};
        for (const auto &row :
             mock_test::ReadCsv(STP_FIXTURES "/machines/h100x2/overlap.csv")) {
            const auto number = [&](const char *column) {
                return static_cast<unsigned>(std::stoul(row.at(column)));
            };
            if (row.at("mode") != stp_mode_name(c.mode) ||
                row.at("collective") != stp_coll_name(c.coll) ||
                number("bytes") != c.mib << 20 || row.at("channels") != "0")
                continue;
            if (gemm->m == 0)
                *gemm = {number("m"), number("n"), number("k"), STP_TYPE_BF16};
            if (number("m") == gemm->m && number("k") == gemm->k)
                us[row.at("algorithm") + "/" + row.at("protocol")].push_back(
                    std::stod(row.at("mean_us")));
        }
        for (const auto &[arm, all] : us)
            means[arm] = std::accumulate(all.begin(), all.end(), 0.) /
                         static_cast<double>(all.size());
        return means;
    }
};

// To half a percent, since iterations are drawn from the spread of the recorded
// ones; to one where auto is averaged with auto2.
TEST_P(PlayedIterations, TakeTheirRecordedTimes)
{
    const PlayedCase &c = GetParam();
    stp_gemm gemm;
    std::map<std::string, double> want = Recorded(&gemm);
    stp_device device{};
    stp_arms_parse("ring/ll128,sym", &arms_, nullptr);
    mode_ = c.mode;
    plan_.coll = c.coll;
    sizes_.size[0] = c.mib << 20;
    SetLayers(c.layers);
    plan_.rounds = 5;
    plan_.iters = 20;
    plan_.in_place = c.coll == ncclFuncAllReduce;
    plan_.gemm = &gemm;
    ASSERT_EQ(STP_OK, OpenMockDevice("h100x2", 3, &device, &err_));

    ASSERT_EQ(STP_OK,
              stp_iterate_run(&device, &plan_, nullptr, nullptr, &out_, &err_))
        << err_.text;
    stp_device_close(&device);

    ASSERT_EQ(15u, out_.data.n_rows);
    std::map<std::string, double> sums;
    for (size_t i = 0; i < 15; i++) {
        sums[measured::Name(Row(i).arm)] += Row(i).us.mean / 5;
        EXPECT_EQ(STP_SOURCE_VIRTUAL, Row(i).source);
    }
    EXPECT_NEAR(want.at("auto/auto"), sums.at("auto"),
                .01 * want.at("auto/auto"));
    EXPECT_NEAR(want.at("ring/ll128"), sums.at("ring/ll128"),
                .005 * want.at("ring/ll128"));
    EXPECT_NEAR(want.at("sym/sym"), sums.at("sym"), .005 * want.at("sym/sym"));
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(, PlayedIterations, testing::Values(
    PlayedCase{"overlap", STP_MODE_OVERLAP, ncclFuncAllReduce, 8, 4},
    PlayedCase{"fsdp", STP_MODE_FSDP, ncclFuncAllGather, 8, 4},
    PlayedCase{"fsdp_8MiB", STP_MODE_FSDP, ncclFuncAllGather, 8, 8},
    PlayedCase{"allreduces", STP_MODE_SEQUENTIAL, ncclFuncAllReduce, 1, 4},
    PlayedCase{"allgathers", STP_MODE_SEQUENTIAL, ncclFuncAllGather, 1, 8},
    PlayedCase{"reducescatters", STP_MODE_SEQUENTIAL, ncclFuncReduceScatter, 1, 4}),
    CaseName());
// clang-format on

} // namespace
