// The learning plugin from init to the end: what it refuses, serves without
// learning, leaves behind and writes.
#include <gmock/gmock.h>
#include <unistd.h>

#include "plugin/online/online_plugin.h"

namespace
{

using namespace online_plugin;
using namespace testing;

class OnlineLife : public OnlinePlugin
{
  protected:
    // Until there is something, however long its thread takes.
    void LearnByThread(const std::vector<Comm> &comms)
    {
        while (Count(LinesOf(Journal()), ",settled,") == 0)
            LearnByFile(comms, 8);
    }

    // Calls with rewards that begin with 'message': whether any taught.
    bool IsLearned(const std::string &message)
    {
        UseRewards();
        Nccl nccl = StartOnline();
        const std::vector<Comm> comms = JoinBoth(nccl);
        for (int i = 0; i < 400; i++) {
            for (const Comm &comm : comms)
                Run(comm, ncclFuncAllReduce, 1 << 20);
            std::ofstream(Rewards(), std::ios::app)
                << message << 1 + i % 3 << "\n";
        }
        return Count(LinesOf(Journal()), ",reward,") > 0;
    }
};

// ---- what it refuses ----

TEST_F(OnlineLife, ABadSettingIsOneWarningAndNcclTunesAlone)
{
    const struct {
        const char *variable;
        const char *value;
    } cases[] = {
        {"STEPTUNE_STRATEGY", "ucb"}, {"STEPTUNE_OBJECTIVE", "time"},
        {"STEPTUNE_ARMS", "ring"},    {"NCCL_TUNER_EPS", "1.5"},
        {"STEPTUNE_MIN_GAIN", "2%"},  {"STEPTUNE_FREEZE", "yes"},
    };
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n");

    for (const auto &c : cases) {
        warnings_.clear();
        Set(c.variable, c.value);
        Nccl nccl = StartOnline();
        Comm comm = Join(nccl);
        EXPECT_TRUE(Untouched(Run(comm, ncclFuncAllReduce, 1 << 20)));
        EXPECT_THAT(warnings_,
                    ElementsAre(AllOf(HasSubstr(std::string("environment: ") +
                                                c.variable + " is '" + c.value +
                                                "', expected"),
                                      HasSubstr("stepping aside"))));
        unsetenv(c.variable);
    }
}

TEST_F(OnlineLife, AWarmStartThatCannotBeReadIsNamed)
{
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n");
    Set("STEPTUNE_WARM_START", (dir_ / "gone.conf").string());
    for (const char *profiler : {"", STP_PLUGIN}) {
        warnings_.clear();
        Nccl nccl = StartOnline("2.28", *profiler != '\0' ? profiler : nullptr);
        Comm comm = Join(nccl);

        EXPECT_TRUE(Untouched(Run(comm, ncclFuncAllReduce, 1 << 20)));
        EXPECT_THAT(warnings_, ElementsAre(HasSubstr("gone.conf")));
    }
}

// ---- where nothing can be learned ----

TEST_F(OnlineLife, FrozenItIsTheStaticPluginToTheBit)
{
    const std::string policy = Policy(kPolicy);
    Nccl fixed = StartOnline("2.30", nullptr, STP_STATIC);
    Comm of_static = Join(fixed, 1);
    unsetenv("NCCL_TUNER_CONFIG_FILE");
    Set("STEPTUNE_WARM_START", policy);
    Set("STEPTUNE_FREEZE", "1");
    ForceExploration();
    Nccl frozen = StartOnline("2.30");
    Comm of_frozen = Join(frozen, 2);
    char epochs[64];
    snprintf(epochs, sizeof(epochs), "%016llx-4-epochs",
             static_cast<unsigned long long>(id_ + 2));
    for (const auto &entry : fs::directory_iterator("/dev/shm"))
        EXPECT_THAT(entry.path().string(), Not(HasSubstr(epochs)));
    std::mt19937_64 random(1);

    for (int i = 0; i < 2000; i++) {
        const auto coll = static_cast<ncclFunc_t>(random() % 5);
        const size_t n_bytes = (size_t{64} << random() % 22) + random() % 64;
        const int reg_buff = static_cast<int>(random() % 2);
        const mock_outcome a = Run(of_static, coll, n_bytes, reg_buff);
        const mock_outcome b = Run(of_frozen, coll, n_bytes, reg_buff);
        ASSERT_EQ(0, memcmp(a.cost_after, b.cost_after, sizeof(a.cost_after)));
        ASSERT_EQ(a.asked_channels, b.asked_channels);
        ASSERT_EQ(a.chunk_bytes, b.chunk_bytes);
    }
    EXPECT_EQ(1u, Count(infos_, "nothing is learned: STEPTUNE_FREEZE is set"));
}

TEST_F(OnlineLife, WhereNcclNamesNoCommunicatorThePolicyServes)
{
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n");
    ForceExploration();

    for (const NcclVersion &v : kVersions) {
        if (v.tuner > 4)
            continue;
        SCOPED_TRACE(v.nccl);
        infos_.clear();
        Nccl nccl = StartOnline(v.nccl);
        Comm comm = Join(nccl);
        for (int i = 0; i < 200; i++) {
            mock_outcome out = Run(comm, ncclFuncAllReduce, 1 << 20);
            ASSERT_EQ(NCCL_ALGO_TREE, out.algo);
            ASSERT_EQ(NCCL_PROTO_LL, out.proto);
        }
        EXPECT_EQ(1u, Count(infos_, "nothing is learned: this NCCL names no "
                                    "communicator"));
    }
}

TEST_F(OnlineLife, OverSeveralHostsThePolicyServes)
{
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n");
    ForceExploration();
    machine_ = LoadMachine("h100n2x8");
    ASSERT_LT(1, mock_machine_get_info(machine_.get())->n_nodes);
    Nccl nccl = StartOnline();
    Comm comm = Join(nccl);

    for (int i = 0; i < 200; i++)
        ASSERT_EQ(NCCL_ALGO_TREE, Run(comm, ncclFuncAllReduce, 1 << 20).algo);
    EXPECT_EQ(1u, Count(infos_, "nothing is learned: hosts that are not "
                                "compared in a store"));
}

TEST_F(OnlineLife, WithoutAProfilerTheLogSaysThatNothingIsLearned)
{
    Nccl nccl = StartOnline();
    Comm comm = Join(nccl);

    EXPECT_EQ(1u, Count(warnings_, "set NCCL_PROFILER_PLUGIN to this plugin"));
}

TEST_F(OnlineLife, AsAProfilerAloneItIsHarmless)
{
    Nccl nccl = StartOnline("2.28", STP_PLUGIN, STP_ECHO);
    Comm comm = Join(nccl);

    for (int i = 0; i < 20; i++)
        EXPECT_FALSE(Run(comm, ncclFuncAllReduce, 1 << 20).is_timed);
    EXPECT_THAT(warnings_, IsEmpty());
}

// ---- what it leaves behind ----

struct Held {
    std::ptrdiff_t files, threads, mappings, shared;
    bool operator==(const Held &o) const
    {
        return files == o.files && threads == o.threads && shared == o.shared &&
               mappings == o.mappings;
    }
};
void PrintTo(const Held &h, std::ostream *out)
{
    *out << h.files << " files, " << h.threads << " threads, " << h.mappings
         << " shared mappings, " << h.shared << " names";
}

// Names of communicators whose ids begin as 'id' does: other tests that run at
// the same time have theirs.
Held Hold(uint64_t id)
{
    char ours[64];
    const auto count = [](const char *folder, const char *with) {
        std::ptrdiff_t n = 0;
        for (const auto &entry : fs::directory_iterator(folder))
            n += entry.path().string().find(with) != std::string::npos;
        return n;
    };

    snprintf(ours, sizeof(ours), "/steptune-%u-%012llx", geteuid(),
             static_cast<unsigned long long>(id >> 16));
    return {count("/proc/self/fd", ""), count("/proc/self/task", ""),
            static_cast<std::ptrdiff_t>(
                Count(LinesOf("/proc/self/maps"), "/dev/shm")),
            count("/dev/shm", ours)};
}

TEST_F(OnlineLife, AThousandCommunicatorsLeaveNothing)
{
    UseTwoRanks();
    Set("STEPTUNE_JOURNAL", Journal());

    for (const char *is_inline : {"1", "0"}) {
        Set("STEPTUNE_INLINE", is_inline);
        Nccl nccl = StartOnline("2.28", STP_PLUGIN);
        Comm keeps_it_loaded = Join(nccl, 9999);
        JoinBoth(nccl, 1000);
        const Held before = Hold(id_);
        for (uint64_t i = 0; i < 500; i++) {
            std::vector<Comm> comms = JoinBoth(nccl, i);
            if (i % 2 == 0) // some never make a call
                for (const Comm &comm : comms)
                    Run(comm, ncclFuncAllReduce, 1 << 20);
        }
        EXPECT_EQ(before, Hold(id_));
    }
}

// ---- rewards ----

// An octave is one kind of message.
TEST_F(OnlineLife, LearnsFromRewardsOfItsOwnMessagesAndShape)
{
    const struct {
        const char *message;
        bool is_learned;
    } cases[] = {
        {"allreduce,1048576,1,2,", true},  {"allreduce,2097151,1,2,", true},
        {"allreduce,1048575,1,2,", false}, {"allgather,1048576,1,2,", false},
        {"allreduce,1048576,2,2,", false}, {"allreduce,1048576,1,4,", false},
    };
    const Machine all = Resized(machine_, 4);

    for (const auto &c : cases) {
        machine_ = Resized(all, 4);
        EXPECT_EQ(c.is_learned, IsLearned(c.message)) << c.message;
    }
}

TEST_F(OnlineLife, ALongBacklogOfRewardsIsPassedOverAndSaidOnce)
{
    UseRewards();
    std::ofstream(Rewards()) << "\n";
    fs::resize_file(Rewards(), 10 << 20);
    {
        Nccl nccl = StartOnline();
        LearnByFile(JoinBoth(nccl), 64);
    }
    EXPECT_EQ(1u, Count(infos_, " bytes of older rewards are passed over"));

    UseRewards();
    infos_.clear();
    {
        Nccl nccl = StartOnline();
        LearnByFile(JoinBoth(nccl), 64);
    }
    EXPECT_EQ(0u, Count(infos_, "passed over"));
}

// ---- what it writes ----

TEST_F(OnlineLife, SavesWhatItLearnedForTheStaticPlugin)
{
    UseRewards();
    {
        Nccl nccl = StartOnline();
        LearnByFile(JoinBoth(nccl));
    }
    EXPECT_THAT(LinesOf(Learned()),
                Contains(HasSubstr("allreduce,1048576,2097151,tree,")));

    Set("NCCL_TUNER_CONFIG_FILE", Learned());
    Nccl nccl = StartOnline("2.28", nullptr, STP_STATIC);
    Comm comm = Join(nccl);
    EXPECT_EQ(NCCL_ALGO_TREE, Run(comm, ncclFuncAllReduce, 1 << 20).algo);
    EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(OnlineLife, SavesEveryFewMinutes)
{
    constexpr int64_t kMinute = 60000000000;
    UseRewards();
    mock_clock_set(kMinute);
    Nccl nccl = StartOnline();
    std::vector<Comm> comms = JoinBoth(nccl);

    LearnByFile(comms);
    for (int64_t minutes : {5, 10}) {
        mock_clock_set(kMinute + minutes * kMinute - 1);
        LearnByFile(comms, 16);
        EXPECT_FALSE(fs::exists(Learned()));
        mock_clock_set(kMinute + minutes * kMinute);
        LearnByFile(comms, 16);
        EXPECT_TRUE(fs::exists(Learned()));
        fs::remove(Learned());
    }
    mock_clock_set(-1);
}

TEST_F(OnlineLife, SaysWhatSettled)
{
    const struct {
        const char *arms;
        const char *settled;
    } cases[] = {
        {"tree/simple/8",
         "tree/simple/8, steps are 1.778x as fast (1.355 to 2.333)"},
        {"tree/ll", "tree/ll, steps are 1.778x as fast (1.355 to 2.333)"},
        {"ring/simple",
         "the choice without Steptune, steps are 1.000x as fast (1.000 to "
         "1.000)"},
    };
    for (const auto &c : cases) {
        machine_ = LoadMachine("h200x4");
        UseRewards();
        infos_.clear();
        Set("STEPTUNE_ARMS", c.arms);
        Set("NCCL_TUNER_EPS", "0.5");
        {
            Nccl nccl = StartOnline();
            LearnByFile(JoinBoth(nccl), 40);
        }
        EXPECT_THAT(
            infos_,
            Contains(std::string("steptune-online: settled after 8 "
                                 "calls in trials: allreduce of 1048576 "
                                 "to 2097151 bytes: ") +
                     c.settled));
    }
}

TEST_F(OnlineLife, TakesInTheEndWhatCameLast)
{
    UseRewards();
    {
        Nccl nccl = StartOnline();
        const std::vector<Comm> comms = JoinBoth(nccl);
        LearnByFile(comms, 9); // files are looked at with the eighth
        std::ofstream(Rewards(), std::ios::app)
            << "allreduce,1048576,1,2,7.25\n";
    }
    EXPECT_EQ(1u, Count(LinesOf(Journal()), ",7.25,"));

    // With a thread, that has had no time yet.
    machine_ = LoadMachine("h200x4");
    UseRewards();
    Set("STEPTUNE_INLINE", "0");
    {
        Nccl nccl = StartOnline();
        for (const Comm &comm : JoinBoth(nccl))
            Run(comm, ncclFuncAllGather, 1 << 20);
    }
    EXPECT_EQ(1u, Count(LinesOf(Journal()), ",message,"));
}

TEST_F(OnlineLife, AFolderThatCannotBeWrittenIsOneWarning)
{
    UseRewards();
    Set("STEPTUNE_LEARNED", (dir_ / "gone" / "learned.conf").string());
    {
        Nccl nccl = StartOnline();
        std::vector<Comm> comms = JoinBoth(nccl);
        LearnByFile(comms);
        for (int64_t minute = 1; minute < 5; minute++) {
            mock_clock_set(minute * 500000000000 + 1000000000000);
            LearnByFile(comms, 16);
        }
        mock_clock_set(-1);
    }
    EXPECT_THAT(warnings_,
                ElementsAre(AllOf(HasSubstr("what was learned is not saved"),
                                  HasSubstr("gone/learned.conf"))));
}

// Objects that such a job still holds when it ends.
struct {
    mock_nccl *nccl;
    mock_comm *comms[2];
} kept;

TEST_F(OnlineLife, AJobThatExitsWithoutFinalizingHasSavedIt)
{
    for (const char *is_inline : {"1", "0"}) {
        UseRewards();
        fs::remove(Learned());
        Set("STEPTUNE_INLINE", is_inline);
        EXPECT_EQ(0, StatusOfProgram([&] {
                      Nccl nccl = StartOnline();
                      std::vector<Comm> comms = JoinBoth(nccl);
                      LearnByThread(comms);
                      kept.nccl = nccl.release();
                      for (size_t r = 0; r < comms.size(); r++)
                          kept.comms[r] = comms[r].release();
                  }));
        EXPECT_THAT(LinesOf(Learned()), Contains(HasSubstr("allreduce,")));
        machine_ = LoadMachine("h200x4");
    }
}

TEST_F(OnlineLife, AForkedChildThatExitsWritesNothing)
{
    for (const char *is_inline : {"1", "0"}) {
        UseRewards();
        Set("STEPTUNE_INLINE", is_inline);
        Nccl nccl = StartOnline();
        std::vector<Comm> comms = JoinBoth(nccl);
        LearnByThread(comms);
        const size_t n_lines = LinesOf(Journal()).size();

        EXPECT_EQ(0, StatusOfProgram([] {}));

        EXPECT_FALSE(fs::exists(Learned()));
        if (*is_inline == '1') { // else the thread goes on writing
            EXPECT_EQ(n_lines, LinesOf(Journal()).size());
        }
        comms.clear(); // which is not the worse for it
        EXPECT_TRUE(fs::exists(Learned()));
        fs::remove(Learned());
        machine_ = LoadMachine("h200x4");
    }
}

} // namespace
