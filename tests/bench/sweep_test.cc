// The measuring loop, on a device whose times are known.
#include <gmock/gmock.h>

#include "support/owned.h"

extern "C" {
#include "bench/sweep.h"
}

#include "bench/fake_device.h"
#include "nccl_tuner_abi.h"

namespace
{

using testing::ElementsAre;

class Sweep : public testing::Test
{
  protected:
    Sweep()
    {
        fake_.us = [](const stp_arm &arm, unsigned round) {
            return (arm.kind == STP_ARM_AUTO ? 12.0 : 10.0) * (1 + round);
        };
        stp_arms_parse("tree/ll,ring/simple", &arms_, nullptr);
        stp_sizes_add(&sizes_, 1024, 8, nullptr);
        stp_sizes_add(&sizes_, 4096, 8, nullptr);
        plan_.colls = &coll_;
        plan_.n_colls = 1;
        plan_.sizes = &sizes_;
        plan_.arms = &arms_;
        plan_.rounds = 2;
        plan_.warmup = 3;
        plan_.iters = 5;
        plan_.type = STP_TYPE_BF16;
        plan_.auto_places = STP_OUT_OF_PLACE;
        plan_.arm_places = STP_OUT_OF_PLACE;
    }

    stp_status Run(stp_sweep_progress progress = nullptr)
    {
        stp_dataset_free(&data_);
        return stp_sweep_run(fake_.Open(), &plan_, progress, nullptr, &data_,
                             &err_);
    }

    int coll_ = ncclFuncAllReduce;
    FakeDevice fake_;
    stp_arms arms_;
    stp_sizes sizes_{};
    stp_sweep_plan plan_{};
    Owned<stp_dataset, stp_dataset_free> data_;
    stp_error err_{};
};

TEST_F(Sweep, RunsEveryArmOnceARoundWithAutoFirst)
{
    ASSERT_EQ(STP_OK, Run());

    ASSERT_EQ(16u, fake_.log.size());
    EXPECT_THAT(
        std::vector<std::string>(fake_.log.begin(), fake_.log.begin() + 8),
        ElementsAre("round 0", "auto", "tree/ll", "ring/simple", "round 1",
                    "auto", "tree/ll", "ring/simple"));
}

TEST_F(Sweep, TimesTheIterationsAndNotTheWarmup)
{
    unsigned calls_of_arm = 0;
    fake_.us = [&](const stp_arm &, unsigned) {
        return calls_of_arm++ % 8 < 3 ? 1000.0 : 20.0 + calls_of_arm % 8;
    };

    ASSERT_EQ(STP_OK, Run());

    // the five timed calls have numbers 4 to 8 (mod 8): 24 25 26 27 20
    EXPECT_EQ(12u, data_.n_rows);
    EXPECT_DOUBLE_EQ(24.4, data_.rows[0].us.mean);
    EXPECT_DOUBLE_EQ(25, data_.rows[0].us.median);
    EXPECT_DOUBLE_EQ(20, data_.rows[0].us.min);
    EXPECT_EQ(5u, data_.rows[0].iters);
}

TEST_F(Sweep, KeepsWhatRanAndWhere)
{
    ASSERT_EQ(STP_OK, Run());

    const stp_measurement &m = data_.rows[4]; // round 1, tree/ll
    EXPECT_EQ(ncclFuncAllReduce, m.coll);
    EXPECT_EQ(1024u, m.n_bytes);
    EXPECT_EQ(1u, m.round);
    EXPECT_EQ(NCCL_ALGO_TREE, m.ran_algo);
    EXPECT_EQ(NCCL_PROTO_LL, m.ran_proto);
    EXPECT_EQ(8, m.ran_channels);
    EXPECT_EQ(4u, m.n_ranks);
    EXPECT_EQ(1u, m.n_nodes);
    EXPECT_DOUBLE_EQ(20, m.us.median);
    EXPECT_STREQ("fake", data_.machine);
    EXPECT_STREQ("Fake GPU", data_.gpu);
    EXPECT_STREQ("2.28.9", data_.nccl);
}

TEST_F(Sweep, KeepsTheKernelOfASetupWhateverItIs)
{
    ASSERT_EQ(STP_OK, stp_arms_parse("sym,ctas=8", &arms_, nullptr));
    fake_.kernel = "AllReduce_AGxLL_R_sum_bf16";

    ASSERT_EQ(STP_OK, Run());

    ASSERT_EQ(12u, data_.n_rows); // two sizes, two rounds, three arms
    EXPECT_STREQ("", data_.rows[0].ran_kernel);
    EXPECT_EQ(fake_.kernel, data_.rows[1].ran_kernel);
    EXPECT_EQ(-1, data_.rows[1].ran_algo);
    EXPECT_EQ(fake_.kernel, data_.rows[11].ran_kernel);
}

TEST_F(Sweep, LeavesOutAnArmThatNcclRulesOut)
{
    fake_.ruled_out = {STP_ARM_FORCED, NCCL_ALGO_TREE, NCCL_PROTO_LL, 0, 0, {}};

    ASSERT_EQ(STP_OK, Run());

    EXPECT_EQ(8u, data_.n_rows);
    for (size_t i = 0; i < data_.n_rows; i++)
        EXPECT_FALSE(stp_arm_equal(&data_.rows[i].arm, &fake_.ruled_out));
}

TEST_F(Sweep, KeepsCompleteSizesWhenItEndsEarly)
{
    const struct {
        bool spread; // then a step is a round of a size
        size_t n_steps, n_sizes;
        const char *done;
    } cases[] = {{true, 2, 0, "2 of 4 rounds of"},
                 {true, 3, 1, "3 of 4 rounds of"},
                 {false, 1, 1, "1 of 2"}};

    for (const auto &c : cases) {
        static size_t n_steps;
        n_steps = c.n_steps;
        plan_.spread = c.spread;
        EXPECT_EQ(STP_ERR_STOPPED, Run([](void *, size_t done, size_t) {
                      return done < n_steps;
                  }));
        EXPECT_EQ(std::string("stopped after ") + c.done + " sizes",
                  std::string(err_.text));
        EXPECT_EQ(6 * c.n_sizes, data_.n_rows);
    }

    fake_.n_calls = 0;
    fake_.fail_at = 2 * 3 * 8 + 13; // in the second size's second arm
    EXPECT_EQ(STP_ERR_DEVICE, Run());
    EXPECT_STREQ("the GPU fell off", err_.text);
    EXPECT_EQ(6u, data_.n_rows);
    for (size_t i = 0; i < data_.n_rows; i++)
        EXPECT_EQ(1024u, data_.rows[i].n_bytes);
}

// ---- what real machines need ----

// Five collectives of 10 us and one event behind them take 53; with an event
// behind each, one takes 13, of which 2.4 are the event's share; the host also
// sees the event before them, and the wait behind.
TEST_F(Sweep, ShortCollectivesAreTimedWithoutEventsBetweenThem)
{
    const struct {
        double us, wait_us, mean, median;
        size_t n_calls;
        unsigned graph; // which is captured once and launched again
    } cases[] = {
        // each of two sizes: three runs without events and one with
        {10, 4, 12, 10.6, 2 * (3 + 4 * 5), 0},
        {10, 4, 12, 10.6, 2 * (3 + 4 * 5), 1},
        {1000, 0, 1003.6, 1003, 2 * (3 + 5), 0},
    };
    fake_.event_us = 3;
    stp_arms_parse("auto", &arms_, nullptr);
    plan_.rounds = 1;

    for (const auto &c : cases) {
        fake_.wait_us = c.wait_us;
        fake_.us = [&](const stp_arm &, unsigned) { return c.us; };
        fake_.probe_us = c.us > 100 ? c.us : 1;
        plan_.graph = c.graph;
        fake_.n_calls = 0;

        ASSERT_EQ(STP_OK, Run());

        EXPECT_DOUBLE_EQ(c.mean, data_.rows[0].us.mean);
        EXPECT_DOUBLE_EQ(c.median, data_.rows[0].us.median);
        EXPECT_EQ(5u, data_.rows[0].iters);
        EXPECT_EQ(c.n_calls, fake_.n_calls);
    }
}

TEST_F(Sweep, OneDisturbedRunOfShortCollectivesIsNotTheirMedian)
{
    fake_.event_us = 1;
    stp_arms_parse("auto", &arms_, nullptr);
    plan_.rounds = 1;
    plan_.warmup = 0;
    size_t n = 0;
    // in the first run without events
    fake_.us = [&](const stp_arm &, unsigned) {
        return n++ == 4 ? 1010.0 : 10.0;
    };

    ASSERT_EQ(STP_OK, Run());

    EXPECT_DOUBLE_EQ(10.2, data_.rows[0].us.median);
    EXPECT_NEAR(10.4 + 1000.0 / 15, data_.rows[0].us.mean, 1e-9);
}

TEST_F(Sweep, ATurnHasAsManyIterationsAsFitIntoItsTime)
{
    const struct {
        double us, turn_us;
        unsigned iters, warmup;
    } cases[] = {
        {10, 1000, 5, 3},  // all of them
        {10, 44, 4, 1},    // a quarter of the time to warm up
        {1000, 10, 4, 0},  // at least several,
        {1e5, 10, 4, 0},   // if they fit into 0.4 s,
        {1.1e5, 10, 1, 0}, // else one
    };
    stp_arms_parse("auto", &arms_, nullptr);
    plan_.rounds = 1;

    for (const auto &c : cases) {
        fake_.us = [&](const stp_arm &, unsigned) { return c.us; };
        fake_.probe_us = c.us;
        fake_.n_calls = 0;
        plan_.turn_us = c.turn_us;
        ASSERT_EQ(STP_OK, Run());
        EXPECT_EQ(c.iters, data_.rows[0].iters) << c.turn_us;
        EXPECT_EQ(2u * (c.iters + c.warmup), fake_.n_calls) << c.turn_us;
    }
}

TEST_F(Sweep, EveryArmIsCheckedOnceInEachOfItsPlaces)
{
    fake_.n_wrong = 7;
    stp_arms_parse("tree/ll", &arms_, nullptr);
    sizes_.n = 1;
    plan_.check = 1;
    plan_.bits_max = UINT64_MAX;
    plan_.auto_places = STP_OUT_OF_PLACE | STP_IN_PLACE;

    ASSERT_EQ(STP_OK, Run());

    // and of each of four types the seven runs that show an order of four ranks
    std::vector<std::string> log;
    for (size_t i = 0; i < fake_.log.size(); i++)
        if (i == 0 || fake_.log[i] != fake_.log[i - 1] ||
            fake_.log[i].find("check") == std::string::npos)
            log.push_back(fake_.log[i]);
    EXPECT_THAT(log, ElementsAre("round 0", "auto", "check", "auto", "check in",
                                 "tree/ll", "check", "round 1", "auto", "auto",
                                 "tree/ll"));
    EXPECT_EQ(3u * (1 + 4 * 7), fake_.seeds.size());
    ASSERT_EQ(6u, data_.n_rows);
    EXPECT_FALSE(data_.rows[0].in_place);
    EXPECT_TRUE(data_.rows[1].in_place);
    EXPECT_EQ(STP_ARM_FORCED, data_.rows[2].arm.kind);
    EXPECT_FALSE(data_.rows[2].in_place);
    for (size_t i = 0; i < data_.n_rows; i++)
        EXPECT_EQ(7, data_.rows[i].n_wrong);
}

TEST_F(Sweep, ComparesNoBitsOfMessagesThatAreTooLargeForIt)
{
    sizes_ = {{64, 128}, 2};
    plan_.check = 1;
    plan_.bits_max = 64;
    fake_.bits = [](const stp_arm &, const stp_pattern &) { return 1; };

    ASSERT_EQ(STP_OK, Run());

    EXPECT_EQ(3u * (1 + 4 * 7) + 3, fake_.seeds.size());
    for (size_t i = 0; i < data_.n_rows; i++)
        if (data_.rows[i].arm.kind != STP_ARM_AUTO) {
            EXPECT_EQ(data_.rows[i].n_bytes > 64 ? STP_BITS_UNKNOWN
                                                 : STP_BITS_SAME,
                      data_.rows[i].bits);
        }
}

// As nccl-tests' -c: so many iterations, each with data of its own.
TEST_F(Sweep, AsManyIterationsAreCheckedAsTheTestsAskFor)
{
    fake_.n_wrong = 7;
    sizes_.n = 1;
    plan_.seed = 40;
    coll_ = ncclFuncAllGather; // which has no order to show
    for (unsigned n : {0, 1, 5}) {
        fake_.seeds.clear();
        plan_.check = n;
        plan_.bits_max = UINT64_MAX;

        ASSERT_EQ(STP_OK, Run());

        EXPECT_EQ(n * 3, fake_.seeds.size()) << "of three arms";
        EXPECT_EQ(n > 0 ? 7 : -1, data_.rows[0].n_wrong) << "not a sum";
        std::set<uint64_t> seeds(fake_.seeds.begin(), fake_.seeds.end());
        EXPECT_EQ(fake_.seeds.size() / 3, seeds.size()) << "equal for all";
        // whatever rows there are, as of an earlier run of fewer processes
        const std::vector<uint64_t> first = fake_.seeds;
        fake_.seeds.clear();
        ASSERT_EQ(STP_OK, Run());
        EXPECT_EQ(first, fake_.seeds);
    }
}

// The tree computes what AUTO does, and the ring only where a case says so.
TEST_F(Sweep, ComparesTheBitsOfEachArmWithThoseOfNcclsOwnChoice)
{
    const struct {
        const char *what;
        int coll;
        // which data the ring sums as AUTO does
        std::function<bool(const stp_pattern &)> is_same;
        stp_bits bits;
    } cases[] = {
        {"all data", ncclFuncAllReduce, [](auto &) { return true; },
         STP_BITS_SAME},
        {"none", ncclFuncAllReduce, [](auto &) { return false; },
         STP_BITS_OTHER},
        {"all but those of one type", ncclFuncReduceScatter,
         [](auto &p) { return p.type != STP_TYPE_F64; }, STP_BITS_OTHER},
        {"all but those of its own", ncclFuncAllReduce,
         [](auto &p) { return p.type != STP_TYPE_BF16; }, STP_BITS_OTHER},
        {"all but those of the last seed", ncclFuncAllReduce,
         [](auto &p) { return p.seed != 11 || p.type != STP_TYPE_F16; },
         STP_BITS_OTHER},
        {"its own type, and no other is gathered", ncclFuncAllGather,
         [](auto &p) { return p.type == STP_TYPE_BF16; }, STP_BITS_SAME},
    };
    sizes_.size[0] = 32;
    plan_.check = 1;
    plan_.bits_max = UINT64_MAX;
    plan_.seed = 5;
    plan_.auto_places = STP_OUT_OF_PLACE | STP_IN_PLACE;

    for (const auto &c : cases) {
        SCOPED_TRACE(c.what);
        coll_ = c.coll;
        fake_.bits = [&](const stp_arm &arm, const stp_pattern &p) {
            return arm.kind == STP_ARM_AUTO || arm.algo == NCCL_ALGO_TREE ||
                           c.is_same(p)
                       ? p.seed + 100u * p.type
                       : 7;
        };
        ASSERT_EQ(STP_OK, Run());

        for (size_t i = 0; i < data_.n_rows; i++) {
            const stp_arm &arm = data_.rows[i].arm;
            EXPECT_EQ(arm.kind == STP_ARM_AUTO || arm.algo == NCCL_ALGO_TREE
                          ? STP_BITS_SAME
                          : c.bits,
                      data_.rows[i].bits);
        }
    }
}

TEST_F(Sweep, ComparesNoBitsOfResultsThatAreNotChecked)
{
    ASSERT_EQ(STP_OK, Run());

    for (size_t i = 0; i < data_.n_rows; i++)
        EXPECT_EQ(STP_BITS_UNKNOWN, data_.rows[i].bits);
}

TEST_F(Sweep, OnAMachineThatDriftsRoundsBeginWithDifferentArms)
{
    sizes_.n = 1;
    plan_.rounds = 3;
    plan_.rotate = true;

    ASSERT_EQ(STP_OK, Run());

    EXPECT_THAT(fake_.log,
                ElementsAre("round 0", "auto", "tree/ll", "ring/simple",
                            "round 1", "tree/ll", "ring/simple", "auto",
                            "round 2", "ring/simple", "auto", "tree/ll"));
}

// It lasts as long as the rounds of one size.
TEST_F(Sweep, ADisturbanceIsInFewRoundsOfASizeWhereTheyAreSpread)
{
    plan_.rounds = 4;
    fake_.us = [&](const stp_arm &, unsigned) {
        return fake_.n_calls <= 4 * 3 * 8 ? 30 : 10;
    };

    for (bool spread : {false, true}) {
        plan_.spread = spread;
        fake_.n_calls = 0;
        fake_.log.clear();
        ASSERT_EQ(STP_OK, Run());

        size_t n_disturbed[2] = {};
        ASSERT_EQ(24u, data_.n_rows); // by size and round, as ever
        for (size_t i = 0; i < 24; i++) {
            EXPECT_EQ(i < 12 ? 1024u : 4096u, data_.rows[i].n_bytes);
            EXPECT_EQ(i % 12 / 3, data_.rows[i].round);
            n_disturbed[i / 12] += data_.rows[i].us.median > 20;
        }
        EXPECT_THAT(n_disturbed, ElementsAre(spread ? 6 : 12, spread ? 6 : 0));
        for (size_t i = 0; i < 8; i++)
            EXPECT_EQ("round " + std::to_string(spread ? i / 2 : i % 4),
                      fake_.log[4 * i]);
    }
}

TEST_F(Sweep, EveryLaunchOfAGraphCounts)
{
    stp_arms_parse("auto", &arms_, nullptr);
    sizes_.n = 1;
    plan_.rounds = 1;
    plan_.graph = 3;

    ASSERT_EQ(STP_OK, Run());

    EXPECT_THAT(fake_.log, ElementsAre("round 0", "auto"));
    EXPECT_EQ(3u + 3 * 5, fake_.n_calls);
    EXPECT_EQ(15u, data_.rows[0].iters);
}

} // namespace
