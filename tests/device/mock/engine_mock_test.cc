// A recorded machine as an engine: exact virtual times, training and its trace.
#include "support/owned.h"
#include "support/temporary_folder.h"

extern "C" {
#include "device/mock/engine_mock.h"
}

#include <cjson/cJSON.h>
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>

extern "C" {
#include "analyse/overlap.h"
#include "device/mock/mock_compute.h"
#include "report/training/trace_json.h"
#include "train/train.h"
}

#include "mock_nccl.h"
#include "nccl_tuner_abi.h"
#include "device/engine_work.h"

namespace
{

using testing::HasSubstr;

constexpr const char *kH200x4 = STP_FIXTURES "/machines/h200x4";

class Mock
{
  public:
    explicit Mock(unsigned n_ranks = 0, uint64_t seed = 1,
                  const char *plugin = nullptr)
    {
        stp_device_options options{};
        stp_error err{};

        options.plugin = plugin;
        EXPECT_EQ(STP_OK, stp_mock_open(kH200x4, n_ranks, seed, &options,
                                        &engines_, &err))
            << err.text;
    }

    ~Mock()
    {
        get()->ops->close(get()->self);
    }

    Mock(const Mock &) = delete;
    Mock &operator=(const Mock &) = delete;

    const stp_engine *get() const
    {
        return &engines_.all[0];
    }

  private:
    stp_engines engines_{};
};

/* ---- times ---- */

class EngineMock : public testing::Test
{
  protected:
    void Ok(stp_status status)
    {
        ASSERT_EQ(STP_OK, status) << err_.text;
    }

    void Product(bool tf32 = false, int type = STP_TYPE_F32)
    {
        stp_product p{};
        p.gemm = {4096, 4096, 4096, type};
        p.type_c = type;
        p.tf32 = tf32;
        Ok(NoteIn(*mock_.get(), STP_STREAM_MAIN, p, &err_));
    }

    void AllReduce(unsigned stream)
    {
        stp_transfer t{};
        t.coll = ncclFuncAllReduce;
        t.type = STP_TYPE_F32;
        t.n = 1 << 20;
        t.in_place = true;
        Ok(NoteIn(*mock_.get(), stream, t, &err_));
    }

    // Returns the time of the work that 'note' adds, alone.
    template <typename F> double Time(const F &note)
    {
        const double from = ops_->now_us(self_);
        note();
        Ok(ops_->synchronise(self_, &err_));
        return ops_->now_us(self_) - from;
    }

    Mock mock_;
    const stp_engine_ops *ops_ = mock_.get()->ops;
    void *self_ = mock_.get()->self;
    stp_error err_{};
};

// 2 x 4096^3 operations at 0.77 of 67 TFLOP/s behind a launch of 4.75 us; TF32
// at half of F16's 989.5; 4 MiB twice through 0.92 of 4.8 TB/s.
TEST_F(EngineMock, TakesTheMachinesTimes)
{
    const double flop = 2. * 4096 * 4096 * 4096;

    EXPECT_NEAR(4.75 + flop / (67e6 * 0.77), Time([this] { Product(); }), 1e-6);
    EXPECT_NEAR(4.75 + flop / (989.5e6 / 2 * 0.77),
                Time([this] { Product(true); }), 1e-6);
    EXPECT_NEAR(4.75 + 2 * 4194304 / (4.8e6 * 0.92), Time([this] {
                    stp_kernel scale{};
                    scale.kind = STP_KERNEL_SCALE;
                    scale.type = STP_TYPE_F32;
                    scale.n = 1 << 20;
                    Ok(NoteIn(*mock_.get(), 0, scale, &err_));
                }),
                1e-6);
    EXPECT_EQ(0, Time([] {}));
}

TEST_F(EngineMock, DrawsTheSameTimesFromTheSameSeed)
{
    const auto time = [this](uint64_t seed) {
        const Mock mock(0, seed);
        const stp_engine *e = mock.get();
        stp_transfer t{};
        t.coll = ncclFuncAllReduce;
        t.type = STP_TYPE_F32;
        t.n = 1 << 20;
        for (int i = 0; i < 5; i++) {
            Ok(NoteIn(*e, 0, t, &err_));
            Ok(e->ops->synchronise(e->self, &err_));
        }
        return e->ops->now_us(e->self);
    };

    EXPECT_EQ(time(1), time(1));
    EXPECT_NE(time(1), time(2));
}

TEST_F(EngineMock, MovesNothingOnOneRank)
{
    const Mock alone(1);
    const stp_engine *e = alone.get();
    stp_transfer t{};
    t.coll = ncclFuncAllReduce;
    t.type = STP_TYPE_F32;
    t.n = 1 << 20;
    t.in_place = true;

    Ok(NoteIn(*e, 0, t, &err_));
    Ok(e->ops->synchronise(e->self, &err_));
    EXPECT_EQ(0, e->ops->now_us(e->self));
    t.in_place = false; // a copy
    Ok(NoteIn(*e, 0, t, &err_));
    Ok(e->ops->synchronise(e->self, &err_));
    EXPECT_NEAR(4.75 + 2 * 4194304 / (4.8e6 * 0.92), e->ops->now_us(e->self),
                1e-6);
}

TEST_F(EngineMock, LetsStreamsSlowEachOtherDown)
{
    const double product = Time([this] { Product(); });
    const double both = Time([this] {
        Product();
        AllReduce(STP_STREAM_COMM);
    });

    EXPECT_GT(both, product);
    EXPECT_LT(both, product + Time([this] { AllReduce(STP_STREAM_COMM); }));
}

TEST_F(EngineMock, HasTheMemoryOfTheGpu)
{
    void *address = nullptr;
    Ok(ops_->alloc(self_, 100000000000, "weights", &address, &err_));

    EXPECT_EQ(STP_ERR_NOMEM,
              ops_->alloc(self_, 50000000000, "gradients", &address, &err_));
    EXPECT_STREQ("no memory on each of 4 NVIDIA H200 for gradients: 50.00 GB "
                 "beside 100.00 GB, but a GPU has 141.00 GB",
                 err_.text);
    ops_->release(self_);
    Ok(ops_->alloc(self_, 50000000000, "gradients", &address, &err_));
}

TEST_F(EngineMock, SaysThatItIsRecordedOrModelled)
{
    stp_device_info info;

    ops_->info(self_, &info);
    EXPECT_STREQ(
        "h200x4: 4 x NVIDIA H200, NCCL 2.28.9; collectives of a "
        "recorded machine in mock NCCL, modelled compute, in virtual time: "
        "nothing was trained",
        info.what);
    EXPECT_EQ(4u, info.n_ranks);
    EXPECT_FALSE(info.has_data);

    const Mock two(2);
    two.get()->ops->info(two.get()->self, &info);
    EXPECT_THAT(info.what, HasSubstr("h200x4 resized: 2 x NVIDIA H200"));
    EXPECT_THAT(info.what, HasSubstr("modelled times of collectives and "));
}

TEST_F(EngineMock, IsTunedByThePluginInTurnsWithNcclAlone)
{
    const Mock tuned(0, 1, STP_ONE_CHANNEL);
    const stp_engine *e = tuned.get();
    stp_transfer t{};
    std::vector<double> us;
    t.coll = ncclFuncAllReduce;
    t.type = STP_TYPE_F32;
    t.n = 1 << 22;

    const stp_arm own{STP_ARM_AUTO, 0, 0, 0, 0, {}};
    const stp_arm plugin{STP_ARM_PLUGIN, 0, 0, 0, 0, {}};
    for (const stp_arm &arm : {own, plugin, own}) {
        const double from = e->ops->now_us(e->self);
        Ok(e->ops->select_arm(e->self, &arm, &err_));
        Ok(NoteIn(*e, 0, t, &err_));
        Ok(e->ops->synchronise(e->self, &err_));
        us.push_back(e->ops->now_us(e->self) - from);
    }

    EXPECT_GT(us[1], 2 * us[0]); // it takes one channel
    EXPECT_LT(us[2], us[1] / 2);
    EXPECT_EQ(STP_ERR_RANGE, ops_->select_arm(self_, &plugin, &err_));
    EXPECT_STREQ("no tuner plugin: the machine was opened without one",
                 err_.text);
}

TEST(EngineMockOpen, SaysWhatItCannotOpen)
{
    stp_device_options options{};
    stp_engines engines{};
    stp_error err{};

    EXPECT_EQ(STP_ERR_DEVICE,
              stp_mock_open("/nowhere", 0, 1, &options, &engines, &err));
    EXPECT_THAT(err.text, HasSubstr("/nowhere"));
    options.plugin = "none.so";
    EXPECT_EQ(STP_ERR_DEVICE,
              stp_mock_open(kH200x4, 0, 1, &options, &engines, &err));
    EXPECT_STREQ("NCCL 2.28.9 would not load tuner plugin 'none.so': `steptune "
                 "replay --contract` with it says why",
                 err.text);
}

/* ---- training ---- */

struct Traced {
    Owned<stp_train_result, stp_train_result_free> result;
    stp_overlap overlap{};
    stp_device_info info{};
};

class MockTraining : public testing::TestWithParam<stp_train_mode>
{
  protected:
    static std::unique_ptr<Traced>
    Train(stp_train_mode mode, stp_precision precision = STP_PRECISION_FP32)
    {
        const Mock mock;
        stp_train_config config;
        stp_error err{};
        auto traced = std::make_unique<Traced>();

        stp_train_default(&config);
        config.mode = mode;
        config.precision = precision;
        config.n_samples = 2 * config.batch;
        config.n_epochs = 2;
        config.trace = true;
        mock.get()->ops->info(mock.get()->self, &traced->info);
        EXPECT_EQ(STP_OK,
                  stp_train_measure(mock.get(), &config, &traced->result, &err))
            << err.text;
        traced->overlap = stp_overlap_of_spans(&traced->result.spans);
        return traced;
    }

    static double Hidden(const Traced &traced)
    {
        return stp_overlap_share(&traced.overlap);
    }
};

TEST_P(MockTraining, HasTimesAndATraceButNoLosses)
{
    const auto traced = Train(GetParam());
    const stp_spans &spans = traced->result.spans;
    std::map<std::string, double> us; // by part
    std::set<unsigned> streams;

    EXPECT_GT(traced->result.total_s, 0);
    EXPECT_TRUE(std::isnan(traced->result.losses[0]));
    EXPECT_TRUE(std::isnan(traced->result.epochs[1].loss));
    EXPECT_TRUE(std::isnan(traced->result.accuracy));
    ASSERT_EQ(2u, traced->result.n_traced);
    for (size_t i = 0; i < spans.n; i++) {
        const stp_span &s = spans.all[i];
        EXPECT_GT(s.end_us, s.begin_us) << s.name;
        EXPECT_GE(s.begin_us, i > 0 ? spans.all[i - 1].begin_us : 0) << s.name;
        if (s.range.name != nullptr)
            us[s.range.name] += s.end_us - s.begin_us;
        if (s.kind == STP_SPAN_COMMUNICATION && s.range.name != nullptr)
            streams.insert(s.stream);
    }

    EXPECT_GT(us["forward"], 0);
    EXPECT_GT(us["backward"], us["forward"]);
    EXPECT_GT(us["update"], 0);
    if (GetParam() == STP_TRAIN_SHARDED)
        EXPECT_NEAR(us["reduce-scatter"] + us["all-gather"],
                    traced->overlap.communication, 1e-6);
    else
        EXPECT_NEAR(us["all-reduce"], traced->overlap.communication, 1e-6);
    const bool beside =
        GetParam() == STP_TRAIN_INTERLEAVED || GetParam() == STP_TRAIN_BUCKETED;
    EXPECT_THAT(streams, testing::ElementsAre(beside ? STP_STREAM_COMM
                                                     : STP_STREAM_MAIN));
    EXPECT_EQ(beside, traced->overlap.hidden > 0);
}

INSTANTIATE_TEST_SUITE_P(, MockTraining,
                         testing::Values(STP_TRAIN_NAIVE, STP_TRAIN_INTERLEAVED,
                                         STP_TRAIN_BUCKETED, STP_TRAIN_SHARDED),
                         [](const auto &c) {
                             return std::string(stp_train_mode_name(c.param));
                         });

// In fp32 compute takes five times as long as communication.
TEST_F(MockTraining, HidesInBucketsWhatNaiveDoesNot)
{
    const auto naive = Train(STP_TRAIN_NAIVE);
    const auto bucketed = Train(STP_TRAIN_BUCKETED);

    const auto again = Train(STP_TRAIN_BUCKETED);

    EXPECT_EQ(bucketed->result.total_s, again->result.total_s);
    EXPECT_EQ(bucketed->overlap.hidden, again->overlap.hidden);
    EXPECT_EQ(0, Hidden(*naive));
    EXPECT_GT(Hidden(*bucketed), 0.5);
    EXPECT_LT(Hidden(*bucketed), 1);
    EXPECT_GT(naive->overlap.compute, 4 * naive->overlap.communication);
    EXPECT_LT(bucketed->result.total_s, naive->result.total_s);
    const auto faster = Train(STP_TRAIN_BUCKETED, STP_PRECISION_BF16);
    EXPECT_GT(Hidden(*faster), 0);
    EXPECT_LT(Hidden(*faster), Hidden(*bucketed));
}

// Naive leaves no gap: what is not compute is communication.
TEST_F(MockTraining, TakesTheSumOfItsPartsIfNothingOverlaps)
{
    const auto naive = Train(STP_TRAIN_NAIVE);
    const stp_spans &spans = naive->result.spans;
    double us = 0;

    for (size_t i = 0; i < spans.n; i++)
        us += spans.all[i].end_us - spans.all[i].begin_us;

    EXPECT_NEAR(spans.all[spans.n - 1].end_us - spans.all[0].begin_us, us,
                1e-6);
}

/* ---- its file ---- */

using Json = std::unique_ptr<cJSON, decltype(&cJSON_Delete)>;

std::string Word(const cJSON *object, const char *key)
{
    const char *word = cJSON_GetStringValue(cJSON_GetObjectItem(object, key));
    return word != nullptr ? word : "";
}

double Number(const cJSON *object, const char *key)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItem(object, key));
}

TEST_F(MockTraining, IsSavedAsATraceOfChromes)
{
    const auto traced = Train(STP_TRAIN_BUCKETED);
    const TemporaryFolder temporary;
    const std::string folder = temporary.Path("trace");
    stp_error err{};
    traced->info.rank = 3;
    ASSERT_EQ(STP_OK, stp_trace_save(&traced->result.spans, &traced->info,
                                     folder.c_str(), &err))
        << err.text;
    const std::string text = ReadFile(folder + "/trace_rank3.json");
    const Json json(cJSON_Parse(text.c_str()), cJSON_Delete);
    ASSERT_NE(nullptr, json);

    std::map<std::string, unsigned> n; // events by category
    std::map<std::string, double> range_us;
    std::vector<std::string> names;
    const cJSON *event;
    cJSON_ArrayForEach(event, cJSON_GetObjectItem(json.get(), "traceEvents"))
    {
        const cJSON *args = cJSON_GetObjectItem(event, "args");
        EXPECT_EQ(3, Number(event, "pid"));
        if (Word(event, "ph") == "M") {
            names.push_back(Word(args, "name"));
            continue;
        }
        EXPECT_EQ("X", Word(event, "ph"));
        EXPECT_GT(Number(event, "dur"), 0);
        EXPECT_GT(Number(event, "ts"), 0);
        n[Word(event, "cat")]++;
        if (Word(event, "cat") == "range")
            range_us[Word(event, "name")] += Number(event, "dur");
    }

    EXPECT_THAT(names, testing::ElementsAre("rank 3", "compute stream",
                                            "communication stream", "host"));
    EXPECT_EQ(traced->result.spans.n, n["compute"] + n["communication"]);
    EXPECT_NEAR(traced->overlap.communication, range_us["all-reduce"], 1e-3);
    EXPECT_THAT(range_us, testing::SizeIs(4));
    EXPECT_EQ(traced->info.what,
              Word(cJSON_GetObjectItem(json.get(), "otherData"), "made_by"));
}

TEST_F(MockTraining, SaysWhereATraceCannotBeSaved)
{
    const stp_spans spans{};
    const stp_device_info info{};
    stp_error err{};

    EXPECT_EQ(STP_ERR_IO, stp_trace_save(&spans, &info, "/proc/nowhere", &err));
    EXPECT_THAT(err.text,
                HasSubstr("cannot make the folder '/proc/nowhere': "));
}

} // namespace
