// Check's findings in policies, and the text that its fixes leave.
#include <cstdlib>

#include <gmock/gmock.h>

#include "support/blocks.h"

extern "C" {
#include "analyse/check/check.h"
}

using testing::ElementsAreArray;

namespace
{

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
    text = stp_check_fix(csv.data(), csv.size(), &findings, &len);
    result.fixed.assign(text, len);
    free(text);
    stp_findings_free(&findings);
    return result;
}

TEST(Check, FindsWhatThePoliciesOfFixturesHave)
{
    const std::pair<stp_policy_kind, const char *> files[] = {
        {STP_POLICY_OF_ARMS, "arms.txt"},
        {STP_POLICY_OF_MEMORY, "memory.txt"},
        {STP_POLICY_OF_STAGE, "stage.txt"}};

    for (const auto &[kind, file] : files)
        for (const Block &c : ReadBlocks(
                 std::string(STP_FIXTURES "/policies/checked/") + file)) {
            SCOPED_TRACE(c.head);
            EXPECT_THAT(Check(c.text, kind).found,
                        ElementsAreArray(c.expected));
        }
}

TEST(Check, FindsNothingInWhatIsFine)
{
    for (const char *csv :
         {"", "# a\n\n#b", // a byte order mark, blanks, no last newline:
          "\xEF\xBB\xBF allreduce,0,9,ring,ll,-1,-1,-1 \t\r\n\r\n"
          "allreduce , 10, inf, ring, simple, -1, -1, -1 # end"})
        EXPECT_THAT(Check(csv).found, testing::IsEmpty()) << csv;
    EXPECT_THAT(Check("", STP_POLICY_OF_MEMORY).found, testing::IsEmpty());
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

// ---- fixes ----

TEST(CheckFix, ChangesOnlyWhatItMust)
{
    const struct {
        const char *name, *csv, *fixed;
    } cases[] = {
        // clang-format off
        {"nothing", "# a\r\n\r\nallreduce,0,inf,ring,ll,-1,-1,-1",
         "# a\r\n\r\nallreduce,0,inf,ring,ll,-1,-1,-1"},
        {"a dead rule between comments",
         "# one\nallreduce,0,9,ring,ll,1,-1,-1\n# two\nallreduce,0,9,ring,ll,2,-1,-1\n# three\n",
         "# one\nallreduce,0,9,ring,ll,1,-1,-1\n# two\n# three\n"},
        {"a dead rule's own comment, and Windows ends", "\xEF\xBB\xBF"
         "allreduce,0,9,ring,ll,1,-1,-1\r\nallreduce,0,9,ring,ll,2,-1,-1  # mine\r\n", "\xEF\xBB\xBF"
         "allreduce,0,9,ring,ll,1,-1,-1\r\n# mine\r\n"},
        {"an end between blanks", " allreduce, 0, 4294967295 ,tree,simple, 24\t, -1,-1 # a lot",
         " allreduce, 0, inf ,tree,simple, 24\t, -1,-1 # a lot"},
        {"columns by name",
         "channels,collective,max_bytes,protocol,algorithm\n24,allreduce,4294967295,ll,tree\n",
         "channels,collective,max_bytes,protocol,algorithm\n24,allreduce,inf,ll,tree\n"},
        {"an end above which another rule decides",
         "allreduce,0,4294967295,ring,ll,-1,-1,-1\nallreduce,8G,inf,ring,simple,-1,-1,-1\n",
         "allreduce,0,4294967295,ring,ll,-1,-1,-1\nallreduce,8G,inf,ring,simple,-1,-1,-1\n"},
        {"an end that is another number", "allreduce,0,4G,ring,ll,1,-1,-1\n",
         "allreduce,0,4G,ring,ll,1,-1,-1\n"},
        {"pairs that no NCCL has",
         "reduce,0,4294967295,tree,simple,-1,-1,-1\nreduce,0,8,ring,simple,-1,-1,-1\n",
         "reduce,0,8,ring,simple,-1,-1,-1\n"},
        // clang-format on
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        EXPECT_EQ(c.fixed, Check(c.csv).fixed);
    }
}

} // namespace
