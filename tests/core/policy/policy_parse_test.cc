// Policy text: what is read from it, what is refused, and its hash.
#include <algorithm>
#include <set>
#include <utility>

#include <gmock/gmock.h>

extern "C" {
#include "core/names.h"
#include "core/policy/memory_policy.h"
}

#include "support/policy_text.h"
#include "support/slow.h"
#include "support/temporary_folder.h"

using namespace policy_text;
using testing::HasSubstr;
using testing::StrEq;

namespace
{

// "LINE:COLUMN: TEXT" of a refusal; checks that nothing else happened.
std::string Refusal(const std::string &csv,
                    stp_status want_status = STP_ERR_SYNTAX)
{
    stp_policy *const untouched = reinterpret_cast<stp_policy *>(&want_status);
    stp_policy *policy = untouched;
    stp_error err{};

    EXPECT_EQ(want_status, stp_policy_parse(STP_POLICY_OF_ARMS, csv.data(),
                                            csv.size(), &policy, &err));
    EXPECT_EQ(untouched, policy) << "output must be untouched on failure";
    return std::to_string(err.line) + ":" + std::to_string(err.column) + ": " +
           err.text;
}

// ---- rules ----

std::string Text(const stp_range &range)
{
    return std::to_string(range.min) + "-" +
           (range.max == UINT64_MAX ? "inf" : std::to_string(range.max));
}

// Every member: "COLL ALGO/PROTO/CHANNELS bytes RANGE ... @LINE".
std::string RuleText(const stp_rule *r)
{
    return std::string(stp_coll_name(r->coll)) + " " + stp_algo_name(r->algo) +
           "/" + stp_proto_name(r->proto) + "/" +
           std::to_string(r->n_channels) + " bytes " + Text(r->bytes) +
           " per rank " + Text(r->bytes_per_rank) + " nodes " + Text(r->nodes) +
           " ranks " + Text(r->ranks) + " pipe " +
           std::to_string(r->n_pipe_ops) + " reg " +
           std::to_string(r->reg_buff) + " chunk " +
           std::to_string(r->chunk_bytes) + " gpu " +
           (r->gpu != nullptr ? r->gpu : "*") + " @" + std::to_string(r->line);
}

TEST(PolicyParse, FillsEveryMemberOrItsDefault)
{
    const struct {
        const char *csv; // the last rule of which is
        const char *rule;
    } cases[] = {
        // clang-format off
        {"gpu,chunk_bytes,max_bytes_per_rank,min_bytes_per_rank,regBuff,numPipeOps,nRanks,nNodes,channels,protocol,algorithm,max_bytes,min_bytes,collective\n\nNVIDIA "
         "H200,64K,2M,1M,1,3,8-16,2-inf,5,ll128,nvls,20G,10,reducescatter\n",
         "reducescatter nvls/ll128/5 bytes 10-21474836480 per rank 1048576-2097152 nodes 2-inf ranks 8-16 "
         "pipe 3 reg 1 chunk 65536 gpu NVIDIA H200 @3"},
        {"collective,algorithm,protocol\nreduce,ring,ll",
         "reduce ring/ll/0 bytes 0-inf per rank 0-inf nodes 1-inf ranks 1-inf pipe -1 reg -1 chunk 0 gpu * @2"},
        // nothing of the rule before
        {"collective,algorithm,protocol,channels,nNodes,numPipeOps,regBuff,chunk_bytes,gpu,max_bytes\nreduce,ring,ll,7,2,3,1,4K,H200,9\nreduce,ring,ll,-1,-1,-1,-1,-1,*,inf\n",
         "reduce ring/ll/0 bytes 0-inf per rank 0-inf nodes 1-inf ranks 1-inf pipe -1 reg -1 chunk 0 gpu * @3"},
        // clang-format on
    };
    for (const auto &c : cases) {
        Policy policy = Parse(c.csv);
        const size_t n = stp_policy_size(policy.get());

        ASSERT_LT(0u, n);
        EXPECT_EQ(c.rule, RuleText(stp_policy_rule(policy.get(), n - 1)));
    }
}

TEST(PolicyParse, KeepsFileOrderAndLineNumbers)
{
    Policy policy = Parse("# one\nreduce,0,1,ring,ll,1,1,1\n\n\r\n"
                          "reduce,0,1,ring,ll,2,1,1 # two\n"
                          "reduce,0,1,ring,ll,3,1,1");
    ASSERT_EQ(3u, stp_policy_size(policy.get()));

    EXPECT_EQ(2u, stp_policy_rule(policy.get(), 0)->line);
    EXPECT_EQ(5u, stp_policy_rule(policy.get(), 1)->line);
    EXPECT_EQ(6u, stp_policy_rule(policy.get(), 2)->line);
    EXPECT_EQ(3, stp_policy_rule(policy.get(), 2)->n_channels);
}

TEST(PolicyParse, KeepsManyRules)
{
    std::string csv;
    for (int i = 0; i < 5000; i++)
        csv += "reduce," + std::to_string(i) + ",inf,ring,ll,1,1,1\n";

    Policy policy = Parse(csv);

    ASSERT_EQ(5000u, stp_policy_size(policy.get()));
    for (size_t i = 0; i < 5000; i++)
        ASSERT_EQ(i, stp_policy_rule(policy.get(), i)->bytes.min);
}

TEST(PolicyParse, KeepsAGpuNameApartFromTheText)
{
    for (int n : {4, 500}) {
        std::string csv = "collective,algorithm,protocol,gpu\n";
        for (int i = 0; i < 1000; i++)
            csv += "reduce,ring,ll,GPU " + std::to_string(i % n) + "\n";
        Policy policy = Parse(csv);
        csv.assign(csv.size(), '!');

        for (int i = 0; i < 1000; i++) {
            const char *gpu = stp_policy_rule(policy.get(), i)->gpu;

            EXPECT_EQ("GPU " + std::to_string(i % n), gpu);
            if (n == 4) {
                EXPECT_EQ(stp_policy_rule(policy.get(), i % 4)->gpu, gpu)
                    << "kept once";
            }
        }
    }
}

TEST(PolicyParse, ReadsNoByteBehindTheEnd)
{
    const std::string csv =
        "reduce,0,1,ring,ll,1,1,1\nreduce,0,9,ring,ll,2,1,1";
    for (size_t len = 0; len <= csv.size(); len++) {
        SCOPED_TRACE(len);
        std::vector<char> exact(csv.begin(), csv.begin() + (long)len);
        exact.shrink_to_fit();
        stp_policy *policy = nullptr;

        stp_policy_parse(STP_POLICY_OF_ARMS, exact.empty() ? "" : exact.data(),
                         len, &policy, nullptr);
        stp_policy_free(policy);
    }
}

TEST(PolicyParse, SurvivesEveryChangedByte)
{
    const std::string csv =
        "# c\ncollective,min_bytes,algorithm,protocol,gpu,"
        "nNodes,chunk_bytes\nreduce,1K,ring,ll,H200,1-4,4K\n";
    int n_refused = 0;

    for (size_t i = 0; i < csv.size(); i++)
        for (int c = 0; c < 256; c++) {
            std::string changed = csv;
            changed[i] = static_cast<char>(c);
            stp_policy *policy = nullptr;
            stp_error err{};

            stp_status status =
                stp_policy_parse(STP_POLICY_OF_ARMS, changed.data(),
                                 changed.size(), &policy, &err);

            n_refused += status != STP_OK;
            ASSERT_EQ(status == STP_OK, policy != nullptr);
            if (status != STP_OK) {
                ASSERT_GE(err.line, 1u);
                ASSERT_GE(err.column, 1u);
                ASSERT_EQ(nullptr, strpbrk(err.text, "\n\r\x7F"));
            }
            stp_policy_free(policy);
        }
    EXPECT_GT(n_refused, 10000);
}

// ---- refusals that no fixture can hold ----

TEST(PolicyParse, CountsColumnsFromBehindAByteOrderMark)
{
    EXPECT_EQ("1:1: unknown collective 'x', expected broadcast, reduce, "
              "allgather, reducescatter, allreduce",
              Refusal("\xEF\xBB\xBFx,0,1,ring,ll,1,1,1"));
    EXPECT_EQ("1:1: byte order mark, expected only at the very start",
              Refusal("\xEF\xBB\xBF\xEF\xBB\xBF"));
}

TEST(PolicyParse, TakesALineOf4096BytesAndRefusesOneMore)
{
    const std::string rule = "reduce,0,1,ring,ll,1,1,1 #";
    const std::string most = rule + std::string(4096 - rule.size(), 'x');

    EXPECT_EQ(1u, stp_policy_size(Parse(most + "\r\n").get()));
    EXPECT_EQ("2:4097: line of 4097 bytes, expected at most 4096",
              Refusal("\n" + most + "x\r\n"));
    EXPECT_EQ("1:4097: line of 1048576 bytes, expected at most 4096",
              Refusal(std::string(1 << 20, 'a')));
}

TEST(PolicyParse, TakesAMillionRulesAndRefusesOneMore)
{
    STP_SLOW();
    const std::string rule = "reduce,0,1,ring,ll,1,1,1\n";
    std::string csv;
    for (int i = 0; i < STP_MAX_RULES; i++)
        csv += rule;

    EXPECT_EQ((size_t)STP_MAX_RULES, stp_policy_size(Parse(csv).get()));
    EXPECT_EQ("1000001:0: more than 1000000 rules",
              Refusal(csv + rule, STP_ERR_LIMIT));
}

TEST(PolicyParse, RefusesMoreBytesThanAFileMayHave)
{
    stp_policy *policy = nullptr;
    stp_error err{};

    EXPECT_EQ(STP_ERR_LIMIT,
              stp_policy_parse(STP_POLICY_OF_ARMS, "", (size_t)STP_MAX_FILE + 1,
                               &policy, &err));

    EXPECT_EQ(nullptr, policy);
    EXPECT_EQ(0u, err.line);
    EXPECT_THAT(err.text, StrEq("is larger than 268435456 bytes, the most that "
                                "is read"));
}

TEST(PolicyParse, TakesNoGpuWithAQuoteAStarOrAControlCharacter)
{
    const std::string header = "collective,algorithm,protocol,gpu\n";
    const std::pair<std::string, std::string> cases[] = {
        {"*H200", "*H200"},        {"H*200", "H*200"},
        {"H200*", "H200*"},        {"**", "**"},
        {"\"H200", "\"H200"},      {"H200\"", "H200\""},
        {"\x01H200", "\\x01H200"}, {"H\x1f", "H\\x1F"},
        {"\x7fH", "\\x7FH"},
    };

    for (const auto &[gpu, shown] : cases)
        EXPECT_EQ("2:16: gpu '" + shown +
                      "' is not a plain name, expected the name of a GPU "
                      "model, or * for any",
                  Refusal(header + "reduce,ring,ll," + gpu));
    for (const std::string gpu : {"A B", "~!)+", "\x80"})
        EXPECT_EQ(gpu, stp_policy_rule(
                           Parse(header + "reduce,ring,ll," + gpu).get(), 0)
                           ->gpu);
}

TEST(PolicyParse, NeedsTheColumnsWithoutWhichARuleSaysNothing)
{
    const std::pair<const char *, const char *> cases[] = {
        {"algorithm,protocol", "collective"},
        {"collective,protocol", "algorithm"},
        {"collective,algorithm", "protocol"},
        {"gpu,max_bytes", "collective"},
    };

    for (const auto &[header, column] : cases)
        EXPECT_EQ(std::string("2:2: the header lacks '") + column +
                      "', expected at least collective, algorithm and protocol",
                  Refusal(std::string("# c\n ") + header + "\n"));
}

TEST(PolicyParse, SaysWhereAHeaderLineBelongs)
{
    const std::string rule = "reduce,0,1,ring,ll,1,1,1\n";
    const std::pair<const char *, const char *> cases[] = {
        {" collective,0,1,ring,ll,1,1,1",
         "2:2: header word 'collective' in the wrong place, expected one "
         "header line at most, before the first rule"},
        {"minbytes",
         "2:1: header word 'minbytes' in the wrong place, expected one header "
         "line at most, before the first rule"},
        {"x,min_bytes,1,ring,ll,1,1,1",
         "2:1: unknown collective 'x', expected broadcast, reduce, allgather, "
         "reducescatter, allreduce"},
    };

    for (const auto &[line, text] : cases)
        EXPECT_EQ(text, Refusal(rule + line));
}

TEST(PolicyParse, BlamesTheMinimumThatIsAboveItsMaximum)
{
    const std::pair<const char *, const char *> cases[] = {
        {"min_bytes,max_bytes,collective,algorithm,protocol\n"
         "2,1,reduce,ring,ll",
         "2:1: min_bytes 2 is above max_bytes 1"},
        {"max_bytes,collective,algorithm,protocol,minbytes\n"
         "1K,reduce,ring,ll,1025",
         "2:19: min_bytes 1025 is above max_bytes 1024"},
        {"min_bytes_per_rank,max_bytes_per_rank,collective,algorithm,"
         "protocol\n7,6,reduce,ring,ll",
         "2:1: min_bytes_per_rank 7 is above max_bytes_per_rank 6"},
    };

    for (const auto &[csv, text] : cases)
        EXPECT_EQ(text, Refusal(csv));
}

TEST(PolicyParse, NeedsNoErrorToFill)
{
    stp_policy *policy = nullptr;

    EXPECT_EQ(STP_ERR_SYNTAX,
              stp_policy_parse(STP_POLICY_OF_ARMS, "x", 1, &policy, nullptr));
    EXPECT_EQ(nullptr, policy);
}

TEST(PolicyParse, ShowsEveryMessageWholeButShortensLongWords)
{
    const std::string bytes(100, '\x01'), word(40, 'w');
    const std::pair<std::string, std::string> cases[] = {
        // clang-format off
        {"gpu,collective," + bytes,
         "1:16: unknown column '\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01...', expected "
         "collective, min_bytes, max_bytes, algorithm, protocol, channels, nNodes, nRanks, numPipeOps, "
         "regBuff, min_bytes_per_rank, max_bytes_per_rank, chunk_bytes, gpu"},
        {"gpu,collective,~ \x7f",
         "1:16: unknown column '~ \\x7F', expected collective, min_bytes, max_bytes, algorithm, protocol, "
         "channels, nNodes, nRanks, numPipeOps, regBuff, min_bytes_per_rank, max_bytes_per_rank, "
         "chunk_bytes, gpu"},
        {"reduce,0,1," + word + ",ll,1,1,1", "1:12: unknown algorithm '" + word +
         "', expected tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat"},
        {"reduce,0,1," + word + "w,ll,1,1,1", "1:12: unknown algorithm '" + word +
         "...', expected tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat"},
        // clang-format on
    };
    for (const auto &[csv, text] : cases)
        EXPECT_EQ(text, Refusal(csv));
}

TEST(PolicyFree, TakesNull)
{
    stp_policy_free(nullptr);
}

// ---- load ----

TEST(PolicyLoad, SaysWhyAFileCannotBeRead)
{
    stp_policy *policy = nullptr;
    stp_error err{};

    EXPECT_EQ(STP_ERR_IO,
              stp_policy_load(STP_POLICY_OF_ARMS, STP_FIXTURES "/no_such_file",
                              &policy, &err));
    EXPECT_THAT(err.text, HasSubstr("No such file"));
    EXPECT_EQ(0u, err.line);
    EXPECT_EQ(STP_ERR_IO,
              stp_policy_load(STP_POLICY_OF_ARMS, STP_FIXTURES, &policy, &err));
    EXPECT_THAT(err.text, StrEq("is a directory"));
    EXPECT_EQ(nullptr, policy);
}

TEST(PolicyLoad, TakesTheKindFromTheEndOfThePath)
{
    const std::pair<const char *, stp_policy_kind> cases[] = {
        {"p.csv.memory", STP_POLICY_OF_MEMORY},
        {"/dir/p.memory", STP_POLICY_OF_MEMORY},
        {".memory", STP_POLICY_OF_MEMORY},
        {"memory", STP_POLICY_OF_ARMS},
        {"p_memory", STP_POLICY_OF_ARMS},
        {"p.memory.csv", STP_POLICY_OF_ARMS},
        {"p.Memory", STP_POLICY_OF_ARMS},
        {"p.stage", STP_POLICY_OF_STAGE},
        {"p.memory.stage", STP_POLICY_OF_STAGE},
        {"p.stage.memory", STP_POLICY_OF_MEMORY},
        {"", STP_POLICY_OF_ARMS},
    };
    const TemporaryFolder folder;
    const std::string arms = folder.Path("p"), memory = folder.Path("p.memory"),
                      stage = folder.Path("p.stage");
    std::ofstream(arms) << "reduce,0,1,ring,ll,1,1,1\n";
    std::ofstream(memory) << "collective,memory\nreduce,sym\n";
    std::ofstream(stage) << "collective,memory\nreduce,stage\n";

    for (const auto &[path, kind] : cases)
        EXPECT_EQ(kind, stp_policy_kind_of_file(path)) << path;
    for (const std::string &path : {arms, memory, stage}) {
        stp_policy *policy = nullptr;
        ASSERT_EQ(STP_OK, stp_policy_load_any(path.c_str(), &policy, nullptr));
        EXPECT_EQ(stp_policy_kind_of_file(path.c_str()),
                  stp_policy_get_kind(policy));
        EXPECT_EQ(1u, stp_policy_size(policy));
        stp_policy_free(policy);
    }
}

// ---- hash ----

uint64_t Hash(const std::string &csv)
{
    Policy policy = Parse(csv);

    return policy ? stp_policy_hash(policy.get()) : 0;
}

TEST(PolicyHash, IgnoresHowTheRulesAreWritten)
{
    const uint64_t want =
        Hash("allreduce,1024,1048576,ring,simple,0,1,8,-1,-1\n"
             "reduce,0,18446744073709551615,ring,ll,4,-1,2-inf\n");
    const char *same[] = {
        "allreduce,1K,1M,ring,simple,-1,1,8\n"
        "reduce,0,inf,ring,ll,4,-1,2-inf,-1\n",
        "# comment\n\n allreduce , 01024,1m,ring,\tsimple,0,1-1,8-8 # more\r\n"
        "reduce,0K,inf,ring,ll,4,1-inf,2-18446744073709551615",
        "\xEF\xBB\xBFprotocol,collective,algorithm,nRanks,maxbytes,minbytes,"
        "channels,nNodes,chunk_bytes,gpu,min_bytes_per_rank\n"
        "simple,allreduce,ring,8,1M,1K,-1,1,-1,*,0\n"
        "ll,reduce,ring,2-inf,inf,0,4,-1,0,*,0\n",
    };

    for (const char *csv : same)
        EXPECT_EQ(want, Hash(csv)) << csv;
}

TEST(PolicyHash, CoversThePromiseOfTheSameBits)
{
    const std::string rule = "allreduce,1024,1048576,ring,simple,0,1,8\n";
    const std::string line = "# bits: same\n";

    EXPECT_FALSE(stp_policy_same_bits(Parse(rule).get()));
    EXPECT_NE(Hash(rule), Hash(line + rule));
    for (const std::string &csv :
         {line + rule, rule + line, "# a\r\n# bits: same\r\n" + rule}) {
        EXPECT_TRUE(stp_policy_same_bits(Parse(csv).get())) << csv;
        EXPECT_EQ(Hash(line + rule), Hash(csv));
    }
    for (const char *other : {"#bits: any\n", " # bits: any\n",
                              "## bits: any\n", "# bits same\n"}) {
        EXPECT_FALSE(stp_policy_same_bits(Parse(other + rule).get())) << other;
        EXPECT_EQ(Hash(rule), Hash(other + rule));
    }
}

TEST(PolicyHash, DependsOnEveryField)
{
    const std::string header =
        "collective,algorithm,protocol,channels,min_bytes,max_bytes,"
        "min_bytes_per_rank,max_bytes_per_rank,nNodes,nRanks,numPipeOps,"
        "regBuff,chunk_bytes,gpu\n";
    const std::vector<std::string> base = {
        "allreduce", "ring", "ll",  "1", "2", "9",  "2",
        "9",         "3-4",  "3-4", "1", "0", "4K", "A"};
    const std::vector<std::vector<std::string>> others = {
        {"reduce"},
        {"tree"},
        {"ll128"},
        {"2", "0"},
        {"1", "3"},
        {"8", "10"},
        {"1", "3"},
        {"8", "10"},
        {"2-4", "3-5"},
        {"2-4", "3-5"},
        {"2", "-1", "2147483647"},
        {"1", "-1"},
        {"5K", "-1"},
        {"B", "*", "a", "AA", "BB", "AB", "BA"},
    };
    auto csv = [&](const std::vector<std::string> &fields) {
        std::string line;
        for (const std::string &field : fields)
            line += (line.empty() ? "" : ",") + field;
        return header + line + "\n";
    };
    std::vector<uint64_t> hashes = {Hash(csv(base))};

    for (size_t i = 0; i < others.size(); i++)
        for (const std::string &other : others[i]) {
            std::vector<std::string> changed = base;
            changed[i] = other;
            hashes.push_back(Hash(csv(changed)));
        }

    std::sort(hashes.begin(), hashes.end());
    EXPECT_EQ(hashes.end(), std::adjacent_find(hashes.begin(), hashes.end()));
    EXPECT_NE(0u, hashes.front());
}

TEST(PolicyHash, OfMemoryPoliciesDependsOnWhatOnlyTheyHave)
{
    std::set<uint64_t> hashes;

    for (const std::string memory : {"plain", "reg", "sym", "ce"})
        for (const std::string overlap : {"-1", "0", "1"})
            for (const std::string min_ctas : {"0", "1", "64"}) {
                const Policy policy =
                    Parse("collective,memory,overlap,min_ctas\nallreduce," +
                              memory + "," + overlap + "," + min_ctas,
                          STP_POLICY_OF_MEMORY);

                EXPECT_EQ(STP_POLICY_OF_MEMORY,
                          stp_policy_get_kind(policy.get()));
                hashes.insert(stp_policy_hash(policy.get()));
            }
    EXPECT_EQ(36u, hashes.size());
}

TEST(PolicyHash, DependsOnOrderAndNumberOfRules)
{
    const std::string a = "reduce,0,1,ring,ll,1,1,1\n";
    const std::string b = "reduce,0,1,ring,ll,2,1,1\n";

    std::set<uint64_t> of_three;

    for (const std::string &first : {a, b})
        for (const std::string &second : {a, b})
            for (const std::string &third : {a, b})
                of_three.insert(Hash(first + second + third));
    EXPECT_EQ(8u, of_three.size());
    EXPECT_NE(Hash(a), Hash(a + a));
    EXPECT_NE(Hash(""), Hash(a));
    EXPECT_NE(0u, Hash(""));
    EXPECT_EQ(Hash(""), Hash("# nothing\n"));
}

} // namespace
