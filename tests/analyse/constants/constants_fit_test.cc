// Constants fitted to times: those that a model with other constants gives, and
// what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

extern "C" {
#include "analyse/constants/constants.h"
#include "core/dtype.h"
#include "device/mock/operation.h"
}

#include "mock_nccl.h"
#include "analyse/told.h"

namespace
{

using testing::HasSubstr;

constexpr size_t kFirst = 64 << 10, kLast = 16 << 20;
constexpr char kMachine[] = STP_FIXTURES "/machines/h200x4";

// NCCL's model of the machine with some constants.
class Model
{
  public:
    explicit Model(const ncclTunerConstants_v7_t &constants)
        : constants_(constants)
    {
        mock_nccl_options options{};
        options.tuner_plugin = "none";
        options.constants = &constants_;
        EXPECT_EQ(ncclSuccess, mock_machine_load(kMachine, &machine_));
        EXPECT_EQ(ncclSuccess, mock_nccl_create(&options, &nccl_));
        EXPECT_EQ(ncclSuccess, mock_comm_create(nccl_, machine_, 1, &comm_));
    }
    ~Model()
    {
        mock_comm_destroy(comm_);
        mock_nccl_destroy(nccl_);
        mock_machine_free(machine_);
    }
    Model(const Model &) = delete;
    Model &operator=(const Model &) = delete;

    mock_outcome Ask(ncclFunc_t coll, size_t n_bytes) const
    {
        mock_call call{};
        mock_outcome out{};
        call.coll = coll;
        call.n_bytes = n_bytes;
        stp_set_operation(&call, STP_TYPE_F32, STP_OP_SUM);
        EXPECT_EQ(ncclSuccess, mock_comm_collective(comm_, &call, &out))
            << mock_last_error();
        return out;
    }

  private:
    const ncclTunerConstants_v7_t constants_;
    mock_machine *machine_ = nullptr;
    mock_nccl *nccl_ = nullptr;
    mock_comm *comm_ = nullptr;
};

ncclTunerConstants_v7_t Defaults()
{
    ncclTunerConstants_v7_t c;
    mock_release_constants(mock_release_find("2.28"), &c);
    return c;
}

ncclTunerConstants_v7_t With(const stp_constants &fitted)
{
    ncclTunerConstants_v7_t c = Defaults();
    stp_constants_apply(&fitted, &c);
    return c;
}

class Fit : public testing::Test
{
  protected:
    void TearDown() override
    {
        stp_constants_fit_free(&fit_);
        stp_comparisons_free(&comparisons_);
        stp_dataset_free(&data_);
    }

    void Add(ncclFunc_t coll, size_t n_bytes, const stp_arm &arm,
             const mock_outcome &ran, double us)
    {
        for (unsigned round = 0; round < 3; round++) {
            stp_measurement m{};
            m.coll = coll;
            m.n_bytes = n_bytes;
            m.round = round;
            m.arm = arm;
            m.ran_algo = arm.kind == STP_ARM_AUTO ? ran.algo : arm.algo;
            m.ran_proto = arm.kind == STP_ARM_AUTO ? ran.proto : arm.proto;
            m.type = STP_TYPE_F32;
            m.op = STP_OP_SUM;
            m.n_wrong = -1;
            m.n_ranks = n_ranks_;
            m.n_nodes = 1;
            m.iters = 1;
            m.source = source_;
            m.single_pass = single_pass_;
            m.us = {us, us, us, us, us};
            m.work.mode = mode_;
            ASSERT_EQ(STP_OK, stp_dataset_add(&data_, &m));
        }
    }

    // Every pair at these sizes, with the times of 'truth', and NCCL's choice.
    void Measure(const Model &truth, ncclFunc_t coll)
    {
        const Model own(Defaults());

        for (size_t n = kFirst; n <= kLast; n *= 2) {
            const mock_outcome times = truth.Ask(coll, n);
            const mock_outcome chosen = own.Ask(coll, n);
            Add(coll, n, {STP_ARM_AUTO, 0, 0, 0, 0, {}}, chosen,
                double{times.cost[chosen.algo][chosen.proto]});
            for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
                for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
                    if (times.cost[a][p] > 0)
                        Add(coll, n, {STP_ARM_FORCED, a, p, n_channels_, 0, {}},
                            chosen, double{times.cost[a][p]});
        }
    }

    stp_status Run()
    {
        const stp_constants_terms terms = {kMachine, nccl_,          false,
                                           1,        Told::Progress, &told_};

        EXPECT_EQ(STP_OK, stp_compare(&data_, &comparisons_, &err_));
        return stp_fit_constants(&comparisons_, &terms, &fit_, &err_);
    }

    Told told_;
    stp_dataset data_{};
    stp_comparisons comparisons_{};
    stp_constants_fit fit_{};
    stp_error err_{};
    const char *nccl_ = "2.28.9";
    unsigned n_ranks_ = 4;
    int n_channels_ = 0;
    stp_source source_ = STP_SOURCE_MEASURED;
    bool single_pass_ = false;
    stp_mode mode_ = STP_MODE_ALONE;
};

struct Edit {
    const char *name;
    const char *constants; // the truth
    ncclFunc_t coll;
};

class FitOfKnownTruth : public Fit, public testing::WithParamInterface<Edit>
{
};

// A choice that takes as long as the truth's is right, whatever it is called.
double Lost(const Model &truth, const Model &fitted, ncclFunc_t coll, size_t n)
{
    const mock_outcome right = truth.Ask(coll, n);
    const mock_outcome found = fitted.Ask(coll, n);

    return double{right.cost[found.algo][found.proto]} /
               double{right.cost[right.algo][right.proto]} -
           1;
}

TEST_P(FitOfKnownTruth, ChoosesAsItDoesAtAllSizesAndBetween)
{
    const std::string text =
        std::string("constant,row,column,value\n") + GetParam().constants;
    stp_constants edits{};
    ASSERT_EQ(STP_OK,
              stp_constants_parse(text.data(), text.size(), &edits, nullptr));
    const Model truth(With(edits));
    const ncclFunc_t coll = GetParam().coll;
    Measure(truth, coll);

    ASSERT_EQ(STP_OK, Run()) << err_.text;

    EXPECT_GT(fit_.before.mean, 1.01);
    EXPECT_LT(fit_.after.mean, 1.0005);
    EXPECT_LT(fit_.after.worst, 1.005);
    EXPECT_EQ(0u, fit_.after.n_slower);
    EXPECT_EQ(9u, fit_.after.n);
    EXPECT_EQ(7u, fit_.left_out.n);
    EXPECT_EQ(0u, fit_.n_misfits);
    EXPECT_TRUE(stp_constants_fit_helps(&fit_));
    const Model fitted(With(fit_.constants));
    for (size_t n = kFirst; n <= kLast; n += n / 2)
        EXPECT_LT(Lost(truth, fitted, coll, n), .07) << n << " of " << coll;
}

const Edit kEdits[] = {
    {"slow_ll", "ll_bandwidth,hopper,1,30\n", ncclFuncAllGather},
    {"quick_ll128", "base_latency,ring,ll128,7\nbase_latency,tree,ll128,7\n",
     ncclFuncAllReduce},
    {"quick_tree", "nvlink_latency,tree,ll,0.1\ntree_bandwidth,hopper,1,60\n",
     ncclFuncAllReduce},
};

INSTANTIATE_TEST_SUITE_P(Table, FitOfKnownTruth, testing::ValuesIn(kEdits),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

TEST_F(Fit, TellsOfEverySearchAndStopsWhereItIsTold)
{
    Measure(Model(Defaults()), ncclFuncAllReduce);
    ASSERT_EQ(STP_OK, Run()) << err_.text;
    EXPECT_TRUE(told_.IsComplete());
    // all sizes at once, then without each but the first and the last
    EXPECT_EQ(1 + fit_.left_out.n, told_.calls.size());

    told_ = {};
    told_.stop_at = 3;
    stp_comparisons_free(&comparisons_);
    stp_constants_fit_free(&fit_);
    EXPECT_EQ(STP_ERR_STOPPED, Run());
    EXPECT_EQ(3u, told_.calls.size());
}

TEST_F(Fit, LeavesConstantsThatAreRightAlone)
{
    const Model truth(Defaults());
    Measure(truth, ncclFuncAllReduce);

    ASSERT_EQ(STP_OK, Run()) << err_.text;

    EXPECT_EQ(0u, stp_constants_size(&fit_.constants));
    EXPECT_EQ(1, fit_.before.mean);
    EXPECT_FALSE(stp_constants_fit_helps(&fit_));
}

TEST_F(Fit, ChangesFewConstants)
{
    ncclTunerConstants_v7_t slow = Defaults();
    slow.llMaxBws[NCCL_HOPPER_COMPCAP_IDX][0] = 30;
    const Model truth(slow);
    Measure(truth, ncclFuncAllGather);

    ASSERT_EQ(STP_OK, Run()) << err_.text;

    EXPECT_LE(stp_constants_size(&fit_.constants), 2u);
    EXPECT_LT(fit_.after.mean, 1.0005);
}

// ---- refused ----

struct RefusedCase {
    const char *name;
    unsigned n_ranks;
    int n_channels;
    stp_source source;
    bool single_pass;
    stp_mode mode;
    const char *nccl;
    stp_status status;
    const char *text;
};

class RefusedFit : public Fit, public testing::WithParamInterface<RefusedCase>
{
};

TEST_P(RefusedFit, SaysWhatTheModelDoesNotPredict)
{
    const RefusedCase &c = GetParam();
    n_ranks_ = c.n_ranks;
    n_channels_ = c.n_channels;
    source_ = c.source;
    single_pass_ = c.single_pass;
    mode_ = c.mode;
    nccl_ = c.nccl;
    const Model truth(Defaults());
    Measure(truth, ncclFuncAllGather);

    EXPECT_EQ(c.status, Run());

    EXPECT_THAT(err_.text, HasSubstr(c.text));
}

constexpr char kNoSize[] = "no size at which two algorithms or protocols";

const RefusedCase kRefused[] = {
    {"other_ranks", 8, 0, STP_SOURCE_MEASURED, false, STP_MODE_ALONE, "2.28.9",
     STP_ERR_RANGE, "8 ranks of 1 nodes, expected 4 of 1"},
    {"arms_of_channels", 4, 8, STP_SOURCE_MEASURED, false, STP_MODE_ALONE,
     "2.28.9", STP_ERR_RANGE, kNoSize},
    {"single_passes", 4, 0, STP_SOURCE_MEASURED, true, STP_MODE_ALONE, "2.28.9",
     STP_ERR_RANGE, kNoSize},
    {"modelled", 4, 0, STP_SOURCE_MODELLED, false, STP_MODE_ALONE, "2.28.9",
     STP_ERR_RANGE, kNoSize},
    {"iterations", 4, 0, STP_SOURCE_MEASURED, false, STP_MODE_OVERLAP, "2.28.9",
     STP_ERR_RANGE, "these are times of iterations"},
    {"older_nccl", 4, 0, STP_SOURCE_MEASURED, false, STP_MODE_ALONE, "2.27.7",
     STP_ERR_DEVICE, "NCCL '2.27.7' takes no constants from a tuner"},
    {"newer_nccl", 4, 0, STP_SOURCE_MEASURED, false, STP_MODE_ALONE, "2.31",
     STP_ERR_DEVICE, "NCCL '2.31' takes no constants from a tuner"},
};

INSTANTIATE_TEST_SUITE_P(Table, RefusedFit, testing::ValuesIn(kRefused),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

TEST_F(Fit, TakesSinglePassesOnlyIfTrusted)
{
    const Model truth(Defaults());
    single_pass_ = true;
    Measure(truth, ncclFuncAllGather);
    const stp_constants_terms terms = {kMachine, "", true, 1, nullptr, nullptr};

    ASSERT_EQ(STP_OK, stp_compare(&data_, &comparisons_, &err_));

    EXPECT_EQ(STP_OK, stp_fit_constants(&comparisons_, &terms, &fit_, &err_));
}

} // namespace
