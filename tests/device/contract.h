// The contracts of device/device.h and device/engine.h, as tests of transports.
//
// A transport opens its ranks by a RanksUnderTest; its test program
// instantiates both suites with INSTANTIATE_TEST_SUITE_P(Name, DeviceContract,
// testing::ValuesIn(cases), NameOf), and EngineContract likewise.  Where ranks
// have several processes, all of them run the same tests.
#pragma once

#include "device/contract_fixtures.h"
#include "device/contract_groups.h"
#include "device/source_of.h"

/* ---- info ---- */

TEST_P(DeviceContract, SaysWhatItIs)
{
    EXPECT_STRNE("", info_.machine);
    EXPECT_THAT(std::string(info_.backend), testing::AnyOf("nccl", "gloo"));
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

        stp_device_rank_line(&device_, rank, line, sizeof(line));
        stp_device_rank_line(&device_, rank, cut, sizeof(cut));

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

        size_t n = stp_device_sizes(&device_, coll, sizes.data(), sizes.size());

        ASSERT_LE(n, sizes.size());
        sizes.resize(n);
        EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end()));
        EXPECT_EQ(n, stp_device_sizes(&device_, coll, &first, 1));
        EXPECT_EQ(n == 0 ? 0 : sizes[0], first);
    }
}

/* ---- right results ---- */

// One element on a rank, and a number that nothing divides.
TEST_P(DeviceContract, RunsEveryTypeOrRefusesIt)
{
    for (int coll = 0; coll <= ncclFuncAllReduce; coll++)
        for (uint64_t count : {1, 1021})
            for (int type = 0; type < STP_N_TYPES; type++)
                for (int op = 0; op < (stp_coll_reduces(coll) ? STP_N_OPS : 1);
                     op++)
                    ExpectRightOrRefused(Count(coll, count, type, op));
    ExpectWorks();
}

TEST_P(DeviceContract, HasEveryRankAsRoot)
{
    for (int coll : {ncclFuncBroadcast, ncclFuncReduce})
        for (unsigned root = 0; root < info_.n_ranks; root++) {
            stp_collective collective = Count(coll, 333);
            collective.root = root;
            ExpectRightOrRefused(collective);
        }
}

TEST_P(DeviceContract, ChecksWhatItWasOpenedFor)
{
    for (int coll = 0; coll <= ncclFuncAllReduce; coll++) {
        const uint64_t grain =
            sizeof(float) * (InBlocks(coll) ? info_.n_ranks : 1);
        stp_collective collective = Count(coll, 1);
        collective.n_bytes = kMaxBytes / grain * grain;
        ExpectRightOrRefused(collective);
    }
}

/* ---- events, streams ---- */

TEST_P(DeviceContract, TimesWhatIsBetweenEvents)
{
    Record(STP_STREAM_MAIN, 7);
    Note(STP_STREAM_MAIN, Count(ncclFuncAllReduce, 1000));
    Record(STP_STREAM_MAIN, 3);
    Note(STP_STREAM_MAIN, Count(ncclFuncAllGather, 1000));
    Record(STP_STREAM_MAIN, 5);
    Synchronise();

    const double both = Elapsed(7, 5);
    EXPECT_GT(Elapsed(7, 3), 0);
    EXPECT_GT(Elapsed(3, 5), 0);
    EXPECT_GE(both, std::max(Elapsed(7, 3), Elapsed(3, 5)) - 1e-3);
    EXPECT_LE(both, Elapsed(7, 3) + Elapsed(3, 5) + 1e-3);
    // the host's clock may differ by parts per million
    EXPECT_GE(stp_device_wall_us(&device_) * 1.001, both);
}

TEST_P(DeviceContract, RunsAgainWhatRanAndBeginsAnew)
{
    for (uint64_t n : {1000, 100, 10}) {
        Record(STP_STREAM_MAIN, 0);
        Note(STP_STREAM_MAIN, Count(ncclFuncAllReduce, n));
        Record(STP_STREAM_MAIN, 1);
        Synchronise();
        EXPECT_GT(Elapsed(0, 1), 0);
        Replay();
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
    Note(STP_STREAM_MAIN, Count(ncclFuncAllReduce, 1000));
    Record(STP_STREAM_MAIN, 1);
    Wait(STP_STREAM_COMM, 1);
    Record(STP_STREAM_COMM, 2);
    Note(STP_STREAM_COMM, Count(ncclFuncAllReduce, 1000));
    Record(STP_STREAM_COMM, 3);
    Wait(STP_STREAM_MAIN, 3);
    Record(STP_STREAM_MAIN, 4);
    Synchronise();

    for (unsigned event = 0; event < 4; event++)
        EXPECT_GE(Elapsed(event, event + 1), 0) << event;
    EXPECT_GT(Elapsed(0, 1), 0);
    EXPECT_GT(Elapsed(2, 3), 0);
}

TEST_P(DeviceContract, TakesGroups)
{
    Record(STP_STREAM_MAIN, 0);
    Group(true);
    Note(STP_STREAM_MAIN, Count(ncclFuncAllReduce, 100));
    Note(STP_STREAM_MAIN, Count(ncclFuncAllReduce, 1000));
    Group(false);
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
        const stp_status status = Gemm(STP_STREAM_MAIN, gemm);
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
    if (Gemm(STP_STREAM_MAIN, gemm) != STP_OK)
        GTEST_SKIP() << err_.text;
    Note(STP_STREAM_COMM, Count(ncclFuncAllReduce, 1000));
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
    Note(STP_STREAM_MAIN, Count(ncclFuncAllReduce, 1000));
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
        Replay();
    }
}

TEST_P(DeviceContract, RunsElementwiseKernelsBesideACollectiveAndEachOther)
{
    Record(STP_STREAM_MAIN, 0);
    Elementwise(STP_STREAM_MAIN, 1 << 20);
    Note(STP_STREAM_COMM, Count(ncclFuncAllReduce, 1000));
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

// Equal results have equal hashes, and others others.
TEST_P(DeviceContract, HashesResults)
{
    if (!info_.has_data)
        GTEST_SKIP() << "no data to hash";
    for (int coll : {ncclFuncAllReduce, ncclFuncReduceScatter,
                     ncclFuncAllGather, ncclFuncBroadcast, ncclFuncReduce}) {
        std::map<uint64_t, int> seen;
        for (int repeat = 0; repeat < 2; repeat++)
            for (uint64_t seed : {1, 2})
                for (const bool rounds : {false, true}) {
                    stp_found found{};
                    stp_collective c = Count(coll, 101);
                    c.in_place = repeat == 1;
                    Ok(stp_device_check(&device_, &c, seed, rounds, &found,
                                        &err_));
                    EXPECT_EQ(0u, found.n_wrong);
                    seen[found.bits]++;
                }
        // data without a sum do not round
        EXPECT_EQ(stp_coll_reduces(coll) ? 4u : 2u, seen.size())
            << stp_coll_name(coll);
    }
}

// Refused work is not noted.
TEST_P(DeviceContract, RefusesVectorsThatMemoryDoesNotHold)
{
    Record(STP_STREAM_MAIN, 0);
    for (uint64_t n : {uint64_t{1} << 50, UINT64_MAX / 4, UINT64_MAX}) {
        const stp_status status = TryWork(Work(STP_WORK_ELEMENTWISE, 0, 0, n));
        if (info_.has_data || status != STP_OK)
            ExpectRefusal(status);
    }
    Note(STP_STREAM_MAIN, Count(ncclFuncAllReduce, 1000));
    Record(STP_STREAM_MAIN, 1);
    Synchronise();

    EXPECT_GT(Elapsed(0, 1), 0);
    ExpectWorks();
}

/* ---- the worth of times ---- */

TEST_P(DeviceContract, ARunIsWorthNoMoreThanTheWorstOfWhatIsInIt)
{
    const stp_collective collective = Count(ncclFuncAllReduce, 1000);
    const stp_device_run run = Probe(collective);

    Note(STP_STREAM_MAIN, collective);
    Synchronise();
    EXPECT_EQ(run.source, SourceOf(device_));
    EXPECT_NE(nullptr, stp_source_name(run.source));
    Replay();
    EXPECT_EQ(run.source, SourceOf(device_));
    Note(STP_STREAM_MAIN, collective);
    Elementwise(STP_STREAM_MAIN, 1 << 16);
    Synchronise();

    EXPECT_GE(SourceOf(device_), run.source);
    EXPECT_EQ(info_.is_live, SourceOf(device_) == STP_SOURCE_MEASURED);
}

/* ---- arms, rounds, probes ---- */

TEST_P(DeviceContract, HasNoPluginArmWithoutAPlugin)
{
    const stp_arm plugin{STP_ARM_PLUGIN, 0, 0, 0, 0, {}};

    ExpectRefusal(stp_device_select_arm(&device_, &plugin, &err_));

    Select(kAuto);
    ExpectWorks();
}

TEST_P(DeviceContract, ForcesAnArmOrRefuses)
{
    const stp_arm ring{
        STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0, 0, {}};
    const stp_collective collective = Count(ncclFuncAllReduce, 10000);

    const stp_status status = stp_device_select_arm(&device_, &ring, &err_);

    if (!info_.has_arms)
        ExpectRefusal(status);
    else {
        EXPECT_EQ(STP_OK, status) << err_.text;
        const stp_device_run run = Probe(collective);
        EXPECT_THAT(run.algo, testing::AnyOf(-1, NCCL_ALGO_RING));
        EXPECT_THAT(run.proto, testing::AnyOf(-1, NCCL_PROTO_SIMPLE));
        EXPECT_TRUE(IsRightUnlessRefused(collective));
    }
    Select(kAuto);
    ExpectWorks();
}

TEST_P(DeviceContract, SaysHowACollectiveRan)
{
    for (int coll = 0; coll <= ncclFuncAllReduce; coll++) {
        const stp_collective collective = Count(coll, 1000);
        stp_question question{};
        question.n_bytes = kUntouched;

        const stp_device_run run = Probe(collective, &question);

        EXPECT_GT(run.us, 0);
        EXPECT_GE(run.algo, -1);
        EXPECT_LT(run.algo, NCCL_NUM_ALGORITHMS);
        EXPECT_GE(run.proto, -1);
        EXPECT_LT(run.proto, NCCL_NUM_PROTOCOLS);
        EXPECT_GE(run.n_channels, 0);
        EXPECT_EQ(info_.is_live, run.source == STP_SOURCE_MEASURED);
        EXPECT_THAT(question.n_bytes, testing::AnyOf(0u, collective.n_bytes));
    }
}

TEST_P(DeviceContract, ProbesAndChecksWithoutForgettingWhatIsNoted)
{
    const stp_collective collective = Count(ncclFuncAllReduce, 1000);

    Record(STP_STREAM_MAIN, 0);
    Note(STP_STREAM_MAIN, collective);
    Probe(collective);
    EXPECT_TRUE(IsRightUnlessRefused(collective));
    Record(STP_STREAM_MAIN, 1);
    Synchronise();

    EXPECT_GT(Elapsed(0, 1), 0);
}

TEST_P(DeviceContract, HasTheRoundsItSays)
{
    const unsigned n = info_.max_rounds == 0 ? 3 : info_.max_rounds;

    for (unsigned round = 0; round < n; round++) {
        BeginRound(round, n);
        ExpectWorks();
    }
}

TEST_P(DeviceContract, ClosesWithNotesThatNeverRan)
{
    Record(STP_STREAM_MAIN, 0);
    Note(STP_STREAM_MAIN, Count(ncclFuncAllReduce, 1000));
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

/* ---- one rank: memory and arithmetic ---- */

TEST_P(EngineContract, GivesAlignedZerosAlsoAfterRelease)
{
    for (int i = 0; i < 3; i++) {
        float *at = Alloc<float>(3);
        EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(at) % STP_ENGINE_ALIGN);
        ExpectNumbers({0, 0, 0}, STP_TYPE_F32, at);
        ExpectNumbers({1, 2, 3}, STP_TYPE_F32, Put(STP_TYPE_F32, {1, 2, 3}));
        ops_->release(self_);
    }
}

TEST_P(EngineContract, SaysWhatDoesNotFit)
{
    void *untouched = this;
    if (!info_.has_data)
        GTEST_SKIP() << "no memory to run out of";

    EXPECT_EQ(STP_ERR_NOMEM, ops_->alloc(self_, uint64_t{1} << 60, "a whale",
                                         &untouched, &err_));

    EXPECT_THAT(err_.text, testing::HasSubstr("a whale"));
    EXPECT_THAT(err_.text, testing::HasSubstr("1152921504.61 GB"));
    EXPECT_EQ(this, untouched);
}

TEST_P(EngineContract, MultipliesMatrices)
{
    for (int type : kTypes) {
        ProductsInto(type, type);
        if (stp_type_size(type) == 2)
            ProductsInto(type, STP_TYPE_F32);
    }
}

TEST_P(EngineContract, KeepsNanThroughRelu)
{
    stp_product p{};
    p.gemm = {1, 1, 1, STP_TYPE_F32};
    p.type_c = STP_TYPE_F32;
    p.epilogue = STP_EPILOGUE_BIAS_RELU;
    p.a = Put(STP_TYPE_F32, {NAN});
    p.b = p.bias = Put(STP_TYPE_F32, {1});
    p.c = Put(STP_TYPE_F32, {0});

    Ok(Note(kMain, p));
    Sync();

    ExpectNumbers({NAN}, STP_TYPE_F32, p.c);
}

// Also of logits that exp() alone would not survive.
TEST_P(EngineContract, HasTheCrossEntropyAndItsGradient)
{
    const Numbers logits = {1, 2, 0.5, /**/ 200, 198, -200, /**/ -3, 4, 4};
    const int32_t labels[] = {2, 1, 2};
    Numbers want(9);
    double loss = 10;
    for (int r = 0; r < 3; r++) {
        const double *x = &logits[3 * r];
        const double most = std::max({x[0], x[1], x[2]});
        double sum = 0;
        for (int j = 0; j < 3; j++)
            sum += std::exp(x[j] - most);
        for (int j = 0; j < 3; j++)
            want[3 * r + j] =
                8 * (std::exp(x[j] - most) / sum - (j == labels[r]));
        loss += 0.25 * (std::log(sum) + most - x[labels[r]]);
    }

    for (int type : kTypes) {
        SCOPED_TRACE(stp_type_name(type));
        stp_cross_entropy c{};
        c.n = c.classes = 3;
        c.type = type;
        c.logits = Put(type, logits);
        c.label = Alloc<int32_t>(3);
        Ok(ops_->upload(self_, const_cast<int32_t *>(c.label), labels,
                        sizeof(labels), &err_));
        c.loss_scale = 0.25;
        c.gradient_scale = 8;
        c.loss = Alloc<double>(1);
        c.correct = Alloc<double>(1);
        const double ten = 10;
        Ok(ops_->upload(self_, c.loss, &ten, sizeof(ten), &err_));
        c.gradient = AllocOf(type, 9);
        Ok(Note(kMain, c));
        Sync();
        const double step = type == STP_TYPE_BF16  ? 1. / 256
                            : type == STP_TYPE_F16 ? 1. / 2048
                            : type == STP_TYPE_F32 ? 1e-6
                                                   : 1e-14;
        ExpectNumbers(want, type, c.gradient, 8 * step);
        double got[2] = {loss, 0};
        Ok(ops_->download(self_, &got[0], c.loss, sizeof(double), &err_));
        Ok(ops_->download(self_, &got[1], c.correct, sizeof(double), &err_));
        if (info_.has_data) {
            EXPECT_NEAR(loss, got[0], type == STP_TYPE_F64 ? 1e-13 : 1e-5);
            EXPECT_EQ(0, got[1]); // of two that are largest, the first counts
        }

        c.gradient = const_cast<void *>(c.logits); // in place, and no count
        c.correct = nullptr;
        Ok(Note(kMain, c));
        Sync();
        ExpectNumbers(want, type, c.logits, 8 * step);
    }
}

TEST_P(EngineContract, CountsRowsWhoseLabelIsLargest)
{
    const int32_t labels[] = {1, 0, 0, 1};
    stp_cross_entropy c{};
    c.n = 4;
    c.classes = 2;
    c.type = STP_TYPE_F32;
    c.logits = Put(STP_TYPE_F32, {0, 1, 0, 1, 1, 0, 3, 4});
    c.label = Alloc<int32_t>(4);
    c.loss = Alloc<double>(1);
    c.correct = Alloc<double>(1);
    Ok(ops_->upload(self_, const_cast<int32_t *>(c.label), labels,
                    sizeof(labels), &err_));
    double got = 3;

    Ok(Note(kMain, c));
    Sync();
    Ok(ops_->download(self_, &got, c.correct, sizeof(got), &err_));

    if (info_.has_data) {
        EXPECT_EQ(3, got);
    }
}

TEST_P(EngineContract, GoesBackThroughRelu)
{
    for (int type : kTypes) {
        SCOPED_TRACE(stp_type_name(type));
        const void *output = Put(type, {0, 1, -1, NAN, 0.5});
        void *gradient = Put(type, {1, 2, 3, 4, kInf});
        Kernel(STP_KERNEL_RELU_BACKWARD, type, 5, output, gradient);
        Sync();
        ExpectNumbers({0, 2, 0, 4, kInf}, type, gradient);
    }
}

TEST_P(EngineContract, AddsUpColumns)
{
    const unsigned rows = 37;
    const unsigned columns = 600;
    const Numbers matrix = Small(rows * columns, 5);

    for (int type : kTypes)
        for (int sum_type : {type, int(STP_TYPE_F32)})
            for (double beta : {0., 1.}) {
                if (type == STP_TYPE_F64 && sum_type != type)
                    continue;
                SCOPED_TRACE(stp_type_name(type));
                Numbers want = Small(columns, 6);
                void *sum = Put(sum_type, want);
                for (unsigned j = 0; j < columns; j++) {
                    want[j] *= beta;
                    for (unsigned i = 0; i < rows; i++)
                        want[j] += matrix[i * columns + j];
                }
                Kernel(STP_KERNEL_COLUMN_SUM, type, 0, Put(type, matrix), sum,
                       [=](stp_kernel *kernel) {
                           kernel->type_to = sum_type;
                           kernel->rows = rows;
                           kernel->columns = columns;
                           kernel->factor = beta;
                       });
                Sync();
                ExpectNumbers(want, sum_type, sum);
            }
}

TEST_P(EngineContract, UpdatesUnlessItIsToSkip)
{
    for (int gradient_type : {STP_TYPE_F32, STP_TYPE_BF16, STP_TYPE_F16})
        for (float skip : {0.f, 1.f}) {
            stp_update u{};
            u.n = 700;
            u.type = STP_TYPE_F32;
            u.gradient_type = gradient_type;
            u.copy_type = STP_TYPE_BF16;
            const Numbers before = Small(u.n, 1);
            const Numbers gradient = Small(u.n, 2);
            Numbers want = before;
            for (size_t i = 0; i < u.n && skip == 0; i++)
                want[i] -= 0.5 * 0.25 * gradient[i];
            u.w = Put(STP_TYPE_F32, before);
            u.gradient = Put(gradient_type, gradient);
            u.copy = Put(STP_TYPE_BF16, before);
            u.rate = 0.5;
            u.scale = 0.25;
            u.skip = static_cast<float *>(Put(STP_TYPE_F32, {skip}));
            Ok(Note(kMain, u));
            Sync();
            ExpectNumbers(want, STP_TYPE_F32, u.w);
            ExpectNumbers(want, STP_TYPE_BF16, u.copy);
        }
}

TEST_P(EngineContract, FindsWhatIsNotFinite)
{
    for (int type : kTypes)
        for (double value : {1., double(kInf), -double(kInf), double(NAN)}) {
            SCOPED_TRACE(std::string(stp_type_name(type)) + " " +
                         std::to_string(value));
            Numbers data = Small(1500, 3);
            data[1400] = value;
            float *found = Alloc<float>(1);
            Kernel(STP_KERNEL_FIND_NONFINITE, type, data.size(),
                   Put(type, data), found);
            Sync();
            ExpectNumbers({value == 1 ? 0. : 1.}, STP_TYPE_F32, found);
        }
    float *found = static_cast<float *>(Put(STP_TYPE_F32, {1}));
    Kernel(STP_KERNEL_FIND_NONFINITE, STP_TYPE_F32, 1, Put(STP_TYPE_F32, {0}),
           found);
    Sync();
    ExpectNumbers({1}, STP_TYPE_F32, found);
}

TEST_P(EngineContract, RoundsToNearestTiesToEven)
{
    ExpectNumbers({1, 1 + 1. / 64, 1 + 1. / 128, kInf, NAN}, STP_TYPE_BF16,
                  Put(STP_TYPE_BF16, {1 + 1. / 256, 1 + 3. / 256, 1 + 1.1 / 256,
                                      3.4e38, NAN}));
    ExpectNumbers({1, 1 + 1. / 512, 65504, kInf, -kInf, 0x1p-24}, STP_TYPE_F16,
                  Put(STP_TYPE_F16, {1 + 1. / 2048, 1 + 3. / 2048, 65519, 65520,
                                     -1e9, 0x1p-24}));
}

TEST_P(EngineContract, ScalesAndZeroes)
{
    for (int type : kTypes) {
        Numbers want = Small(900, 1);
        void *x = Put(type, want);
        for (double &w : want)
            w *= -0.5;
        Scale(type, want.size(), -0.5, x);
        Sync();
        ExpectNumbers(want, type, x);
        Kernel(STP_KERNEL_ZERO, type, stp_type_size(type) * 899, nullptr, x);
        Sync();
        Numbers left(900);
        left[899] = want[899];
        ExpectNumbers(left, type, x);
    }
}

/* ---- between ranks ---- */

TEST_P(EngineContract, ReducesOverAllRanks)
{
    const double n = info_.n_ranks;
    float *x = static_cast<float *>(
        Put(STP_TYPE_F32, {double(info_.rank), 1, -double(info_.rank)}));

    Collect(ncclFuncAllReduce, STP_OP_SUM, 3, x, x, true);
    ExpectNumbers({n * (n - 1) / 2, n, -n * (n - 1) / 2}, STP_TYPE_F32, x);

    Write(x, STP_TYPE_F32, {double(info_.rank), 1, -double(info_.rank)});
    Collect(ncclFuncAllReduce, STP_OP_MAX, 3, x, x, true);
    ExpectNumbers({n - 1, 1, 0}, STP_TYPE_F32, x);
}

TEST_P(EngineContract, ScattersAndGathersInPlace)
{
    const unsigned n = info_.n_ranks;
    Numbers mine;
    Numbers sums;
    for (unsigned r = 0; r < n; r++)
        for (unsigned i = 0; i < 2; i++) {
            mine.push_back(info_.rank + 10 * r + i);
            sums.push_back(n * (n - 1) / 2. + n * (10 * r + i));
        }
    float *all = static_cast<float *>(Put(STP_TYPE_F32, mine));
    float *shard = all + 2 * info_.rank;

    Collect(ncclFuncReduceScatter, STP_OP_SUM, 2, all, shard, true);
    ExpectNumbers({sums[2 * info_.rank], sums[2 * info_.rank + 1]},
                  STP_TYPE_F32, shard);

    Collect(ncclFuncAllGather, STP_OP_SUM, 2, shard, all, true);
    ExpectNumbers(sums, STP_TYPE_F32, all);
}

// x = (1 * 2 + 3) * 2: each stream needs the earlier work of the other.
TEST_P(EngineContract, OrdersStreamsByEvents)
{
    void *x = Put(STP_TYPE_F32, {1});
    stp_update add{};
    add.n = 1;
    add.type = add.gradient_type = add.copy_type = STP_TYPE_F32;
    add.w = x;
    add.gradient = Put(STP_TYPE_F32, {-3});
    add.rate = add.scale = 1;

    Ok(NoteEvent(STP_WORK_RECORD, kMain, 0));
    Scale(STP_TYPE_F32, 1, 2, x);
    Ok(NoteEvent(STP_WORK_RECORD, kMain, 1));
    Ok(NoteEvent(STP_WORK_WAIT, STP_STREAM_COMM, 1));
    Ok(Note(STP_STREAM_COMM, add));
    Ok(NoteEvent(STP_WORK_RECORD, STP_STREAM_COMM, 2));
    Ok(NoteEvent(STP_WORK_WAIT, kMain, 2));
    Scale(STP_TYPE_F32, 1, 2, x);
    Ok(NoteEvent(STP_WORK_RECORD, kMain, 3));
    const double from = ops_->now_us(self_);
    Sync();

    EXPECT_GE(Elapsed(0, 1), 0);
    EXPECT_GE(Elapsed(1, 2), 0);
    EXPECT_GE(Elapsed(0, 3), Elapsed(1, 2));
    EXPECT_GE(ops_->now_us(self_), from);
    ExpectNumbers({10}, STP_TYPE_F32, x);
}

TEST_P(EngineContract, RefusesStreamsAndWaitsThatCannotBe)
{
    EXPECT_EQ(STP_ERR_RANGE, NoteEvent(STP_WORK_RECORD, 2, 0));
    EXPECT_STREQ("stream 2 of 2", err_.text);
    EXPECT_EQ(STP_ERR_RANGE, NoteEvent(STP_WORK_WAIT, kMain, 70000));
    EXPECT_THAT(err_.text, testing::HasSubstr("event 70000"));

    Ok(NoteEvent(STP_WORK_RECORD, kMain, 7)); // in an earlier run
    Ok(NoteEvent(STP_WORK_WAIT, STP_STREAM_COMM, 7));
    Sync();
    EXPECT_EQ(STP_ERR_RANGE, NoteEvent(STP_WORK_WAIT, STP_STREAM_COMM, 7));
    EXPECT_THAT(err_.text, testing::HasSubstr("event 7"));
}

TEST_P(EngineContract, AgreesOnAFailure)
{
    if (!info_.has_data)
        GTEST_SKIP() << "one process is all ranks";
    const bool last = info_.rank + 1 == info_.n_ranks;
    const stp_status mine =
        last ? stp_fail(&err_, STP_ERR_NOMEM, "I am full") : STP_OK;

    const stp_status status = ops_->agree(self_, mine, &err_);

    EXPECT_EQ(info_.rank == 0 ? STP_ERR_NOMEM : STP_ERR_STOPPED, status);
    if (info_.rank == 0) {
        EXPECT_THAT(err_.text, testing::HasSubstr("I am full"));
    }
    EXPECT_EQ(STP_OK, ops_->agree(self_, STP_OK, &err_));
}
