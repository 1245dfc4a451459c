// nccl-tests' text as runs of arms: which arm, which round.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "support/owned.h"

extern "C" {
#include "report/measurements/nccl_text.h"
}

#include "nccl_tuner_abi.h"

namespace
{

using testing::ElementsAre;
using testing::HasSubstr;

#define HEAD                                                                   \
    "# nThread 1 nGpus 2 warmup iters: 5 iters: 30 validation: 1 \n"           \
    "# Using devices\n"                                                        \
    "#   Rank  0 Pid  100 on  a device  0 [0x07] Tesla V100\n"                 \
    "#   Rank  1 Pid  100 on  a device  1 [0x0b] Tesla V100\n"                 \
    "#       size         count    type   redop    root     time   algbw   "   \
    "busbw #wrong     time   algbw   busbw #wrong\n"
#define LOG "a:100:107 [0] NCCL INFO "

std::string Row(uint64_t size)
{
    return "  " + std::to_string(size) +
           "  256  float  sum  -1  10.5  0.10  0.10  0  9.5  0.1  0.1  0\n";
}

std::string Ran(uint64_t size, const char *pair)
{
    return LOG "AllReduce: " + std::to_string(size) + " Bytes -> " + pair +
           " channel{Lo..Hi}={0..1}\n";
}

// Two sizes, and what ran at each.
std::string Two(const char *pair1, const char *pair2)
{
    return HEAD + Ran(1024, pair1) + Row(1024) + Ran(2048, pair2) + Row(2048);
}

class DeriveText : public testing::Test
{
  protected:
    stp_status Add(const std::string &text, const char *arm = nullptr,
                   int coll = ncclFuncAllReduce)
    {
        stp_arm named{};
        EXPECT_TRUE(arm == nullptr ||
                    stp_arm_from_name(arm, strlen(arm), &named));
        return stp_nccl_text_add(text.data(), text.size(), coll, 0,
                                 arm != nullptr ? &named : nullptr, &data_,
                                 &err_);
    }

    // "ARM ROUND" a row that is out of place.
    std::vector<std::string> Runs() const
    {
        std::vector<std::string> runs;
        for (size_t i = 0; i < data_.n_rows; i++) {
            char name[STP_ARM_NAME];
            stp_arm_name(&data_.rows[i].arm, name);
            if (!data_.rows[i].in_place)
                runs.push_back(std::string(name) + " " +
                               std::to_string(data_.rows[i].round));
        }
        return runs;
    }

    Owned<stp_dataset, stp_dataset_free> data_;
    stp_error err_{};
};

TEST_F(DeriveText, FindsTheArmInWhatNcclLogged)
{
    const std::string algo = LOG "NCCL_ALGO set by environment to Ring\n";
    const std::string proto = LOG "NCCL_PROTO set by environment to LL128\n";
    const std::string tuner = LOG "TUNER/Plugin: Using other (v5)\n";
    const char *const unlike = "Algo RING proto LL";
    const struct {
        const char *name;
        std::string text;
        const char *want; // of each row, or the refusal
    } cases[] = {
        // clang-format off
        {"one_pair", Two("Algo RING proto LL128", "Algo RING proto LL128"), "ring/ll128"},
        {"one_pair_of_a_plugin", tuner + Two(unlike, unlike), "ring/ll"},
        {"ncclchose", Two(unlike, "Algo NVLS_TREE proto SIMPLE"), "auto"},
        {"numbers", Two("Algo 0 proto 0", "Algo 1 proto 2"), "auto"},
        {"algorithm_set", algo + Two(unlike, "Algo RING proto SIMPLE"), "ring"},
        {"both_set", algo + proto + HEAD + Row(1024) + Row(2048), "ring/ll128"},
        {"protocols_alone_differ", Two(unlike, "Algo RING proto SIMPLE"),
         "NCCL may have chosen by itself, or NCCL_ALGO or NCCL_PROTO were set, expected its arm by name, "
         "such as --arm auto=FILE or --arm ring/ll128=FILE"},
        {"plugin", tuner + Two(unlike, "Algo TREE proto SIMPLE"), "a tuner plugin chose"},
        {"list", LOG "NCCL_ALGO set by environment to ^Tree\n" + Two(unlike, unlike),
         "NCCL_ALGO or NCCL_PROTO was a list"},
        {"one_size_not_logged", HEAD + Ran(1024, unlike) + Row(1024) + Row(2048),
         "NCCL did not log what it ran at every size (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING,ENV)"},
        {"log_of_another_size", HEAD + Ran(1024, unlike) + Row(1024) + Ran(1024, unlike) + Row(2048),
         "NCCL did not log what it ran at every size"},
        {"set_in_vain", algo + Two(unlike, "Algo TREE proto LL"),
         "arm ring, but NCCL ran tree/ll at 2048 bytes, expected what was forced"},
        // clang-format on
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        stp_dataset_free(&data_);
        if (Add(c.text) == STP_OK) {
            const std::string run = std::string(c.want) + " 0";
            EXPECT_THAT(Runs(), ElementsAre(run, run));
            EXPECT_EQ(STP_SOURCE_MEASURED, data_.rows[0].source);
            EXPECT_TRUE(data_.rows[0].single_pass);
        } else {
            EXPECT_THAT(err_.text, HasSubstr(c.want));
            EXPECT_EQ(0u, data_.n_rows);
        }
    }
}
TEST_F(DeriveText, LogsOfOnePartCountTheWhole)
{
    const struct {
        const char *log;
        int algo, proto;
    } cases[] = {{"AllGather: 512 Bytes -> Algo RING proto LL "
                  "channel{Lo..Hi}={0..1}\n",
                  NCCL_ALGO_RING, NCCL_PROTO_LL},
                 {"1024 Bytes -> Algo 1 proto 2 time 45.1\n", NCCL_ALGO_RING,
                  NCCL_PROTO_SIMPLE}};

    for (const auto &c : cases) {
        stp_dataset_free(&data_);
        ASSERT_EQ(STP_OK, Add(std::string(HEAD LOG) + c.log + Row(1024),
                              nullptr, ncclFuncAllGather));
        EXPECT_EQ(c.algo, data_.rows[0].ran_algo);
        EXPECT_EQ(c.proto, data_.rows[0].ran_proto);
    }
}
TEST_F(DeriveText, OurTextNamesItsArms)
{
    const std::string passes = Row(1024) + Row(1024) + Row(1024);
    const std::string text =
        "# steptune version 1\n" HEAD + passes + "#\n# Arm: ring/ll\n" + passes;

    ASSERT_EQ(STP_OK, Add(text)) << err_.text;
    EXPECT_THAT(Runs(), ElementsAre("auto 0", "auto 1", "auto 2", "ring/ll 0",
                                    "ring/ll 1", "ring/ll 2"));

    EXPECT_EQ(STP_ERR_RANGE, Add(text, "auto"));
    EXPECT_STREQ("this text names its arms, expected it without --arm",
                 err_.text);
}

TEST_F(DeriveText, RefusesAnArmThatNcclDidNotRun)
{
    EXPECT_EQ(STP_ERR_RANGE,
              Add(Two("Algo RING proto LL", "Algo RING proto LL"), "tree/ll"));
    EXPECT_STREQ("arm tree/ll, but NCCL ran ring/ll at 1024 bytes, expected "
                 "what was forced",
                 err_.text);
    for (const char *arm : {"auto", "ring/4"})
        EXPECT_EQ(STP_OK,
                  Add(Two("Algo RING proto LL", "Algo RING proto LL"), arm));
    for (const char *arm : {"ring", "ll", "auto/4"}) {
        EXPECT_EQ(STP_ERR_RANGE, Add(HEAD + Row(1024), arm)) << arm;
        EXPECT_THAT(std::string(err_.text),
                    HasSubstr("but NCCL did not log which pair that was at "
                              "1024 bytes"));
    }
}

TEST_F(DeriveText, FindsTheArmInTheEnvironmentThatJsonHas)
{
    const std::string json =
        R"({"version":2,"args":["all_reduce_perf"],)"
        R"("env":["NCCL_ALGO=Ring","NCCL_PROTO=LL128"],"config":{"devices":)"
        R"([{"rank":0,"group":0},{"rank":1,"group":0}]},"results":[{"size":8,)"
        R"("type":"float","redop":"sum","root":"-1","out_of_place":)"
        R"({"time":5}}]})";

    ASSERT_EQ(STP_OK, Add(json)) << err_.text;

    EXPECT_THAT(Runs(), ElementsAre("ring/ll128 0"));
}

// NCCL logs to the stream to which nccl-tests print a row in pieces; NCCL
// 2.28.9, nccl-tests 2.19.6.
TEST_F(DeriveText, PutsRowsTogetherThatALogCameBetween)
{
    const std::string log = "h1:891:891 [0] NCCL INFO AllReduce: 1048576 Bytes "
                            "-> Algo RING proto LL channel{Lo..Hi}={0..23}\n";
    const std::string text = HEAD "h1:891:9 [0] NCCL INFO Init\n" + log +
                             "     1048576   262144   float   sum   -1" + log +
                             log + "    33.61   31.20   31.20       0" + log +
                             log + "    38.96   26.92   26.92       0\n" +
                             "h1:891:891 [0] NCCL INFO Destroy\n";

    ASSERT_EQ(STP_OK, Add(text)) << err_.line << ": " << err_.text;

    ASSERT_EQ(2u, data_.n_rows);
    EXPECT_EQ(1048576u, data_.rows[0].n_bytes);
    EXPECT_DOUBLE_EQ(33.61, data_.rows[0].us.median);
    EXPECT_DOUBLE_EQ(38.96, data_.rows[1].us.median);
    EXPECT_EQ(0, data_.rows[1].n_wrong);
    EXPECT_THAT(Runs(), ElementsAre("ring/ll 0"));
}

TEST_F(DeriveText, FilesOfAnArmAreItsRounds)
{
    const std::string text = HEAD + Row(1024);

    for (const char *arm : {"auto", "auto", "ring/ll128", "auto", "ring/ll128"})
        ASSERT_EQ(STP_OK, Add(text, arm)) << err_.text;

    EXPECT_THAT(Runs(), ElementsAre("auto 0", "auto 1", "ring/ll128 0",
                                    "auto 2", "ring/ll128 1"));
}

} // namespace
