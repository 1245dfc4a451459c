// Why one message runs as it does: what a plugin changes, and what the
// environment would.
#include <gmock/gmock.h>

#include <cstdlib>

#include "support/mock_folder.h"
#include "support/temporary_folder.h"

extern "C" {
#include "analyse/explain/why.h"
#include "core/names.h"
}

namespace
{

using testing::HasSubstr;

// The environment of the test at hand.
std::map<std::string, std::string> environment;

char *Variable(const char *name)
{
    auto found = environment.find(name);
    return found != environment.end() ? found->second.data() : nullptr;
}

class Why : public testing::Test
{
  protected:
    void SetUp() override
    {
        std::ofstream(path_) << "";
        setenv("NCCL_TUNER_CONFIG_FILE", path_.c_str(), 1);
        unsetenv("NCCL_WORKLOAD_OVERLAP");
        setenv("STEPTUNE_GPU", "any", 1);
        setenv("STEPTUNE_AGREE", "assume", 1); // one rank stands for all
    }
    void TearDown() override
    {
        unsetenv("NCCL_TUNER_CONFIG_FILE");
        unsetenv("STEPTUNE_GPU");
        unsetenv("STEPTUNE_AGREE");
    }

    // 'machine' is a folder, or the name of one in fixtures.
    stp_why Ask(const char *machine, const char *policy, int coll,
                uint64_t n_bytes, const char *plugin = STP_PLUGIN)
    {
        const std::string folder =
            (machine[0] == '/' ? "" : STP_FIXTURES "/machines/") +
            std::string(machine);
        stp_policy *parsed = nullptr;
        stp_why why{};
        stp_error err{};

        std::ofstream(path_) << policy;
        EXPECT_EQ(STP_OK, stp_policy_load(STP_POLICY_OF_ARMS, path_.c_str(),
                                          &parsed, &err));
        stp_explain_options options{};
        options.machine_path = folder.c_str();
        options.plugin = plugin;
        options.policy = parsed;
        options.coll = coll;
        options.variable = Variable;
        EXPECT_EQ(STP_OK, stp_ask_why(&options, n_bytes, &why, &err))
            << err.text;
        stp_policy_free(parsed);
        return why;
    }

    static std::string Name(stp_pick pick)
    {
        return std::string(stp_algo_name(pick.algo)) + "/" +
               stp_proto_name(pick.proto);
    }

    TemporaryFolder folder_;
    const std::string path_ = folder_.Path("policy.conf");
};
TEST_F(Why, SaysWhatTheVersionTakesAndWhatItComparesInWindows)
{
    const struct {
        const char *nccl;
        int limit;          // of 24 channels of all-reduces of 1 MiB
        const char *kernel; // that runs in symmetric windows
    } cases[] = {
        {"2.27.7", 0, ""},
        {"2.28.9", 0, ""},
        {"2.29.7", 0, "AllReduce_RSxLDMC_AGxSTMC"},
        {"2.30.7", 0, "AllReduce_RSxLDMC_AGxSTMC"},
        {"2.31.2", 24, "AllReduce_RSxLDMC_AGxSTMC"},
        {"2.32.3", 24, "AllReduce_RSxLDMC_AGxSTMC"},
        {"2.32.6", 24, "AllReduce_RSxLDMC_AGxSTMC"},
    };
    const mock_test::Folder folder;

    for (const auto &c : cases) {
        SCOPED_TRACE(c.nccl);
        folder.WriteAs("h100x8", c.nccl);
        stp_why why =
            Ask(folder.Path().c_str(), "allreduce,0,inf,ring,simple,32,-1,-1\n",
                ncclFuncAllReduce, 1 << 20);
        environment.clear();

        EXPECT_EQ(32, why.tuned.asked_channels);
        EXPECT_EQ(c.limit, why.tuned.limit);
        EXPECT_EQ(c.kernel[0] != '\0' ? 4u : 0u, why.n_kernels);
        EXPECT_STREQ(c.kernel, why.n_cases != 0 ? why.cases[0].kernel : "");
        EXPECT_EQ(0u, Ask(folder.Path().c_str(), "", ncclFuncBroadcast, 1 << 20)
                          .n_kernels);
    }
}

// By the table's order: in windows, with NCCL_CTA_POLICY=2, with
// NCCL_ENQUEUE_REARCH_ENABLE=1, and with that in windows. The policy is of
// rings: by their cost the kernel is faster nevertheless.
TEST_F(Why, PlaysWindowsCopyEnginesAndTheNewQueue)
{
    const struct {
        const char *machine, *nccl;
        ncclFunc_t coll;
        size_t n_copies;
        std::vector<std::string> runs;
    } cases[] = {
        // clang-format off
        {"h100x8", "2.28.9", ncclFuncAllGather, 0, {}},
        {"h100x8", "2.30.7", ncclFuncAllGather, 0, {"AllGather_LLMC", "AllGather_UC"}},
        {"h100x8", "2.31.2", ncclFuncAllGather, 2, {"AllGather_LLMC", "AllGather_MC", "ring/ll",
         "AllGather_LLMC"}},
        {"h100x8", "2.31.2", ncclFuncAllReduce, 0, {"AllReduce_AGxLLMC_R", "AllReduce_AGxLLMC_R", "ring/ll",
         "AllReduce_AGxLLMC_R"}},
        {"h100n2x8", "2.31.2", ncclFuncAllGather, 0, {}},
        // clang-format on
    };
    const mock_test::Folder folder;

    for (const auto &c : cases) {
        SCOPED_TRACE(std::string(c.machine) + " " + c.nccl);
        folder.WriteAs(c.machine, c.nccl);
        stp_why why = Ask(folder.Path().c_str(),
                          "allreduce,0,inf,ring,ll,-1,-1,-1\n", c.coll, 4096);
        std::vector<std::string> runs;
        for (size_t i = 0; i < why.n_cases; i++) {
            const stp_why_case &r = why.cases[i];
            runs.push_back(r.kernel != nullptr ? r.kernel : Name(r.pick));
        }

        EXPECT_EQ(c.runs, runs);
        EXPECT_EQ(c.n_copies, why.n_copies);
    }
}

// NCCL alone would not take NVLS here: what is played has the plugin, too.
TEST_F(Why, EachVariableIsPlayedAlone)
{
    const struct {
        const char *name, *value;
        stp_override_kind kind;
        const char *runs; // or the end of the text
    } cases[] = {
        {"NCCL_ALGO", "nvls", STP_OVERRIDE_NOTHING, ""},
        {"NCCL_ALGO", "", STP_OVERRIDE_NOTHING, ""},
        {"NCCL_ALGO", "tree", STP_OVERRIDE_RUNS, "tree/ll128"},
        {"NCCL_ALGO", "allgather:ring", STP_OVERRIDE_NOTHING, ""},
        {"NCCL_ALGO", "pat", STP_OVERRIDE_FAILS, "NCCL_ALGO was set to pat."},
        {"NCCL_PROTO", "^simple", STP_OVERRIDE_RUNS, "ring/ll"},
        {"NCCL_PROTO", "fast", STP_OVERRIDE_FAILS, "'fast' is no protocol"},
        {"NCCL_NVLS_ENABLE", "0", STP_OVERRIDE_RUNS, "ring/ll"},
        {"NCCL_NVLS_ENABLE", "1", STP_OVERRIDE_NOTHING, ""},
        {"NCCL_COLLNET_ENABLE", "1", STP_OVERRIDE_NOTHING, ""},
        {"NCCL_MIN_CTAS", "4", STP_OVERRIDE_NOTHING, ""},
        {"NCCL_MIN_CTAS", "20", STP_OVERRIDE_RUNS, "nvls/simple"},
        {"NCCL_MAX_CTAS", "4", STP_OVERRIDE_RUNS, "nvls/simple"},
        {"NCCL_MAX_NCHANNELS", "4", STP_OVERRIDE_NOTHING, ""},
        {"NCCL_NVLS_NCHANNELS", "4", STP_OVERRIDE_RUNS, "nvls/simple"},
        {"NCCL_CTA_POLICY", "1", STP_OVERRIDE_UNPLAYED, "from its tuner"},
        {"NCCL_NTHREADS", "256", STP_OVERRIDE_NOTHING,
         ""}, // of rings and trees
        {"NCCL_BUFFSIZE", "65536", STP_OVERRIDE_UNPLAYED, "other sizes"},
        {"NCCL_NVLS_ENABLE", "off", STP_OVERRIDE_RUNS, "ring/ll"},
        {"NCCL_MAX_NRINGS", "4", STP_OVERRIDE_NOTHING, ""},
        {"NCCL_P2P_DISABLE", "1", STP_OVERRIDE_MACHINE, ""},
        {"NCCL_P2P_DISABLE", "0", STP_OVERRIDE_NOTHING, ""},
        {"NCCL_P2P_DISABLE", "2", STP_OVERRIDE_NOTHING, ""},
        {"NCCL_P2P_LEVEL", "PIX", STP_OVERRIDE_MACHINE, ""},
        {"NCCL_CROSS_NIC", "1", STP_OVERRIDE_MACHINE, ""},
        {"NCCL_CROSS_NIC", "2", STP_OVERRIDE_NOTHING, ""},
        {"NCCL_ENQUEUE_REARCH_ENABLE", "1", STP_OVERRIDE_NOTHING, ""},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(std::string(c.name) + "=" + c.value);
        environment = {{c.name, c.value}, {"NCCL_DEBUG", "INFO"}};
        stp_why why = Ask("h100x8", "allreduce,0,inf,nvls,simple,-1,-1,-1\n",
                          ncclFuncAllReduce, 1 << 20);

        EXPECT_NE("nvls/simple", Name(why.alone.pick));
        EXPECT_EQ("nvls/simple", Name(why.tuned.pick));
        ASSERT_EQ(1u, why.n_overrides);
        const stp_override &o = why.overrides[0];
        EXPECT_STREQ(c.name, o.name);
        EXPECT_STREQ(c.value, o.value);
        EXPECT_EQ(c.kind, o.kind) << o.text;
        if (c.kind == STP_OVERRIDE_RUNS)
            EXPECT_EQ(c.runs, Name(o.pick));
        else
            EXPECT_THAT(o.text, HasSubstr(c.runs));
    }
}

} // namespace
