// libnccl-tuner-steptune.so on ranks in one thread, in threads and in
// processes, on ranks that stall and ranks that die.
#include <gmock/gmock.h>
#include <unistd.h>

#include "support/static_plugin_ranks.h"

namespace
{

using namespace static_plugin;
using testing::IsEmpty;

class InALayout : public OnAllRanks, public testing::WithParamInterface<Layout>
{
  protected:
    Ranks Join(const Nccl &nccl, void (*before_init)(void *, int) = nullptr)
    {
        ids_.push_back(mock_new_comm_id());
        return JoinAs(nccl, GetParam(), ids_.back(), before_init);
    }

    // The algorithm of the script's first collective, if all ranks agree.
    int Play(const Ranks &ranks, mock_script script, uint64_t seed)
    {
        int algo = NCCL_ALGO_UNDEF;

        script.at_once = GetParam().at_once;
        script.user = &algo;
        script.decided = [](void *user, size_t step, size_t i,
                            const mock_outcome *out) {
            if (step == 0 && i == 0)
                *static_cast<int *>(user) = out->algo;
        };
        EXPECT_EQ(ncclSuccess, mock_ranks_play(ranks.get(), &script, seed))
            << mock_last_error();
        return algo;
    }

    // Names of files that the communicators of this test left.
    std::vector<std::string> LeftInSharedMemory() const
    {
        std::vector<std::string> names;
        for (const auto &entry : fs::directory_iterator("/dev/shm"))
            for (uint64_t id : ids_) {
                char hex[17];
                snprintf(hex, sizeof(hex), "%016llx",
                         static_cast<unsigned long long>(id));
                if (entry.path().string().find(hex) != std::string::npos)
                    names.push_back(entry.path());
            }
        return names;
    }

    std::vector<uint64_t> ids_;
};

TEST_P(InALayout, AllRanksFollowThePolicy)
{
    Policy(kPolicy);

    for (const NcclVersion &v : kVersions) {
        SCOPED_TRACE(v.nccl);
        Nccl nccl = Start(v.nccl);
        for (int k = 0; k < 2; k++) { // the second finds what the first left
            Ranks ranks = Join(nccl);
            ASSERT_TRUE(ranks);
            for (uint64_t seed = 0; seed < 8; seed++) {
                RandomScript random(seed, 8);
                Play(ranks, random.script, seed);
            }
        }
    }
}

// Everything on trees, but for rank 2, which reads the file once it has been
// edited.
void EditForRank2(void *self, int rank)
{
    const fs::path file = std::string(getenv("NCCL_TUNER_CONFIG_FILE"));

    (void)self;
    std::ofstream(file) << "allreduce,0,inf," << (rank == 2 ? "ring" : "tree")
                        << ",simple,-1,-1,-1\n";
}

TEST_P(InALayout, AFileThatIsEditedBetweenTwoInitsHoldsForNoneOrAll)
{
    Policy("");
    Nccl nccl = Start();
    Ranks ranks = Join(nccl, EditForRank2);
    ASSERT_TRUE(ranks);
    mock_call call{};
    call.coll = ncclFuncAllReduce;
    call.n_bytes = 1 << 20;
    const mock_step step{&call, 1};
    mock_script script{};
    script.steps = &step;
    script.n_steps = 1;

    int algo = Play(ranks, script, 1);

    // A process reads it once for all its ranks; processes compare.
    EXPECT_EQ(GetParam().layout == MOCK_PROCESSES ? NCCL_ALGO_RING
                                                  : NCCL_ALGO_TREE,
              algo);
}

TEST_P(InALayout, ARankThatStallsFollowsThePolicy)
{
    Policy(kPolicy);
    Nccl nccl = Start();
    Ranks ranks = Join(nccl);
    ASSERT_TRUE(ranks);
    RandomScript random(3, 8);
    random.script.before_step = [](void *, int rank, size_t step) {
        if (rank == 1 && step % 4 == 0)
            usleep(20000);
    };

    for (uint64_t seed = 0; seed < 4; seed++)
        Play(ranks, random.script, seed);
}

TEST_P(InALayout, ARankThatDiesTakesNobodyWithIt)
{
    Policy(kPolicy);
    Nccl nccl = Start();

    for (size_t step : {size_t{0}, size_t{3}}) {
        const mock_death death{3, step};
        Ranks ranks = Join(nccl);
        ASSERT_TRUE(ranks);
        RandomScript random(5, 8);
        random.script.death = &death;
        Play(ranks, random.script, step + 1);
    }
    // The next job on this host starts as if nothing had been.
    Ranks ranks = Join(nccl);
    ASSERT_TRUE(ranks);
    RandomScript random(6, 8);
    Play(ranks, random.script, 1);
    EXPECT_THAT(LeftInSharedMemory(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, InALayout, AllLayouts(), LayoutName);

} // namespace
