// What check finds in policies, and what its fixes leave.
#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>

extern "C" {
#include "analyse/check/check.h"
}

using testing::ElementsAreArray;

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

Result Check(const std::string &csv, stp_policy_kind kind = STP_POLICY_OF_ARMS)
{
    const stp_check_options options = {csv.data(), csv.size(), kind};
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

void ExpectAll(const std::vector<Case> &cases,
               stp_policy_kind kind = STP_POLICY_OF_ARMS)
{
    for (const Case &c : cases) {
        SCOPED_TRACE(c.name);
        EXPECT_THAT(Check(c.csv, kind).found, ElementsAreArray(c.found));
    }
}

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
    const stp_check_options options = {csv.data(), csv.size(),
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
        STP_POLICY_OF_MEMORY);
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
        {"an end between blanks",
         " allreduce, 0, 4294967295 ,tree,simple, 24\t, -1,-1 # a lot",
         " allreduce, 0, inf ,tree,simple, 24\t, -1,-1 # a lot"},
        {"columns by name",
         "channels,collective,max_bytes,protocol,algorithm\n"
         "24,allreduce,4294967295,ll,tree\n",
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
        EXPECT_EQ(c.fixed, Check(c.csv).fixed);
    }
}

} // namespace
