// steptune record, on a recorded machine: the copy is that machine.
#include <csignal>
#include <cmath>
#include <map>

#include <sys/stat.h>
#include <unistd.h>

#include "support/cli_fixture.h"
#include "support/mock_folder.h"
#include "support/recorded_choices.h"
#include "support/slow.h"

using mock_test::ReadCsv;
using mock_test::Row;

namespace
{

using namespace cli;
using namespace testing;

class Record : public Cli
{
  protected:
    std::string In(const std::string &file) const
    {
        return (dir_ / file).string();
    }
    std::string FirstLine(const std::string &file) const
    {
        std::ifstream in(In(file));
        std::string line;
        std::getline(in, line);
        return line;
    }
};

// Enough of h200x4 for most tests.
const std::string kLittle =
    " --on h200x4 --collective allgather -b 1M -e 4M --no-overlap "
    "--channels 8 --rounds 2 ";

TEST_F(Record, MakesAFolderThatReproducesTheMachine)
{
    STP_SLOW();
    Outcome o = Run("record again --on h200x4");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("405 of 405 choices reproduced\n"));
    EXPECT_THAT(o.out, HasSubstr("a recorded machine in mock NCCL"));
    EXPECT_THAT(o.err, IsEmpty());
    EXPECT_THAT(Files(), ElementsAre("again"));
    // tables as printed, choices and channels, by a test of mock NCCL itself
    EXPECT_EQ(405, ExpectChoices(In("again")));
}

// Mock NCCL has no model of its own for what is newer than it.
TEST_F(Record, SaysAsWhatMockNcclPlaysANewerNccl)
{
    const mock_test::Folder newer;

    newer.WriteAs("h100x8", "2.99.1");
    Outcome o = Run("record again --on " + newer.Path() +
                    " --collective allgather -b 1M -e 2M --no-overlap "
                    "--channels 8 --rounds 1");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, ContainsRegex("([0-9]+) of [0-9]+ choices reproduced"));
    EXPECT_THAT(o.err, EndsWith("steptune record: NCCL 2.99.1 is newer than "
                                "Steptune knows, and is played as 2.32\n"));
}

// "NCCL 2.28.9" and so on, in every file.
TEST_F(Record, SaysInEveryFileWhatItIsFrom)
{
    STP_SLOW();
    ASSERT_EQ(0, Run("record again --on h200x4 -b 1M -e 16M").status);

    for (const char *file : {"machine.csv", "choices.csv", "timings.csv",
                             "overlap.csv", "graphs.xml"}) {
        SCOPED_TRACE(file);
        std::string line = FirstLine(std::string("again/") + file);
        EXPECT_THAT(line, HasSubstr("Recorded by steptune "));
        EXPECT_THAT(line, HasSubstr("record on the recorded machine h200x4 in "
                                    "mock NCCL, not on GPUs: 4 x NVIDIA H200, "
                                    "NCCL 2.28.9: "));
    }
}

using Key = std::vector<std::string>;

std::map<Key, double> MeansOf(const std::string &path,
                              const std::vector<const char *> &key)
{
    std::map<Key, double> means;

    for (const Row &row : ReadCsv(path)) {
        Key k;
        for (const char *column : key)
            k.push_back(row.at(column));
        means[k] = std::stod(row.at("mean_us"));
    }
    return means;
}

// Those of a round come back as means of 50 draws from its spread.
TEST_F(Record, TimesAreThoseOfTheMachine)
{
    const std::vector<const char *> key = {
        "collective", "bytes", "algorithm", "protocol",
        "channels",   "run",   "round"};
    ASSERT_EQ(0, Run("record again --on h200x4 --no-overlap --collective "
                     "allgather,allreduce")
                     .status);
    std::map<Key, double> again = MeansOf(In("again/timings.csv"), key);
    std::map<Key, double> first =
        MeansOf(STP_FIXTURES "/machines/h200x4/timings.csv", key);
    int n_window = 0;
    int n_sweep = 0;

    for (const auto &[k, us] : again) {
        auto found = first.find(k);
        // auto is recorded pooled with the pair that it is
        if (found == first.end() || k[2] == "auto")
            continue;
        bool window = k[5] == "window";
        EXPECT_NEAR(1, us / found->second, window ? .1 : .25)
            << PrintToString(k);
        (window ? n_window : n_sweep)++;
    }
    EXPECT_GE(n_window, 400);
    EXPECT_GE(n_sweep, 300);
}

TEST_F(Record, IterationsAreThoseOfTheMachine)
{
    STP_SLOW();
    ASSERT_EQ(0, Run("record again --on h200x4 --collective allreduce").status);
    mock_test::Machine first = mock_test::LoadMachine("h200x4");
    mock_test::Machine again = mock_test::LoadFolder(In("again"));
    mock_overlap_setting settings[16];
    size_t n = mock_machine_overlap_settings(again.get(), settings, 16);

    ASSERT_EQ(8u, n); // those whose GEMM is near enough to a recorded one
    EXPECT_EQ(4u, mock_machine_overlap_rounds(again.get()));
    for (size_t i = 0; i < n; i++) {
        const mock_run run{ncclFuncAllReduce, settings[i].n_bytes,
                           NCCL_ALGO_RING, NCCL_PROTO_LL128, 0};
        mock_overlap a{}, b{};
        mock_machine_overlap(first.get(), &run, MOCK_MODE_OVERLAP,
                             settings[i].compute_us, .5, .5, &a);
        mock_machine_overlap(again.get(), &run, MOCK_MODE_OVERLAP,
                             settings[i].compute_us, .5, .5, &b);
        EXPECT_NE(0u, settings[i].k);
        EXPECT_NEAR(1, mock_overlapped_us(&b, 8) / mock_overlapped_us(&a, 8),
                    .04); // some of other arms' times
    }
}

// Of buffers in symmetric windows, which each setting has.
TEST_F(Record, IterationsOfAllModesAreThoseOfTheMachine)
{
    STP_SLOW();
    ASSERT_EQ(0, Run("record again --on h100x2 -b 4M -e 8M -f 2 --collective "
                     "allreduce,allgather,reducescatter")
                     .status);
    mock_test::Machine first = mock_test::LoadMachine("h100x2");
    mock_test::Machine again = mock_test::LoadFolder(In("again"));
    mock_overlap_setting settings[32];
    size_t n = mock_machine_overlap_settings(again.get(), settings, 32);
    std::map<int, int> n_of_mode;

    ASSERT_LE(n, 32u);
    for (size_t i = 0; i < n; i++) {
        const mock_overlap_setting &s = settings[i];
        const mock_run run{s.coll, s.n_bytes, MOCK_WAY_SYM, 0, 0};
        double us[2];
        for (int k = 0; k < 2; k++) {
            const mock_machine *m = k == 0 ? first.get() : again.get();
            mock_overlap o{};
            mock_time t{};
            if (s.mode == MOCK_MODE_SEQUENTIAL)
                EXPECT_EQ(ncclSuccess, mock_machine_time_after(
                                           m, &run, s.compute_us, .5, .5, &t));
            else
                EXPECT_EQ(ncclSuccess,
                          mock_machine_overlap(m, &run, s.mode, s.compute_us,
                                               .5, .5, &o));
            us[k] = s.mode == MOCK_MODE_SEQUENTIAL ? t.us
                    : s.mode == MOCK_MODE_FSDP
                        ? mock_fsdp_us(&o, o.comm_us, s.n_layers)
                        : mock_overlapped_us(&o, s.n_layers);
        }
        n_of_mode[s.mode]++;
        EXPECT_NEAR(1, us[1] / us[0], .03)
            << s.mode << " " << s.coll << " " << s.n_bytes;
    }
    EXPECT_THAT(n_of_mode, ElementsAre(Pair(MOCK_MODE_OVERLAP, 2 * 3),
                                       Pair(MOCK_MODE_FSDP, 2 * 2 * 3),
                                       Pair(MOCK_MODE_SEQUENTIAL, 3 * 2)));
}

TEST_F(Record, AMachineWithoutTimesIsRecordedWithoutTimes)
{
    Outcome o = Run("record again --on h100x8 --json -b 1K -e 1M");

    EXPECT_EQ(0, o.status) << o.err;
    Json json = Parse(o.out);
    EXPECT_EQ(0, Number(json.get(), "times"));
    EXPECT_EQ(Number(json.get(), "choices"), Number(json.get(), "reproduced"));
    EXPECT_EQ("./again", String(json.get(), "folder"));
    EXPECT_FALSE(fs::exists(dir_ / "again/timings.csv"));
    EXPECT_FALSE(fs::exists(dir_ / "again/overlap.csv"));
}

TEST_F(Record, WritesCountsOnlyWhereNcclDidNotDeriveThem)
{
    mock_test::Folder folder;
    folder.Write("machine.csv", "gpu,compute_capability,ranks,nodes,cpu_vendor,"
                                "channels,nvls_channels,nccl\n"
                                "NVIDIA H200,90,4,1,unknown,20,0,2.28.9\n");

    ASSERT_EQ(0, Run("record derived --on h200x4 -b 64M -e 1G").status);
    Outcome o = Run("record counted --on " + folder.Path() + " -b 64M -e 1G");

    EXPECT_EQ(0, o.status) << o.out << o.err;
    EXPECT_EQ(0u, ReadCsv(In("derived/machine.csv"))[0].count("channels"));
    Row row = ReadCsv(In("counted/machine.csv"))[0];
    EXPECT_EQ("20", row["channels"]);
    EXPECT_EQ("0", row["nvls_channels"]);
}

// Broadcasts have modelled times only, and reduce-scatters of these sizes none
// of interleaved rounds.
TEST_F(Record, LeavesOutTimesThatNobodyMeasured)
{
    ASSERT_EQ(0, Run("record again --on h200x4 --no-overlap --collective "
                     "broadcast,reducescatter -b 64M -e 1G")
                     .status);
    std::vector<Row> rows = ReadCsv(In("again/timings.csv"));

    EXPECT_GE(rows.size(), 20u);
    for (const Row &row : rows) {
        EXPECT_EQ("reducescatter", row.at("collective"));
        EXPECT_EQ("sweep", row.at("run"));
        EXPECT_EQ("0", row.at("round"));
    }
}

// ---- where it goes ----

TEST_F(Record, GoesWhereItIsToldOrAmongTheFixtures)
{
    fs::create_directories(dir_ / "elsewhere");
    EXPECT_EQ(0, Run(std::string("record a -o elsewhere") + kLittle).status);
    EXPECT_TRUE(fs::exists(dir_ / "elsewhere/a/machine.csv"));

    fs::create_directories(dir_ / "fixtures/machines");
    EXPECT_EQ(0, Run(std::string("record b") + kLittle).status);
    EXPECT_TRUE(fs::exists(dir_ / "fixtures/machines/b/machine.csv"));
}

TEST_F(Record, ReplacesAFolderOnlyByForce)
{
    fs::create_directories(dir_ / "a");
    Write("a/machine.csv", "old");
    Write("a/overlap.csv", "old");
    Write("a/forced.csv", "of somebody else");

    Outcome o = Run(std::string("record a") + kLittle);
    EXPECT_EQ(1, o.status);
    EXPECT_EQ("steptune record: './a' exists; --force replaces it\n", o.err);
    EXPECT_EQ("old", Read("a/machine.csv"));

    EXPECT_EQ(0, Run(std::string("record a --force") + kLittle).status);
    EXPECT_THAT(Read("a/machine.csv"), StartsWith("# Recorded by"));
    EXPECT_EQ("of somebody else", Read("a/forced.csv"));
    EXPECT_FALSE(fs::exists(dir_ / "a/overlap.csv"));
    EXPECT_THAT(Files(), ElementsAre("a"));
}

TEST_F(Record, ClearsAwayWhatAnInterruptedRunLeft)
{
    fs::create_directories(dir_ / "a.tmp");
    Write("a.tmp/graphs.xml", "half");

    EXPECT_EQ(0, Run(std::string("record a") + kLittle).status);

    EXPECT_THAT(Files(), ElementsAre("a"));
}

// ---- what goes wrong ----

TEST_F(Record, LeavesAFolderAloneThatAnotherProcessWrites)
{
    const std::string record =
        "record again --on h200x4" + std::string(kLittle);
    fs::create_directory(dir_ / "again.tmp");
    Write("again.tmp/graphs.xml", "of the other\n");
    {
        const HeldLock other(dir_ / "again.lock",
                             "process 4711 (steptune record)");

        Outcome o = Run(record + "-o .");

        EXPECT_EQ(1, o.status);
        EXPECT_EQ("steptune record: process 4711 (steptune record) is writing "
                  "the same files and holds './again.lock': let it end, or "
                  "name another output\n",
                  o.err);
        EXPECT_EQ("of the other\n", Read("again.tmp/graphs.xml"));
        EXPECT_THAT(Files(), ElementsAre("again.lock", "again.tmp"));
    }
    EXPECT_EQ(0, Run(record).status) << "the process has died";
    EXPECT_THAT(Files(), ElementsAre("again"));
}

TEST_F(Record, RefusesAndLeavesNothing)
{
    ExpectRefusals(
        "record ",
        {
            {"", 2, "no name, expected what the machine is to be called"},
            {"a b", 2, "'a' and 'b', expected one name"},
            {"../a", 2, "name '../a', expected at most 48 letters"},
            {"a,b", 2, "name 'a,b'"},
            {"a --channels 0", 2, "channels '0', expected 1 to 64"},
            {"a -d float", 2, "-d f32, expected bf16"},
            {"a --on nowhere", 77, "no recorded machine 'nowhere'"},
            {"a --on h200x4 --rounds 5", 1,
             "5 rounds, but machine 'h200x4' was recorded in 4"},
            {"a --on h200x4 -o nowhere", 1,
             "cannot make the folder 'nowhere/a.tmp'"},
        });
    EXPECT_THAT(Files(), IsEmpty());
}

// The signal comes while it reads the search graphs: before anything is done.
TEST_F(Record, LeavesNothingWhenItIsInterrupted)
{
    mock_test::Folder folder;
    std::string graphs = mock_test::ReadFile(folder.Path() + "/graphs.xml");
    folder.Remove("graphs.xml");
    ASSERT_EQ(0, mkfifo((folder.Path() + "/graphs.xml").c_str(), 0600));

    pid_t child = fork();
    if (child == 0) {
        if (chdir(dir_.c_str()) != 0 || freopen("err", "w", stderr) == nullptr)
            _exit(99);
        execl(STP_STEPTUNE, "steptune", "record", "a", "--on",
              folder.Path().c_str(), nullptr);
        _exit(98);
    }
    // once this opens, the command has begun and reads
    std::ofstream pipe(folder.Path() + "/graphs.xml");
    EXPECT_TRUE(fs::exists(dir_ / "a.tmp"));
    kill(child, SIGINT);
    folder.Remove("graphs.xml");
    folder.Write("graphs.xml", graphs);
    pipe << graphs;
    pipe.close();
    int status = 0;
    waitpid(child, &status, 0);

    EXPECT_EQ(1, WEXITSTATUS(status));
    EXPECT_THAT(Read("err"), HasSubstr("stopped after 1 of "));
    EXPECT_THAT(Files(), ElementsAre("err"));
}

} // namespace
