// Outputs on a terminal; tests/cli/transcripts/output has them to the letter.
#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>

#include <regex>

#include "support/cli_fixture.h"

namespace
{

using namespace cli;
using namespace testing;

class Output : public Cli
{
  protected:
    // Runs it on a terminal that is so wide.  Standard output and error as they
    // come, with "\n" for the terminal's "\r\n".
    std::string RunOnTerminal(const std::string &arguments, unsigned columns)
    {
        const std::string command =
            "cd '" + dir_.string() + "' && exec " STP_STEPTUNE " " + arguments;
        struct winsize size = {24, static_cast<unsigned short>(columns), 0, 0};
        int terminal = -1;
        pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
        if (child == 0) {
            unsetenv("COLUMNS");
            execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
            _exit(127);
        }
        std::string text;
        char part[4096];
        for (ssize_t n; (n = read(terminal, part, sizeof(part))) > 0;)
            text.append(part, static_cast<size_t>(n));
        close(terminal);
        EXPECT_EQ(0, Wait(child)) << text;
        return std::regex_replace(text, std::regex("\r\n"), "\n");
    }

    // Returns what stays on the screen.
    static std::string Screen(const std::string &text)
    {
        return std::regex_replace(text, std::regex("\r[^\n\r]*\x1b\\[K"), "");
    }
};

// Returns what stands before the first table.
std::string Head(const std::string &text)
{
    return text.substr(0, text.find("\ncollective "));
}

// Returns the text on one line, however its lines are broken.
std::string Words(const std::string &text)
{
    return std::regex_replace(text, std::regex("[ \n]+"), " ");
}

TEST_F(Output, OnATerminalLosesOnlyColumnsThatItNames)
{
    ASSERT_EQ(0, Run("sweep --on h200x4 --collective allgather -b 2M -e 32M "
                     "-f 2 -o s.csv")
                     .status);
    ASSERT_EQ(0, Run("derive s.csv -o p.conf").status);
    const std::string verify = "verify p.conf --on h200x4 --collective "
                               "allgather -b 2M -e 32M -f 2 --table";
    const std::string piped = Run(verify).out;

    EXPECT_EQ(piped, Screen(RunOnTerminal(verify, 200)));

    const std::string narrow = Screen(RunOnTerminal(verify, 80));
    EXPECT_EQ(Count(piped, "\nallgather "), Count(narrow, "\nallgather "));
    EXPECT_THAT(narrow, HasSubstr("\nLeft out of 80 columns of this terminal: "
                                  "tuned us, AUTO, choice\n"));
    for (const std::string &line : SplitLines(narrow))
        EXPECT_LE(line.size(), 80u) << line;
    EXPECT_EQ(Words(Head(piped)), Words(Head(narrow)));

    Set("COLUMNS", "100");
    EXPECT_EQ(piped, Run(verify).out) << "no terminal";
}

TEST_F(Output, OfProgressIsGoneBeforeTheResult)
{
    const std::string sweep =
        "sweep --on h200x4 --collective allgather -b 2M -e 32M -f 2";
    const std::string text = RunOnTerminal(sweep, 200);

    EXPECT_THAT(text, HasSubstr("\r[####                ] 1 of 5 sizes"));
    EXPECT_EQ(Run(sweep).out, Screen(text));
}

// Another user of standard output may have made it one that never waits.
TEST_F(Output, OfAJobIsWholeHoweverLateItIsRead)
{
    int ends[2];
    ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    const pid_t child = fork();
    if (child == 0) {
        if (chdir(dir_.c_str()) != 0 || freopen("err", "w", stderr) == nullptr)
            _exit(99);
        dup2(ends[1], STDOUT_FILENO);
        execl(STP_STEPTUNE, "steptune", "tune", "--for", "99s", "-o", "a.conf",
              "--", "seq", "60000", nullptr);
        _exit(98);
    }
    close(ends[1]);
    for (int i = 0, n = 0; i < 2000 && n < 60000; i++) {
        ioctl(ends[0], FIONREAD, &n); // until the pipe is full
        usleep(1000);
    }
    std::string text;
    char part[4096];
    for (ssize_t n; (n = read(ends[0], part, sizeof(part))) > 0;)
        text.append(part, static_cast<size_t>(n));
    close(ends[0]);
    waitpid(child, nullptr, 0);
    EXPECT_EQ(60000u, Count(text, "\n"));
}

} // namespace
