// Every command with a call that fails: no crash, one sentence, and files that
// are whole or not there.
//
//   cli_faults_test [all | N] - so many calls of a kind at most, 2 in a test;
//   all
//                               of up to 200, and of more the first and others
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/walk.h"
#include "support/cli_fixture.h"
#include "support/written.h"
#include "support/with_param.h"

namespace
{

using namespace cli;
using namespace faults;
using namespace testing;

constexpr int kPatience = 500; // seconds

struct Scenario {
    const char *name;
    const char *setup; // command lines before, in the same folder
    const char *arguments;
    uint32_t most = 1;      // faults of a kind in a test
    const char *kept = "/"; // how the names begin of files that a run which
                            // fails leaves, for the next to resume
    bool reports_failures = false; // in what it prints, or prints all of that
                                   // on standard error
    bool is_timed = false;         // what it prints and writes has real times
};

void PrintTo(const Scenario &scenario, std::ostream *out)
{
    *out << scenario.name;
}

// The contents of a folder: its files' texts by path.
using Tree = std::map<std::string, std::string>;

Tree ReadTree(const fs::path &folder)
{
    Tree tree;
    for (const auto &entry : fs::recursive_directory_iterator(folder))
        if (entry.is_regular_file())
            tree[entry.path().lexically_relative(folder)] =
                ReadFile(entry.path());
    return tree;
}

struct Ended {
    int status; // as waitpid() has it
    std::string out;
    std::vector<std::string> err;
    Tree files;
};

// Times, which differ.
std::string WithoutNumbers(std::string line)
{
    line.erase(std::remove_if(line.begin(), line.end(), isdigit), line.end());
    return line;
}

// Other tests use /dev/shm meanwhile.
std::string WithoutFreeMemory(std::string text)
{
    const std::string has = "/dev/shm has ";
    const size_t at = text.find(has);
    if (at != std::string::npos) {
        const size_t from = at + has.size();
        text.erase(from, text.find_first_not_of("0123456789", from) - from);
    }
    return text;
}

// The lines of 'err' that 'usual' does not have.
std::vector<std::string> Unusual(std::vector<std::string> err,
                                 std::vector<std::string> usual)
{
    std::vector<std::string> lines;
    for (const std::string &line : err) {
        const auto at =
            std::find_if(usual.begin(), usual.end(), [&](const auto &other) {
                return WithoutNumbers(other) == WithoutNumbers(line);
            });
        if (at != usual.end())
            usual.erase(at);
        else
            lines.push_back(line);
    }
    return lines;
}

class CliFaults : public Cli, public WithParamInterface<Scenario>
{
  protected:
    void SetUp() override
    {
        Cli::SetUp();
        fs::create_directories(dir_ / "before");
        fs::create_directories(dir_ / "tmp");
        Set("TMPDIR", dir_ / "tmp");
        Set("STEPTUNE_INLINE", "1");
        const std::string path = dir_ / "plan";
        std::ofstream(path) << std::string(sizeof(fault_plan), '\0');
        const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
        plan_ = std::make_unique<Plan>(file);
        close(file);
        if (GetParam().setup[0] != '\0') {
            const std::string command = "cd '" + (dir_ / "before").string() +
                                        "' && (" + GetParam().setup +
                                        ") >/dev/null 2>&1";
            ASSERT_EQ(0, std::system(command.c_str())) << command;
        }
        before_ = ReadTree(dir_ / "before");
    }

    Ended RunWith(const Fault &fault)
    {
        Ended ended{};
        *plan_->get() = {
            static_cast<uint32_t>(fault.kind), fault.n, fault.for_good, 0, {}};
        fs::remove_all(dir_ / "now");
        fs::copy(dir_ / "before", dir_ / "now", fs::copy_options::recursive);
        const pid_t pid = fork();
        if (pid == 0)
            Become();
        waitpid(pid, &ended.status, 0);
        ended.out = WithoutFreeMemory(Read("out"));
        ended.err = SplitLines(Read("err"));
        ended.files = ReadTree(dir_ / "now");
        return ended;
    }

    // Returns what is wrong with the process's end, or "".
    std::string Judge(const Ended &ended) const
    {
        const int code = WEXITSTATUS(ended.status);
        const std::vector<std::string> lines = Unusual(ended.err, usual_.err);
        std::string wrong;

        if (WIFSIGNALED(ended.status))
            return "ends by signal " + std::to_string(WTERMSIG(ended.status));
        if (code == 0 || code == WEXITSTATUS(usual_.status))
            return JudgeSuccess(ended, lines);
        if (code != 1 && code != 2 && code != 77)
            return "ends with status " + std::to_string(code);
        return AreSentences(lines)
                   ? JudgeFiles(ended)
                   : "fails with " + std::to_string(lines.size()) +
                         " sentences";
    }

    std::unique_ptr<Plan> plan_;
    Tree before_;
    Ended usual_;
    std::vector<std::string> changing_; // files

  private:
    [[noreturn]] void Become() const
    {
        const std::string command =
            "exec " STP_STEPTUNE " " + std::string(GetParam().arguments);
        const auto redirect = [&](const char *name, int fd) {
            const int file =
                open((dir_ / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
            dup2(file, fd);
            close(file);
        };
        redirect("out", STDOUT_FILENO);
        redirect("err", STDERR_FILENO);
        close(STDIN_FILENO);
        open("/dev/null", O_RDONLY);
        if (chdir((dir_ / "now").c_str()) != 0)
            _exit(126);
        setenv(FAULT_PLAN_VARIABLE, (dir_ / "plan").c_str(), 1);
        setenv("LD_PRELOAD", STP_FAULTS, 1);
        alarm(kPatience);
        execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
        _exit(127);
    }

    bool IsChanging(const std::string &name) const
    {
        return GetParam().is_timed ||
               std::find(changing_.begin(), changing_.end(), name) !=
                   changing_.end();
    }

    // One of the command, or a few if all calls of a kind fail.
    bool AreSentences(const std::vector<std::string> &lines) const
    {
        const size_t most = plan_->get()->for_good ? 3 : 1;
        if (GetParam().reports_failures)
            return true;
        for (const std::string &line : lines)
            if (line.rfind("steptune", 0) != 0)
                return false;
        return !lines.empty() && lines.size() <= most;
    }

    // It made do without what failed, and says so if that is to be seen.
    std::string JudgeSuccess(const Ended &ended,
                             const std::vector<std::string> &lines) const
    {
        if (!lines.empty())
            return "";
        if (ended.out != usual_.out && !IsChanging("out"))
            return "succeeds with another output, and says nothing";
        for (const auto &[name, text] : usual_.files)
            if (ended.files.count(name) == 0)
                return "succeeds without " + name + ", and says nothing";
            else if (ended.files.at(name) != text && !IsChanging(name))
                return "succeeds with another " + name + ", and says nothing";
        return JudgeFiles(ended);
    }

    // Each is what it was before, or what it becomes.
    std::string JudgeFiles(const Ended &ended) const
    {
        for (const auto &[name, text] : before_)
            if (ended.files.count(name) == 0)
                return name + " is gone";
        for (const auto &[name, text] : ended.files) {
            const auto was = before_.find(name);
            const auto becomes = usual_.files.find(name);
            const bool is_old = was != before_.end() && was->second == text;
            const bool is_new = becomes != usual_.files.end() &&
                                (becomes->second == text || IsChanging(name));
            const bool is_kept = name.rfind(GetParam().kept, 0) == 0;
            if (!is_old && !is_new && !is_kept)
                return name +
                       (was == before_.end() && becomes == usual_.files.end()
                            ? " is left"
                            : " is neither old nor new");
        }
        return "";
    }
};

TEST_P(CliFaults, EndInOneSentenceAndWholeFiles)
{
    usual_ = RunWith({FAULT_MEMORY, 0, false});
    const fault_plan counted = *plan_->get();
    const Ended again = RunWith({FAULT_MEMORY, 0, false});
    for (const auto &[name, text] : again.files)
        if (usual_.files[name] != text)
            changing_.push_back(name);
    if (usual_.out != again.out)
        changing_.push_back("out");
    ASSERT_TRUE(WIFEXITED(usual_.status));
    ASSERT_THAT(WEXITSTATUS(usual_.status), AnyOf(0, 1)) << usual_.err.back();
    const std::vector<Fault> all =
        Choose(counted, MostOfAKind(GetParam().most), 1);
    std::map<std::string, size_t> wrongs;

    size_t n_struck = 0;
    for (const Fault &fault : all) {
        const Ended ended = RunWith(fault);
        n_struck += plan_->get()->n_failed > 0;
        const std::string wrong = Judge(ended);
        if (!wrong.empty() && wrongs[wrong]++ < 3) {
            std::string err;
            for (const std::string &line : ended.err)
                err += "\n  " + line;
            ADD_FAILURE() << Named(fault) << ": " << wrong << err;
        }
    }
    for (const auto &[wrong, n] : wrongs)
        printf("%s: %zu times: %s\n", GetParam().name, n, wrong.c_str());
    PrintWalk(GetParam().name, all, n_struck, counted);
}

using CliWrites = CliFaults;

// A file is written as a whole, and took most of the time of such a sweep.
TEST_P(CliWrites, ManySizesInFewerFiles)
{
    const Ended ended = RunWith({FAULT_MEMORY, 0, false});
    const auto lines = SplitLines(ended.files.at("s.csv"));

    ASSERT_EQ(0, ended.status) << ended.err.back();
    EXPECT_LT(2000u, lines.size());
    EXPECT_GT(1000u, plan_->get()->n_calls[FAULT_FILE]);
}

#define JOB STP_MOCK_JOB " " STP_FIXTURES "/machines/h200x2 0 "
#define SWEEP                                                                  \
    "sweep --on h200x2 -b 1M -e 2M -n 2 -w 0 --rounds 2 --arms "               \
    "auto,ring/ll,ring/simple"
#define POLICY    "printf 'allreduce,0,inf,tree,ll,-1,-1,-1\\n' >p.conf; "
#define OLD(file) "echo old >" file "; "

// clang-format off
const Scenario kScenarios[] = {
    {"sweep", "echo ,median_us >s.csv; ", SWEEP " -o s.csv", 2, "s.csv"},
    {"derive", STP_STEPTUNE " " SWEEP " -o s.csv && " OLD("p.conf"), "derive s.csv -o p.conf", 200},
    {"verify", POLICY, "verify p.conf --on h200x2 --rounds 2 -b 1M -e 1M -n 2 --proof"},
    {"explain", POLICY, "explain --policy p.conf -e 4K"},
    {"explain_plugin", POLICY, "explain --plugin " STP_PLUGIN " --policy p.conf -e 4K"},
    {"explain_csv", POLICY, "explain --policy p.conf -e 4K --csv"},
    {"check", POLICY, "check p.conf"},
    {"check_json", POLICY, "check p.conf --json", 200},
    {"check_fix", "printf 'allreduce,0,1M,tree,ll,-1,-1,-1\\nallreduce,0,1K,tree,ll,-1,-1,-1\\n' >p.conf;",
     "check p.conf --fix", 200},
    {"iterate", "", "iterate --on h200x2 --no-plots -n 1 --rounds 2 --layers 2 -o steps"},
    {"train", "", "train --on h200x2 --samples 512 --batch 64 --epochs 1 --warmup 0 -o results"},
    {"tune", OLD("t.conf"), "tune --on h200x2 -b 1M -e 1M -n 2 -o t.conf", 1, "t.unfinished"},
    {"plot", STP_STEPTUNE " " SWEEP " -o s.csv", "plot s.csv"},
    {"report", STP_STEPTUNE " tune --on h200x2 -b 1M -e 1M -n 2 -o t.conf && echo '<html>' >page.html; ",
     "report t.conf -o page.html", 4},
    {"replay", POLICY, "replay --seeds 1 --jobs 1 --policy p.conf --trace " STP_FIXTURES "/traces/groups.csv"},
    {"run", POLICY, "run --policy p.conf -- " JOB "10x1048576", 4, "/", true},
    {"compare", POLICY, "compare --env A=0,1 -n 1 -o cmp -- true", 1, "/", false, true},
    {"record", "", "record x --on h200x2 -b 1M -e 1M -n 1 --rounds 2 --no-overlap"},
    {"machines", "", "machines h200x2"},
    {"doctor", POLICY, "doctor --policy p.conf", 4, "/", true},
    {"contract", POLICY, "replay --seeds 1 --check 'ranks agree as processes' --contract " STP_PLUGIN, 1, "/", true, true},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(All, CliWrites,
                         Values(Scenario{"sweep", "",
                                         "sweep --on h200x2 --collective "
                                         "allreduce --arms auto,ring/ll -b 1K "
                                         "-e 128M -f 1.02 -n 1 -w 0 --rounds 2 "
                                         "-o s.csv"}),
                         CaseName());
INSTANTIATE_TEST_SUITE_P(All, CliFaults, ValuesIn(kScenarios), CaseName());

} // namespace

int main(int argc, char **argv)
{
    InitGoogleMock(&argc, argv);
    ReadArguments(argc, argv, 200);
    return RUN_ALL_TESTS();
}
