// The learning plugin where its files, the process's locale, limits or threads
// are not what it would like: no rank is held, none ends, and all agree.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>

#include "plugin/online/online_plugin.h"
#include "support/comma_locale.h"
#include "support/slow.h"

namespace
{

using namespace online_plugin;
using namespace testing;

class OnlineFiles : public OnlinePlugin
{
  protected:
    bool IsInSharedMemory() const
    {
        char ours[64];
        bool found = false;
        snprintf(ours, sizeof(ours), "%012llx",
                 static_cast<unsigned long long>(id_ >> 16));
        for (const auto &entry : fs::directory_iterator("/dev/shm"))
            found |= entry.path().string().find(ours) != std::string::npos;
        return found;
    }
};

std::ptrdiff_t Entries(const char *folder)
{
    return std::distance(fs::directory_iterator(folder),
                         fs::directory_iterator());
}

// ---- files ----

TEST_F(OnlineFiles, AFifoHoldsNoRank)
{
    const std::string fifo = Fifo();

    for (const char *variable :
         {"STEPTUNE_WARM_START", "STEPTUNE_JOURNAL", "STEPTUNE_LEARNED",
          "STEPTUNE_EVIDENCE", "NCCL_TUNER_CONFIG_FILE",
          "NCCL_TUNER_REWARD_FILE"})
        for (const char *nccl_version : {"2.22", "2.24", "2.28", "2.30"})
            for (const char *is_inline : {"0", "1"}) {
                SCOPED_TRACE(std::string(variable) + " " + nccl_version);
                ForceExploration();
                Set("STEPTUNE_INLINE", is_inline);
                Set(variable, fifo);
                Nccl nccl = StartOnline(nccl_version);
                Play(20, JoinAll(nccl, nullptr, MOCK_PROCESSES));
                Forget();
                unsetenv("NCCL_TUNER_CONFIG_FILE");
                Set("STEPTUNE_LEARNED", Learned());
            }
}

TEST_F(OnlineFiles, AFifoIsOneWarningAndLearningGoesOn)
{
    const std::string fifo = Fifo();
    const std::pair<const char *, std::string> cases[] = {
        {"STEPTUNE_JOURNAL", "no journal: cannot write '" + fifo +
                                 "': it is a FIFO, a socket or a device, "
                                 "expected a regular file"},
        {"STEPTUNE_LEARNED", "what was learned is not saved: cannot read '" +
                                 fifo +
                                 "': it is a FIFO, a socket or a device, "
                                 "expected a regular file"}};

    for (const auto &[variable, why] : cases) {
        machine_ = LoadMachine("h200x4");
        UseRewards();
        Set(variable, fifo);
        warnings_.clear();
        {
            Nccl nccl = StartOnline();
            LearnByFile(JoinBoth(nccl));
        }
        EXPECT_EQ(1u, Count(infos_, "settled after"));
        EXPECT_THAT(warnings_, ElementsAre(HasSubstr(why)));
        infos_.clear();
        Set("STEPTUNE_LEARNED", Learned());
    }
}

TEST_F(OnlineFiles, ALockThatAnotherProcessKeepsHoldsNobody)
{
    UseRewards();
    for (const std::string &locked : {dir_.string(), Journal()}) {
        std::ofstream journal(Journal());
        const int keeper = open(locked.c_str(), O_RDONLY);
        ASSERT_EQ(0, flock(keeper, LOCK_EX));
        const std::ptrdiff_t n_open = Entries("/proc/self/fd");
        warnings_.clear();
        {
            Nccl nccl = StartOnline();
            LearnByFile(JoinBoth(nccl));
        }
        EXPECT_EQ(n_open, Entries("/proc/self/fd"));
        close(keeper);
        EXPECT_THAT(LinesOf(Journal()), Contains(HasSubstr(",settled,")));
        EXPECT_THAT(LinesOf(Journal())[0], HasSubstr("t_us,comm,"));
        if (locked == Journal())
            EXPECT_THAT(warnings_, IsEmpty());
        else
            EXPECT_THAT(warnings_, ElementsAre(HasSubstr(
                                       "another process keeps the lock of the "
                                       "folder of '" +
                                       Learned())));
        fs::remove(Journal());
    }
    EXPECT_TRUE(fs::exists(Learned()));
}

// ---- the locale ----

TEST_F(OnlineFiles, NumbersHaveAPointInAnyLocale)
{
    STP_SLOW();
    CommaLocale comma(dir_);
    SKIP_WITHOUT_COMMA(comma);
    UseRewards();
    for (const char *is_inline : {"1", "0"}) {
        Set("STEPTUNE_INLINE", is_inline);
        Set("STEPTUNE_MIN_GAIN", "0.03");
        Nccl nccl = StartOnline();
        std::vector<Comm> comms = JoinBoth(nccl);
        ASSERT_THAT(warnings_, IsEmpty()); // the setting is taken
        do {
            LearnByFile(comms, 100);
        } while (Count(LinesOf(Journal()), ",settled,") == 0);
        comms.clear();
        EXPECT_THAT(warnings_, IsEmpty());
        for (const std::string &line : LinesOf(Journal()))
            EXPECT_EQ(16, std::count(line.begin(), line.end(), ',')) << line;
        EXPECT_THAT(LinesOf(Journal()),
                    Contains(HasSubstr(",1,"))); // a reward
        EXPECT_THAT(LinesOf(Learned()),
                    Contains(MatchesRegex("# 1[.][0-9]*x .*calls")));
        EXPECT_THAT(infos_, Contains(AllOf(HasSubstr("settled after"),
                                           Not(HasSubstr(",0")))));
        fs::remove(Journal());
        fs::remove(Learned());
        infos_.clear();
    }
    EXPECT_EQ(',', *localeconv()->decimal_point); // the application's, still
}

// ---- limits ----

TEST_F(OnlineFiles, ALimitOfFileSizesEndsNoJob)
{
    UseRewards();
    for (const char *is_inline : {"1", "0"}) {
        Set("STEPTUNE_INLINE", is_inline);
        // The shared memory and a bit of the journal fit, or nothing.
        for (rlim_t limit : {rlim_t{65536}, rlim_t{0}}) {
            std::ofstream(Rewards(), std::ios::trunc) << "";
            fs::remove(Journal());
            EXPECT_EQ(
                0, StatusOfProgram([&] {
                    const struct rlimit none = {0, 0};
                    const struct rlimit some = {limit, RLIM_INFINITY};
                    const struct rlimit any = {RLIM_INFINITY, RLIM_INFINITY};
                    setrlimit(RLIMIT_CORE, &none);
                    signal(SIGXFSZ, SIG_DFL);
                    Nccl nccl = StartOnline();
                    setrlimit(RLIMIT_FSIZE, &some);
                    std::vector<Comm> comms = JoinBoth(nccl);
                    for (int i = 0; i < 3000; i++)
                        for (const Comm &comm : comms)
                            Run(comm, ncclFuncAllReduce,
                                size_t{1} << (10 + i % 12));
                    comms.clear();
                    setrlimit(RLIMIT_FSIZE, &any); // gcov writes later
                }));
            EXPECT_FALSE(IsInSharedMemory());
        }
    }
}

// ---- threads and descriptors ----

class OnlineThread : public OnlineFiles
{
  protected:
    void SetUp() override
    {
        OnlineFiles::SetUp();
        UseTwoRanks();
        Set("STEPTUNE_INLINE", "0");
        Set("STEPTUNE_JOURNAL", Journal());
        std::thread([] {}).join(); // a sanitizer starts its own with it
        n_before_ = Entries("/proc/self/task");
    }

    // Threads that are there beside those of the program.
    std::ptrdiff_t Threads() const
    {
        return Entries("/proc/self/task") - n_before_;
    }

    // Until the thread has thought for it, however long that takes.
    void AwaitTrial(const std::vector<Comm> &comms)
    {
        bool first, second;
        do {
            usleep(100);
            first = Untouched(Run(comms[0], ncclFuncAllReduce, 1 << 20));
            second = Untouched(Run(comms[1], ncclFuncAllReduce, 1 << 20));
        } while (first && second);
    }

  private:
    std::ptrdiff_t n_before_ = 0;
};

TEST_F(OnlineThread, AProcessHasOneForAllCommunicatorsThatLearn)
{
    Nccl nccl = StartOnline();
    std::vector<std::vector<Comm>> all;
    all.push_back(JoinBoth(nccl, 0));
    const std::ptrdiff_t n_files = Entries("/proc/self/fd");

    for (uint64_t id = 1; id < 100; id++) {
        all.push_back(JoinBoth(nccl, id));
        for (const Comm &comm : all.back()) // which completes the joining
            Run(comm, ncclFuncAllReduce, 1 << 20);
    }
    EXPECT_GE(n_files, Entries("/proc/self/fd"));
    EXPECT_EQ(1, Threads());

    // The first that came goes first, and the others learn on.
    ForceExploration();
    all.push_back(JoinBoth(nccl, 100));
    for (size_t i = 0; i < 100; i++)
        all[i].clear();
    AwaitTrial(all.back());
    EXPECT_EQ(1, Threads());
    all.clear();
    EXPECT_EQ(0, Threads());

    // Others begin anew.
    all.push_back(JoinBoth(nccl, 101));
    AwaitTrial(all.back());
}

TEST_F(OnlineThread, TakesNoSignals)
{
    Nccl nccl = StartOnline();
    const std::vector<Comm> comms = JoinBoth(nccl);
    uint64_t blocked = 0;

    for (const auto &task : fs::directory_iterator("/proc/self/task"))
        for (const std::string &line : LinesOf(task.path() / "status"))
            if (line.rfind("SigBlk:", 0) == 0)
                blocked |= strtoull(line.c_str() + 7, nullptr, 16);
    for (int number = 1; number < SIGRTMIN - 2; number++)
        if (number != SIGKILL && number != SIGSTOP) {
            EXPECT_NE(0u, blocked >> (number - 1) & 1) << number;
        }
}

TEST_F(OnlineThread, AForkedChildLearnsWithItsOwn)
{
    STP_SLOW();
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer ends a child that makes a thread";
#endif
    ForceExploration();
    Nccl nccl = StartOnline();
    std::vector<Comm> comms = JoinBoth(nccl, 1);

    for (int i = 0; i < 20; i++)
        EXPECT_EQ(0, StatusOfProgram([&] {
                      std::vector<Comm> own = JoinBoth(nccl, 2 + i);
                      EXPECT_EQ(1, Threads());
                      AwaitTrial(own);
                      comms.clear(); // inherited: its thread is elsewhere
                      AwaitTrial(own);
                      own.clear();
                      EXPECT_EQ(0, Threads());
                  }));
    AwaitTrial(comms);
}

TEST_F(OnlineThread, CommunicatorsComeAndGoInManyThreads)
{
    Nccl nccl = StartOnline();
    mock_ranks_options options{};
    options.layout = MOCK_THREADS;
    options.at_once = true;

    for (uint64_t round = 0; round < 40; round++) {
        mock_ranks *made[3] = {};
        std::vector<Ranks> all;
        for (mock_ranks *&ranks : made) {
            options.comm_id = mock_new_comm_id();
            ASSERT_EQ(ncclSuccess, mock_ranks_create(nccl.get(), machine_.get(),
                                                     &options, &ranks));
            all.emplace_back(ranks);
        }
        Play(20, all[round % 3]);
        std::rotate(all.begin(), all.begin() + round % 3, all.end());
    }
    EXPECT_EQ(0, Threads());
}

} // namespace
