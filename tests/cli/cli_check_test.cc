// steptune check.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cjson/cJSON.h>
#include <string>

#include "support/cli_fixture.h"

namespace
{

using namespace cli;
using namespace testing;

const char kDead[] = "allreduce,0,inf,ring,ll,-1,-1,-1 # all\n"
                     "  allreduce,4K,8K,ring,ll,4,-1,-1 # some\n";
const char kMended[] = "allreduce,0,inf,ring,ll,-1,-1,-1 # all\n# some\n";

TEST_F(Cli, CheckSaysOfWhatIsFineThatThereAreNoFindings)
{
    Write("p.conf", "allreduce,0,inf,ring,ll,-1,-1,-1\r\n");

    Outcome o = Run("check p.conf");

    EXPECT_EQ(0, o.status);
    EXPECT_EQ("p.conf: no findings\n", o.out);
    EXPECT_THAT(o.err, IsEmpty());
}

TEST_F(Cli, CheckWarnsAsCompilersDo)
{
    Write("p.conf", kDead);

    Outcome o = Run("check p.conf");

    EXPECT_EQ(1, o.status);
    EXPECT_EQ("p.conf:2:3: warning: this rule is dead: line 1 matches all that "
              "it matches, with the same algorithm and protocol\n"
              "p.conf: 1 warning\n",
              o.out);
    EXPECT_THAT(o.err, IsEmpty());
    EXPECT_EQ(kDead, Read("p.conf"));
    EXPECT_THAT(Files(), ElementsAre("p.conf"));
}

TEST_F(Cli, CheckReadsAndMendsMemoryPolicies)
{
    const std::string head = "collective,min_bytes,memory\n";
    Write("p.conf.memory", head + "allreduce,0,sym\nallreduce,1M,reg # here\n");

    Outcome o = Run("check p.conf.memory");
    EXPECT_EQ(1, o.status);
    EXPECT_EQ("p.conf.memory:3:1: warning: this rule is dead: line 2 matches "
              "all that it matches\np.conf.memory: 1 warning\n",
              o.out);

    EXPECT_EQ(0, Run("check --fix p.conf.memory").status);
    EXPECT_EQ(head + "allreduce,0,sym\n# here\n", Read("p.conf.memory"));
}

TEST_F(Cli, CheckSucceedsWithNotesAlone)
{
    Write("p.conf", "allreduce,0,4294967295,ring,ll,-1,-1,-1\n");

    Outcome o = Run("check p.conf");

    EXPECT_EQ(0, o.status);
    EXPECT_THAT(o.out, StartsWith("p.conf:1:13: note: no rule decides "));
    EXPECT_THAT(o.out, EndsWith("\np.conf: 1 note\n"));
    EXPECT_EQ(2u, Count(o.out, "\n"));
}

TEST_F(Cli, CheckKnowsTheMachineThatItIsGiven)
{
    Write("p.conf", "allreduce,0,inf,tree,simple,64,-1,-1\n");

    EXPECT_EQ(0, Run("check p.conf").status);
    Outcome o = Run("check --on h100x8 p.conf");

    EXPECT_EQ(1, o.status);
    EXPECT_EQ("p.conf:1:29: warning: 64 channels, but h100x8 has 24 for tree: "
              "NCCL cuts what is more\n"
              "p.conf: 1 warning\n",
              o.out);
}

TEST_F(Cli, CheckPrintsJson)
{
    Write("p.conf", kDead);

    Outcome o = Run("check p.conf --json");

    EXPECT_EQ(1, o.status);
    Json root = Parse(o.out);
    ASSERT_TRUE(root);
    EXPECT_EQ("p.conf", String(root.get(), "policy"));
    EXPECT_EQ(1, Number(root.get(), "warnings"));
    EXPECT_EQ(0, Number(root.get(), "notes"));
    EXPECT_EQ(0, Number(root.get(), "fixed"));
    const cJSON *rows = cJSON_GetObjectItem(root.get(), "findings");
    ASSERT_EQ(1, cJSON_GetArraySize(rows));
    const cJSON *row = cJSON_GetArrayItem(rows, 0);
    EXPECT_EQ(2, Number(row, "line"));
    EXPECT_EQ(3, Number(row, "column"));
    EXPECT_EQ("warning", String(row, "level"));
    EXPECT_EQ("dead", String(row, "kind"));
    EXPECT_THAT(String(row, "text"), StartsWith("this rule is dead: line 1"));
    const cJSON *others = cJSON_GetObjectItem(row, "other_lines");
    ASSERT_EQ(1, cJSON_GetArraySize(others));
    EXPECT_EQ(1, cJSON_GetNumberValue(cJSON_GetArrayItem(others, 0)));
    EXPECT_EQ(1, Number(row, "n_other_lines"));
}

// ---- --fix ----

TEST_F(Cli, CheckFixKeepsTheOriginalAndLeavesNothingToFix)
{
    Write("p.conf", kDead);
    chmod((dir_ / "p.conf").c_str(), 0640);

    Outcome o = Run("check p.conf --fix");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_EQ("p.conf:2:3: fixed: removed, since this rule is dead: line 1 "
              "matches all that it matches, with the same algorithm and "
              "protocol\n"
              "p.conf: 1 fixed\n",
              o.out);
    EXPECT_EQ(kMended, Read("p.conf"));
    EXPECT_EQ(kDead, Read("p.conf.orig"));
    EXPECT_THAT(Files(), ElementsAre("p.conf", "p.conf.orig"));
    struct stat st;
    ASSERT_EQ(0, stat((dir_ / "p.conf").c_str(), &st));
    EXPECT_EQ(0640u, st.st_mode & 0777);

    Outcome again = Run("check p.conf --fix");
    EXPECT_EQ(0, again.status) << again.err;
    EXPECT_EQ("p.conf: no findings\n", again.out);
    EXPECT_EQ(kDead, Read("p.conf.orig"));
}

TEST_F(Cli, CheckFixSaysAllThatItChanged)
{
    Write("p.conf", "allreduce,0,4294967295,tree,simple,64,-1,-1\n"
                    "reduce,0,inf,tree,simple,-1,-1,-1\n"
                    "broadcast,0,inf,ring,ll,-1,-1,-1\n"
                    "broadcast,0,inf,ring,simple,-1,-1,-1\n");

    Outcome o = Run("check p.conf --fix --on h200x4");

    EXPECT_EQ(1, o.status); // for what stays
    EXPECT_EQ("p.conf:1:13: fixed: now inf: no rule decides allreduce above "
              "4294967295 bytes, so that NCCL's own choice holds there; inf "
              "would have no end\n"
              "p.conf:1:36: fixed: now 24: 64 channels, but h200x4 has 24 for "
              "tree: NCCL cuts what is more\n"
              "p.conf:2:14: fixed: removed, since no NCCL has tree/simple for "
              "reduce, so that this rule never decides\n"
              "p.conf:4:1: warning: line 3 matches all that this rule matches, "
              "so that it only decides if NCCL_ALGO or NCCL_PROTO forbids what "
              "NCCL always has\n"
              "p.conf: 3 fixed, 1 warning\n",
              o.out);
    EXPECT_EQ("allreduce,0,inf,tree,simple,24,-1,-1\n"
              "broadcast,0,inf,ring,ll,-1,-1,-1\n"
              "broadcast,0,inf,ring,simple,-1,-1,-1\n",
              Read("p.conf"));
}

TEST_F(Cli, CheckFixRefusesToLoseAnOriginal)
{
    Write("p.conf", kDead);
    Write("p.conf.orig", "older");

    Outcome o = Run("check p.conf --fix");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.out, IsEmpty());
    EXPECT_THAT(o.err, HasSubstr("cannot keep the original as '"));
    EXPECT_THAT(o.err, HasSubstr("p.conf.orig': File exists\n"));
    EXPECT_EQ(kDead, Read("p.conf"));
    EXPECT_EQ("older", Read("p.conf.orig"));
    EXPECT_THAT(Files(), ElementsAre("p.conf", "p.conf.orig"));
}

TEST_F(Cli, CheckFixFollowsLinks)
{
    fs::create_directory(dir_ / "real");
    Write("real/p.conf", kDead);
    fs::create_symlink("real/p.conf", dir_ / "p.conf");

    EXPECT_EQ(0, Run("check p.conf --fix").status);

    EXPECT_TRUE(fs::is_symlink(dir_ / "p.conf"));
    EXPECT_EQ(kMended, Read("real/p.conf"));
    EXPECT_EQ(kDead, Read("real/p.conf.orig"));
}

// ---- what goes wrong ----

TEST_F(Cli, CheckSaysWhatIsWrong)
{
    fs::create_directory(dir_ / "empty");
    Write("good.conf", "\n");
    Write("bad.conf", "allreduce,0,1,ring,ll,-1,-1,-1\n"
                      "allreduce, x,1,ring,ll,-1,-1,-1\n");

    ExpectRefusals(
        "",
        {
            {"check", 2, "no policy, expected a file such as steptune.conf"},
            {"check a b", 2, "'b', expected one policy"},
            {"check no.conf", 1, "no.conf: cannot be opened: No such file"},
            {"check bad.conf --fix", 1, "bad.conf:2:12: min_bytes 'x'"},
            {"check good.conf --on nowhere", 77,
             "no recorded machine 'nowhere'"},
            {"check good.conf --on ./empty", 1, "machine.csv"},
        });
    EXPECT_THAT(Files(), ElementsAre("bad.conf", "empty", "good.conf"));
}

} // namespace
