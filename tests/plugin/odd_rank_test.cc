// No rank decides alone: what differs between the ranks of a host makes all of
// them step aside, with one warning on each that names the cause.
#include <gmock/gmock.h>

#include "plugin/odd_rank.h"
#include "support/with_param.h"

namespace
{

using namespace odd_rank;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kOdd = 2;

struct Case {
    const char *name;
    Change all;
    Change odd;
    const char *own;    // in the odd rank's warning; NULL: it has none
    const char *others; // in each other's; NULL: they have none
    bool fails = false; // a call fails
};

void PrintTo(const Case &c, std::ostream *out)
{
    *out << c.name;
}

class OnH200 : public testing::Test
{
  protected:
    static_plugin::Machine machine_ = static_plugin::LoadMachine("h200x4");
};

using OddRank = WithParam<OnH200, Case>;

TEST_P(OddRank, NeverDecidesOtherwiseThanTheOthers)
{
    const Case &c = GetParam();
    if (c.fails && !kCanFail)
        GTEST_SKIP() << "the sanitizer replaces the call that is to fail";

    for (const char *plugin : {STP_PLUGIN, STP_ONLINE})
        for (const char *nccl : {"2.28", "2.30"}) {
            SCOPED_TRACE(std::string(plugin) + " " + nccl);
            Job job(machine_.get(), nccl, plugin);
            const Outcome out = job.Run(c.all, kOdd, c.odd);

            EXPECT_EQ(ncclSuccess, out.rc) << out.error;
            EXPECT_EQ(c.others == nullptr, out.tuned);
            for (int r = 0; r < 4; r++) {
                SCOPED_TRACE(r);
                const char *expected = r == kOdd ? c.own : c.others;
                if (expected == nullptr)
                    EXPECT_THAT(out.warnings[r], IsEmpty());
                else
                    EXPECT_THAT(out.warnings[r],
                                ElementsAre(HasSubstr(expected)));
            }
        }
}

void Nothing()
{
}

void Below()
{
    setenv("STEPTUNE_CHAIN", STP_BELOW, 1);
}

constexpr char kOtherBelow[] = "rank 2 has another tuner below Steptune's";
constexpr char kOthersBelow[] = "ranks 0, 1 and 3 have other tuners below";
constexpr char kMissing[] = "rank 2 did not join on this host";
constexpr char kInactive[] = "rank 2 has no policy in force";
constexpr char kOtherPolicy[] = "rank 2 holds another policy than this rank";
constexpr char kOtherPolicies[] = "ranks 0, 1 and 3 hold other policies";
constexpr char kOtherSetting[] = "rank 2 has other settings than this rank";

// clang-format off
const Case kCases[] = {
    {"nothing", Nothing, Nothing, nullptr, nullptr},
    {"another_text_of_the_same_rules", Nothing,
     Replace("p.conf", "# the same\nallreduce,0K,inf,tree,ll,0,-1,-1\n"
                       "allgather,0,inf,ring,ll128,4,-1,-1,-1,-1\n"
                       "reducescatter,0,1024K,ring,ll,2,-1,-1\n"
                       "allreduce,0,inf,ring,ll,-1,-1,64\n"),
     nullptr, nullptr},
    {"another_policy", Nothing,
     Replace("p.conf", "allreduce,0,inf,ring,simple,-1,-1,-1\n"),
     kOtherPolicies, kOtherPolicy},
    {"no_policy", Nothing, [] { fs::remove("p.conf"); },
     "p.conf: cannot be opened", kInactive},
    {"refused_policy", Nothing, Replace("p.conf", "nonsense\n"),
     "p.conf:1:", kInactive},
    {"overlap", [] { Write("p.conf.overlap", "allreduce,0,inf,ring,ll,-1,-1,-1\n"); },
     Set("NCCL_WORKLOAD_OVERLAP", "1"), kOtherPolicies, kOtherPolicy},
    {"gpu", [] { Write("p.conf", "collective,min_bytes,max_bytes,algorithm,protocol,gpu\n"
                                 "allreduce,0,inf,tree,ll,H100\n"
                                 "allreduce,0,inf,tree,simple,*\n"); },
     Set("STEPTUNE_GPU", "H100"), "ranks 0, 1 and 3 see another GPU model",
     "rank 2 sees another GPU model than this rank"},
    {"assume", Nothing, Set("STEPTUNE_AGREE", "assume"),
     "ranks 0, 1 and 3 have other settings", kOtherSetting},
    {"unknown_word_for_agree", Nothing, Set("STEPTUNE_AGREE", "yes"),
     "STEPTUNE_AGREE is 'yes', expected auto, shm, assume, required, tcpstore://HOST:PORT", kInactive},
    {"no_tuner_below", Below, Set("STEPTUNE_CHAIN", "none"), kOthersBelow, kOtherBelow},
    {"another_tuner_below", Below, Set("STEPTUNE_CHAIN", STP_OTHER_BELOW),
     kOthersBelow, kOtherBelow},
    {"a_tuner_below_that_fails", Below, Set("BELOW", "fails_in_init"),
     "cannot be asked first: its init returns error 3", kOtherBelow},
    {"no_plugin", Nothing, Plugin(""), nullptr, kMissing},
    {"a_library_that_is_no_tuner", Nothing, Plugin(STP_NO_TUNER), nullptr, kMissing},
    {"another_release", Nothing, Plugin(STP_OLDER),
     "ranks 0, 1 and 3 have other Steptune plugins or releases",
     "rank 2 has another Steptune plugin or release than this rank"},
    {"no_descriptors", Nothing, LimitDescriptors(3),
     "p.conf: cannot be opened: Too many open files", kMissing},
    {"no_memory_for_the_communicator", Nothing, Fail(FAULT_MEMORY, 1),
     "out of memory", kMissing, true},
    {"no_memory_to_share", Nothing, Fail(FAULT_MAP, 1, true),
     "cannot be compared with the other ranks: cannot map /dev/shm/", kMissing, true},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Table, OddRank, testing::ValuesIn(kCases), CaseName());

// Also on the rank that has nothing but it.
TEST_F(OnH200, TunerBelowDecidesWhereRanksStepAsideForAnotherReason)
{
    for (const Change &odd : {Replace("p.conf", ""), Plugin(STP_BELOW)}) {
        Job job(machine_.get(), "2.28", STP_PLUGIN);
        const Outcome out = job.Run(Below, kOdd, odd);

        EXPECT_EQ(ncclSuccess, out.rc) << out.error;
        EXPECT_TRUE(out.tuned);
        EXPECT_THAT(out.warnings[0],
                    ElementsAre(HasSubstr("the tuner below decides")));
    }
}

// By its answer to a preview NCCL decides for a symmetric kernel.
TEST_F(OnH200, TunersBelowThatDifferAnswerNoPreviewEither)
{
    for (uint64_t seed = 0; seed < 10; seed++) {
        Job job(machine_.get(), "2.32", STP_PLUGIN);
        const Outcome out =
            job.Run(Below, kOdd, Set("STEPTUNE_CHAIN", "none"), seed);

        EXPECT_EQ(ncclSuccess, out.rc) << out.error;
        EXPECT_FALSE(out.tuned);
    }
}

// A rank that learns is in force without a policy.
TEST_F(OnH200, RankThatLearnsWithoutAPolicyIsNotInactive)
{
    Job job(machine_.get(), "2.28", STP_ONLINE);

    const Outcome out = job.Run(Nothing, kOdd, [] {
        fs::remove("p.conf");
        unsetenv("NCCL_TUNER_CONFIG_FILE");
    });

    EXPECT_EQ(ncclSuccess, out.rc) << out.error;
    EXPECT_FALSE(out.tuned);
    EXPECT_THAT(out.warnings[0], ElementsAre(HasSubstr(kOtherPolicy)));
    EXPECT_THAT(out.warnings[kOdd], ElementsAre(HasSubstr(kOtherPolicies)));
}

} // namespace
