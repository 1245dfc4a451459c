// Tests of the plugin's log lines and of its ledger.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cinttypes>

extern "C" {
#include "core/policy/ledger.h"
}

#include "plugin/bare_interface.h"
#include "support/read_file.h"

using namespace bare_interface;
using namespace static_plugin;
using testing::EndsWith;

namespace
{

constexpr char kTree[] = "allreduce,0,inf,tree,ll128,-1,-1,-1\n";

// ---- what it says ----

constexpr char kNoComm[] =
    "steptune: this NCCL names no communicator to a tuner (2.28 does), so "
    "ranks cannot compare their policies: all must hold the same";
constexpr char kNoGpu[] =
    "steptune: rules that name a GPU do not apply: hosts that do not meet in a "
    "store (STEPTUNE_AGREE) cannot know that all have the same";

TEST_F(BareInterface, SaysWhatItHasLoadedAndWhatCannotBeKnown)
{
    const struct {
        const char *agree;
        bool has_comm_id;
        size_t n_ranks, n_nodes;
        std::vector<std::string> says; // after what it has loaded
    } cases[] = {
        {"shm", false, 8, 1, {kNoComm}},
        {"shm", false, 8, 2, {kNoComm, kNoGpu}},
        {"assume", false, 8, 2, {kNoComm}},
        {"shm", true, 8, 1, {}},
        {"shm", true, 8, 2, {kNoGpu}},
        {"shm", true, 1, 1, {}},
        {"assume", true, 8, 2, {}},
    };
    // As long as a path may be.
    std::string path = Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n");
    path.insert(0, 4095 - path.size(), '/');
    setenv("NCCL_TUNER_CONFIG_FILE", path.c_str(), 1);
    setenv("STEPTUNE_GPU", "NVIDIA H200", 1);
    stp_policy *policy = nullptr;
    ASSERT_EQ(STP_OK, stp_policy_load(STP_POLICY_OF_ARMS, path.c_str(), &policy,
                                      nullptr));
    char loaded[80];
    snprintf(loaded, sizeof(loaded),
             ", hash %016" PRIx64 ", 1 of 1 rules apply",
             stp_policy_hash(policy));
    stp_policy_free(policy);

    for (const auto &c : cases) {
        SCOPED_TRACE(std::string(c.agree) + " " + std::to_string(c.n_nodes));
        setenv("STEPTUNE_AGREE", c.agree, 1);
        infos.clear();
        v5_->finalize(Init(c.n_ranks, c.n_nodes, c.has_comm_id));

        ASSERT_EQ(1 + c.says.size(), infos.size());
        EXPECT_EQ("steptune: " + std::to_string(c.n_ranks) + " ranks on " +
                      std::to_string(c.n_nodes) + " nodes: " + path + loaded,
                  infos[0]);
        EXPECT_EQ(c.says,
                  std::vector<std::string>(infos.begin() + 1, infos.end()));
        EXPECT_EQ("", logged);
    }
}

TEST_F(BareInterface, NamesTheLongestPathWhole)
{
    const std::string path(4090, '/');
    const std::string missing = "steptune: " + path +
                                "/none: cannot be opened: No such file or "
                                "directory; ";

    setenv("NCCL_TUNER_CONFIG_FILE", (path + "/none").c_str(), 1);
    v5_->finalize(Init(1, 1, true));
    EXPECT_EQ(missing + "stepping aside, NCCL tunes alone\n", logged);
}

TEST_F(BareInterface, LeavesNcclsConstantsAlone)
{
    ncclTunerConstants_v5_t constants;
    void *ctx = nullptr;

    memset(&constants, 0x5a, sizeof(constants));
    const ncclTunerConstants_v5_t before = constants;
    Policy(kTree);
    v5_->init(&ctx, id_, 1, 1, Log, nullptr, &constants);
    v5_->finalize(ctx);

    EXPECT_EQ("", logged);
    EXPECT_EQ(0, memcmp(&before, &constants, sizeof(before)));
}

// ---- the ledger ----

class Ledger : public BareInterface
{
  protected:
    void SetUp() override
    {
        BareInterface::SetUp();
        setenv("STEPTUNE_LEDGER", folder_.path().c_str(), 1);
    }

    static bool IsMapped()
    {
        return ReadFile("/proc/self/maps").find("/ledger.") !=
               std::string::npos;
    }

    // The only one, which is removed.
    static stp_ledger Take(const fs::path &dir)
    {
        stp_ledger ledger{};
        for (const auto &entry : fs::directory_iterator(dir))
            if (entry.path().filename().string().rfind("ledger.", 0) == 0) {
                std::ifstream(entry.path(), std::ios::binary)
                    .read(reinterpret_cast<char *>(&ledger), sizeof(ledger));
                fs::remove(entry.path());
                break;
            }
        return ledger;
    }
};

TEST_F(Ledger, SaysWhoseItIsAndCountsPreviews)
{
    Policy("allreduce,0,inf,tree,ll128,2,-1,-1\n");
    setenv("STEPTUNE_AGREE", "assume", 1);

    for (const bool has_comm_id : {false, true}) {
        void *ctx = Init(8, 2, has_comm_id);
        for (int i = 0; i < 3; i++)
            Ask(ctx, CostsOf(-1, -1, -1, -1));
        for (int i = 0; i < 2; i++)
            Ask(ctx);
        Ask(ctx, CostsOf(9, 8, 7, 5), ncclFuncAllGather);
        EXPECT_TRUE(IsMapped());
        v4_->destroy(ctx);
        EXPECT_FALSE(IsMapped());

        const stp_ledger ledger = Take(dir_);
        EXPECT_TRUE(stp_ledger_is_valid(&ledger, sizeof(ledger)));
        EXPECT_EQ(static_cast<uint32_t>(getpid()), ledger.pid);
        EXPECT_EQ(has_comm_id ? id_ : 0, ledger.comm_id);
        EXPECT_EQ(8u, ledger.n_ranks);
        EXPECT_EQ(2u, ledger.n_nodes);
        EXPECT_EQ(0u, ledger.is_aside);
        EXPECT_EQ(3u, ledger.n_previews);
        EXPECT_EQ(2u, ledger.n_entries);
        for (const auto &entry : ledger.entries) {
            if (entry.n_calls == 0)
                continue;
            const bool is_ours = entry.coll == ncclFuncAllReduce;
            EXPECT_EQ(is_ours ? 2u : 1u, entry.n_calls);
            EXPECT_EQ(64u, entry.min_bytes);
            EXPECT_EQ(64u, entry.max_bytes);
            EXPECT_EQ(is_ours ? 1u : 0u, entry.line);
            EXPECT_EQ(is_ours ? NCCL_ALGO_TREE : -1, entry.algo);
            EXPECT_EQ(is_ours ? NCCL_PROTO_LL128 : -1, entry.proto);
            EXPECT_EQ(is_ours ? 2u : 0u, entry.n_channels);
        }
    }
}

TEST_F(Ledger, SaysWhatIsInForceOrWhyNothingIs)
{
    const struct {
        const char *name;
        const char *policy;
        bool has_other; // rank, of another release
        bool is_aside;
        const char *says; // at its end
        bool warns;       // in the same words
    } cases[] = {
        {"in_force", kTree, false, false, ", 1 of 1 rules apply", false},
        {"refused", "nonsense\n", false, true,
         "/p.conf:1:9: expected a rule of 8 to 10 fields (such as "
         "allreduce,0,1M,ring,ll128,-1,1,8), found 1",
         true},
        {"differs", kTree, true, true,
         "has another Steptune plugin or release than this rank", true},
        {"refused_and_differs", "nonsense\n", true, true, "found 1", true},
    };
    const auto *v6 = Tuner<ncclTuner_v6_t>("ncclTunerPlugin_v6");
    const fs::path before = fs::current_path();
    uint64_t id = id_;
    fs::current_path(dir_);
    setenv("STEPTUNE_AGREE", "shm", 1);

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        void *ctx = nullptr, *other = nullptr;
        Policy(c.policy);
        logged.clear();
        setenv("STEPTUNE_LEDGER", ".", 1);
        v5_->init(&ctx, ++id, c.has_other ? 2 : 1, 1, Log, nullptr, nullptr);
        unsetenv("STEPTUNE_LEDGER");
        if (c.has_other)
            v6->init(&other, id, 2, 1, nullptr, nullptr, nullptr);
        Ask(ctx);
        v5_->finalize(ctx);
        v5_->finalize(other);

        const stp_ledger ledger = Take(dir_);
        EXPECT_EQ(c.is_aside, ledger.is_aside != 0);
        EXPECT_THAT(ledger.what, EndsWith(c.says));
        EXPECT_EQ(c.warns ? "steptune: " + std::string(ledger.what) +
                                "; stepping aside, NCCL tunes alone\n"
                          : "",
                  logged);
    }
    fs::current_path(before);
}

} // namespace
