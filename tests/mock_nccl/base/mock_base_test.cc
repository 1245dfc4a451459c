// What all of mock NCCL uses: errors, log lines, names, hashes and clocks.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <set>
#include <thread>

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "mock_ranks.h"
#include "support/mock_test.h"

extern "C" {
#include "base/error.h"
#include "base/log.h"
#include "base/mix.h"
#include "base/names.h"
}

using namespace mock_test;

namespace
{

// ---- errors ----

TEST(Error, OfAFailureGetsAPrefix)
{
    mock_set_error("no room for %d", 5);

    EXPECT_EQ(ncclRemoteError,
              mock_fail_prefix(ncclRemoteError, "rank %d: ", 3));
    EXPECT_STREQ("rank 3: no room for 5", mock_last_error());
    EXPECT_EQ(ncclSuccess, mock_fail_prefix(ncclSuccess, "rank %d: ", 4));
    EXPECT_STREQ("rank 3: no room for 5", mock_last_error());
}

TEST(Error, IsCutAt1023Characters)
{
    const std::string a(600, 'a'), b(600, 'b'), c(2000, 'c');

    mock_set_error("%s", c.c_str());
    EXPECT_EQ(std::string(1023, 'c'), mock_last_error());
    mock_set_error("%s", a.c_str());
    mock_fail_prefix(ncclSystemError, "%s", b.c_str());
    EXPECT_EQ(b + std::string(423, 'a'), mock_last_error());
    mock_fail_prefix(ncclSystemError, "%s", c.c_str());
    EXPECT_EQ(std::string(1023, 'c'), mock_last_error());
}

TEST(Error, IsThatOfItsThread)
{
    mock_set_error("here");

    std::thread([] {
        EXPECT_STREQ("", mock_last_error());
        mock_set_error("there");
    }).join();

    EXPECT_STREQ("here", mock_last_error());
}

TEST(Error, IsKeptWhileOthersHappen)
{
    mock_kept kept, none;
    mock_set_error("first");
    mock_keep(&kept, ncclInvalidUsage);
    mock_keep(&none, ncclSuccess);
    mock_set_error("second");

    EXPECT_EQ(ncclSuccess, mock_restore(&none));
    EXPECT_STREQ("second", mock_last_error());
    EXPECT_EQ(ncclInvalidUsage, mock_restore(&kept));
    EXPECT_STREQ("first", mock_last_error());
}

TEST(Error, ResultsHaveNames)
{
    const std::pair<int, const char *> cases[] = {
        {-1, "an unknown code"},       {0, "ncclSuccess"},
        {1, "ncclUnhandledCudaError"}, {2, "ncclSystemError"},
        {3, "ncclInternalError"},      {4, "ncclInvalidArgument"},
        {5, "ncclInvalidUsage"},       {6, "ncclRemoteError"},
        {7, "ncclInProgress"},         {8, "an unknown code"},
    };

    for (auto [result, name] : cases)
        EXPECT_STREQ(name, mock_result_name(static_cast<ncclResult_t>(result)));
}

TEST(Error, ATextThatIsNoneIsNotCopied)
{
    char untouched;
    char *copy = &untouched;

    EXPECT_EQ(ncclSuccess, mock_copy_text(nullptr, &copy));
    EXPECT_EQ(&untouched, copy);
    ASSERT_EQ(ncclSuccess, mock_copy_text("text", &copy));
    EXPECT_STREQ("text", copy);
    free(copy);
}

// ---- log lines ----

TEST(LogLevel, IsHeardUpToItsReceivers)
{
    const ncclDebugLogLevel levels[] = {NCCL_LOG_VERSION, NCCL_LOG_WARN,
                                        NCCL_LOG_INFO, NCCL_LOG_ABORT,
                                        NCCL_LOG_TRACE};
    const struct {
        ncclDebugLogLevel set;
        int n_heard; // of these
    } cases[] = {{NCCL_LOG_NONE, 0},
                 {NCCL_LOG_VERSION, 1},
                 {NCCL_LOG_WARN, 2},
                 {NCCL_LOG_INFO, 3},
                 {NCCL_LOG_TRACE, 3}};

    mock_set_log(nullptr, nullptr);
    EXPECT_FALSE(mock_log_is_heard(NCCL_LOG_VERSION));
    Log log;
    for (const auto &c : cases) {
        int n = 0;
        mock_set_log_level(c.set);
        log.lines.clear();
        for (ncclDebugLogLevel level : levels) {
            n += mock_log_is_heard(level);
            mock_log(level, 3, "file", 1, "%d", level);
        }
        EXPECT_EQ(c.n_heard, n) << c.set;
        EXPECT_EQ(static_cast<size_t>(c.n_heard), log.lines.size()) << c.set;
    }
    EXPECT_EQ("1", log.lines[0].text);
    EXPECT_EQ(NCCL_LOG_VERSION, log.lines[0].level);
    EXPECT_EQ(3ul, log.lines[0].flags);
}

TEST(LogLevel, IsThatOfItsReceiver)
{
    Log first;
    mock_set_log_level(NCCL_LOG_NONE);
    EXPECT_FALSE(mock_log_is_heard(NCCL_LOG_VERSION));

    Log second;
    EXPECT_TRUE(mock_log_is_heard(NCCL_LOG_INFO));
    EXPECT_FALSE(mock_log_is_heard(NCCL_LOG_ABORT));
}

TEST(LogLevel, CallsOfItsReceiverDoNotOverlap)
{
    struct Seen {
        std::atomic<int> n_inside{0};
        int n = 0;
        int n_overlaps = 0;
    } seen;
    mock_set_log(
        [](void *user, ncclDebugLogLevel, unsigned long, const char *) {
            auto *s = static_cast<Seen *>(user);
            s->n_inside++;
            std::this_thread::yield();
            s->n++;
            s->n_overlaps += s->n_inside-- != 1;
        },
        &seen);

    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([] {
            for (int j = 0; j < 100; j++)
                mock_log(NCCL_LOG_INFO, 0, "file", 1, "%d", j);
        });
    for (std::thread &thread : threads)
        thread.join();
    mock_set_log(nullptr, nullptr);

    EXPECT_EQ(400, seen.n);
    EXPECT_EQ(0, seen.n_overlaps);
}

const mock_blank kBlanks[] = {{"a", "one"}, {"ab", "two"}, {"empty", ""}};

TEST(LogLine, HasItsBlanksFilled)
{
    const std::pair<const char *, const char *> cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"<a>", "one"},
        {"<ab>", "two"},
        {"x <a>y<ab> z", "x oney"
                         "two z"},
        {"<a><ab><a>", "one"
                       "two"
                       "one"},
        {"<empty>.", "."},
        {"<b> <abc>", "? ?"},
        {"a > b <a>", "a > b one"},
    };

    for (auto [text, want] : cases) {
        char line[64] = "before";
        mock_fill(line, sizeof(line), text, kBlanks, 3);
        EXPECT_STREQ(want, line);
    }
    char line[64];
    mock_fill(line, sizeof(line), "<a> <ab>", kBlanks, 1);
    EXPECT_STREQ("one ?", line);
}

TEST(LogLine, IsCutToItsSize)
{
    const std::string all = "x one y two z";

    for (size_t size = 1; size <= all.size() + 2; size++) {
        std::string line(32, '#');
        mock_fill(line.data(), size, "x <a> y <ab> z", kBlanks, 3);
        const size_t len = std::min(size - 1, all.size());
        EXPECT_EQ(all.substr(0, len), line.c_str()) << size;
        EXPECT_EQ(std::string(32 - size, '#'), line.substr(size)) << size;
    }
}

// ---- names ----

TEST(Names, AreSpelledAsTheirReaderDoes)
{
    const struct {
        const mock_words &words;
        std::vector<std::string> want;
    } cases[] = {
        {mock_colls,
         {"broadcast", "reduce", "allgather", "reducescatter", "allreduce"}},
        {mock_algos,
         {"tree", "ring", "collnet_direct", "collnet_chain", "nvls",
          "nvls_tree", "pat"}},
        {mock_protos, {"ll", "ll128", "simple"}},
        {mock_variable_colls,
         {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"}},
        {mock_variable_algos,
         {"Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree",
          "PAT"}},
        {mock_variable_protos, {"LL", "LL128", "Simple"}},
    };

    for (const auto &c : cases) {
        const int n = static_cast<int>(c.want.size());
        ASSERT_EQ(n, c.words.n_words);
        for (int i = 0; i < n; i++) {
            EXPECT_EQ(c.want[i], mock_word(&c.words, i));
            EXPECT_EQ(i, mock_word_find(&c.words, c.want[i].c_str()));
        }
        EXPECT_STREQ("?", mock_word(&c.words, -1));
        EXPECT_STREQ("?", mock_word(&c.words, n));
        EXPECT_EQ(-1, mock_word_find(&c.words, "none"));
    }
}

TEST(Names, OfTheLogSayWhatIsNone)
{
    const std::vector<std::string> colls = {
        "Invalid",       "Broadcast", "Reduce", "AllGather",
        "ReduceScatter", "AllReduce", "Invalid"};
    const std::vector<std::string> algos = {
        "Unknown", "TREE",      "RING", "COLLNET_DIRECT", "COLLNET_CHAIN",
        "NVLS",    "NVLS_TREE", "PAT",  "Unknown"};
    const std::vector<std::string> protos = {"Unknown", "LL", "LL128", "SIMPLE",
                                             "Unknown"};

    for (size_t i = 0; i < colls.size(); i++)
        EXPECT_EQ(colls[i], mock_coll_in_messages(static_cast<int>(i) - 1));
    for (size_t i = 0; i < algos.size(); i++)
        EXPECT_EQ(algos[i], mock_algo_in_messages(static_cast<int>(i) - 1));
    for (size_t i = 0; i < protos.size(); i++)
        EXPECT_EQ(protos[i], mock_proto_in_messages(static_cast<int>(i) - 1));
}

TEST(Names, OfTypesAreThoseThatNcclMoves)
{
    const struct {
        ncclFunc_t coll;
        size_t element_size;
        bool fp8;
        const char *name;
    } cases[] = {
        {ncclFuncBroadcast, 8, false, "ncclInt8"},
        {ncclFuncAllGather, 4, false, "ncclInt8"},
        {ncclFuncAllGather, 1, true, "ncclInt8"},
        {ncclFuncReduce, 1, true, "ncclFloat8e4m3"},
        {ncclFuncReduce, 1, false, "ncclInt8"},
        {ncclFuncReduceScatter, 2, false, "ncclBfloat16"},
        {ncclFuncAllReduce, 4, false, "ncclFloat32"},
        {ncclFuncAllReduce, 8, false, "ncclFloat64"},
    };

    for (const auto &c : cases)
        EXPECT_STREQ(c.name,
                     mock_type_in_messages(c.coll, c.element_size, c.fp8));
}

// ---- hashes ----

// Of Vigna's splitmix64.c from the state 0, and of later states.
TEST(Hash, IsThatOfSplitmix64)
{
    EXPECT_EQ(UINT64_C(0xe220a8397b1dcdaf), mock_mix(0));
    EXPECT_EQ(UINT64_C(0x6e789e6aa1b965f4), mock_mix(MOCK_GOLDEN));
    EXPECT_EQ(UINT64_C(0x06c45d188009454f), mock_mix(2 * MOCK_GOLDEN));
    EXPECT_EQ(UINT64_C(0xf88bb8a8724c81ec), mock_mix(3 * MOCK_GOLDEN));
}

TEST(CommId, OfAChildIsAHashOfItsSplitAndColor)
{
    const uint64_t parent = 1000;
    std::set<uint64_t> ids = {parent};

    EXPECT_EQ(mock_mix(mock_mix(1000 + 2) + 3), mock_child_id(parent, 2, 3));
    for (uint64_t split = 0; split < 8; split++)
        for (int color = 0; color < 8; color++)
            ids.insert(mock_child_id(parent, split, color));
    EXPECT_EQ(1u + 64, ids.size());
}

TEST(CommId, IsRandomAndNeverZero)
{
    std::set<uint64_t> ids;

    for (int i = 0; i < 100; i++)
        ids.insert(mock_new_comm_id());

    EXPECT_EQ(100u, ids.size());
    for (uint64_t id : ids)
        EXPECT_EQ(1u, id & 1);
}

// ---- clocks ----

constexpr int64_t kSecond = 1000000000;
constexpr clockid_t kTimesOfDay[] = {CLOCK_REALTIME, CLOCK_MONOTONIC,
                                     CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE,
                                     CLOCK_BOOTTIME};

class Clock : public testing::Test
{
  protected:
    ~Clock() override
    {
        mock_clock_set(-1);
        mock_clock_shift(0);
    }
    static int64_t Ns(const timespec &time)
    {
        return time.tv_sec * kSecond + time.tv_nsec;
    }
    static int64_t Now(clockid_t clock)
    {
        timespec now{-1, -1};
        EXPECT_EQ(0, clock_gettime(clock, &now)) << clock;
        return Ns(now);
    }
    // The machine's.
    static int64_t Real(clockid_t clock)
    {
        timespec now{};
        syscall(SYS_clock_gettime, clock, &now);
        return Ns(now);
    }
};

TEST_F(Clock, SetIsTheSameOfAllTimesOfDay)
{
    for (int64_t ns : {7 * kSecond + 8009, INT64_C(1), INT64_C(0)}) {
        mock_clock_set(ns);
        for (clockid_t clock : kTimesOfDay)
            EXPECT_EQ(ns, Now(clock)) << clock;
    }
}

TEST_F(Clock, SetIsWhatOldFunctionsReturn)
{
    timeval day{};
    time_t now = 0;
    mock_clock_set(7 * kSecond + 8999);

    EXPECT_EQ(0, gettimeofday(&day, nullptr));
    EXPECT_EQ(7, day.tv_sec);
    EXPECT_EQ(8, day.tv_usec);
    EXPECT_EQ(7, time(&now));
    EXPECT_EQ(7, now);
    EXPECT_EQ(7, time(nullptr));
}

TEST_F(Clock, ShiftsTheTimeThatIsSet)
{
    mock_clock_shift(2 * kSecond + 5);
    for (int64_t ns : {3 * kSecond, INT64_C(0)}) {
        mock_clock_set(ns);
        for (clockid_t clock : kTimesOfDay)
            EXPECT_EQ(ns + 2 * kSecond + 5, Now(clock)) << clock;
    }
}

TEST_F(Clock, ShiftsTheMachinesTime)
{
    for (int64_t shift : {3600 * kSecond, 60 * kSecond, INT64_C(0)})
        for (clockid_t clock : {CLOCK_REALTIME, CLOCK_MONOTONIC}) {
            mock_clock_shift(shift);
            const int64_t before = Real(clock);
            const int64_t now = Now(clock) - shift;
            EXPECT_LE(before, now);
            EXPECT_LE(now, Real(clock));
        }
}

TEST_F(Clock, BelowZeroIsTheMachinesAgain)
{
    mock_clock_set(5);
    mock_clock_set(-1);

    const int64_t before = Real(CLOCK_MONOTONIC);
    const int64_t now = Now(CLOCK_MONOTONIC);
    EXPECT_LE(before, now);
    EXPECT_LE(now, Real(CLOCK_MONOTONIC));
}

TEST_F(Clock, OfTheCpuIsNotVirtual)
{
    clockid_t mine;
    ASSERT_EQ(0, pthread_getcpuclockid(pthread_self(), &mine));
    mock_clock_set(int64_t{1} << 60);

    for (clockid_t clock :
         {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, mine}) {
        const int64_t now = Now(clock);
        EXPECT_LE(now, Real(clock)) << clock;
    }
}

TEST_F(Clock, ThatIsNoneFailsAsItDoesOnTheMachine)
{
    timespec now{1, 2};
    mock_clock_set(5);

    errno = 0;
    EXPECT_EQ(-1, clock_gettime(1000, &now));
    EXPECT_EQ(EINVAL, errno);
    EXPECT_EQ(1, now.tv_sec);
    EXPECT_EQ(2, now.tv_nsec);
}

TEST_F(Clock, IsThatOfItsThread)
{
    mock_clock_set(5);
    mock_clock_shift(6);

    std::thread([] { EXPECT_LT(kSecond, Now(CLOCK_REALTIME)); }).join();

    EXPECT_EQ(11, Now(CLOCK_REALTIME));
}

} // namespace
