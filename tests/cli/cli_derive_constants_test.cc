// steptune derive --as constants, on recorded machines, and what NCCL makes of
// the file.
#include "support/cli_fixture.h"

namespace
{

using namespace cli;
using namespace testing;

class CliDeriveConstants : public Cli
{
  protected:
    void Sweep(const std::string &options) const
    {
        ASSERT_EQ(0, Run("sweep --on h200x4 -o m.csv " + options).status);
    }

    // A row of `explain` with the file as it is.
    Outcome Explain(const std::string &options)
    {
        Set("STEPTUNE_CONSTANTS_FILE", (dir_ / "c.csv"));
        Write("empty.conf", "");
        return Run("explain --policy empty.conf " + options);
    }
};

TEST_F(CliDeriveConstants, MakeNcclChooseRightOnTheRecordedMachine)
{
    Sweep("--on h200x4 --collective allgather");

    Outcome o = Run("derive m.csv --as constants -o c.csv --json");

    ASSERT_EQ(0, o.status) << o.err;
    Json root = Parse(o.out);
    const cJSON *before = cJSON_GetObjectItem(root.get(), "before");
    const cJSON *after = cJSON_GetObjectItem(root.get(), "after");
    const cJSON *left = cJSON_GetObjectItem(root.get(), "left_out");
    EXPECT_EQ("h200x4", String(root.get(), "machine"));
    EXPECT_EQ(21, Number(after, "sizes"));
    EXPECT_NEAR(1.0816, Number(before, "mean"), 1e-4);
    EXPECT_NEAR(1.379, Number(before, "worst"), 1e-3);
    EXPECT_NEAR(1, Number(after, "mean"), 1e-3);
    EXPECT_NEAR(1, Number(after, "worst"), 5e-3);
    EXPECT_EQ(0, Number(after, "slower"));
    EXPECT_EQ(19, Number(left, "sizes"));
    EXPECT_NEAR(1, Number(left, "mean"), 5e-3);
    EXPECT_LE(cJSON_GetArraySize(cJSON_GetObjectItem(root.get(), "constants")),
              4);
    const std::string file = Read("c.csv");
    EXPECT_THAT(file,
                StartsWith("# steptune derive --as constants\n# from times of "
                           "h200x4 (NVIDIA H200, NCCL 2.28.9): "));
    EXPECT_THAT(file, HasSubstr("#   its own constants: geometric mean 1.0816, "
                                "worst 1.379\n"));
    EXPECT_THAT(file, HasSubstr("\nconstant,row,column,value\n# NCCL's own: "));

    o = Explain("--on h200x4 --collective allgather --json");
    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_EQ("", o.err);
    o = Explain("--on h200x4 --collective allgather --why 8M");
    EXPECT_THAT(o.out, HasSubstr("NCCL alone       ring/simple "));
    EXPECT_THAT(o.out, HasSubstr("with the plugin  ring/ll128 "));
}

TEST_F(CliDeriveConstants, AreTheSameTwice)
{
    Sweep("--on h200x4 --collective allgather -b 2M -e 8M");

    Outcome first = Run("derive m.csv --as constants --on h200x4");
    Outcome second = Run("derive m.csv --as constants");

    EXPECT_EQ(0, first.status) << first.err;
    EXPECT_EQ(first.out, second.out);
}

TEST_F(CliDeriveConstants, AreNotWrittenWhereNcclsOwnAreAsGood)
{
    Sweep("--on h200x4 --collective allgather -b 655360 -e 1280000 -f 1.25");

    Outcome o = Run("derive m.csv --as constants -o c.csv");

    EXPECT_EQ(1, o.status);
    EXPECT_EQ("", o.out);
    EXPECT_THAT(o.err, HasSubstr("no constants choose better than NCCL's own"));
    EXPECT_EQ(1u, Count(o.err, "\n"));
    EXPECT_FALSE(fs::exists(dir_ / "c.csv"));
}

TEST_F(CliDeriveConstants, WantWhatTheyCanBeFittedTo)
{
    Sweep("--on h200x4 --collective allgather -b 4M -e 4M");

    ExpectRefusals("derive ",
                   {
                       {"m.csv --as rules", 2,
                        "--as 'rules', expected policy, constants or memory"},
                       {"m.csv --on h200x4", 2,
                        "--on has no effect without --as constants"},
                       {"m.csv --as constants --extrapolate", 2,
                        "--extrapolate has no effect with --as constants"},
                       {"m.csv --as constants --objective iteration", 2,
                        "--objective has no effect with --as constants"},
                       {"m.csv --as constants --on nowhere", 1,
                        "no recorded machine 'nowhere'"},
                       {"m.csv --as constants --on h200x2", 1,
                        "measured on 4 ranks of 1 nodes, expected 2 of 1"},
                   });
}

} // namespace
