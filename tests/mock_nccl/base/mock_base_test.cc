// Tests of the base of mock NCCL: errors, log lines, names, hashes and clocks.
#include <set>
#include <thread>

#include <pthread.h>
#include <sys/syscall.h>

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

// ---- log lines ----

const mock_blank kBlanks[] = {{"a", "one"}, {"ab", "two"}, {"empty", ""}};

TEST(LogLine, HasItsBlanksFilled)
{
    const std::pair<const char *, const char *> cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"<a>", "one"},
        {"<ab>", "two"},
        {"x <a>y<ab> z", "x oneytwo z"},
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

// ---- hashes ----

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

TEST_F(Clock, IsThatOfItsThread)
{
    mock_clock_set(5);
    mock_clock_shift(6);

    std::thread([] { EXPECT_LT(kSecond, Now(CLOCK_REALTIME)); }).join();

    EXPECT_EQ(11, Now(CLOCK_REALTIME));
}

} // namespace
