// What check finds in policies, alone and for a machine, and what its fixes
// leave.
#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/mock_folder.h"

extern "C" {
#include "analyse/check/check.h"
}

using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;

namespace
{

const std::string kSamePair = ", with the same algorithm and protocol";
const std::string kOwn = ", so that NCCL's own choice holds there";
const std::string kRest = ", so that it decides only what is left";
const std::string kForbidden = " all that this rule matches, so that it only "
                               "decides if NCCL_ALGO or NCCL_PROTO forbids "
                               "what NCCL always has";
const std::string kFallback = " all that this rule matches, so that it only "
                              "decides where NCCL cannot run what stands there";

struct Result {
    std::vector<std::string> found; // "LINE:COLUMN KIND: TEXT"
    std::string fixed;
};

// 'machine' is a folder, or the name of one in fixtures.
Result Check(const std::string &csv, const char *machine = nullptr,
             stp_policy_kind kind = STP_POLICY_OF_ARMS)
{
    const std::string path =
        (machine && machine[0] == '/' ? "" : STP_FIXTURES "/machines/") +
        std::string(machine ? machine : "");
    const stp_check_options options = {csv.data(), csv.size(),
                                       machine ? path.c_str() : nullptr, kind};
    stp_findings findings{};
    stp_error err{};
    Result result;
    char *text = nullptr;
    size_t len = 0;

    EXPECT_EQ(STP_OK, stp_check(&options, &findings, &err)) << err.text;
    for (size_t i = 0; i < findings.n; i++) {
        const stp_finding &f = findings.at[i];
        result.found.push_back(std::to_string(f.line) + ":" +
                               std::to_string(f.column) + " " +
                               stp_check_kind_name(f.kind) + ": " + f.text);
    }
    EXPECT_EQ(STP_OK, stp_check_fix(csv.data(), csv.size(), &findings, &text,
                                    &len, &err));
    result.fixed.assign(text, len);
    free(text);
    stp_findings_free(&findings);
    return result;
}

struct Case {
    const char *name;
    std::string csv;
    std::vector<std::string> found;
};

void ExpectAll(const std::vector<Case> &cases, const char *machine = nullptr,
               stp_policy_kind kind = STP_POLICY_OF_ARMS)
{
    for (const Case &c : cases) {
        SCOPED_TRACE(c.name);
        EXPECT_THAT(Check(c.csv, machine, kind).found,
                    ElementsAreArray(c.found));
    }
}

// ---- without a machine ----

TEST(Check, FindsNothingInWhatIsFine)
{
    ExpectAll({
        {"nothing at all", "", {}},
        {"only comments", "# a\n\n#b", {}},
        {"everything to infinity", "allreduce,0,inf,ring,ll,-1,-1,-1\n", {}},
        {"Windows ends, a byte order mark, blanks and no last newline",
         "\xEF\xBB\xBF allreduce,0,9,ring,ll,-1,-1,-1 \t\r\n\r\n"
         "allreduce , 10, inf, ring, simple, -1, -1, -1 # end",
         {}},
        {"rules side by side",
         "allreduce,0,9,ring,ll,-1,-1,2\n"
         "allreduce,0,9,ring,ll,-1,-1,4\n"
         "allgather,0,9,ring,ll,-1,-1,4\n",
         {}},
        {"an end where nobody measured", "reduce,1K,1M,ring,ll,2,1,4\n", {}},
    });
}

TEST(Check, FindsDeadRules)
{
    const std::string dead = " dead: this rule is dead: ";
    ExpectAll({
        {"the same again",
         "allreduce,0,inf,ring,ll,-1,-1,-1\nallreduce,0,inf,ring,ll,4,-1,-1\n",
         {"2:1" + dead + "line 1 matches all that it matches" + kSamePair}},
        {"indented",
         "allreduce,0,inf,ring,ll,-1,-1,-1\n  allreduce,4K,8K,ring,ll,4,1,8\n",
         {"2:3" + dead + "line 1 matches all that it matches" + kSamePair}},
        {"by two together, with a third that has no part in it",
         "allreduce,0,9,ring,ll,1,-1,-1\n"
         "allreduce,100,200,ring,ll,2,-1,-1\n"
         "allreduce,10,99,ring,ll,3,-1,-1\n"
         "allreduce,5,15,ring,ll,4,-1,-1\n",
         {"4:1" + dead + "lines 1 and 3 match all that it matches" +
          kSamePair}},
        {"one alone is enough though there are two",
         "allreduce,0,9,ring,ll,1,-1,-1\n"
         "allreduce,0,99,ring,ll,2,-1,-1\n"
         "allreduce,0,19,ring,ll,3,-1,-1\n",
         {"2:1 overlap: line 1 comes before this rule for bytes 0 to 9" + kRest,
          "3:1" + dead + "line 2 matches all that it matches" + kSamePair}},
        {"by many",
         "allreduce,0,9,ring,ll,1,-1,-1\nallreduce,10,19,ring,ll,1,-1,-1\n"
         "allreduce,20,29,ring,ll,1,-1,-1\nallreduce,30,39,ring,ll,1,-1,-1\n"
         "allreduce,40,49,ring,ll,1,-1,-1\nallreduce,50,59,ring,ll,1,-1,-1\n"
         "allreduce,0,59,ring,ll,1,-1,-1\n",
         {"7:1" + dead +
          "lines 1, 2, 3, 4 and 2 more match all that it matches" + kSamePair}},
        {"by registered and not",
         "allreduce,0,inf,ring,ll,1,-1,-1,-1,0\n"
         "allreduce,0,inf,ring,ll,1,-1,-1,-1,1\n"
         "allreduce,0,inf,ring,ll,1,-1,-1,4,-1\n",
         {"3:1" + dead + "lines 1 and 2 match all that it matches" +
          kSamePair}},
        {"by bytes per rank, of one number of ranks",
         "collective,algorithm,protocol,min_bytes,max_bytes,"
         "max_bytes_per_rank,nRanks\n"
         "allreduce,ring,ll,0,inf,1M,8\n"
         "allreduce,ring,ll,0,8388615,inf,8\n",
         {"3:1" + dead + "line 2 matches all that it matches" + kSamePair}},
        {"no message at all",
         "collective,algorithm,protocol,max_bytes,min_bytes_per_rank,nRanks\n"
         "allreduce,ring,ll,1M,1M,2\n",
         {"2:1" + dead +
          "no message has its bytes and also its bytes per rank"}},
        {"of one GPU, by any",
         "collective,gpu,algorithm,protocol\n"
         "allreduce,*,ring,ll\nallreduce,NVIDIA H200,ring,ll\n",
         {"3:1" + dead + "line 2 matches all that it matches" + kSamePair}},
    });
}

TEST(Check, DoesNotCallDeadWhatIsNot)
{
    ExpectAll({
        {"one size is left",
         "allreduce,0,9,ring,ll,1,-1,-1\nallreduce,11,19,ring,ll,1,-1,-1\n"
         "allreduce,0,19,ring,ll,2,-1,-1\n",
         {"3:1 overlap: line 1 comes before this rule for bytes 0 to 9, and 1 "
          "more line for more of it" +
          kRest}},
        {"one byte more",
         "collective,algorithm,protocol,min_bytes,max_bytes,"
         "max_bytes_per_rank,nRanks\n"
         "allreduce,ring,ll,0,inf,1M,8\n"
         "allreduce,ring,ll,0,8388616,inf,8\n",
         {"3:1 overlap: line 2 comes before this rule for bytes per rank 0 to "
          "1048576" +
          kRest}},
        {"of any GPU, by each that is named",
         "collective,gpu,algorithm,protocol\n"
         "allreduce,A,ring,ll\nallreduce,B,ring,ll\nallreduce,*,ring,ll\n",
         {"4:1 overlap: line 2 comes before this rule for gpu A, and 1 more "
          "line for more of it" +
          kRest}},
        {"by a pair that does not exist",
         "broadcast,0,inf,tree,ll,-1,-1,-1\nbroadcast,0,1M,ring,ll,-1,-1,-1\n",
         {"1:17 no_kernel: no NCCL has tree/ll for broadcast, so that this "
          "rule never decides"}},
    });
}

TEST(Check, TellsShadowsByPairsThatNcclMayLack)
{
    const std::string later = "allreduce,4K,8K,tree,simple,2,-1,-1\n";
    ExpectAll({
        {"always there",
         "allreduce,0,inf,ring,simple,-1,-1,-1\n" + later,
         {"2:1 shadowed: line 1 matches" + kForbidden}},
        {"always there, in two parts",
         "allreduce,0,5K,ring,simple,-1,-1,-1\n"
         "allreduce,5K,inf,ring,ll,-1,-1,-1\n" +
             later,
         {"2:1 overlap: line 1 comes before this rule for bytes 5120" + kRest,
          "3:1 shadowed: lines 1 and 2 match" + kForbidden}},
        {"not always there",
         "allreduce,0,inf,nvls,simple,-1,-1,-1\n" + later,
         {"2:1 fallback: line 1 matches" + kFallback}},
        {"LL128, which some machines lack",
         "allreduce,0,inf,ring,ll128,-1,-1,-1\n" + later,
         {"2:1 fallback: line 1 matches" + kFallback}},
    });
}

TEST(Check, SaysWhichPartAnEarlierRuleDecides)
{
    const std::string line = "2:1 overlap: line 1 comes before this rule for ";
    ExpectAll({
        {"bytes",
         "allreduce,4K,16K,tree,ll,-1,-1,-1\nallreduce,8K,64K,ring,ll,-1,-1,-"
         "1\n",
         {line + "bytes 8192 to 16384" + kRest}},
        {"bytes without end",
         "allreduce,4K,inf,tree,ll,-1,-1,-1\n"
         "allreduce,0,inf,ring,ll,-1,-1,-1\n",
         {line + "bytes from 4096" + kRest}},
        {"nodes, ranks, numPipeOps and regBuff",
         "allreduce,0,inf,tree,ll,-1,2-inf,16,2,1\n"
         "allreduce,0,inf,ring,ll,-1,-1,8-64\n",
         {line + "nNodes from 2, nRanks 16, numPipeOps 2, regBuff 1" + kRest}},
    });
}

TEST(Check, FindsPairsThatNoNcclHas)
{
    const std::string end = ", so that this rule never decides";
    ExpectAll({
        {"the algorithm",
         "reduce,0,inf,tree,simple,-1,-1,-1\n",
         {"1:14 no_kernel: no NCCL has tree/simple for reduce" + end}},
        {"the protocol",
         "allreduce,0,inf,nvls,ll,-1,-1,-1\n",
         {"1:22 no_kernel: no NCCL has nvls/ll for allreduce" + end}},
        {"in columns of another order",
         "protocol,collective,algorithm\nsimple,allreduce,pat\n",
         {"2:18 no_kernel: no NCCL has pat/simple for allreduce" + end}},
    });
}

TEST(Check, FindsGaps)
{
    const std::string between = " bytes, between this rule and line ";
    const std::string above = " bytes" + kOwn + "; inf would have no end";
    ExpectAll({
        {"between two",
         "allreduce,0,9,ring,ll,-1,-1,-1\nallreduce,20,29,ring,ll,1,-1,-1\n",
         {"1:13 gap: no rule decides allreduce from 10 to 19" + between + "2" +
          kOwn}},
        {"between two that stand the other way round",
         "allreduce,20,29,ring,ll,1,-1,-1\nallreduce,0,9,ring,ll,-1,-1,-1\n",
         {"2:13 gap: no rule decides allreduce from 10 to 19" + between + "1" +
          kOwn}},
        {"of one number of ranks",
         "allreduce,0,9,ring,ll,1,1,2\nallreduce,10,99,ring,ll,1,1,4\n"
         "allreduce,20,99,ring,ll,1,1,2\n",
         {"1:13 gap: no rule decides allreduce from 10 to 19" + between + "3" +
          kOwn}},
        {"told once of two that end there",
         "allreduce,0,9,tree,ll,1,1,2\nallreduce,5,9,ring,ll,1,1,2\n"
         "allreduce,20,99,ring,ll,1,1,2\n",
         {"1:13 gap: no rule decides allreduce from 10 to 19" + between + "3" +
              kOwn,
          "2:1 fallback: line 1 matches" + kFallback}},
        {"above NVIDIA's catch-all",
         "allreduce,0,4294967295,ring,ll,-1,-1,-1\n",
         {"1:13 gap: no rule decides allreduce above 4294967295" + above}},
        {"above 4 GiB",
         "allreduce,0,4G,ring,ll,-1,-1,-1\n",
         {"1:13 gap: no rule decides allreduce above 4294967296" + above}},
        {"closed by another algorithm",
         "allreduce,0,4294967295,ring,ll,-1,-1,-1\n"
         "allreduce,4G,inf,ring,simple,-1,-1,-1\n",
         {}},
        {"no message there by bytes per rank",
         "collective,algorithm,protocol,max_bytes,max_bytes_per_rank,nRanks\n"
         "allreduce,ring,ll,4294967295,1K,8\n",
         {}},
    });
}

TEST(Check, RefusesWhatDoesNotParse)
{
    const std::string csv = "allreduce,0,1,ring,ll,-1,-1,-1\nallreduce,x\n";
    const stp_check_options options = {csv.data(), csv.size(), nullptr,
                                       STP_POLICY_OF_ARMS};
    stp_findings findings{};
    stp_error err{};

    EXPECT_EQ(STP_ERR_SYNTAX, stp_check(&options, &findings, &err));
    EXPECT_EQ(2u, err.line);
    EXPECT_EQ(12u, err.column);
    EXPECT_EQ(nullptr, findings.at);
}

TEST(Check, FindsInMemoryPoliciesWhatNeverDecides)
{
    const std::string dead = " dead: this rule is dead: ";
    const std::string head =
        "collective,min_bytes,max_bytes,memory,nNodes,nRanks,overlap,gpu\n";

    ExpectAll(
        {
            {"nothing at all", "", {}},
            {"alone and overlapped",
             head + "allreduce,0,inf,sym,-1,-1,0,*\n"
                    "allreduce,0,inf,ce,-1,-1,1,*\n",
             {}},
            {"whatever the memory",
             head + "allreduce,0,inf,plain,-1,-1,-1,*\n"
                    "allreduce,1M,2M,sym,1,2,0,H200\n",
             {"3:1" + dead + "line 2 matches all that it matches"}},
            {"by alone and overlapped together",
             head + "allreduce,0,9,sym,-1,-1,0,*\n"
                    "allreduce,0,9,ce,-1,-1,1,*\n"
                    "allreduce,5,9,reg,-1,-1,-1,*\n",
             {"4:1" + dead + "lines 2 and 3 match all that it matches"}},
            {"a part",
             head + "allreduce,0,9,sym,-1,-1,1,*\n"
                    "allreduce,0,19,reg,-1,-1,-1,*\n",
             {"3:1 overlap: line 2 comes before this rule for bytes 0 to 9, "
              "overlap 1" +
              kRest}},
            {"a gap",
             head + "allreduce,0,9,sym,-1,-1,-1,*\n"
                    "allreduce,20,4294967295,reg,-1,-1,-1,*\n",
             {"2:13 gap: no rule decides allreduce from 10 to 19 bytes, "
              "between this rule and line 3, so that buffers stay plain there",
              "3:14 gap: no rule decides allreduce above 4294967295 bytes, so "
              "that buffers stay plain there; inf would have no end"}},
        },
        nullptr, STP_POLICY_OF_MEMORY);
}

// ---- for a machine ----

TEST(CheckOn, FindsMemoryRulesForOtherMachines)
{
    ExpectAll(
        {{"an other GPU, and other ranks",
          "collective,memory,gpu,nRanks\nallreduce,sym,NVIDIA A100,-1\n"
          "allgather,reg,*,8\nreducescatter,ce,*,4\n",
          {"2:15 elsewhere: this rule does not apply on h200x4, which has the "
           "GPU NVIDIA H200",
           "3:17 elsewhere: this rule does not apply on h200x4, which has 4 "
           "ranks"}}},
        "h200x4", STP_POLICY_OF_MEMORY);
}

TEST(CheckOn, FindsPairsThatAMachineLacks)
{
    const std::string end = ", so that this rule decides nothing there";
    const std::string csv = "allreduce,0,inf,nvls,simple,8,-1,-1\n";
    ExpectAll({{"no NVLS",
                csv,
                {"1:17 not_there: NCCL 2.28.9 never runs nvls/simple for "
                 "allreduce on h200x4" +
                 end}},
               {"CollNet on one node",
                "allreduce,0,inf,collnet_chain,simple,-1,-1,-1\n",
                {"1:17 not_there: NCCL 2.28.9 never runs collnet_chain/simple "
                 "for allreduce on h200x4" +
                 end}}},
              "h200x4");
    ExpectAll({{"NVLS", csv, {}}}, "h100x8");
    ExpectAll({{"NVLS between nodes",
                csv,
                {"1:17 not_there: NCCL 2.28.9 never runs nvls/simple for "
                 "allreduce on h100n2x8" +
                 end}}},
              "h100n2x8");
}

TEST(CheckOn, FindsMoreChannelsThanThereAre)
{
    const std::string more = ": NCCL cuts what is more";
    ExpectAll(
        {{"all", "allreduce,0,inf,tree,simple,24,-1,-1\n", {}},
         {"one more",
          "allreduce,0,inf,tree,simple,25,-1,-1\n",
          {"1:29 channels: 25 channels, but h100x8 has 24 for tree" + more}},
         {"NVLS has its own",
          "allreduce,0,inf,nvls,simple,20,-1,-1\n",
          {"1:29 channels: 20 channels, but h100x8 has 16 for nvls" + more}},
         {"of another machine",
          "allreduce,0,inf,tree,simple,32,1,4\n",
          {"1:34 elsewhere: this rule does not apply on h100x8, which "
           "has 8 ranks"}}},
        "h100x8");
}

// From 2.31 on, of a ring's 24 channels here one runs 4 KiB.
TEST(CheckOn, FindsMoreChannelsThanNcclTakes)
{
    const std::string rest = " itself, and takes no more from a rule";
    const std::string all = "allreduce,0,inf,ring,simple,";
    const std::string small = "allreduce,0,4K,ring,simple,";
    const mock_test::Folder folder;

    for (const char *nccl : {"2.28.9", "2.30.7", "2.31.2", "2.32.6"}) {
        const bool limits = std::string(nccl) > "2.31";
        const std::string runs =
            " channels, but NCCL " + std::string(nccl) + " runs ring on ";
        const std::string name =
            folder.Path().substr(folder.Path().rfind('/') + 1);

        SCOPED_TRACE(nccl);
        folder.WriteAs("h100x8", nccl);
        EXPECT_THAT(Check(all + "24,-1,-1\n", folder.Path().c_str()).found,
                    IsEmpty());
        EXPECT_THAT(Check(small + "1,-1,-1\n", folder.Path().c_str()).found,
                    IsEmpty());
        Result small16 = Check(small + "16,-1,-1\n", folder.Path().c_str());
        EXPECT_THAT(small16.found, ElementsAreArray(std::vector<std::string>(
                                       limits, "1:28 channels: 16" + runs +
                                                   "1 of " + name + rest)));
        EXPECT_EQ(small + "16,-1,-1\n", small16.fixed);
        Result all32 = Check(all + "32,-1,-1\n", folder.Path().c_str());
        EXPECT_EQ(all + "24,-1,-1\n", all32.fixed);
        if (limits) {
            EXPECT_THAT(all32.found,
                        ElementsAreArray({"1:29 channels: 32" + runs +
                                          "24 of " + name + rest}));
        }
    }
}

TEST(CheckOn, FindsRulesForOtherMachines)
{
    const std::string other =
        " elsewhere: this rule does not apply on h200x4, which has ";
    ExpectAll(
        {{"nodes and ranks",
          "allreduce,0,inf,tree,ll,-1,2-inf,8\n",
          {"1:28" + other + "1 node", "1:34" + other + "4 ranks"}},
         {"GPU",
          "collective,algorithm,protocol,gpu\n"
          "allreduce,tree,ll,NVIDIA H100\nallreduce,tree,ll,NVIDIA H200\n",
          {"2:19" + other + "the GPU NVIDIA H200"}}},
        "h200x4");
}

TEST(CheckOn, FindsWhatNcclChoosesAnyway)
{
    const std::string same =
        " as_nccl: NCCL 2.28.9 chooses the same by itself on h200x4 for all "
        "that this rule matches, so that it changes nothing there";
    ExpectAll(
        {{"below the switch to ring/simple",
          "broadcast,0,1066184,ring,ll,-1,-1,-1\n",
          {"1:1" + same}},
         {"beyond it", "broadcast,0,1066192,ring,ll,-1,-1,-1\n", {}},
         {"with as many channels",
          "allreduce,16M,inf,ring,simple,24,-1,-1\n",
          {"1:1" + same}},
         {"with fewer", "allreduce,16M,inf,ring,simple,23,-1,-1\n", {}},
         {"with another chunk",
          "collective,algorithm,protocol,max_bytes,chunk_bytes\n"
          "broadcast,ring,ll,1M,64K\n",
          {}},
         {"before a rule that it keeps off",
          "broadcast,0,4K,ring,ll,-1,-1,-1\n"
          "broadcast,0,8K,ring,simple,-1,-1,-1\n",
          {"2:1 overlap: line 1 comes before this rule for bytes 0 to 4096" +
           kRest}},
         {"before a rule of another number of ranks",
          "broadcast,0,4K,ring,ll,-1,-1,4\n"
          "broadcast,0,8K,ring,simple,-1,1,8\n",
          {"1:1" + same, "2:33 elsewhere: this rule does not apply on h200x4, "
                         "which has 4 ranks"}},
         {"sizes that no message has there",
          "allreduce,1,7,tree,ll,-1,-1,-1\n",
          {}}},
        "h200x4");
}

TEST(CheckOn, SaysWhyAMachineCannotBeHad)
{
    const stp_check_options options = {"", 0, STP_FIXTURES "/machines",
                                       STP_POLICY_OF_ARMS};
    stp_findings findings{};
    stp_error err{};

    EXPECT_EQ(STP_ERR_DEVICE, stp_check(&options, &findings, &err));
    EXPECT_THAT(err.text, HasSubstr("machine.csv"));
}

// ---- fixes ----

TEST(CheckFix, ChangesOnlyWhatItMust)
{
    const struct {
        const char *name, *csv, *fixed;
    } cases[] = {
        {"nothing", "# a\r\n\r\nallreduce,0,inf,ring,ll,-1,-1,-1",
         "# a\r\n\r\nallreduce,0,inf,ring,ll,-1,-1,-1"},
        {"a dead rule between comments",
         "# one\nallreduce,0,9,ring,ll,1,-1,-1\n# two\n"
         "allreduce,0,9,ring,ll,2,-1,-1\n# three\n",
         "# one\nallreduce,0,9,ring,ll,1,-1,-1\n# two\n# three\n"},
        {"a dead rule's own comment, and Windows ends",
         "\xEF\xBB\xBF"
         "allreduce,0,9,ring,ll,1,-1,-1\r\n"
         "allreduce,0,9,ring,ll,2,-1,-1  # mine\r\n",
         "\xEF\xBB\xBF"
         "allreduce,0,9,ring,ll,1,-1,-1\r\n# mine\r\n"},
        {"channels and an end in one line",
         " allreduce, 0, 4294967295 ,tree,simple, 64\t, -1,-1 # 64 is much",
         " allreduce, 0, inf ,tree,simple, 24\t, -1,-1 # 64 is much"},
        {"columns by name",
         "channels,collective,max_bytes,protocol,algorithm\n"
         "33,allreduce,4294967295,ll,tree\n",
         "channels,collective,max_bytes,protocol,algorithm\n"
         "24,allreduce,inf,ll,tree\n"},
        {"an end above which another rule decides",
         "allreduce,0,4294967295,ring,ll,-1,-1,-1\n"
         "allreduce,8G,inf,ring,simple,-1,-1,-1\n",
         "allreduce,0,4294967295,ring,ll,-1,-1,-1\n"
         "allreduce,8G,inf,ring,simple,-1,-1,-1\n"},
        {"an end that is another number", "allreduce,0,4G,ring,ll,1,-1,-1\n",
         "allreduce,0,4G,ring,ll,1,-1,-1\n"},
        {"pairs that no NCCL has",
         "reduce,0,4294967295,tree,simple,-1,-1,-1\n"
         "reduce,0,8,ring,simple,-1,-1,-1\n",
         "reduce,0,8,ring,simple,-1,-1,-1\n"},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        EXPECT_EQ(c.fixed, Check(c.csv, "h200x4").fixed);
    }
}

} // namespace
