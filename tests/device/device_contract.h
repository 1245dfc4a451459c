// What device/device.h promises, as tests of any device.
//
// A device is named by a DeviceCase; a test program instantiates the suite with
// INSTANTIATE_TEST_SUITE_P(Name, DeviceContract, testing::ValuesIn(cases),
// ...). Where a device has several processes, all of them run the same tests.
#ifndef STP_DEVICE_CONTRACT_H
#define STP_DEVICE_CONTRACT_H

#include "device/device_under_test.h"

/* ---- what it is ---- */

TEST_P(DeviceContract, SaysWhatItIs)
{
    EXPECT_STRNE("", info_.machine);
    EXPECT_THAT(info_.backend,
                testing::AnyOf(testing::StrEq("nccl"), testing::StrEq("gloo"),
                               testing::StrEq("mpi")));
    EXPECT_STRNE("", info_.what);
    EXPECT_EQ(nullptr, strchr(info_.what, '\n'));
    EXPECT_GE(info_.n_ranks, 1u);
    EXPECT_GE(info_.n_nodes, 1u);
    EXPECT_LE(info_.n_nodes, info_.n_ranks);
    EXPECT_GE(info_.event_us, 0);
    EXPECT_EQ(info_.gpu[0] == '\0', info_.compute_capability == 0);
    EXPECT_EQ(info_.is_live, strstr(info_.what, "here and now") != nullptr)
        << info_.what;
    EXPECT_THAT(std::string(info_.cpu_vendor),
                testing::AnyOf("intel", "amd", "arm", "mixed", "unknown"));
}

TEST_P(DeviceContract, HasALineForEveryRank)
{
    for (unsigned rank = 0; rank < info_.n_ranks; rank++) {
        char line[256] = "";
        char cut[6] = "";

        ops_->rank_line(device_.self, rank, line, sizeof(line));
        ops_->rank_line(device_.self, rank, cut, sizeof(cut));

        EXPECT_THAT(line, testing::HasSubstr(std::to_string(rank)));
        EXPECT_EQ(nullptr, strchr(line, '\n'));
        EXPECT_EQ(std::string(line).substr(0, 5), cut);
    }
}

TEST_P(DeviceContract, KnowsSizesInAscendingOrder)
{
    for (int coll = 0; coll <= ncclFuncAllReduce; coll++) {
        uint64_t first = 0;
        std::vector<uint64_t> sizes(4096);

        size_t n = ops_->sizes(device_.self, coll, sizes.data(), sizes.size());

        ASSERT_LE(n, sizes.size());
        sizes.resize(n);
        EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end()));
        EXPECT_EQ(n, ops_->sizes(device_.self, coll, &first, 1));
        EXPECT_EQ(n == 0 ? 0 : sizes[0], first);
    }
}

/* ---- right results ---- */

TEST_P(DeviceContract, AllReducesEveryTypeOrRefusesIt)
{
    ExpectEveryTypeIsRight(ncclFuncAllReduce);
}

TEST_P(DeviceContract, ReducesEveryTypeOrRefusesIt)
{
    ExpectEveryTypeIsRight(ncclFuncReduce);
}

TEST_P(DeviceContract, ReduceScattersEveryTypeOrRefusesIt)
{
    ExpectEveryTypeIsRight(ncclFuncReduceScatter);
}

TEST_P(DeviceContract, BroadcastsEveryTypeOrRefusesIt)
{
    ExpectEveryTypeIsRight(ncclFuncBroadcast);
}

TEST_P(DeviceContract, AllGathersEveryTypeOrRefusesIt)
{
    ExpectEveryTypeIsRight(ncclFuncAllGather);
}

TEST_P(DeviceContract, BroadcastsFromEveryRank)
{
    ExpectEveryRootIsRight(ncclFuncBroadcast);
}

TEST_P(DeviceContract, ReducesToEveryRank)
{
    ExpectEveryRootIsRight(ncclFuncReduce);
}

TEST_P(DeviceContract, ChecksWhatItWasOpenedFor)
{
    for (int coll = 0; coll <= ncclFuncAllReduce; coll++) {
        const uint64_t grain =
            sizeof(float) * (InBlocks(coll) ? info_.n_ranks : 1);
        stp_collective what = Make(coll, 1);
        what.n_bytes = kMaxBytes / grain * grain;
        ExpectRightOrRefused(what);
    }
}

/* ---- events, streams ---- */

TEST_P(DeviceContract, TimesWhatIsBetweenEvents)
{
    Record(STP_STREAM_MAIN, 0);
    Note(STP_STREAM_MAIN, Make(ncclFuncAllReduce, 1000));
    Record(STP_STREAM_MAIN, 1);
    Note(STP_STREAM_MAIN, Make(ncclFuncAllGather, 1000));
    Record(STP_STREAM_MAIN, 2);
    Synchronise();

    const double both = Elapsed(0, 2);
    EXPECT_GT(Elapsed(0, 1), 0);
    EXPECT_GT(Elapsed(1, 2), 0);
    EXPECT_GE(both, std::max(Elapsed(0, 1), Elapsed(1, 2)) - 1e-3);
    EXPECT_LE(both, Elapsed(0, 1) + Elapsed(1, 2) + 1e-3);
}

TEST_P(DeviceContract, TakesNoLessByTheHostsClockThanBetweenEvents)
{
    Record(STP_STREAM_MAIN, 0);
    Note(STP_STREAM_MAIN, Make(ncclFuncAllReduce, 1000));
    Record(STP_STREAM_MAIN, 1);
    Synchronise();

    // two clocks may differ by parts per million
    EXPECT_GE(ops_->wall_us(device_.self) * 1.001, Elapsed(0, 1));
}

TEST_P(DeviceContract, TakesEventsInAnyOrder)
{
    Record(STP_STREAM_MAIN, 7);
    Note(STP_STREAM_MAIN, Make(ncclFuncAllReduce, 1000));
    Record(STP_STREAM_MAIN, 3);
    Synchronise();

    EXPECT_GT(Elapsed(7, 3), 0);
}

TEST_P(DeviceContract, RunsAgainWhatRan)
{
    Record(STP_STREAM_MAIN, 0);
    Note(STP_STREAM_MAIN, Make(ncclFuncAllReduce, 1000));
    Record(STP_STREAM_MAIN, 1);
    Synchronise();

    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(STP_OK, ops_->replay(device_.self, &err_)) << err_.text;
        EXPECT_GT(Elapsed(0, 1), 0);
    }
}

TEST_P(DeviceContract, BeginsAnewAfterARun)
{
    for (unsigned run = 0; run < 3; run++) {
        Record(STP_STREAM_MAIN, 0);
        Note(STP_STREAM_MAIN, Make(ncclFuncAllReduce, 100));
        Record(STP_STREAM_MAIN, 1);
        Synchronise();
        EXPECT_GT(Elapsed(0, 1), 0);
    }
}

TEST_P(DeviceContract, HasNothingToRunAtFirst)
{
    Synchronise();
    Synchronise();
    ExpectWorks();
    Synchronise();
    ExpectWorks();
}

TEST_P(DeviceContract, WaitsInOneStreamForAnother)
{
    Record(STP_STREAM_MAIN, 0);
    Note(STP_STREAM_MAIN, Make(ncclFuncAllReduce, 1000));
    Record(STP_STREAM_MAIN, 1);
    Wait(STP_STREAM_COMM, 1);
    Record(STP_STREAM_COMM, 2);
    Note(STP_STREAM_COMM, Make(ncclFuncAllReduce, 1000));
    Record(STP_STREAM_COMM, 3);
    Wait(STP_STREAM_MAIN, 3);
    Record(STP_STREAM_MAIN, 4);
    Synchronise();

    for (unsigned event = 0; event < 4; event++)
        EXPECT_GE(Elapsed(event, event + 1), 0) << event;
    EXPECT_GT(Elapsed(0, 1), 0);
    EXPECT_GT(Elapsed(2, 3), 0);
}

TEST_P(DeviceContract, RunsStreamsSideBySide)
{
    for (unsigned stream : {STP_STREAM_MAIN, STP_STREAM_COMM}) {
        Record(stream, 2 * stream);
        for (int i = 0; i < 3; i++)
            Note(stream, Make(ncclFuncAllReduce, 1000));
        Record(stream, 2 * stream + 1);
    }
    Synchronise();

    EXPECT_GT(Elapsed(0, 1), 0);
    EXPECT_GT(Elapsed(2, 3), 0);
    ExpectWorks();
}

TEST_P(DeviceContract, TakesGroups)
{
    Record(STP_STREAM_MAIN, 0);
    EXPECT_EQ(STP_OK, ops_->group(device_.self, true, &err_)) << err_.text;
    Note(STP_STREAM_MAIN, Make(ncclFuncAllReduce, 100));
    Note(STP_STREAM_MAIN, Make(ncclFuncAllReduce, 1000));
    EXPECT_EQ(STP_OK, ops_->group(device_.self, false, &err_)) << err_.text;
    Record(STP_STREAM_MAIN, 1);
    Synchronise();

    EXPECT_GT(Elapsed(0, 1), 0);
    ExpectWorks();
}

TEST_P(DeviceContract, ComputesOrRefuses)
{
    for (int type = 0; type < STP_N_TYPES; type++) {
        const stp_gemm gemm{64, 48, 32, type};

        Record(STP_STREAM_MAIN, 0);
        stp_status status =
            ops_->compute(device_.self, STP_STREAM_MAIN, &gemm, &err_);
        if (status != STP_OK)
            ExpectRefusal(status);
        Record(STP_STREAM_MAIN, 1);
        Synchronise();
        EXPECT_GE(Elapsed(0, 1), 0);
    }
    ExpectWorks();
}

TEST_P(DeviceContract, ComputesBesideACollective)
{
    const stp_gemm gemm{64, 64, 64, STP_TYPE_F32};

    Record(STP_STREAM_MAIN, 0);
    if (ops_->compute(device_.self, STP_STREAM_MAIN, &gemm, &err_) != STP_OK)
        GTEST_SKIP() << err_.text;
    Note(STP_STREAM_COMM, Make(ncclFuncAllReduce, 1000));
    Record(STP_STREAM_COMM, 1);
    Wait(STP_STREAM_MAIN, 1);
    Record(STP_STREAM_MAIN, 2);
    Synchronise();

    EXPECT_GT(Elapsed(0, 2), 0);
    EXPECT_GE(Elapsed(1, 2), 0);
}

/* ---- elementwise kernels ---- */

TEST_P(DeviceContract, RunsElementwiseKernelsWhereTheyAreNoted)
{
    const double least_us = 5; // at 20 TB/s, which no memory has

    Record(STP_STREAM_MAIN, 0);
    Elementwise(STP_STREAM_MAIN, 1 << 25);
    Record(STP_STREAM_MAIN, 1);
    Note(STP_STREAM_MAIN, Make(ncclFuncAllReduce, 1000));
    Record(STP_STREAM_MAIN, 2);
    Elementwise(STP_STREAM_MAIN, 1 << 16);
    Elementwise(STP_STREAM_MAIN, 1 << 16);
    Record(STP_STREAM_MAIN, 3);
    Synchronise();

    for (int run = 0; run < 3; run++) {
        EXPECT_GT(Elapsed(0, 1), least_us);
        EXPECT_GT(Elapsed(1, 2), 0);
        EXPECT_GT(Elapsed(2, 3), 0);
        EXPECT_LE(Elapsed(0, 3),
                  Elapsed(0, 1) + Elapsed(1, 2) + Elapsed(2, 3) + 1e-3);
        ASSERT_EQ(STP_OK, ops_->replay(device_.self, &err_)) << err_.text;
    }
}

TEST_P(DeviceContract, RunsElementwiseKernelsBesideACollectiveAndEachOther)
{
    Record(STP_STREAM_MAIN, 0);
    Elementwise(STP_STREAM_MAIN, 1 << 20);
    Note(STP_STREAM_COMM, Make(ncclFuncAllReduce, 1000));
    Elementwise(STP_STREAM_COMM, 1 << 18);
    Record(STP_STREAM_COMM, 1);
    Wait(STP_STREAM_MAIN, 1);
    Elementwise(STP_STREAM_MAIN, 1 << 16);
    Record(STP_STREAM_MAIN, 2);
    Synchronise();

    EXPECT_GT(Elapsed(0, 2), 0);
    EXPECT_GT(Elapsed(1, 2), 0);
    ExpectWorks();
}

TEST_P(DeviceContract, TakesVectorsOfAnyLength)
{
    for (uint64_t n_bytes : {0, 1, 3, 4, 20, 4093, 1 << 20, 8}) {
        Record(STP_STREAM_MAIN, 0);
        Elementwise(STP_STREAM_MAIN, n_bytes);
        Record(STP_STREAM_MAIN, 1);
        Synchronise();
        EXPECT_GE(Elapsed(0, 1), 0) << n_bytes;
    }
}

// Of what is refused nothing is noted.
TEST_P(DeviceContract, RefusesVectorsThatMemoryDoesNotHold)
{
    Record(STP_STREAM_MAIN, 0);
    for (uint64_t n_bytes : {uint64_t{1} << 50, UINT64_MAX / 4, UINT64_MAX}) {
        stp_status status =
            ops_->elementwise(device_.self, STP_STREAM_MAIN, n_bytes, &err_);
        if (info_.has_data || status != STP_OK)
            ExpectRefusal(status);
    }
    Note(STP_STREAM_MAIN, Make(ncclFuncAllReduce, 1000));
    Record(STP_STREAM_MAIN, 1);
    Synchronise();

    EXPECT_GT(Elapsed(0, 1), 0);
    ExpectWorks();
}

/* ---- what times are worth ---- */

TEST_P(DeviceContract, SaysWhatTheTimesOfARunAreWorth)
{
    Record(STP_STREAM_MAIN, 0);
    Note(STP_STREAM_MAIN, Make(ncclFuncAllReduce, 1000));
    Record(STP_STREAM_MAIN, 1);
    Synchronise();

    const stp_source source = ops_->source(device_.self);
    EXPECT_NE(nullptr, stp_source_name(source));
    EXPECT_EQ(info_.is_live, source == STP_SOURCE_MEASURED);
    ASSERT_EQ(STP_OK, ops_->replay(device_.self, &err_)) << err_.text;
    EXPECT_EQ(source, ops_->source(device_.self));
}

TEST_P(DeviceContract, ARunIsWorthNoMoreThanTheWorstOfWhatIsInIt)
{
    const stp_collective what = Make(ncclFuncAllReduce, 1000);
    stp_device_run run{};

    ASSERT_EQ(STP_OK, ops_->probe(device_.self, &what, &run, nullptr, &err_));
    Note(STP_STREAM_MAIN, what);
    Synchronise();
    EXPECT_EQ(run.source, ops_->source(device_.self));
    Note(STP_STREAM_MAIN, what);
    Elementwise(STP_STREAM_MAIN, 1 << 16);
    Synchronise();

    EXPECT_GE(ops_->source(device_.self), run.source);
    EXPECT_EQ(info_.is_live, ops_->source(device_.self) == STP_SOURCE_MEASURED);
}

/* ---- arms, rounds, probes ---- */

TEST_P(DeviceContract, HasNoPluginArmWithoutAPlugin)
{
    const stp_arm plugin{STP_ARM_PLUGIN, 0, 0, 0};

    ExpectRefusal(ops_->select_arm(device_.self, &plugin, &err_));

    Select(kAuto);
    ExpectWorks();
}

TEST_P(DeviceContract, ForcesAnArmOrRefuses)
{
    const stp_arm ring{STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0};
    const stp_collective what = Make(ncclFuncAllReduce, 10000);
    stp_device_run run{};

    stp_status status = ops_->select_arm(device_.self, &ring, &err_);

    if (!info_.has_arms)
        ExpectRefusal(status);
    else {
        EXPECT_EQ(STP_OK, status) << err_.text;
        EXPECT_EQ(STP_OK,
                  ops_->probe(device_.self, &what, &run, nullptr, &err_))
            << err_.text;
        EXPECT_THAT(run.algo, testing::AnyOf(-1, NCCL_ALGO_RING));
        EXPECT_THAT(run.proto, testing::AnyOf(-1, NCCL_PROTO_SIMPLE));
        EXPECT_TRUE(IsRightUnlessRefused(what));
    }
    Select(kAuto);
    ExpectWorks();
}

TEST_P(DeviceContract, SaysHowACollectiveRan)
{
    for (int coll = 0; coll <= ncclFuncAllReduce; coll++) {
        const stp_collective what = Make(coll, 1000);
        stp_device_run run{};
        stp_question question{};
        question.n_bytes = kUntouched;

        ASSERT_EQ(STP_OK,
                  ops_->probe(device_.self, &what, &run, &question, &err_))
            << err_.text;

        EXPECT_GT(run.us, 0);
        EXPECT_GE(run.algo, -1);
        EXPECT_LT(run.algo, NCCL_NUM_ALGORITHMS);
        EXPECT_GE(run.proto, -1);
        EXPECT_LT(run.proto, NCCL_NUM_PROTOCOLS);
        EXPECT_GE(run.n_channels, 0);
        EXPECT_EQ(info_.is_live, run.source == STP_SOURCE_MEASURED);
        EXPECT_THAT(question.n_bytes, testing::AnyOf(0u, what.n_bytes));
    }
}

TEST_P(DeviceContract, ProbesAndChecksWithoutForgettingWhatIsNoted)
{
    const stp_collective what = Make(ncclFuncAllReduce, 1000);
    stp_device_run run{};

    Record(STP_STREAM_MAIN, 0);
    Note(STP_STREAM_MAIN, what);
    EXPECT_EQ(STP_OK, ops_->probe(device_.self, &what, &run, nullptr, &err_));
    EXPECT_TRUE(IsRightUnlessRefused(what));
    Record(STP_STREAM_MAIN, 1);
    Synchronise();

    EXPECT_GT(Elapsed(0, 1), 0);
}

TEST_P(DeviceContract, HasTheRoundsItSays)
{
    const unsigned n = info_.max_rounds == 0 ? 3 : info_.max_rounds;

    for (unsigned round = 0; round < n; round++) {
        EXPECT_EQ(STP_OK, ops_->begin_round(device_.self, round, n, &err_))
            << err_.text;
        ExpectWorks();
    }
}

TEST_P(DeviceContract, ClosesWithNotesThatNeverRan)
{
    Record(STP_STREAM_MAIN, 0);
    Note(STP_STREAM_MAIN, Make(ncclFuncAllReduce, 1000));
}

/* ---- the loop that uses it ---- */

TEST_P(DeviceContract, IsSwept)
{
    const int colls[] = {ncclFuncAllReduce, ncclFuncBroadcast};
    stp_sizes sizes{{64, 4096}, 2};
    const std::vector<stp_sizes> lists(2, sizes);
    stp_arms arms{{kAuto}, 1};
    stp_sweep_plan plan{};
    plan.colls = colls;
    plan.n_colls = 2;
    plan.sizes = lists.data();
    plan.arms = &arms;
    plan.rounds = 1;
    plan.warmup = 1;
    plan.iters = 3;
    plan.type = STP_TYPE_F32;
    plan.auto_places = STP_OUT_OF_PLACE | STP_IN_PLACE;
    plan.check = true;
    stp_dataset data{};

    ASSERT_EQ(STP_OK,
              stp_sweep_run(&device_, &plan, nullptr, nullptr, &data, &err_))
        << err_.text;

    EXPECT_EQ(8u, data.n_rows);
    for (size_t i = 0; i < data.n_rows; i++) {
        EXPECT_GT(data.rows[i].us.mean, 0);
        EXPECT_EQ(info_.has_data ? 0 : -1, data.rows[i].n_wrong);
        EXPECT_EQ(info_.n_ranks, data.rows[i].n_ranks);
    }
    stp_dataset_free(&data);
}

#endif // STP_DEVICE_CONTRACT_H
