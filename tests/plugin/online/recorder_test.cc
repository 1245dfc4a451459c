// The trace that is recorded of a process: which lines it has, when they are
// written, and what becomes of those that find no room.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <clocale>
#include <csignal>
#include <cstdarg>
#include <cstring>
#include <ctime>

#include "faults/open_files.h"
#include "plugin/online/closed_stdin.h"
#include "support/child.h"
#include "support/slow.h"
#include "support/temporary_folder.h"

extern "C" {
#include "core/dtype.h"
#include "plugin/online/recorder.h"
#include "plugin/online/service.h"
}

namespace
{

using testing::ElementsAre;
using testing::EndsWith;
using testing::IsEmpty;

constexpr uint64_t kComm = 0xabc;
constexpr unsigned kRoom = 1 << 14;   // launches that wait
constexpr unsigned kPass = kRoom / 4; // between two passes without a thread

uint64_t Now()
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000 +
           static_cast<uint64_t>(now.tv_nsec);
}

std::vector<std::string> logged;

void Log(ncclDebugLogLevel level, unsigned long, const char *, int,
         const char *fmt, ...)
{
    char line[1024];
    va_list va;

    va_start(va, fmt);
    vsnprintf(line, sizeof(line), fmt, va);
    va_end(va);
    EXPECT_EQ(NCCL_LOG_WARN, level);
    logged.push_back(line);
}

class Recorder : public testing::Test
{
  protected:
    Recorder()
    {
        logged.clear();
        setenv("STEPTUNE_TRACE", path_.c_str(), 1);
        setenv("STEPTUNE_INLINE", "1", 1);
    }
    ~Recorder() override
    {
        for (const char *name :
             {"STEPTUNE_TRACE", "STEPTUNE_TRACE_CALLS", "STEPTUNE_INLINE"})
            unsetenv(name);
    }

    static bool Open(uint64_t comm_id = kComm)
    {
        return stp_recorder_open(comm_id, 0, Log);
    }

    static uint64_t Launch(uint64_t comm_id = kComm, unsigned n_channels = 2)
    {
        stp_traced_launch what{};
        what.comm_id = comm_id;
        what.n_ranks = 8;
        what.coll = ncclFuncAllReduce;
        what.n_bytes = 1024;
        what.type = STP_TYPE_F32;
        what.n_channels = n_channels;
        return stp_recorder_launched(&what);
    }

    // So many, of which the first is followed by a pass.
    static std::vector<uint64_t> LaunchFromAPassOn(size_t n)
    {
        std::vector<uint64_t> numbers{Launch()};
        while (numbers[0] % kPass != 1) {
            End(numbers[0]); // nothing waits for these
            numbers[0] = Launch();
        }
        while (numbers.size() < n)
            numbers.push_back(Launch());
        return numbers;
    }

    static void End(uint64_t number, uint64_t begin_ns = 100,
                    unsigned n_channels = 2)
    {
        for (unsigned channel = 0; channel < n_channels; channel++) {
            stp_recorder_began(number, begin_ns);
            stp_recorder_ended(number, begin_ns + 100);
        }
    }

    // Without the time of the launch, and without its head.
    static std::vector<std::string> Lines(const std::string &path)
    {
        std::vector<std::string> lines;
        std::ifstream file(path);
        std::string line;
        std::getline(file, line);
        EXPECT_EQ(STP_TRACE_HEAD, line + "\n");
        while (std::getline(file, line)) {
            const size_t comma = line.find(',');
            EXPECT_TRUE(line[0] == '#' ||
                        line.find_first_not_of("0123456789") == comma)
                << line;
            lines.push_back(line[0] == '#' ? line : line.substr(comma + 1));
        }
        return lines;
    }

    std::vector<std::string> Lines() const
    {
        return Lines(path_);
    }

    // The last 'n' lines' times.
    std::vector<std::string> Times(size_t n) const
    {
        std::vector<std::string> times = Lines();
        times.erase(times.begin(),
                    times.end() - static_cast<std::ptrdiff_t>(n));
        for (std::string &line : times)
            line = line.substr(line.find(",f32,") + 5);
        return times;
    }

    static std::string Pid()
    {
        return std::to_string(getpid());
    }

    TemporaryFolder folder_;
    const std::string path_ = folder_.Path("trace.csv");
};

// ---- lines ----

TEST_F(Recorder, WritesALineOfEachCollective)
{
    stp_traced_launch what{kComm, 8, 0, false, ncclFuncAllReduce, 1024, -1, 1};
    ASSERT_TRUE(Open());
    stp_recorder_launched(&what);
    what = {UINT64_MAX,
            1,
            stp_recorder_new_group(),
            true,
            ncclFuncAllGather,
            1 << 20,
            STP_TYPE_I8,
            0};
    stp_recorder_launched(&what);
    const uint64_t third = Launch();
    stp_recorder_began(third, 300);
    stp_recorder_began(third, 200);
    stp_recorder_began(third, 250);
    stp_recorder_ended(third, 500);
    stp_recorder_ended(third, 700);
    stp_recorder_ended(third, 600);
    stp_recorder_close();

    EXPECT_THAT(
        Lines(),
        ElementsAre(Pid() + ",0000000000000abc,8,,0,allreduce,1024,,,",
                    Pid() + ",ffffffffffffffff,1," +
                        std::to_string(static_cast<uint64_t>(getpid()) << 32 |
                                       what.group) +
                        ",1,allgather,1048576,i8,,",
                    Pid() +
                        ",0000000000000abc,8,,0,allreduce,1024,f32,200,700"));
    EXPECT_EQ(what.group + 1, stp_recorder_new_group());
}

TEST_F(Recorder, NotesWhenEachWasLaunched)
{
    std::ifstream file;
    std::string line;
    uint64_t last = Now();

    ASSERT_TRUE(Open());
    for (int i = 0; i < 3; i++)
        End(Launch(), 1);
    stp_recorder_close();
    file.open(path_);
    std::getline(file, line);
    for (int i = 0; i < 3 && std::getline(file, line); i++) {
        EXPECT_LE(last, std::stoull(line));
        last = std::stoull(line);
        EXPECT_THAT(line, EndsWith(",f32,1,101"));
    }
    EXPECT_GE(Now(), last);
}

TEST_F(Recorder, TakesNoTimesOfWhatItDoesNotWaitFor)
{
    ASSERT_TRUE(Open());
    const std::vector<uint64_t> numbers = LaunchFromAPassOn(2);
    for (uint64_t number :
         {UINT64_C(0), numbers[1] + 1, numbers[1] + kRoom, numbers[0] - 1})
        End(number);
    stp_recorder_close();

    EXPECT_THAT(Times(2), ElementsAre(",", ","));
}

// ---- when they are written ----

TEST_F(Recorder, WritesInOrderWhatHasEndedOnAllItsChannels)
{
    ASSERT_TRUE(Open());
    const std::vector<uint64_t> numbers = LaunchFromAPassOn(kPass);
    for (size_t i : {0, 1, 3})
        End(numbers[i]);
    stp_recorder_ended(numbers[2], 500); // one of two channels
    Launch();                            // which brings the next pass
    for (size_t i : {0, 1, 2, 3})
        End(numbers[i], 600);
    stp_recorder_close();

    const std::vector<std::string> times = Times(kPass + 1);
    EXPECT_EQ("100,200", times[0]);
    EXPECT_EQ("100,200", times[1]);
    EXPECT_EQ("600,700", times[2]);
    EXPECT_EQ("100,700", times[3]);
    EXPECT_EQ(",", times[4]);
}

// Events come late: a collective is given up when one of its communicator has
// ended that was launched 64 to 1023 later.
TEST_F(Recorder, WaitsForACollectiveUntilMuchLaterOnesHaveEnded)
{
    const struct {
        size_t later;
        uint64_t comm_id;
        unsigned n_channels; // of that one; it ends on all of them
        bool first_waits, second_waits;
    } cases[] = {{63, kComm, 2, true, true},   {64, kComm, 2, false, true},
                 {65, kComm, 2, false, false}, {1023, kComm, 2, false, false},
                 {1024, kComm, 2, true, true}, // they are written in order
                 {64, 7, 2, true, true},       {64, kComm, 1, false, true},
                 {64, kComm, 0, true, true}}; // of a copy engine

    for (const auto &c : cases) {
        SCOPED_TRACE(c.later);
        std::filesystem::remove(path_);
        ASSERT_TRUE(Open());
        std::vector<uint64_t> numbers = LaunchFromAPassOn(1);
        while (numbers.size() < kPass)
            numbers.push_back(numbers.size() == c.later
                                  ? Launch(c.comm_id, c.n_channels)
                                  : Launch());
        End(numbers[c.later], 100, c.n_channels);
        Launch(); // which brings the next pass
        End(numbers[0]);
        End(numbers[1]);
        stp_recorder_close();

        const std::vector<std::string> times = Times(kPass + 1);
        EXPECT_EQ(c.first_waits ? "100,200" : ",", times[0]);
        EXPECT_EQ(c.second_waits ? "100,200" : ",", times[1]);
        EXPECT_EQ(c.n_channels > 0 ? "100,200" : ",", times[c.later]);
    }
}

TEST_F(Recorder, WaitsForACollectiveUntilThreeQuartersOfItsRoomAreTaken)
{
    ASSERT_TRUE(Open());
    const std::vector<uint64_t> numbers = LaunchFromAPassOn(3 * kPass + 1);
    for (size_t i : {0, 1, 2, 3})
        End(numbers[i]);
    stp_recorder_close();

    const std::vector<std::string> times = Times(3 * kPass + 1);
    EXPECT_EQ(",", times[0]);
    EXPECT_EQ(",", times[1]);
    EXPECT_EQ("100,200", times[2]);
    EXPECT_EQ("100,200", times[3]);
}

// Where the thread that writes is held up.
TEST_F(Recorder, CountsWhatFindsNoRoom)
{
    struct Holding {
        stp_task task{};
        std::atomic<bool> holds{false}, may_end{false};
    };
    for (unsigned n_lost : {0u, 1u, 7u}) {
        SCOPED_TRACE(n_lost);
        std::filesystem::remove(path_);
        setenv("STEPTUNE_INLINE", "0", 1);
        Holding holding;
        stp_error err;
        ASSERT_TRUE(Open());
        holding.task.run = [](void *user) {
            Holding *h = static_cast<Holding *>(user);
            h->holds = true;
            while (!h->may_end)
                usleep(100);
        };
        holding.task.user = &holding;
        ASSERT_EQ(STP_OK, stp_service_add(&holding.task, &err));
        while (!holding.holds)
            usleep(100);

        for (unsigned i = 0; i < kRoom; i++)
            ASSERT_NE(0u, Launch());
        for (unsigned i = 0; i < n_lost; i++)
            EXPECT_EQ(0u, Launch());
        holding.may_end = true;
        stp_service_remove(&holding.task);
        stp_recorder_close();

        std::vector<std::string> lines = Lines();
        if (n_lost > 0) {
            EXPECT_EQ("# lost: " + std::to_string(n_lost) +
                          " collectives of process " + Pid(),
                      lines.back());
            lines.pop_back();
        }
        EXPECT_EQ(kRoom, lines.size());
        EXPECT_EQ(Pid() + ",0000000000000abc,8,,0,allreduce,1024,f32,,",
                  lines.back());
    }
}

TEST_F(Recorder, IsWrittenByAThreadWhereOneMayRun)
{
    setenv("STEPTUNE_INLINE", "0", 1);
    ASSERT_TRUE(Open());
    End(Launch());
    while (Lines().empty())
        usleep(1000);
    End(Launch());
    stp_recorder_close();

    EXPECT_THAT(Times(2), ElementsAre("100,200", "100,200"));
}

// ---- its life ----

TEST_F(Recorder, IsOfRankZeroWhereTheEnvironmentNamesAFile)
{
    EXPECT_FALSE(stp_recorder_open(kComm, 1, Log));
    unsetenv("STEPTUNE_TRACE");
    EXPECT_FALSE(Open());
    EXPECT_FALSE(stp_recorder_wants());
    EXPECT_EQ(0u, Launch());
    EXPECT_FALSE(std::filesystem::exists(path_));

    setenv("STEPTUNE_TRACE", folder_.Path("none/trace.csv").c_str(), 1);
    EXPECT_FALSE(Open());
    EXPECT_THAT(logged,
                ElementsAre("steptune-online: no trace: cannot write '" +
                            folder_.Path("none/trace.csv") +
                            "': No such file or directory"));
    EXPECT_FALSE(stp_recorder_wants());
}

TEST_F(Recorder, EndsWithTheLastOfItsCommunicators)
{
    const std::ptrdiff_t n_open = CountOpenFiles();

    for (int round = 0; round < 2; round++) {
        ASSERT_TRUE(Open());
        ASSERT_TRUE(Open(7));
        ASSERT_TRUE(Open(8));
        Launch();
        for (int i = 0; i < 2; i++) {
            stp_recorder_close();
            EXPECT_TRUE(stp_recorder_wants());
            Launch(7);
        }
        EXPECT_EQ(n_open + 1, CountOpenFiles());
        stp_recorder_close();
        EXPECT_FALSE(stp_recorder_wants());
        EXPECT_EQ(0u, Launch());
        EXPECT_EQ(n_open, CountOpenFiles());
        EXPECT_EQ(3u * (static_cast<unsigned>(round) + 1), Lines().size());
    }
    EXPECT_THAT(logged, IsEmpty());
}

// The plugin says so once for each trace that the process records.
TEST_F(Recorder, SaysThatItHasAllThatItMay)
{
    setenv("STEPTUNE_TRACE_CALLS", "3", 1);
    for (int round = 0; round < 2; round++) {
        logged.clear();
        ASSERT_TRUE(Open());
        for (int i = 0; i < 3; i++) {
            EXPECT_TRUE(stp_recorder_wants());
            EXPECT_NE(0u, Launch());
        }
        EXPECT_FALSE(stp_recorder_wants());
        EXPECT_EQ(0u, Launch());
        EXPECT_THAT(logged, IsEmpty());
        stp_recorder_close();
        EXPECT_THAT(logged,
                    ElementsAre("steptune-online: the trace has 3 collectives "
                                "of this process, as many as "
                                "STEPTUNE_TRACE_CALLS allows; no more are "
                                "recorded"));
    }
    EXPECT_EQ(6u, Lines().size());

    setenv("STEPTUNE_TRACE_CALLS", "4", 1);
    logged.clear();
    ASSERT_TRUE(Open());
    for (int i = 0; i < 3; i++)
        Launch();
    stp_recorder_close();
    EXPECT_THAT(logged, IsEmpty());
}

TEST_F(Recorder, SaysThatItEndsEarly)
{
    struct rlimit limit, little;
    getrlimit(RLIMIT_FSIZE, &limit);
    little = limit;
    little.rlim_cur = 200;

    for (int round = 0; round < 2; round++) {
        logged.clear();
        ASSERT_TRUE(Open());
        setrlimit(RLIMIT_FSIZE, &little);
        for (unsigned i = 0; i < 3 * kPass; i++)
            End(Launch());
        setrlimit(RLIMIT_FSIZE, &limit);
        EXPECT_EQ(1u, logged.size()) << "does not wait for the end";
        stp_recorder_close();
        EXPECT_THAT(logged,
                    ElementsAre("steptune-online: the trace ends early: File "
                                "too large"));
        EXPECT_EQ(200u, std::filesystem::file_size(path_));
        std::filesystem::remove(path_);
    }

    logged.clear();
    ASSERT_TRUE(Open());
    Launch();
    stp_recorder_close();
    EXPECT_EQ(1u, Lines().size());
    EXPECT_THAT(logged, IsEmpty());
}

TEST_F(Recorder, IsWholeAtTheEndOfAProcessThatLeavesItOpen)
{
    ASSERT_TRUE(Open());
    Launch();
    stp_service_end();
    EXPECT_EQ(1u, Lines().size());
    EXPECT_FALSE(stp_recorder_wants());
    EXPECT_EQ(0u, Launch());
    stp_recorder_close();
    EXPECT_EQ(1u, Lines().size());
}

TEST_F(Recorder, IsWrittenWhereThereIsNoStandardInput)
{
    const ClosedStdin closed;

    ASSERT_TRUE(Open());
    EXPECT_FALSE(closed.IsFree());
    Launch();
    stp_recorder_close();
    EXPECT_TRUE(closed.IsFree());
    EXPECT_EQ(1u, Lines().size());
}

// Whether the thread has the locale and the signals that it had.
struct Thread {
    locale_t locale = uselocale(nullptr);
    sigset_t signals{};
    Thread()
    {
        pthread_sigmask(SIG_SETMASK, nullptr, &signals);
    }
    bool operator==(const Thread &other) const
    {
        return locale == other.locale &&
               memcmp(&signals, &other.signals, sizeof(signals)) == 0;
    }
};

TEST_F(Recorder, ChangesNothingOfTheThreadsThatCallIt)
{
    struct rlimit limit, less;
    getrlimit(RLIMIT_FSIZE, &limit);
    less = limit;
    less.rlim_cur = 1 << 30; // for which signals are looked after
    setrlimit(RLIMIT_FSIZE, &less);

    uselocale(LC_GLOBAL_LOCALE);
    const Thread before;
    ASSERT_TRUE(Open());
    EXPECT_TRUE(before == Thread());
    LaunchFromAPassOn(1);
    EXPECT_TRUE(before == Thread());
    stp_recorder_close();
    EXPECT_TRUE(before == Thread());

    setrlimit(RLIMIT_FSIZE, &limit);
}

// ---- a child of fork() ----

TEST_F(Recorder, AChildRecordsItsOwn)
{
    STP_SLOW();
    const std::string second = folder_.Path("second.csv");
    ASSERT_TRUE(Open());
    for (int i = 0; i < 5; i++)
        Launch();

    EXPECT_EQ(0, StatusOfChild([&] {
                  const std::ptrdiff_t n_open = CountOpenFiles();
                  setenv("STEPTUNE_TRACE", second.c_str(), 1);
                  ASSERT_TRUE(Open());
                  for (int i = 0; i < 3; i++)
                      End(Launch());
                  stp_recorder_close();
                  EXPECT_EQ(n_open - 1, CountOpenFiles());
              }));
    EXPECT_EQ(3u, Lines(second).size());
    for (const std::string &line : Lines(second))
        EXPECT_THAT(line, EndsWith(",100,200"));
    EXPECT_THAT(Lines(), IsEmpty());
    stp_recorder_close();
    EXPECT_EQ(5u, Lines().size());
}

TEST_F(Recorder, AChildLeavesItsParentsAlone)
{
    STP_SLOW();
    ASSERT_TRUE(Open());
    Launch();

    EXPECT_EQ(0, StatusOfChild([&] {
                  const std::ptrdiff_t n_open = CountOpenFiles();
                  stp_recorder_close(); // its parent's
                  EXPECT_EQ(n_open - 1, CountOpenFiles());
                  EXPECT_FALSE(stp_recorder_wants());
                  EXPECT_EQ(0u, Launch());
              }));
    EXPECT_THAT(Lines(), IsEmpty());
    stp_recorder_close();
    EXPECT_EQ(1u, Lines().size());
}

TEST_F(Recorder, AChildClosesNothingOfAParentThatRecordsNothing)
{
    STP_SLOW();
    const int first_free = dup(0);
    close(first_free);
    ASSERT_TRUE(Open());
    stp_recorder_close();
    const int own = dup(1); // where the trace was
    ASSERT_EQ(first_free, own);

    EXPECT_EQ(0, StatusOfChild([&] {
                  stp_recorder_close();
                  EXPECT_NE(-1, fcntl(own, F_GETFD));
                  ASSERT_TRUE(Open());
                  Launch();
                  stp_recorder_close();
              }));
    close(own);
    EXPECT_EQ(1u, Lines().size());
}

// In a child nothing was launched yet.
TEST_F(Recorder, WantsNothingAfterItsEnd)
{
    STP_SLOW();
    ASSERT_TRUE(Open());
    EXPECT_EQ(0, StatusOfChild([&] {
                  ASSERT_TRUE(Open());
                  EXPECT_TRUE(stp_recorder_wants());
                  stp_recorder_close();
                  EXPECT_FALSE(stp_recorder_wants());
                  ASSERT_TRUE(Open());
                  stp_service_end();
                  EXPECT_FALSE(stp_recorder_wants());
              }));
    EXPECT_EQ(0, StatusOfChild([&] {
                  stp_recorder_close();
                  EXPECT_FALSE(stp_recorder_wants());
              }));
    stp_recorder_close();
}

} // namespace
