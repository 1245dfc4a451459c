// How often trainings with micro-batches communicate, on a recorded machine.
#include <gmock/gmock.h>

#include <array>

extern "C" {
#include "nccl_tuner_abi.h"
#include "train/train_matrix.h"
}

#include "support/mock_device.h"

namespace
{

// All-reduces, reduce-scatters and all-gathers.
using Sent = std::array<unsigned, 3>;

Sent sent;
decltype(stp_engine_ops::note) note_really;

// Counts collectives of gradients and weights, not those of losses.
stp_status Count(void *self, const stp_work *work, stp_error *err)
{
    const stp_transfer &transfer = work->as.transfer;
    if (work->kind == STP_WORK_TRANSFER && transfer.type != STP_TYPE_F64) {
        sent[0] += transfer.coll == ncclFuncAllReduce;
        sent[1] += transfer.coll == ncclFuncReduceScatter;
        sent[2] += transfer.coll == ncclFuncAllGather;
    }
    return note_really(self, work, err);
}

// The collectives of an epoch of all ranks of h200x4 in virtual time.
Sent SentInAnEpoch(const stp_train_config &config)
{
    stp_device_options options{};
    stp_engines engines{};
    stp_train_result result{};
    stp_error err{};

    options.world = &stp_world_of_one;
    EXPECT_EQ(STP_OK, stp_mock_open(MockPath("h200x4").c_str(), 0, 1, &options,
                                    &engines, &err))
        << err.text;
    const stp_engine &mock = engines.all[0];
    stp_engine_ops ops = *mock.ops;
    note_really = ops.note;
    ops.note = Count;
    const stp_engine counted = {&ops, mock.self};
    sent = {0, 0, 0};
    EXPECT_EQ(STP_OK, stp_train_measure(&counted, &config, &result, &err))
        << err.text;
    stp_train_result_free(&result);
    mock.ops->close(mock.self);
    return sent;
}

// An epoch of 4096 samples, of model tiny: 6 tensors, 3 layers, and a bucket of
// the last bias beside one of all else.
stp_train_matrix Matrix(stp_train_mode mode)
{
    stp_train_matrix m{};

    stp_train_default(&m.base);
    m.base.n_samples = 4096;
    m.base.n_epochs = 1;
    m.base.warmup = 0;
    m.base.first_bucket_bytes = 1;
    m.models[m.n_models++] = stp_train_find_model("tiny");
    m.gpus[m.n_gpus++] = 4;
    m.precisions[m.n_precisions++] = STP_PRECISION_FP32;
    for (unsigned ga : {1, 2, 4})
        m.accumulate[m.n_accumulate++] = ga;
    m.modes[m.n_modes++] = mode;
    return m;
}

struct Case {
    stp_train_mode mode;
    Sent a_step;
};

const Case kCases[] = {
    {STP_TRAIN_NAIVE, {6, 0, 0}},
    {STP_TRAIN_INTERLEAVED, {3, 0, 0}},
    {STP_TRAIN_BUCKETED, {2, 0, 0}},
    {STP_TRAIN_SHARDED, {0, 1, 1}},
};

class MicroBatches : public testing::TestWithParam<Case>
{
  protected:
    // Expects so many steps with GA 1, 2 and 4.
    void ExpectSteps(const stp_train_matrix &m,
                     const std::vector<unsigned> &steps)
    {
        const Sent &one = GetParam().a_step;
        stp_train_jobs jobs{};
        stp_error err{};

        ASSERT_EQ(STP_OK, stp_train_plan(&m, &jobs, &err)) << err.text;
        ASSERT_EQ(steps.size(), jobs.n);
        for (size_t i = 0; i < jobs.n; i++) {
            const Sent want = {steps[i] * one[0], steps[i] * one[1],
                               steps[i] * one[2]};
            EXPECT_EQ(want, SentInAnEpoch(jobs.jobs[i].config))
                << "GA " << jobs.jobs[i].config.accumulate;
        }
        stp_train_jobs_free(&jobs);
    }
};

TEST_P(MicroBatches, OfTheSameSamplesMakeAQuarterOfTheCollectivesByFour)
{
    stp_train_matrix m = Matrix(GetParam().mode);
    m.micro_batch = 256;

    ExpectSteps(m, {16, 8, 4});
}

TEST_P(MicroBatches, OfAStepOfTheSameSamplesMakeAsManyCollectives)
{
    stp_train_matrix m = Matrix(GetParam().mode);
    m.base.batch = 256;

    ExpectSteps(m, {16, 16, 16});
}

INSTANTIATE_TEST_SUITE_P(Modes, MicroBatches, testing::ValuesIn(kCases),
                         [](const auto &c) {
                             return std::string(
                                 stp_train_mode_name(c.param.mode));
                         });

} // namespace
