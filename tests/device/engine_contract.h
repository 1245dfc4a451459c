// What device/engine.h promises, as tests of any engine.
//
// A test program names its engines by EngineCases and instantiates the suite
// with INSTANTIATE_TEST_SUITE_P(Name, EngineContract, testing::ValuesIn(cases),
// ...).  Where an engine has several processes, all of them run the same tests.
#ifndef STP_ENGINE_CONTRACT_H
#define STP_ENGINE_CONTRACT_H

#include <algorithm>

#include "device/engine_under_test.h"

TEST_P(EngineContract, GivesAlignedZeros)
{
    for (int i = 0; i < 3; i++) {
        float *at = Alloc<float>(5);
        EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(at) % STP_ENGINE_ALIGN);
        ExpectNumbers({0, 0, 0, 0, 0}, STP_TYPE_F32, at);
    }
}

TEST_P(EngineContract, GivesZerosAgainAfterRelease)
{
    for (int i = 0; i < 3; i++) {
        ExpectNumbers({1, 2, 3}, STP_TYPE_F32, Put(STP_TYPE_F32, {1, 2, 3}));
        ops_->release(self_);
        ExpectNumbers({0, 0, 0}, STP_TYPE_F32, Alloc<float>(3));
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
    for (int type : types_) {
        ProductsInto(type, type);
        if (stp_type_size(type) == 2)
            ProductsInto(type, STP_TYPE_F32);
    }
}

TEST_P(EngineContract, KeepsNanThroughRelu)
{
    stp_product p{};
    p.m = p.n = p.k = 1;
    p.type = p.type_c = STP_TYPE_F32;
    p.epilogue = STP_EPILOGUE_BIAS_RELU;
    p.a = Put(STP_TYPE_F32, {NAN});
    p.b = p.bias = Put(STP_TYPE_F32, {1});
    p.c = Put(STP_TYPE_F32, {0});

    Ok(ops_->product(self_, kMain, &p, &err_));
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

    for (int type : types_) {
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
        Ok(ops_->cross_entropy(self_, kMain, &c, &err_));
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
        Ok(ops_->cross_entropy(self_, kMain, &c, &err_));
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

    Ok(ops_->cross_entropy(self_, kMain, &c, &err_));
    Sync();
    Ok(ops_->download(self_, &got, c.correct, sizeof(got), &err_));

    if (info_.has_data) {
        EXPECT_EQ(3, got);
    }
}

TEST_P(EngineContract, GoesBackThroughRelu)
{
    for (int type : types_) {
        SCOPED_TRACE(stp_type_name(type));
        const void *output = Put(type, {0, 1, -1, NAN, 0.5});
        void *gradient = Put(type, {1, 2, 3, 4, kInf});
        Ok(ops_->relu_backward(self_, kMain, type, 5, output, gradient, &err_));
        Sync();
        ExpectNumbers({0, 2, 0, 4, kInf}, type, gradient);
    }
}

TEST_P(EngineContract, AddsUpColumns)
{
    const unsigned rows = 37;
    const unsigned columns = 600;
    const Numbers matrix = Small(rows * columns, 5);

    for (int type : types_)
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
                Ok(ops_->column_sum(self_, kMain, type, sum_type, rows, columns,
                                    beta, Put(type, matrix), sum, &err_));
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
            Ok(ops_->update(self_, kMain, &u, &err_));
            Sync();
            ExpectNumbers(want, STP_TYPE_F32, u.w);
            ExpectNumbers(want, STP_TYPE_BF16, u.copy);
        }
}

TEST_P(EngineContract, FindsWhatIsNotFinite)
{
    for (int type : types_)
        for (double value : {1., double(kInf), -double(kInf), double(NAN)}) {
            SCOPED_TRACE(std::string(stp_type_name(type)) + " " +
                         std::to_string(value));
            Numbers data = Small(1500, 3);
            data[1400] = value;
            float *found = Alloc<float>(1);
            Ok(ops_->find_nonfinite(self_, kMain, type, data.size(),
                                    Put(type, data), found, &err_));
            Sync();
            ExpectNumbers({value == 1 ? 0. : 1.}, STP_TYPE_F32, found);
        }
    float *found = static_cast<float *>(Put(STP_TYPE_F32, {1}));
    Ok(ops_->find_nonfinite(self_, kMain, STP_TYPE_F32, 1,
                            Put(STP_TYPE_F32, {0}), found, &err_));
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
    for (int type : types_) {
        Numbers want = Small(900, 1);
        void *x = Put(type, want);
        for (double &w : want)
            w *= -0.5;
        Ok(ops_->scale(self_, kMain, type, want.size(), -0.5, x, &err_));
        Sync();
        ExpectNumbers(want, type, x);
        Ok(ops_->zero(self_, kMain, x, stp_type_size(type) * 899, &err_));
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

TEST_P(EngineContract, Broadcasts)
{
    void *x = Put(STP_TYPE_F32, {info_.rank + 5., 1});

    Collect(ncclFuncBroadcast, STP_OP_SUM, 2, x, x, true);

    ExpectNumbers({5, 1}, STP_TYPE_F32, x);
}

// x = (1 * 2 + 3) * 2: each stream needs what the other did before.
TEST_P(EngineContract, OrdersStreamsByEvents)
{
    void *x = Put(STP_TYPE_F32, {1});
    stp_update add{};
    add.n = 1;
    add.type = add.gradient_type = add.copy_type = STP_TYPE_F32;
    add.w = x;
    add.gradient = Put(STP_TYPE_F32, {-3});
    add.rate = add.scale = 1;

    Ok(ops_->record(self_, kMain, 0, &err_));
    Ok(ops_->scale(self_, kMain, STP_TYPE_F32, 1, 2, x, &err_));
    Ok(ops_->record(self_, kMain, 1, &err_));
    Ok(ops_->wait(self_, STP_STREAM_COMM, 1, &err_));
    Ok(ops_->update(self_, STP_STREAM_COMM, &add, &err_));
    Ok(ops_->record(self_, STP_STREAM_COMM, 2, &err_));
    Ok(ops_->wait(self_, kMain, 2, &err_));
    Ok(ops_->scale(self_, kMain, STP_TYPE_F32, 1, 2, x, &err_));
    Ok(ops_->record(self_, kMain, 3, &err_));
    const double from = ops_->now_us(self_);
    Sync();

    EXPECT_GE(ops_->elapsed_us(self_, 0, 1), 0);
    EXPECT_GE(ops_->elapsed_us(self_, 1, 2), 0);
    EXPECT_GE(ops_->elapsed_us(self_, 0, 3), ops_->elapsed_us(self_, 1, 2));
    EXPECT_GE(ops_->now_us(self_), from);
    ExpectNumbers({10}, STP_TYPE_F32, x);
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

#endif // STP_ENGINE_CONTRACT_H
