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

// ---- choices ----

// As h200x2 has them: 413, of which a part is forged, and NCCL may be newer.
class CliMachinesCheck : public CliMachines
{
  protected:
    void SetUp() override
    {
        CliMachines::SetUp();
        Copy("mine/box", {"machine.csv", "graphs.xml", "choices.csv"});
        Set("STEPTUNE_MACHINES", (dir_ / "mine").string());
    }
    void Forge(const std::string &file, const std::string &from,
               const std::string &to)
    {
        std::string text = Read("mine/box/" + file);
        size_t at = text.rfind(from);
        ASSERT_NE(std::string::npos, at) << from;
        Write("mine/box/" + file, text.replace(at, from.size(), to));
    }
};

TEST_F(CliMachinesCheck, CountsTheRowsThatMockNcclReproduces)
{
    const Outcome o = Run("machines --check h200x4 a100x8 box");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_EQ("machine  NCCL    choices  reproduced\n"
              "h200x4   2.28.9      176         176\n"
              "a100x8   2.28.9        -           -\n"
              "box      2.28.9      413         413\n",
              o.out);
}

TEST_F(CliMachinesCheck, TellsWhatDiffers)
{
    const std::string box = fs::canonical(dir_ / "mine/box").string();
    const std::string eight = "allreduce of 8 bytes of i8: NCCL runs ";

    Forge("choices.csv", "8.00013065", "8.00013066");
    Forge("choices.csv",
          "1506.50806,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,"
          "-1,ring,simple,24",
          "1506.50806,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,tree,simple,"
          "23");
    const Outcome o = Run("machines --check box");

    EXPECT_EQ(1, o.status);
    EXPECT_EQ("machine  NCCL    choices  reproduced\n"
              "box      2.28.9      413         411\n"
              "\n" +
                  box +
                  "\n"
                  "  choices.csv:404: " +
                  eight +
                  "ring/ll/1, mock NCCL ring/ll/1; cost of "
                  "tree/ll 8.00013066 us, mock NCCL 8.00013065\n"
                  "  choices.csv:417: allreduce of 536870912 bytes of i8: NCCL "
                  "runs tree/simple/23, mock NCCL ring/simple/24\n",
              o.out);
    const Json all = Parse(Run("machines --check box --json").out);
    const cJSON *machine = cJSON_GetArrayItem(
        cJSON_GetObjectItemCaseSensitive(all.get(), "machines"), 0);
    EXPECT_EQ("2.28.9", String(machine, "nccl"));
    EXPECT_EQ(413, Number(machine, "choices"));
    EXPECT_EQ(411, Number(machine, "reproduced"));
    EXPECT_EQ(2, cJSON_GetArraySize(
                     cJSON_GetObjectItemCaseSensitive(machine, "differences")));
}

// What is newer than mock NCCL is played as the newest, which is said.
TEST_F(CliMachinesCheck, SaysAsWhatItPlaysANewerNccl)
{
    Forge("machine.csv", "2.28.9", "2.99.1");
    const Outcome o = Run("machines --check box");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.out, HasSubstr("\nbox      2.99.1      413  "));
    EXPECT_EQ(
        "steptune machines: NCCL 2.99.1 is newer than Steptune knows, and "
        "is played as 2.32\n",
        o.err);
}

TEST_F(CliMachinesCheck, RefusesRowsThatItCannotReadOrAsk)
{
    const std::pair<const char *, const char *> forged[] = {
        {"bf16,1,2,1,0", "bf16,1,4,1,0"},
        {"ring,simple,24", "ring,simple"},
        {"ring,simple,24", "rung,simple,24"},
        {"allreduce,536870912,1,i8", "allreduce,536870912,99,i8"},
    };
    const char *const errors[] = {
        ":1: 4 ranks on 1 nodes, expected 2 on 1, as the machine has them\n",
        ":1: 31 fields, expected 32 as in the header\n",
        ": algo 'rung', expected an algorithm\n",
        ": group_ops '99', expected a whole number\n",
    };
    const std::string whole = Read("mine/box/choices.csv");

    for (size_t i = 0; i < 4; i++) {
        Write("mine/box/choices.csv", whole);
        Forge("choices.csv", forged[i].first, forged[i].second);
        const Outcome o = Run("machines --check box h200x4");

        EXPECT_EQ(1, o.status);
        EXPECT_THAT(o.err, AllOf(HasSubstr("mine/box/choices.csv:"),
                                 EndsWith(errors[i])));
        EXPECT_EQ("machine  NCCL    choices  reproduced\n"
                  "h200x4   2.28.9      176         176\n",
                  o.out);
    }
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
