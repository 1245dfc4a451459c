// Jobs: what they inherit, where their output goes, and how they end.
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

extern "C" {
#include "child/child.h"
#include "child/job.h"
}

#include "support/processes.h"
#include "support/temporary_folder.h"

namespace
{

using processes::Process;

class Job : public testing::Test
{
  protected:
    // "STATUS" or "STATUS ERROR" of a shell command, run in a process of its
    // own, as signals stay blocked in it.
    std::string Run(const char *command, stp_job job,
                    const char *program = "sh", int before = 0) const
    {
        Process process([&] {
            if (before != 0) { // a signal
                stp_job_hold_signals();
                stp_job_hold_signals(); // again, which does no more
                kill(getpid(), before);
            }
            std::string words[] = {program, "-c", command};
            char *argv[] = {words[0].data(), words[1].data(), words[2].data(),
                            nullptr};
            stp_job_end end{};
            stp_error err{};
            job.argv = argv;
            const stp_status status = stp_job_run(&job, &end, &err);
            return std::to_string(end.status) +
                   (end.signal != 0 ? " signal " + std::to_string(end.signal)
                                    : std::string()) +
                   (end.is_limited ? " limited" : "") +
                   (status != STP_OK ? std::string(" ") + err.text
                                     : std::string());
        });
        return process.Said();
    }
    std::string Output() const
    {
        return ReadFile(output_);
    }

    TemporaryFolder folder_;
    std::string output_ = folder_.Path("output");
};

TEST_F(Job, EndsAsShellsSayIt)
{
    const struct {
        const char *command;
        const char *program;
        const char *end;
    } cases[] = {
        {"exit 0", "sh", "0"},
        {"exit 7", "sh", "7"},
        {"kill -9 $$", "sh", "137"},
        {"", "/nothing-there",
         "127 cannot run '/nothing-there': No such file or directory"},
        {"", "/dev/null", "126 cannot run '/dev/null': Permission denied"},
        {"kill -TERM $PPID; sleep 0.2", "sh", "143 signal 15"},
        {"trap 'exit 5' TERM; kill -TERM $PPID; while :; do sleep 0.02; done",
         "sh", "5 signal 15"},
        {"kill -USR1 $PPID; sleep 5", "sh", "138"},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.program + std::string(" ") + c.command);
        EXPECT_EQ(c.end, Run(c.command, {}, c.program));
    }
}

TEST_F(Job, HasItsOwnVariablesAndOutput)
{
    const stp_job_variable variables[] = {{"JOB_SET", "a b"},
                                          {"JOB_GONE", nullptr}};
    setenv("JOB_SET", "before", 1);
    setenv("JOB_GONE", "before", 1);
    setenv("JOB_KEPT", "before", 1);
    stp_job job{};
    job.variables = variables;
    job.n_variables = 2;
    job.output = output_.c_str();

    EXPECT_EQ("3", Run("echo $JOB_SET,$JOB_KEPT,${JOB_GONE-none}; echo err >&2;"
                       "cat; exit 3",
                       job));
    EXPECT_EQ("a b,before,none\nerr\n", Output());
    EXPECT_STREQ("before", getenv("JOB_SET"));
}

TEST_F(Job, SaysThatItsOutputCannotBeWritten)
{
    output_ = folder_.Path("none/output");
    stp_job job{};
    job.output = output_.c_str();

    EXPECT_THAT(Run("exit 0", job),
                testing::AllOf(testing::HasSubstr("/none/output"),
                               testing::HasSubstr("No such file")));
}

// Signals stay blocked in this process after its first job, and must not in the
// next one.
TEST_F(Job, BlocksNoSignalsInTheNextOne)
{
    Process process([] {
        std::string said;
        for (int i = 0; i < 2; i++) {
            std::string words[] = {"sh", "-c", "kill -TERM $$; exit 3"};
            char *argv[] = {words[0].data(), words[1].data(), words[2].data(),
                            nullptr};
            stp_job job{};
            stp_job_end end{};
            stp_error err{};
            job.argv = argv;
            EXPECT_EQ(STP_OK, stp_job_run(&job, &end, &err));
            said += std::to_string(end.status) + " ";
        }
        return said;
    });

    EXPECT_EQ("143 143 ", process.Said());
}

// As when the terminal hangs up while files of the job are made.
TEST_F(Job, HasTheSignalsThatCameBeforeItBegan)
{
    for (int signal : {SIGINT, SIGTERM, SIGHUP})
        EXPECT_EQ(std::to_string(128 + signal) + " signal " +
                      std::to_string(signal),
                  Run("exec sleep 100", {}, "sh", signal));
    EXPECT_EQ("138", Run("exec sleep 100", {}, "sh", SIGUSR1));
}

TEST(JobCommand, IsPrintedAsItIsTyped)
{
    const struct {
        std::vector<std::string> words;
        std::string text;
    } cases[] = {
        {{"torchrun", "--nproc-per-node=2", "train.py"},
         "torchrun --nproc-per-node=2 train.py"},
        {{"sh", "-c", "a; b \"$C\"", ""}, "sh -c 'a; b \"$C\"' ''"},
        {{"it's", "~", "~\n'\\"}, "'it'\\''s' '~' $'~\\x0A\\'\\\\'"},
        {{std::string(300, 'x')}, std::string(300, 'x')},
        {{std::string(5000, 'x'), "y"}, std::string(STP_JOB_COMMAND - 1, 'x')},
    };

    for (const auto &c : cases) {
        std::vector<std::string> words = c.words;
        std::vector<char *> argv;
        char text[STP_JOB_COMMAND];
        for (std::string &word : words)
            argv.push_back(word.data());
        argv.push_back(nullptr);

        stp_job_print_command(argv.data(), text);

        EXPECT_EQ(c.text, text);
    }
}

// As by SIGKILL, which it cannot pass on.
TEST_F(Job, EndsWhenItsParentIsKilled)
{
    static int ends[2];
    static const auto stay = [](void *) -> int {
        alarm(20); // a child that is left would hold the output of the test
        EXPECT_EQ(1, write(ends[1], "", 1));
        for (;;)
            pause();
    };
    const struct {
        const char *name;
        bool is_child, has_group, has_command, has_output;
    } cases[] = {
        {"child", true, false, false, false},
        {"child with a group", true, true, false, false},
        {"body", false, false, false, false},
        {"command", false, false, true, false},
        {"command with an output", false, false, true, true},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        ASSERT_EQ(0, pipe(ends));
        {
            Process parent([&] {
                std::string words[] = {"sh", "-c",
                                       "echo >&" + std::to_string(ends[1]) +
                                           "; exec sleep 100"};
                char *argv[] = {words[0].data(), words[1].data(),
                                words[2].data(), nullptr};
                stp_job job{};
                stp_job_end end{};

                if (c.is_child && stp_child_start(c.has_group) == 0)
                    stay(nullptr);
                while (c.is_child)
                    pause();
                job.argv = c.has_command ? argv : nullptr;
                job.body = c.has_command ? nullptr : stay;
                job.output = c.has_output ? output_.c_str() : nullptr;
                stp_job_run(&job, &end, nullptr);
                return std::string();
            });
            char byte;
            close(ends[1]);
            EXPECT_EQ(1, read(ends[0], &byte, 1));
        } // killed; the pipe ends with all that had it
        pollfd end{ends[0], POLLIN, 0};
        EXPECT_EQ(1, poll(&end, 1, 5000));
        close(ends[0]);
    }
}

// With all that it started.
TEST_F(Job, IsEndedByItsLimit)
{
    stp_job job{};
    job.output = output_.c_str();
    job.limit_s = 1;

    EXPECT_EQ("143 limited",
              Run("sh -c 'echo begun; exec sleep 100'; exit 0", job));
    EXPECT_EQ("begun\n", Output());
}

// A group or a session of its own keeps nothing alive.
TEST_F(Job, EndsWithAllThatItLeftBehind)
{
    static const char *const commands[] = {
        "sleep 100 & echo $!",
        "trap '' TERM HUP; sleep 100 & echo $!",
        "setsid sh -c 'echo $$; exec sleep 100' &",
        ("(setsid sh -c 'echo $$; (setsid sh -c \"echo \\$\\$; exec sleep "
         "100\")' &)"),
    };

    // Processes that are left behind must not keep the pipes of the test open.
    const std::string close = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-\n";
    // without an output of its own, once it is asked to stop, and again when
    // its end was seen
    const char *const asks =
        "(trap '' TERM; while kill -0 $$; do sleep 0.01; done 2>/dev/null; "
        "kill -TERM $PPID) & trap 'exit 3' TERM; kill -TERM $PPID; "
        "while :; do sleep 0.01; done";
    for (int i = 0; i < 8; i++) {
        const std::string command = commands[i / 2];
        SCOPED_TRACE(command);
        stp_job job{};
        job.is_whole = i % 2 != 0;
        job.output = job.is_whole ? nullptr : output_.c_str();
        unlink(output_.c_str());

        EXPECT_EQ(job.is_whole ? "3 signal 15" : "3",
                  Run((close + "exec >" + output_ + "\n" + command +
                       "\nuntil [ -s " + output_ + " ]; do sleep 0.01; done; " +
                       (job.is_whole ? asks : "exit 3"))
                          .c_str(),
                      job));
        std::stringstream left(Output());
        int n = 0;
        for (pid_t pid = 0; left >> pid; n++) {
            EXPECT_EQ(-1, kill(pid, 0)) << pid;
            EXPECT_EQ(ESRCH, errno);
        }
        EXPECT_LT(0, n);
    }
}

TEST_F(Job, OfItsOwnOutputLeavesNoZombiesAndCannotRefuseToStop)
{
    stp_job job{};
    job.output = output_.c_str();

    EXPECT_EQ(
        "137 signal 15",
        Run("trap '' TERM; kill -TERM $PPID; while :; do sleep 1; done", job));
    EXPECT_EQ("3", Run("p=$(sh -c ': >&- & echo $!'); for i in $(seq 300); do "
                       "[ -e /proc/$p ] || exit 3; sleep 0.01; done",
                       job));
}

TEST_F(Job, IsWhatAChildDoesUntilItIsToStop)
{
    const struct {
        int (*body)(void *);
        const char *end;
    } cases[] = {
        {[](void *) -> int { return 7; }, "7"},
        {[](void *) -> int {
             signal(SIGTERM, SIG_IGN);
             kill(getppid(), SIGTERM);
             for (;;)
                 pause();
         },
         "137 signal 15"},
    };

    for (const auto &c : cases) {
        stp_job job{};
        job.body = c.body;
        EXPECT_EQ(c.end, Run("", job));
    }
}

// As by its limit.
TEST_F(Job, IsEndedWhenItIsNotToGoOn)
{
    static int n_asked;
    n_asked = 0;
    stp_job job{};
    job.output = output_.c_str();
    job.user = &n_asked;
    job.goes_on = [](void *user) { return ++*static_cast<int *>(user) < 2; };

    EXPECT_EQ("143 limited", Run("echo begun; exec sleep 100", job));
    EXPECT_EQ("begun\n", Output());
}

} // namespace
