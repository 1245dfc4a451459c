// The learning plugin on all ranks of a communicator: whatever is tried, all of
// them run the same.
#include <gmock/gmock.h>

#include "plugin/online/online_plugin.h"

namespace
{

using namespace online_plugin;
using testing::IsEmpty;

// Calls of a few kinds, again and again, as a job makes them.
class Repeated
{
  public:
    explicit Repeated(size_t n_steps)
    {
        for (mock_call &call : calls_)
            call = {};
        calls_[0].coll = ncclFuncAllReduce, calls_[0].n_bytes = 1 << 20;
        calls_[1].coll = ncclFuncAllGather, calls_[1].n_bytes = 4 << 20;
        calls_[2].coll = ncclFuncAllReduce, calls_[2].n_bytes = 64 << 10;
        for (size_t s = 0; s < n_steps; s++)
            steps_.push_back({&calls_[s % 3], 1});
        script.steps = steps_.data();
        script.n_steps = steps_.size();
    }

    mock_script script{};

  private:
    mock_call calls_[3];
    std::vector<mock_step> steps_;
};

class OnlineRanks : public OnlinePlugin
{
  protected:
    // How many calls the tuner decided, of a play in which all ranks agree.
    static size_t Play(const Ranks &ranks, mock_script script, uint64_t seed,
                       bool at_once = false)
    {
        size_t n_decided = 0;

        script.at_once = at_once;
        script.user = &n_decided;
        script.decided = [](void *user, size_t, size_t,
                            const mock_outcome *out) {
            *static_cast<size_t *>(user) += !Untouched(*out);
        };
        EXPECT_EQ(ncclSuccess, mock_ranks_play(ranks.get(), &script, seed))
            << mock_last_error();
        return n_decided;
    }

    // Names in shared memory of the communicator 'id'.
    static std::vector<std::string> InSharedMemory(uint64_t id)
    {
        std::vector<std::string> names;
        char hex[17];
        snprintf(hex, sizeof(hex), "%016llx",
                 static_cast<unsigned long long>(id));
        for (const auto &entry : fs::directory_iterator("/dev/shm"))
            if (entry.path().string().find(hex) != std::string::npos)
                names.push_back(entry.path());
        return names;
    }
};

class OnlineLayout : public OnlineRanks,
                     public testing::WithParamInterface<Layout>
{
  protected:
    Ranks Join(const Nccl &nccl, uint64_t id,
               void (*before_init)(void *, int) = nullptr)
    {
        return JoinAs(nccl, GetParam(), id, before_init);
    }

    size_t Play(const Ranks &ranks, const mock_script &script, uint64_t seed)
    {
        return OnlineRanks::Play(ranks, script, seed, GetParam().at_once);
    }
};

// ---- agreement ----

TEST_P(OnlineLayout, AllRanksTryTheSameInAnySchedule)
{
    const std::pair<const char *, int> machines[] = {
        {"h200x4", 2}, {"h200x4", 4}, {"h100x8", 8}};
    ForceExploration();

    for (const auto &[name, n_ranks] : machines) {
        SCOPED_TRACE(n_ranks);
        machine_ = Resized(LoadMachine(name), n_ranks);
        Nccl nccl = StartOnline();
        Ranks ranks = Join(nccl, mock_new_comm_id());
        size_t n_decided = 0;
        for (uint64_t seed = 0; seed < 12; seed++) {
            RandomScript random(seed, 40);
            random.script.vary = [](void *, int rank, size_t step,
                                    mock_call *call) {
                call->reg_buff = (rank + static_cast<int>(step)) % 2;
            };
            n_decided += Play(ranks, random.script, seed);
        }
        EXPECT_LT(50u, n_decided);
    }
}

TEST_P(OnlineLayout, AKilledRankHarmsNeitherTheOthersNorTheNextJob)
{
    const uint64_t id = mock_new_comm_id();
    const mock_death death{3, 70};
    ForceExploration();

    for (bool dies : {true, true, false}) {
        Nccl nccl = StartOnline();
        Ranks ranks = Join(nccl, id);
        Repeated calls(150);
        calls.script.death = dies ? &death : nullptr;
        EXPECT_LT(20u, Play(ranks, calls.script, 2));
        ranks.reset();
        EXPECT_THAT(InSharedMemory(id), IsEmpty());
    }
}

// ---- ranks that must not learn ----

struct Odd {
    const char *variable;
    const char *common;
    const char *of_rank_2;
};
const Odd *odd;

void SetOddly(void *, int rank)
{
    setenv(odd->variable, rank == 2 ? odd->of_rank_2 : odd->common, 1);
}

TEST_P(OnlineLayout, RanksThatAreSetUpDifferentlyAllStepAside)
{
    const std::string tree = Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n", "a");
    const std::string ring = Policy("allgather,0,inf,ring,ll,-1,-1,-1\n", "b");
    unsetenv("NCCL_TUNER_CONFIG_FILE");
    const Odd cases[] = {
        {"STEPTUNE_STRATEGY", "epsilon", "halving"},
        {"STEPTUNE_FREEZE", "0", "1"},
        {"NCCL_TUNER_EPS", "1", "2"}, // that rank steps aside at once
        {"STEPTUNE_WARM_START", tree.c_str(), ring.c_str()},
    };

    for (const Odd &c : cases) {
        SCOPED_TRACE(c.variable);
        ForceExploration();
        odd = &c;
        Nccl nccl = StartOnline();
        Ranks ranks = Join(nccl, mock_new_comm_id(), SetOddly);
        EXPECT_EQ(0u, Play(ranks, Repeated(200).script, 1));
        unsetenv(c.variable);
    }
}

INSTANTIATE_TEST_SUITE_P(All, OnlineLayout, AllLayouts(), LayoutName);

// ---- in one thread, where the log is heard ----

constexpr Layout kOneThread{"OneThread", MOCK_ONE_THREAD, false};

TEST_F(OnlineRanks, ARankThousandsOfCallsBehindEndsLearningOnAll)
{
    ForceExploration();
    Nccl nccl = StartOnline();
    Ranks ranks = JoinAs(nccl, kOneThread, mock_new_comm_id());
    Repeated calls(10000);

    // Rank after rank: the last one is all of the script behind.
    for (uint64_t seed = 0; seed < 4; seed++)
        Play(ranks, calls.script, seed);

    EXPECT_EQ(1u, Count(warnings_, "nothing more is learned"));
    EXPECT_EQ(1u, warnings_.size());
}

TEST_F(OnlineRanks, SomeRanksBehindAreNoReasonToEndIt)
{
    ForceExploration();
    Nccl nccl = StartOnline();
    Ranks ranks = JoinAs(nccl, kOneThread, mock_new_comm_id());

    for (uint64_t seed = 0; seed < 8; seed++)
        EXPECT_LT(500u, Play(ranks, Repeated(2000).script, seed));

    EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(OnlineRanks, ARankThatNeverJoinedEndsLearningWhichIsSaidOnce)
{
    Nccl nccl = StartOnline();
    std::vector<Comm> comms;
    for (int r = 0; r < 3; r++) // of four
        comms.push_back(Join(nccl));

    for (int i = 0; i < 100; i++)
        for (const Comm &comm : comms)
            EXPECT_TRUE(Untouched(Run(comm, ncclFuncAllReduce, 1 << 20)));

    EXPECT_EQ(1u, Count(warnings_, "nothing more is learned"));
}

TEST_F(OnlineRanks, ChildrenLearnByThemselves)
{
    ForceExploration();
    Set("STEPTUNE_JOURNAL", Journal());
    Nccl nccl = StartOnline();
    Ranks parent = JoinAs(nccl, kOneThread, mock_new_comm_id());
    Machine pair = Resized(machine_, 2);
    Machine three = Resized(machine_, 3);
    mock_ranks *split = nullptr;
    mock_ranks *shrunk[2] = {};

    ASSERT_EQ(ncclSuccess,
              mock_ranks_split(parent.get(), pair.get(), 1, &split))
        << mock_last_error();
    for (mock_ranks *&child : shrunk) // of the same commId, both
        ASSERT_EQ(ncclSuccess,
                  mock_ranks_shrink(parent.get(), three.get(), &child))
            << mock_last_error();
    Ranks children[] = {Ranks(split), Ranks(shrunk[0]), Ranks(shrunk[1])};

    for (uint64_t seed = 0; seed < 6; seed++) {
        EXPECT_LT(50u, Play(parent, Repeated(300).script, seed));
        for (const Ranks &child : children)
            EXPECT_LT(50u, Play(child, Repeated(300).script, seed));
    }
    parent.reset();
    EXPECT_LT(50u, Play(children[2], Repeated(300).script, 1));
}

TEST_F(OnlineRanks, TheSameCallsAreTheSameDecisions)
{
    std::vector<std::string> runs;
    ForceExploration();

    for (int i = 0; i < 2; i++) {
        Nccl nccl = StartOnline();
        Ranks ranks = JoinAs(nccl, kOneThread, mock_new_comm_id());
        std::string chosen;
        Repeated calls(600);
        mock_script script = calls.script;
        script.user = &chosen;
        script.decided = [](void *user, size_t, size_t,
                            const mock_outcome *out) {
            static_cast<std::string *>(user)->push_back(
                static_cast<char>('a' + out->algo * 3 + out->proto));
        };
        ASSERT_EQ(ncclSuccess, mock_ranks_play(ranks.get(), &script, 1))
            << mock_last_error();
        runs.push_back(chosen);
    }

    EXPECT_EQ(runs[0], runs[1]);
}

// As if rank 2 could not have shared memory: its name is taken by a file that
// others may read.
void SpoilForRank2(void *, int rank)
{
    const char *name = getenv("TEST_SHM");
    const std::string aside = std::string(name) + "-aside";

    if (rank == 2) {
        rename(name, aside.c_str());
        std::ofstream file(name);
        fs::permissions(name, fs::perms(0644));
    } else if (rank == 3) {
        unlink(name);
        rename(aside.c_str(), name);
    }
}

TEST_F(OnlineRanks, WithoutSharedMemoryOnOneRankNoneTriesAnything)
{
    ForceExploration();

    for (bool at_once : {false, true}) {
        const uint64_t id = mock_new_comm_id();
        char name[96];
        snprintf(name, sizeof(name), "/dev/shm/steptune-%u-%016llx-4-6",
                 static_cast<unsigned>(geteuid()),
                 static_cast<unsigned long long>(id));
        Set("TEST_SHM", name);
        Nccl nccl = StartOnline();
        Ranks ranks =
            JoinAs(nccl, {"", MOCK_PROCESSES, at_once}, id, SpoilForRank2);
        EXPECT_EQ(0u, Play(ranks, Repeated(200).script, 1, at_once));
        ranks.reset();
        EXPECT_THAT(InSharedMemory(id), IsEmpty());
    }
    unsetenv("TEST_SHM");
}

// ---- with a thread for the observer ----

TEST_F(OnlineRanks, LearnsInAThreadWhileProcessesRun)
{
    ForceExploration();
    unsetenv("STEPTUNE_INLINE");
    Nccl nccl = StartOnline();
    Ranks ranks = JoinAs(nccl, {"", MOCK_PROCESSES, true}, mock_new_comm_id());
    size_t n_decided = 0;

    for (uint64_t seed = 0; seed < 500 && n_decided == 0; seed++)
        n_decided += Play(ranks, Repeated(300).script, seed, true);

    EXPECT_LT(0u, n_decided);
}

} // namespace
