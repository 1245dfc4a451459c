// Ranks in one thread, in threads and in processes; children; ranks that die.
#include <gmock/gmock.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <mutex>
#include <new>
#include <set>

#include <pthread.h>
#include <sys/time.h>
#include <unistd.h>

#include "mock_nccl/ranks/mock_by_rank.h"

// In C a function and a struct can share a name.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include "machine/machine.h"
}
#pragma GCC diagnostic pop

using namespace mock_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StrEq;

namespace
{

class InALayout : public AllRanks, public testing::WithParamInterface<Layout>
{
  protected:
    Ranks JoinThem()
    {
        return Join(GetParam().layout, GetParam().at_once);
    }
    ncclResult_t Play(const Ranks &ranks, uint64_t seed = 1)
    {
        script_.at_once = GetParam().at_once;
        return mock_ranks_play(ranks.get(), &script_, seed);
    }
    bool InProcesses() const
    {
        return GetParam().layout == MOCK_PROCESSES;
    }
};

TEST_P(InALayout, RanksThatDecideAlikeAgree)
{
    decide = [](int, size_t n_bytes, int, Table table, int *n_channels) {
        if (n_bytes != 4096)
            return;
        table[NCCL_ALGO_TREE][NCCL_PROTO_LL] = 0;
        *n_channels = 2;
    };
    Ranks ranks = JoinThem();
    ASSERT_TRUE(ranks) << mock_last_error();
    std::vector<int> chosen;
    script_.user = &chosen;
    script_.decided = [](void *user, size_t, size_t, const mock_outcome *out) {
        static_cast<std::vector<int> *>(user)->push_back(out->algo);
    };

    for (uint64_t seed = 0; seed < 20; seed++) {
        chosen.clear();
        ASSERT_EQ(ncclSuccess, Play(ranks, seed)) << mock_last_error();
        EXPECT_THAT(chosen, ElementsAre(NCCL_ALGO_TREE, NCCL_ALGO_RING,
                                        NCCL_ALGO_RING, NCCL_ALGO_TREE));
    }
}

// The number of the rank in this thread or process.
thread_local int my_number = -1;

TEST_P(InALayout, TheRankThatDiffersIsNamed)
{
    decide = [](int, size_t, int, Table table, int *) {
        if (my_number == 2)
            table[NCCL_ALGO_TREE][NCCL_PROTO_LL] = 0;
    };
    Ranks ranks = JoinThem();
    ASSERT_TRUE(ranks) << mock_last_error();
    script_.before_step = [](void *, int rank, size_t step) {
        my_number = step == 2 ? rank : -1;
    };

    EXPECT_EQ(ncclInternalError, Play(ranks));

    EXPECT_THAT(mock_last_error(),
                HasSubstr("step 2, allreduce of 4096 bytes: rank "));
    EXPECT_THAT(mock_last_error(), HasSubstr("rank 2"));
    EXPECT_THAT(mock_last_error(), HasSubstr("tree/ll"));
    my_number = -1;
}

TEST_P(InALayout, AFailureNamesStepAndRank)
{
    decide = [](int, size_t, int, Table table, int *) {
        if (my_number == 1)
            table[NCCL_ALGO_PAT][NCCL_PROTO_SIMPLE] = 0;
    };
    Ranks ranks = JoinThem();
    ASSERT_TRUE(ranks) << mock_last_error();
    script_.before_step = [](void *, int rank, size_t step) {
        my_number = step == 1 ? rank : -1;
    };

    EXPECT_EQ(ncclInternalError, Play(ranks));

    EXPECT_THAT(mock_last_error(),
                StrEq("step 1, rank 1: pat/simple was chosen for allreduce, "
                      "but NCCL has no kernel for it and would crash"));
    my_number = -1;
}

TEST_P(InALayout, StepsRunWhereTheRanksAre)
{
    static std::mutex lock;
    static std::set<pthread_t> threads;
    static pid_t caller;
    caller = getpid();
    threads.clear();
    const Ranks ranks = JoinThem();
    ASSERT_TRUE(ranks) << mock_last_error();
    script_.before_step = [](void *user, int, size_t) {
        const std::lock_guard<std::mutex> guard(lock);
        threads.insert(pthread_self());
        if ((getpid() != caller) != (user != nullptr))
            _exit(1);
    };
    script_.user = InProcesses() ? &script_ : nullptr;

    EXPECT_EQ(ncclSuccess, Play(ranks)) << mock_last_error();

    const bool in_one = GetParam().layout == MOCK_ONE_THREAD;
    EXPECT_THAT(threads, SizeIs(InProcesses() ? 0 : in_one ? 1 : 4));
    EXPECT_EQ(in_one, threads.count(pthread_self()) == 1);
}

TEST_P(InALayout, OtherRanksContinueWhenARankDies)
{
    for (int rank : {0, 3}) {
        Ranks ranks = JoinThem();
        ASSERT_TRUE(ranks) << mock_last_error();
        const mock_death death{rank, 1};
        script_.death = &death;
        order.clear();

        for (uint64_t seed = 0; seed < 2; seed++)
            ASSERT_EQ(ncclSuccess, Play(ranks, seed)) << mock_last_error();

        // Three ranks had four calls twice, and one had one.
        if (!InProcesses()) {
            EXPECT_THAT(order, SizeIs(2 * 3 * 4 + 1)) << rank;
        }
    }
}

TEST_P(InALayout, ARankWhoseInitFailsFailsAll)
{
    init_fails_on = InProcesses() ? 0 : 2;

    Ranks ranks = JoinThem();

    EXPECT_FALSE(ranks);
    EXPECT_THAT(
        mock_last_error(),
        HasSubstr("tuner 'by-rank': init returned 2 (ncclSystemError)"));
    EXPECT_THAT(mock_last_error(), testing::StartsWith("rank "));
    // NCCL also finalizes the rank that failed, and those that waited for it.
    if (!InProcesses()) {
        EXPECT_THAT(finalized, SizeIs(inits.size()));
    }
}

INSTANTIATE_TEST_SUITE_P(All, InALayout, AllLayouts(), LayoutName);

using Layouts = AllRanks;

TEST_F(Layouts, FinalizeRankZeroThenFromTheLastDown)
{
    for (mock_layout layout : {MOCK_ONE_THREAD, MOCK_THREADS}) {
        inits.clear();
        finalized.clear();
        Ranks ranks = Join(layout);
        ranks.reset();
        EXPECT_THAT(finalized, ElementsAre(0, 3, 2, 1));
    }
}

TEST_F(Layouts, InitAtTheSameTimeIfTheyAreToldTo)
{
    // No init ends before all have begun.
    static std::atomic<int> n_begun;
    const ncclTuner_v5_t waits{
        "waits",
        [](void **, uint64_t, size_t, size_t, ncclDebugLogger_t,
           ncclNvlDomainInfo_v5_t *, ncclTunerConstants_v5_t *) {
            n_begun++;
            for (int i = 0; i < 10000 && n_begun < 4; i++)
                usleep(1000);
            return n_begun == 4 ? ncclSuccess : ncclInternalError;
        },
        Ask, Finalize};
    nccl_ = MakeNccl({nullptr, nullptr, &waits, 5});

    for (mock_layout layout : {MOCK_ONE_THREAD, MOCK_THREADS}) {
        n_begun = 0;
        EXPECT_TRUE(Join(layout, true)) << mock_last_error();
    }
}

TEST_F(Layouts, ProcessesHaveAnEnvironmentEach)
{
    mock_ranks_options options{};
    options.layout = MOCK_PROCESSES;
    options.before_init = [](void *, int rank) {
        setenv("STEPTUNE_TEST_RANK", std::to_string(rank).c_str(), 1);
    };
    Ranks ranks = Join(options);
    ASSERT_TRUE(ranks) << mock_last_error();
    EXPECT_EQ(nullptr, getenv("STEPTUNE_TEST_RANK"));
    script_.before_step = [](void *, int rank, size_t) {
        if (std::to_string(rank) != getenv("STEPTUNE_TEST_RANK"))
            _exit(1);
    };

    EXPECT_EQ(ncclSuccess, mock_ranks_play(ranks.get(), &script_, 1))
        << mock_last_error();
}

TEST_F(Layouts, AreCaughtIfChunksAloneDiffer)
{
    nccl_ = MakeNccl({"2.30", nullptr, &kScriptedV6, 6});
    chunk_script = [](size_t, size_t *size) {
        if (my_number == 2)
            *size = 64 << 10;
        return ncclSuccess;
    };
    one_.n_bytes = 64 << 20;
    script_.n_steps = 1;
    script_.before_step = [](void *, int rank, size_t) { my_number = rank; };
    Ranks ranks = Join();
    ASSERT_TRUE(ranks) << mock_last_error();

    EXPECT_EQ(ncclInternalError, mock_ranks_play(ranks.get(), &script_, 3));

    EXPECT_STREQ(
        "step 0, allreduce of 67108864 bytes: rank 0 runs "
        "ring/simple on 24 channels, rank 2 ring/simple on 24 channels "
        "in chunks of 65536; NCCL would hang or corrupt data",
        mock_last_error());
    my_number = -1;
    chunk_script = nullptr;
}

TEST_F(Layouts, AProcessThatEndsIsNamed)
{
    const struct {
        const char *how;
        void (*before_step)(void *, int rank, size_t step);
        const char *expected;
    } ends[] = {
        {"exit",
         [](void *, int rank, size_t step) {
             if (rank == 1 && step == 2)
                 _exit(3);
         },
         "step 2, rank 1: its process ended with exit status 3"},
        {"signal",
         [](void *, int rank, size_t step) {
             if (rank == 2 && step == 0)
                 raise(SIGKILL);
         },
         "step 0, rank 2: its process ended: Killed"},
    };

    for (const auto &end : ends) {
        SCOPED_TRACE(end.how);
        Ranks ranks = Join(MOCK_PROCESSES);
        script_.before_step = end.before_step;
        EXPECT_EQ(ncclRemoteError, mock_ranks_play(ranks.get(), &script_, 1));
        EXPECT_THAT(mock_last_error(), StrEq(end.expected));
    }
}

// ---- children ----

TEST_F(Layouts, ChildrenHaveIdsOfTheirOwn)
{
    mock_ranks_options options{};
    options.comm_id = 7;
    Ranks parent = Join(options);
    Machine four = LoadMachine("h100x4");
    auto child_id = [&](bool shrink, int color) {
        mock_ranks *child = nullptr;
        if (shrink)
            EXPECT_EQ(ncclSuccess,
                      mock_ranks_shrink(parent.get(), four.get(), &child));
        else
            EXPECT_EQ(ncclSuccess, mock_ranks_split(parent.get(), four.get(),
                                                    color, &child));
        Ranks owner(child);
        const std::set<uint64_t> ids(inits.end() - 4, inits.end());
        EXPECT_THAT(ids, SizeIs(1)); // the same on all ranks
        return *ids.begin();
    };

    EXPECT_THAT(inits, ElementsAre(7, 7, 7, 7));
    const std::vector<uint64_t> splits{child_id(false, 0), child_id(false, 0),
                                       child_id(false, 1)};
    const std::vector<uint64_t> shrinks{child_id(true, 0), child_id(true, 0)};

    EXPECT_THAT(std::set<uint64_t>(splits.begin(), splits.end()), SizeIs(3));
    EXPECT_EQ(shrinks[0], shrinks[1]); // NCCL does not count them
    EXPECT_THAT(splits, testing::Not(testing::Contains(shrinks[0])));
    EXPECT_NE(7u, shrinks[0]);
}

TEST_P(InALayout, ChildrenRunScriptsLikeTheirParent)
{
    Ranks parent = JoinThem();
    ASSERT_TRUE(parent) << mock_last_error();
    Machine four = LoadMachine("h100x4");
    mock_ranks *child = nullptr;
    ASSERT_EQ(ncclSuccess,
              mock_ranks_split(parent.get(), four.get(), 5, &child))
        << mock_last_error();
    Ranks split(child);
    ASSERT_EQ(ncclSuccess, mock_ranks_shrink(parent.get(), four.get(), &child))
        << mock_last_error();
    Ranks shrunk(child);

    for (const Ranks *ranks : {&parent, &split, &shrunk, &parent})
        EXPECT_EQ(ncclSuccess, Play(*ranks)) << mock_last_error();
    parent.reset(); // a child outlives it
    EXPECT_EQ(ncclSuccess, Play(split)) << mock_last_error();
    EXPECT_EQ(ncclSuccess, Play(shrunk)) << mock_last_error();
}

TEST_F(Layouts, RanksWithoutAColorAreInNoChild)
{
    Ranks parent = Join();
    Machine two = LoadMachine("h200x2");
    mock_ranks *child = nullptr;
    inits.clear();

    ASSERT_EQ(ncclSuccess,
              mock_ranks_split(parent.get(), two.get(), 0, &child));

    Ranks owner(child);
    EXPECT_THAT(inits, SizeIs(2));
    // The split counts for all ranks, and all compute the same id of the next
    // one.
    Machine four = LoadMachine("h100x4");
    ASSERT_EQ(ncclSuccess,
              mock_ranks_split(parent.get(), four.get(), 0, &child));
    Ranks second(child);
    EXPECT_THAT(std::set<uint64_t>(inits.end() - 4, inits.end()), SizeIs(1));
    EXPECT_NE(inits.front(), inits.back());
}

TEST_F(Layouts, AShrunkCommunicatorHasItsFirstRanksOnly)
{
    Ranks parent = Join();
    Machine two = Resized(machine_, 2);
    mock_ranks *child = nullptr;
    order.clear();

    ASSERT_EQ(ncclSuccess, mock_ranks_shrink(parent.get(), two.get(), &child));

    Ranks owner(child);
    EXPECT_THAT(inits, SizeIs(4 + 2));
    EXPECT_EQ(ncclSuccess, mock_ranks_play(child, &script_, 1));
    EXPECT_THAT(order, SizeIs(2 * 4)); // four questions each
}

TEST_F(Layouts, AChildWhoseInitFailsLeavesItsParent)
{
    Machine two = Resized(machine_, 2);
    Ranks parent = Join();
    auto split = [&](mock_ranks **child) {
        return mock_ranks_split(parent.get(), two.get(), 0, child);
    };
    auto split_colors = [&](mock_ranks **child) {
        constexpr int kColors[] = {-1, 0, 0, -1};
        return mock_ranks_split_colors(parent.get(), two.get(), kColors, child);
    };
    auto shrink = [&](mock_ranks **child) {
        return mock_ranks_shrink(parent.get(), two.get(), child);
    };
    const struct {
        std::function<ncclResult_t(mock_ranks **)> make;
        int first; // rank of the child
    } cases[] = {{split, 0}, {split_colors, 1}, {shrink, 0}};

    for (const auto &c : cases)
        for (int nth : {0, 1}) {
            mock_ranks *child = nullptr;
            const size_t n = inits.size();
            init_fails_on = static_cast<int>(n) + nth;

            EXPECT_EQ(ncclSystemError, c.make(&child));

            EXPECT_EQ("rank " + std::to_string(c.first + nth) +
                          ": tuner 'by-rank': init returned 2 "
                          "(ncclSystemError)",
                      std::string(mock_last_error()));
            EXPECT_EQ(nullptr, child);
            EXPECT_THAT(inits, SizeIs(n + static_cast<size_t>(nth) + 1));
            EXPECT_THAT(finalized, SizeIs(inits.size() - 4));
        }
    EXPECT_EQ(ncclSuccess, mock_ranks_play(parent.get(), &script_, 1))
        << mock_last_error();
}

TEST_F(Layouts, AChildHasNoMoreRanksThanItsParent)
{
    Ranks parent = Join();
    Machine eight = LoadMachine("h100x8");
    mock_ranks *child = nullptr;

    EXPECT_EQ(ncclInvalidArgument,
              mock_ranks_split(parent.get(), eight.get(), 0, &child));

    EXPECT_THAT(mock_last_error(),
                StrEq("a child of 8 ranks, but its parent has 4"));
    EXPECT_EQ(nullptr, child);
}

// ---- several colors ----

// {0,2} and {1,3}, as data-parallel groups of four ranks are.
constexpr int kDataParallel[] = {0, 1, 0, 1};

TEST_F(Layouts, ColorsOfASplitAreCommunicatorsOfTheirOwn)
{
    const struct {
        const char *name;
        std::vector<int> colors;
        size_t n_inits;
        size_t n_ids;
    } cases[] = {
        {"tensor parallel", {0, 0, 1, 1}, 4, 2},
        {"data parallel", {0, 1, 0, 1}, 4, 2},
        {"large numbers", {70, 9, 9, 70}, 4, 2},
        {"one color, of the first and the last", {0, -5, -1, 0}, 2, 1},
        {"ranks without a color", {-1, 3, -1, 3}, 2, 1},
    };
    Machine two = LoadMachine("h200x2");

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        Ranks parent = Join();
        mock_ranks *children = nullptr;
        inits.clear();

        ASSERT_EQ(ncclSuccess,
                  mock_ranks_split_colors(parent.get(), two.get(),
                                          c.colors.data(), &children))
            << mock_last_error();

        Ranks owner(children);
        EXPECT_THAT(inits, SizeIs(c.n_inits));
        EXPECT_THAT(std::set<uint64_t>(inits.begin(), inits.end()),
                    SizeIs(c.n_ids));
    }
}

TEST_P(InALayout, ColorsOfASplitRunScriptsTogether)
{
    constexpr int kLarge[] = {700000, 9, 9, 700000};

    for (const int *colors : {kDataParallel, kLarge}) {
        Ranks parent = JoinThem();
        ASSERT_TRUE(parent) << mock_last_error();
        Machine two = LoadMachine("h200x2");
        mock_ranks *children = nullptr;
        ASSERT_EQ(ncclSuccess, mock_ranks_split_colors(parent.get(), two.get(),
                                                       colors, &children))
            << mock_last_error();
        Ranks owner(children);
        size_t n_decided = 0;
        script_.user = &n_decided;
        script_.decided = [](void *user, size_t, size_t, const mock_outcome *) {
            ++*static_cast<size_t *>(user);
        };

        for (uint64_t seed = 0; seed < 8; seed++)
            EXPECT_EQ(ncclSuccess, Play(owner, seed)) << mock_last_error();

        EXPECT_EQ(8u * 2 * 4, n_decided); // 4 collectives in each communicator
        parent.reset();                   // they outlive it
        EXPECT_EQ(ncclSuccess, Play(owner)) << mock_last_error();
    }
}

// Communicators need not choose alike, but the ranks of each must.
TEST_P(InALayout, RanksAreComparedWithinTheirColor)
{
    const struct {
        const char *name;
        int differs[2]; // ranks
        const char *expected;
    } cases[] = {
        {"all ranks of a color", {1, 3}, nullptr},
        {"a rank of each", {2, 3}, "rank 2"},
        {"one rank", {3, 3}, "rank 3"},
    };
    Machine two = LoadMachine("h200x2");

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        decide = [](int, size_t n_bytes, int, Table table, int *) {
            if (my_number >= 0 && n_bytes == 4096)
                table[NCCL_ALGO_TREE][NCCL_PROTO_LL] = 0;
        };
        Ranks parent = JoinThem();
        ASSERT_TRUE(parent) << mock_last_error();
        mock_ranks *children = nullptr;
        ASSERT_EQ(ncclSuccess,
                  mock_ranks_split_colors(parent.get(), two.get(),
                                          kDataParallel, &children))
            << mock_last_error();
        Ranks owner(children);
        script_.user = const_cast<int *>(c.differs);
        script_.before_step = [](void *user, int rank, size_t) {
            const int *differs = static_cast<const int *>(user);
            my_number = rank == differs[0] || rank == differs[1] ? rank : -1;
        };

        EXPECT_EQ(c.expected == nullptr ? ncclSuccess : ncclInternalError,
                  Play(owner, 4))
            << mock_last_error();
        if (c.expected != nullptr) {
            EXPECT_THAT(mock_last_error(), HasSubstr(c.expected));
        }
        script_.before_step = nullptr;
        my_number = -1;
    }
}

TEST_F(Layouts, ColorsMustFitTheirMachine)
{
    const struct {
        std::vector<int> colors;
        const char *expected;
    } cases[] = {
        {{0, 0, 0, 1},
         "color 0 with another number of ranks than 2, which its machine has"},
        {{0, 1, 1, 2},
         "color 0 with another number of ranks than 2, which its machine has"},
        {{0, -1, -1, -1},
         "color 0 with another number of ranks than 2, which its machine has"},
        {{-1, -1, 5, -1},
         "color 5 with another number of ranks than 2, which its machine has"},
        {{3, 3, 3, 3},
         "color 3 with another number of ranks than 2, which its machine has"},
        {{2, 2, 2, 1},
         "color 1 with another number of ranks than 2, which its machine has"},
        {{1, 8, 8, 8},
         "color 1 with another number of ranks than 2, which its machine has"},
        {{0, 8, 0, 8 + 1},
         "color 8 with another number of ranks than 2, which its machine has"},
        {{-1, -1, -1, -1}, "a split in which no rank has a color"},
    };
    Ranks parent = Join();
    Machine two = LoadMachine("h200x2");
    mock_ranks *children = nullptr;

    for (const auto &c : cases) {
        EXPECT_EQ(ncclInvalidArgument,
                  mock_ranks_split_colors(parent.get(), two.get(),
                                          c.colors.data(), &children));
        EXPECT_THAT(mock_last_error(), StrEq(c.expected));
    }
    ASSERT_EQ(ncclSuccess, mock_ranks_split_colors(parent.get(), two.get(),
                                                   kDataParallel, &children));
    Ranks owner(children);
    mock_ranks *more = nullptr;
    EXPECT_EQ(
        ncclInvalidArgument,
        mock_ranks_split_colors(owner.get(), two.get(), kDataParallel, &more));
    EXPECT_THAT(mock_last_error(),
                StrEq("a split of the children of a split, expected one of a "
                      "communicator of all ranks"));
    EXPECT_EQ(ncclInvalidArgument,
              mock_ranks_shrink(owner.get(), two.get(), &more));
    EXPECT_THAT(mock_last_error(),
                StrEq("a child of the children of a split, expected one of a "
                      "communicator of all ranks"));
    EXPECT_EQ(nullptr, more);
}

// ---- clocks ----

TEST_F(Layouts, HaveClocksThatDifferByRank)
{
    constexpr int64_t kHour = 3600 * INT64_C(1000000000);
    static std::vector<int> hours[4];
    for (auto &h : hours)
        h.clear();
    const time_t start = time(nullptr);
    mock_ranks_options options{};
    options.before_init = [](void *, int) { mock_clock_shift(kHour); };
    Ranks ranks = Join(options);
    EXPECT_LT(time(nullptr) - start, 3600); // that was for the init
    static time_t begin;
    begin = start;
    decide = [](int rank, size_t, int, Table, int *) {
        timeval day{};
        timespec up{};
        gettimeofday(&day, nullptr);
        clock_gettime(CLOCK_REALTIME, &up);
        for (time_t now : {time(nullptr), day.tv_sec, up.tv_sec})
            hours[rank].push_back(static_cast<int>((now - begin) / 3600));
    };
    script_.n_steps = 1;
    script_.before_step = [](void *, int rank, size_t) {
        mock_clock_shift(rank * kHour);
    };

    EXPECT_EQ(ncclSuccess, mock_ranks_play(ranks.get(), &script_, 1));

    for (int rank = 0; rank < 4; rank++)
        EXPECT_THAT(hours[rank], ElementsAre(rank, rank, rank));
    EXPECT_LT(time(nullptr) - start, 3600); // back to what it is
}

} // namespace
