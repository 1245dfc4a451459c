// No host decides alone: two hosts of eight ranks, of which the second differs
// in one thing, meet in the job's store.
#include <gmock/gmock.h>

#include "plugin/odd_rank.h"
#include "support/processes.h"
#include "support/store_thread.h"
#include "support/temporary_folder.h"

namespace
{

using namespace odd_rank;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kOtherPolicy[] = "allreduce,0,inf,ring,simple,-1,-1,-1\n";

enum Store { kNone, kTorchrun, kNamed, kDeaf, kFolder };

struct Case {
    const char *name;
    Store store;
    const char *agree; // "": not set
    Change second;     // host
    bool tuned;
    const char *first_says; // in each rank's one warning; "": none
    const char *second_says;
    const char *timeout = "60"; // nothing waits so long
    bool hangs = false;
    bool both = false;  // hosts are as the second
    bool fails = false; // a call
};

void PrintTo(const Case &c, std::ostream *out)
{
    *out << c.name;
}

// A store in a process: what has ranks as processes may have no threads.
class ForkedStore
{
  public:
    unsigned port() const
    {
        return port_;
    }

  private:
    unsigned port_ = 0;
    int listener_ = store_thread::Listen(&port_);
    processes::Process server_{[this]() -> std::string {
        const store_thread::TcpStore server(listener_);
        for (;;)
            pause();
    }};
};

class OddHost : public testing::TestWithParam<Case>
{
  protected:
    ~OddHost() override
    {
        close(deaf_);
    }

    // In each rank's process.
    static void Enter(const Case &c, unsigned port, const std::string &named)
    {
        const bool is_second = std::stoi(getenv("RANK")) >= 8;

        setenv("NCCL_HOSTID", is_second ? "b" : "a", 1);
        setenv("STEPTUNE_AGREE", named.empty() ? c.agree : named.c_str(), 1);
        setenv("STEPTUNE_AGREE_TIMEOUT", c.timeout, 1);
        if (c.store == kTorchrun || c.store == kDeaf) {
            setenv("MASTER_ADDR", "127.0.0.1", 1);
            setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
        }
        if (is_second || c.both)
            c.second();
    }

    static_plugin::Machine machine_ = static_plugin::LoadMachine("h100n2x8");
    unsigned deaf_port_ = 0;
    // Bound until the end, or another test's store may listen there.
    const int deaf_ = store_thread::Listen(&deaf_port_, false);
    TemporaryFolder folder_;
};

TEST_P(OddHost, NeverDecidesOtherwiseThanTheOther)
{
    const Case &c = GetParam();
    if (c.fails && !kCanFail)
        GTEST_SKIP() << "the sanitizer replaces the call that is to fail";

    for (const char *plugin : {STP_PLUGIN, STP_ONLINE}) {
        SCOPED_TRACE(plugin);
        const ForkedStore store;
        const unsigned port = c.store == kDeaf ? deaf_port_ : store.port();
        std::string named;
        if (c.store == kNamed)
            named = "tcpstore://127.0.0.1:" + std::to_string(port);
        if (c.store == kFolder)
            named = "file://" + folder_.path();
        Job job(machine_.get(), "2.28", plugin);
        const Outcome out = job.Run([&] { Enter(c, port, named); }, 0, [] {});

        EXPECT_EQ(c.hangs, out.rc != ncclSuccess) << out.error;
        if (c.hangs)
            continue;
        EXPECT_EQ(c.tuned, out.tuned);
        ASSERT_EQ(16U, out.warnings.size());
        for (size_t r = 0; r < 16; r++) {
            const char *says = r < 8 ? c.first_says : c.second_says;
            EXPECT_THAT(out.warnings[r], Each(Not(HasSubstr("secret")))) << r;
            if (*says == '\0') {
                EXPECT_THAT(out.warnings[r], IsEmpty()) << r;
            } else {
                EXPECT_THAT(out.warnings[r], ElementsAre(HasSubstr(says))) << r;
            }
        }
    }
}

// A policy for a GPU, which all hosts have, or but the second.
void NameGpu()
{
    Write("p.conf", "collective,min_bytes,max_bytes,algorithm,protocol,gpu\n"
                    "allreduce,0,inf,tree,ll,H200\n");
}

void NameGpuThatTheSecondLacks()
{
    NameGpu();
    if (std::stoi(getenv("RANK")) >= 8)
        setenv("STEPTUNE_GPU", "H100", 1);
}

void TakeTheOtherPlugin()
{
    const bool is_static = fs::read_symlink("plugin.so") == STP_PLUGIN;
    Plugin(is_static ? STP_ONLINE : STP_PLUGIN)();
}

// clang-format off
const Case kCases[] = {
    {"the_same", kTorchrun, "", [] {}, true, "", ""},
    {"the_same_in_a_named_store", kNamed, "", [] {}, true, "", ""},
    {"the_same_if_required", kTorchrun, "required", [] {}, true, "", ""},
    {"another_policy", kTorchrun, "auto", Replace("p.conf", kOtherPolicy), false,
     "host b holds another policy than this rank (NCCL_TUNER_CONFIG_FILE",
     "host a holds another policy than this rank (NCCL_TUNER_CONFIG_FILE"},
    {"no_policy", kTorchrun, "", Set("NCCL_TUNER_CONFIG_FILE", "missing"), false,
     "host b has no policy in force", "missing: cannot be opened"},
    {"another_plugin", kTorchrun, "", TakeTheOtherPlugin, false,
     "host b has another Steptune plugin or release", "host a has another Steptune plugin or release"},
    {"no_plugin", kTorchrun, "", Plugin(""), false, "of 16 ranks, of host a: ", "", "3"},
    {"another_run", kTorchrun, "", Set("TORCHELASTIC_RUN_ID", "other"), false,
     "of 16 ranks, of host a: ", "of 16 ranks, of host b: ", "3"},
    {"no_store_there", kDeaf, "", [] {}, false,
     "cannot be used: Connection refused", "cannot be used: Connection refused"},
    {"no_store_and_required", kNone, "required", [] {}, false,
     "cannot be compared, which STEPTUNE_AGREE=required demands",
     "cannot be compared, which STEPTUNE_AGREE=required demands"},
    {"a_bad_word", kNone, "tcpstore://nowhere", [] {}, false,
     "STEPTUNE_AGREE is 'tcpstore://nowhere', expected auto, shm, assume, required, tcpstore://HOST:PORT or file:///FOLDER",
     "STEPTUNE_AGREE is 'tcpstore://nowhere', expected"},
    {"the_same_in_a_folder", kFolder, "", [] {}, true, "", ""},
    {"another_policy_in_a_folder", kFolder, "", Replace("p.conf", kOtherPolicy), false,
     "host b holds another policy", "host a holds another policy"},
    {"no_folder", kNone, "file:///no/such", [] {}, false,
     "the folder /no/such, where hosts compare what they hold, cannot be used: No such file or directory",
     "the folder /no/such, where hosts compare what they hold, cannot be used: No such file or directory"},
    {"a_bad_time", kTorchrun, "", Set("STEPTUNE_AGREE_TIMEOUT", "-1"), false,
     "of 16 ranks, of host a: ",
     "STEPTUNE_AGREE_TIMEOUT is '-1', expected seconds from 0 to 600", "3"},
    {"no_thread", kTorchrun, "", Fail(FAULT_THREAD, 1, true), false,
     "; stepping aside, NCCL tunes alone", "; stepping aside, NCCL tunes alone", "60", false, false, true},
    {"no_store", kNone, "", [] {}, true, "", ""},
    {"rules_for_a_gpu", kTorchrun, "", NameGpu, true, "", "", "60", false, true},
    {"rules_for_a_gpu_that_one_lacks", kTorchrun, "", NameGpuThatTheSecondLacks, false,
     "host b sees another GPU model", "host a sees another GPU model", "60", false, true},
    {"rules_for_a_gpu_without_a_store", kNone, "", NameGpu, false, "", "", "60", false, true},
    {"rules_for_a_gpu_that_all_have", kNone, "assume", NameGpu, true, "", "", "60", false, true},
    {"not_in_the_store", kTorchrun, "shm", [] {}, true, "", ""},
    {"another_policy_without_a_store", kNone, "", Replace("p.conf", kOtherPolicy), true, "", "", "60", true},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Case, OddHost, testing::ValuesIn(kCases),
                         [](const auto &row) { return row.param.name; });

} // namespace
