// Nothing that a terminal obeys comes out of the command, whatever is in its
// files, arguments and variables.
#include <random>

#include "support/cli_fixture.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

// Red, a bell, a carriage return, DEL, CSI as one character, and a byte that is
// not UTF-8.
const std::string kEscape = "\x1b[31m\x07\r\x7f\xc2\x9b\xff";

class CliEscape : public Cli
{
  protected:
    // The text with an escape somewhere in it: a short one, where readers
    // refuse a carriage return or what is not UTF-8 and show nothing of it.
    static std::string Insert(std::string text, std::mt19937 *rng)
    {
        const size_t at = (*rng)() % (text.size() + 1);

        return text.insert(at, (*rng)() % 2 == 0 ? kEscape : "\x1b[31m");
    }

    void ExpectHarmless(const std::string &arguments)
    {
        const Outcome o = Run(arguments);

        n_runs_++;
        n_shown_ += (o.out + o.err).find("\\x1B[31m") != std::string::npos;
        EXPECT_GE(o.status, 0) << arguments;
        for (const std::string &text : {o.out, o.err}) {
            EXPECT_EQ(std::string::npos, text.find("\xc2\x9b")) << arguments;
            for (size_t i = 0; i < text.size(); i++) {
                const unsigned char c = text[i];

                if ((c >= 0x20 && c != 0x7f && c != 0xff) || c == '\n' ||
                    c == '\t')
                    continue;
                ADD_FAILURE() << arguments << ": "
                              << testing::PrintToString(
                                     text.substr(i < 60 ? 0 : i - 60, 80));
                break;
            }
        }
    }

    // 'commands', FILE in them for the file, which has 'text' with kEscape in
    // it.
    void ExpectHarmlessFile(const std::string &file, const std::string &text,
                            const std::vector<const char *> &commands,
                            std::mt19937 *rng)
    {
        for (const char *command : commands) {
            std::string line = command;

            // every other time where most files have names
            const size_t early = text.find('\n') + 1;
            Write(file.c_str(),
                  n_runs_ % 2 == 0
                      ? Insert(text.substr(0, early), rng) + text.substr(early)
                      : Insert(text, rng));
            if (line.find("FILE") != std::string::npos)
                line.replace(line.find("FILE"), 4, file);
            ExpectHarmless(line);
        }
    }

    static std::string Fixture(const std::string &path)
    {
        return ReadFile(STP_FIXTURES "/" + path);
    }

    size_t n_runs_ = 0;
    size_t n_shown_ = 0; // that print kEscape, made harmless
};

TEST_F(CliEscape, OfPolicies)
{
    STP_SLOW();
    std::mt19937 rng(1);
    const std::vector<const char *> commands = {
        "check FILE",
        "check FILE --json",
        "check FILE --fix",
        "verify FILE --on h200x2 -b 1M -e 1M -n 2",
        "explain --policy FILE --on h200x2 -b 1M -e 2M",
        "explain --policy FILE --on h200x2 --why 1M",
        "explain --policy FILE --on h200x2 --diff other.conf -b 1M -e 2M",
        "replay --policy FILE --trace t.csv --on h200x2",
        "run --policy FILE -- " STP_MOCK_JOB " " STP_FIXTURES
        "/machines/h200x2 finalize @2 1x1048576",
        "doctor --policy FILE",
        "learn --policy FILE --on h200x2 --seeds 1 --strategies halving "
        "--steps 50",
    };
    Write("other.conf", "allreduce,1M,2M,ring,simple,-1,-1,-1\n");
    Write("t.csv", "collective,bytes\nallreduce,1M\n");
    for (const char *text :
         {"# of h200x2\nallreduce,1M,16M,ring,ll128,-1,1,-1\n",
          "# of h200x2\ncollective,min_bytes,max_bytes,algorithm,protocol,"
          "channels,nNodes,nRanks,gpu\n"
          "allreduce,1M,16M,ring,ll128,-1,1,-1,NVIDIA H200\n"
          "allreduce,2M,16M,tree,ll,4,1,-1,*\n"})
        for (int i = 0; i < 3; i++)
            ExpectHarmlessFile("p.conf", text, commands, &rng);
    EXPECT_EQ(66u, n_runs_);
    EXPECT_GE(n_shown_, 8u);
}

TEST_F(CliEscape, OfMeasurements)
{
    STP_SLOW();
    std::mt19937 rng(2);
    const std::vector<const char *> commands = {
        "derive FILE",
        "derive FILE --json",
        "derive FILE --objective iteration",
        "plot FILE -o plots",
        "report FILE --json",
    };
    Set("STEPTUNE_GNUPLOT", "true"); // what it draws is no text
    EXPECT_EQ(0, Run("sweep --on h200x2 -b 1M -e 2M -o s.csv").status);
    EXPECT_EQ(0, Run("iterate --on h200x2 --bytes 2M --rounds 2 --no-plots "
                     "-o it")
                     .status);
    for (const std::string &text :
         {Read("s.csv"), Read("it/rounds.csv"),
          Fixture("timings/h200x4_all_reduce_perf.txt"),
          Run("sweep --on h200x2 -b 1M -e 2M --json").out,
          Fixture("reports/h200x4/benchmark_results_NVIDIA_H200.json")})
        for (int i = 0; i < 2; i++)
            ExpectHarmlessFile("m.csv", text, commands, &rng);
    EXPECT_EQ(50u, n_runs_);
    EXPECT_GE(n_shown_, 8u); // lines of others are skipped, and counted
}

TEST_F(CliEscape, OfMachines)
{
    STP_SLOW();
    std::mt19937 rng(3);
    const std::vector<const char *> commands = {
        "machines ./m",
        "sweep --on ./m -b 1M -e 1M",
        "sweep --on ./m -b 1M -e 1M --format nccl",
        "sweep --on ./m -b 1M -e 1M --format csv",
        "sweep --on ./m -b 1M -e 1M --json",
        "iterate --on ./m --bytes 1M --rounds 2 --no-plots",
        "verify p.conf --on ./m -b 1M -e 1M -n 2",
        "tune --on ./m -b 1M -e 1M -n 2 --fresh",
        "train --on ./m --samples 8192 --epochs 1",
        "explain --policy p.conf --on ./m -b 1M -e 1M",
        "explain --policy p.conf --on ./m --why 1M",
        "replay --policy p.conf --trace t.csv --on ./m",
    };
    Write("p.conf", "allreduce,1M,2M,ring,simple,-1,-1,-1\n");
    Write("t.csv", "collective,bytes\nallreduce,1M\n");
    EXPECT_EQ(0, Run("sweep --on h200x2 -b 1M -e 2M -o s.csv").status);
    for (const char *file : {"machine.csv", "graphs.xml", "overlap.csv"}) {
        fs::remove_all(dir_ / "m");
        fs::create_directories(dir_ / "m");
        for (const char *name : {"machine.csv", "graphs.xml", "timings.csv"})
            Write((std::string("m/") + name).c_str(),
                  Fixture(std::string("machines/h200x2/") + name));
        for (const char *command : commands) {
            std::string text = Fixture(std::string("machines/h200x2/") + file);

            // a name that is no other's, or anywhere
            if (strcmp(file, "machine.csv") == 0)
                text.insert(text.rfind("H200"), kEscape);
            else
                text = Insert(text, &rng);
            Write((std::string("m/") + file).c_str(), text);
            ExpectHarmless(command);
        }
    }
    EXPECT_EQ(36u, n_runs_);
    EXPECT_GE(n_shown_, 15u);
}

TEST_F(CliEscape, OfTracesAndJournals)
{
    STP_SLOW();
    std::mt19937 rng(4);

    for (int i = 0; i < 6; i++)
        ExpectHarmlessFile(
            "t.csv",
            "# a trace\ncollective,bytes\nallreduce,1M\nallreduce,2M\n",
            {"replay --policy p.conf --trace FILE --on h200x2"}, &rng);
    Write("p.conf", "allreduce,1M,2M,ring,simple,-1,-1,-1\n");
    Set("STEPTUNE_INLINE", "1");
    Set("STEPTUNE_JOURNAL", (dir_ / "j.csv").string());
    Set("STEPTUNE_GNUPLOT", "true");
    EXPECT_EQ(0, Run("run --online -- " STP_MOCK_JOB " " STP_FIXTURES
                     "/machines/h200x4 finalize @100 2xg4194304")
                     .status);
    const std::string journal = Read("j.csv");
    EXPECT_NE("", journal);
    for (int i = 0; i < 8; i++)
        ExpectHarmlessFile("k.csv", journal, {"plot FILE -o plots"}, &rng);
    EXPECT_EQ(14u, n_runs_);
    EXPECT_GE(n_shown_, 2u);
}

TEST_F(CliEscape, OfArguments)
{
    STP_SLOW();
    Write("p.conf", "allreduce,1M,2M,ring,simple,-1,-1,-1\n");
    Write("t.csv", "collective,bytes\nallreduce,1M\n");
    EXPECT_EQ(0, Run("sweep --on h200x2 -b 1M -e 2M -o s.csv").status);
    Set("STEPTUNE_GNUPLOT", "true");
    fs::create_directories(dir_ / ("m" + kEscape));
    for (const char *file : {"machine.csv", "graphs.xml", "timings.csv"})
        Write(("m" + kEscape + "/" + file).c_str(),
              Fixture(std::string("machines/h200x2/") + file));
    for (const char *command : {
             "@",
             "help @",
             "tune @",
             "tune --@",
             "tune --@=1",
             "tune -@",
             "tune --on h200x2 -b 1M -e 1M -n 2 -o @",
             "tune --collective @",
             "tune --min-gain @",
             "tune --ranks @ --on h200x2",
             "sweep --on @",
             "sweep --on ./m@ -b 1M -e 1M",
             "sweep --on ./m@ -b 1M -e 1M --format nccl",
             "sweep --on ./m@ -b 1M -e 1M --json",
             "sweep --on h200x2 -b 1M -e 1M -o @",
             "sweep --on h200x2 -b 1M -e 1M -o no/@",
             "sweep --arms @",
             "sweep --channels @",
             "sweep --backend @",
             "sweep -b @",
             "sweep -d @",
             "iterate --on ./m@ --bytes 1M --rounds 2 --no-plots -o @",
             "iterate --mode @",
             "iterate --gemm @",
             "train --on ./m@ --samples 8192 --epochs 1",
             "train --on h200x2 --samples 8192 --epochs 1 -o @",
             "train --sizes @",
             "derive @",
             "derive s.csv -o @",
             "verify @",
             "verify p.conf --on ./m@ -b 1M -e 1M -n 2",
             "explain --plugin @",
             "explain --policy p.conf --on ./m@ -b 1M -e 1M",
             "explain --policy p.conf --on ./m@ --why 1M",
             "explain --plugin none --nccl @",
             "explain @",
             "doctor --headers no/@",
             "explain --policy p.conf --on h200x2 --diff @",
             "check @",
             "replay --policy p.conf --trace @",
             "replay --policy p.conf --trace t.csv --on ./m@",
             "replay --contract @",
             "replay --nccl @ --trace t.csv",
             "learn --job @",
             "learn --nccl @",
             "learn --on ./m@ --seeds 1 --strategies halving --steps 50",
             "run @",
             "run --policy p.conf -- @",
             "run --policy @ -- true",
             "run --online --policy p.conf -- @",
             "plot @",
             "plot s.csv -o @",
             "plot s.csv --collective @",
             "report @",
             "report s.csv -o @",
             "report s.csv -o no/@",
             "report s.csv --title @ --json",
             "record @ --on h200x2",
             "record a --on @",
             "record a --on h200x2 -o @",
             "machines @",
             "machines ./m@",
             "doctor --policy @",
             "doctor @",
         }) {
        std::string line = command;

        for (size_t at; (at = line.find('@')) != std::string::npos;)
            line.replace(at, 1, "'" + kEscape + "'");
        ExpectHarmless(line);
    }
    EXPECT_EQ(64u, n_runs_);
    EXPECT_GE(n_shown_, 50u);
}

TEST_F(CliEscape, OfVariables)
{
    STP_SLOW();
    Write("p.conf", "allreduce,1M,2M,ring,simple,-1,-1,-1\n");
    Set("STEPTUNE_INLINE", "1");
    for (const char *name :
         {"NCCL_TUNER_CONFIG_FILE", "NCCL_WORKLOAD_OVERLAP",
          "STEPTUNE_OVERLAP_CONFIG_FILE", "NCCL_TUNER_PLUGIN", "NCCL_ALGO",
          "NCCL_PROTO", "NCCL_CONF_FILE", "STEPTUNE_NCCL", "STEPTUNE_AGREE",
          "STEPTUNE_MACHINES", "STEPTUNE_ROOT", "STEPTUNE_STRATEGY",
          "STEPTUNE_GNUPLOT", "HOME"}) {
        Set(name, kEscape);
        for (const char *command :
             {"doctor", "verify p.conf --on h200x2 -b 1M -e 1M -n 2",
              "explain --on h200x2 -b 1M -e 1M",
              "explain --policy p.conf --on h200x2 --why 1M",
              "run --online --policy p.conf -- " STP_MOCK_JOB " " STP_FIXTURES
              "/machines/h200x2 finalize @2 1x1048576"}) {
            SCOPED_TRACE(name);
            ExpectHarmless(command);
        }
        unsetenv(name);
    }
    EXPECT_EQ(70u, n_runs_);
    EXPECT_GE(n_shown_, 15u);
}

} // namespace
