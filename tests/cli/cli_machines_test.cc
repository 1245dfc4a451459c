// `steptune machines`: what --on plays.
#include "support/cli_fixture.h"

namespace
{

using namespace cli;
using namespace testing;

class CliMachines : public Cli
{
  protected:
    // A machine of one node with the GPUs of h200x2, at a path of its own.
    void Copy(const std::string &to, std::initializer_list<const char *> files)
    {
        fs::create_directories(dir_ / to);
        for (const char *file : files)
            fs::copy_file(fs::path(STP_FIXTURES "/machines/h200x2") / file,
                          dir_ / to / file);
    }
};

TEST_F(CliMachines, SaysHowMuchOfEachWasRecorded)
{
    const Outcome o = Run("machines h200x4 a100n2x8");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_EQ(
        "machine   GPUs                        nodes  link    NCCL    found    "
        "collective     recorded sizes     from         to  rounds  "
        "overlapped\n"
        "h200x4    4 x NVIDIA H200                 1  NVLink  2.28.9  bundled  "
        "allgather                  21  512 KiB  43.37 MiB       4           "
        "-\n"
        "                                                                      "
        "reducescatter              21  512 KiB  43.37 MiB       4           "
        "-\n"
        "                                                                      "
        "allreduce                  21  512 KiB  43.37 MiB       4          "
        "18\n"
        "a100n2x8  16 x NVIDIA A100-SXM4-80GB      2  NVLink  2.28.9  bundled  "
        "all modelled                -        -          -       -           "
        "-\n",
        o.out);
}

TEST_F(CliMachines, SaysWhichGpusRanksShare)
{
    const Outcome text = Run("machines h100_shared");
    const Json all = Parse(Run("machines h100_shared --json").out);
    const cJSON *machine = cJSON_GetArrayItem(
        cJSON_GetObjectItemCaseSensitive(all.get(), "machines"), 0);

    EXPECT_EQ(0, text.status) << text.err;
    EXPECT_THAT(text.out, HasSubstr("1 x NVIDIA H100 80GB HBM3 shared by 2 "
                                    "ranks"));
    EXPECT_EQ(2, Number(machine, "ranks"));
    EXPECT_EQ(1, Number(machine, "gpus"));
    EXPECT_EQ("", String(machine, "link"));
}

TEST_F(CliMachines, ListsEveryFolderThatHasOneByName)
{
    const Json all = Parse(Run("machines --json").out);
    const cJSON *machines =
        cJSON_GetObjectItemCaseSensitive(all.get(), "machines");
    std::vector<std::string> names, folders;
    const cJSON *m;

    cJSON_ArrayForEach(m, machines)
    {
        names.push_back(String(m, "machine"));
        EXPECT_EQ("bundled", String(m, "found"));
    }
    for (const auto &e : fs::directory_iterator(STP_FIXTURES "/machines"))
        folders.push_back(e.path().filename());
    std::sort(folders.begin(), folders.end());
    EXPECT_EQ(folders, names);
}

TEST_F(CliMachines, PutsThoseOfTheEnvironmentFirst)
{
    Copy("mine/h200x2", {"machine.csv", "graphs.xml"});
    Copy("mine/abox", {"machine.csv", "graphs.xml", "timings.csv"});
    fs::create_directories(dir_ / "mine/no_machine");
    Set("STEPTUNE_MACHINES", (dir_ / "mine").string());

    const Json all = Parse(Run("machines --json").out);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(all.get(), "machines");
    const cJSON *abox = cJSON_GetArrayItem(list, 0);
    const cJSON *h200x2 = cJSON_GetArrayItem(list, 1);
    const cJSON *colls = cJSON_GetObjectItemCaseSensitive(abox, "collectives");
    size_t n = 0;
    const cJSON *m;

    EXPECT_EQ("abox", String(abox, "machine"));
    EXPECT_EQ("path", String(abox, "found"));
    EXPECT_EQ(fs::canonical(dir_ / "mine/abox"), String(abox, "path"));
    EXPECT_EQ("NVIDIA H200", String(abox, "gpu"));
    EXPECT_EQ(2, Number(abox, "ranks"));
    EXPECT_EQ(2, Number(abox, "gpus"));
    EXPECT_EQ("NVLink", String(abox, "link"));
    EXPECT_EQ("2.28.9", String(abox, "nccl"));
    ASSERT_EQ(5, cJSON_GetArraySize(colls));
    const cJSON *allreduce = cJSON_GetArrayItem(colls, 4);
    EXPECT_EQ("allreduce", String(allreduce, "collective"));
    EXPECT_EQ(28, Number(allreduce, "recorded_sizes"));
    EXPECT_EQ(8, Number(allreduce, "min_bytes"));
    EXPECT_EQ(1 << 30, Number(allreduce, "max_bytes"));
    EXPECT_EQ(5, Number(allreduce, "rounds"));
    EXPECT_EQ(0, Number(allreduce, "overlapped")); // no overlap.csv
    // it stands for the installed one, of which nothing is listed
    EXPECT_EQ("path", String(h200x2, "found"));
    colls = cJSON_GetObjectItemCaseSensitive(h200x2, "collectives");
    EXPECT_EQ(0, Number(cJSON_GetArrayItem(colls, 4), "recorded_sizes"));
    cJSON_ArrayForEach(m, list) n += String(m, "machine") == "h200x2";
    EXPECT_EQ(1u, n);
}

TEST_F(CliMachines, FailsForWhatCannotBeReadAndListsTheRest)
{
    Copy("mine/good", {"machine.csv", "graphs.xml"});
    fs::create_directories(dir_ / "mine/bad");
    Write("mine/bad/machine.csv", "gpu\n\x1b[31mx\n");
    Set("STEPTUNE_MACHINES", (dir_ / "mine").string());
    const Outcome o = Run("machines");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, HasSubstr("mine/bad/machine.csv"));
    EXPECT_THAT(o.out, HasSubstr("\ngood "));
    EXPECT_THAT(o.out, HasSubstr("\nh200x4 "));
    ExpectRefusals("machines ",
                   {{"h200x4 nowhere", 77, "no recorded machine 'nowhere'"},
                    {"h200x", 77, "'h200x', expected a folder"},
                    {"--on h200x4", 2, "unrecognized option '--on'"}});
}

} // namespace
