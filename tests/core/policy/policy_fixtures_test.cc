// The policy files in fixtures/: those that are refused, and what the others
// mean.
#include <algorithm>
#include <filesystem>

extern "C" {
#include "core/names.h"
#include "core/policy/memory_policy.h"
}

#include "support/policy_text.h"
#include "support/read_file.h"

using namespace policy_text;

namespace
{

std::vector<std::filesystem::path> Fixtures(const std::string &folder)
{
    std::vector<std::filesystem::path> paths;

    for (const auto &file : std::filesystem::directory_iterator(
             STP_FIXTURES "/policies/" + folder))
        if (file.path().extension() == ".csv")
            paths.push_back(file.path());
    std::sort(paths.begin(), paths.end());
    return paths;
}

// The first line of each file is "# expect LINE:COLUMN: TEXT".
void ExpectRefusals(const char *folder, stp_policy_kind kind, int least_files)
{
    int n_files = 0;

    for (const auto &path : Fixtures(folder)) {
        SCOPED_TRACE(path.filename().string());
        stp_policy *const untouched = reinterpret_cast<stp_policy *>(&n_files);
        stp_policy *policy = untouched;
        stp_error err{};
        const std::string text = ReadFile(path);

        EXPECT_EQ(STP_ERR_SYNTAX,
                  stp_policy_load(kind, path.c_str(), &policy, &err));

        EXPECT_EQ(untouched, policy) << "output must be untouched on failure";
        EXPECT_EQ(text.substr(0, text.find('\n')),
                  "# expect " + std::to_string(err.line) + ":" +
                      std::to_string(err.column) + ": " + err.text);
        n_files++;
    }
    EXPECT_GE(n_files, least_files) << "fixtures are missing";
}

TEST(BadPolicyFixtures, AreRefusedWithPlaceAndReason)
{
    ExpectRefusals("bad", STP_POLICY_OF_ARMS, 40);
}

TEST(BadMemoryPolicyFixtures, AreRefusedWithPlaceAndReason)
{
    ExpectRefusals("memory/bad", STP_POLICY_OF_MEMORY, 40);
}

TEST(BadStagePolicyFixtures, AreRefusedWithPlaceAndReason)
{
    ExpectRefusals("stage/bad", STP_POLICY_OF_STAGE, 6);
}

// Answers "COLL BYTES NODES RANKS PIPE_OPS REG_BUFF" as
// "ALGO/PROTO/CHANNELS@LINE", with " chunk BYTES" if one is set, or "none".
std::string Ask(const stp_policy *policy, const std::string &gpu,
                const std::string &question)
{
    static const float cost[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS] = {};
    const stp_cost_view view = {&cost[0][0], NCCL_NUM_ALGORITHMS,
                                NCCL_NUM_PROTOCOLS};
    std::istringstream in(question);
    std::string coll;
    stp_query query{};
    stp_shape shape{};
    stp_compiled *compiled = nullptr;
    stp_choice choice{};

    in >> coll >> query.n_bytes >> shape.n_nodes >> shape.n_ranks >>
        query.n_pipe_ops >> query.reg_buff;
    query.coll = stp_coll_from_name(coll.data(), coll.size());
    shape.gpu = gpu.empty() ? nullptr : gpu.c_str();
    if (in.fail() || query.coll < 0)
        return "cannot read the question";
    EXPECT_EQ(STP_OK, stp_policy_compile(policy, &shape, &compiled, nullptr));
    Compiled owner(compiled);

    if (!stp_compiled_lookup(compiled, &query, &view, &choice))
        return "none";
    std::ostringstream out;
    out << stp_algo_name(choice.algo) << "/" << stp_proto_name(choice.proto)
        << "/" << choice.n_channels << "@" << choice.line;
    if (choice.chunk_bytes != 0)
        out << " chunk " << choice.chunk_bytes;
    return out.str();
}

// Answers "COLL BYTES NODES RANKS OVERLAP", or in place of the last whether the
// call is captured, with OVERLAP behind it if they differ, as
// stp_memory_text() does.
std::string AskMemory(const stp_policy *policy, const std::string &gpu,
                      const std::string &question)
{
    std::istringstream in(question);
    stp_memory_query query{};
    std::string coll;

    in >> coll >> query.n_bytes >> query.n_nodes >> query.n_ranks >>
        query.overlaps;
    query.coll = stp_coll_from_name(coll.data(), coll.size());
    query.gpu = gpu.c_str();
    query.captured = query.overlaps;
    if (in.fail() || query.coll < 0)
        return "cannot read the question";
    in >> query.overlaps;
    const stp_rule *rule = stp_memory_policy_match(policy, &query);
    char text[STP_MEMORY_TEXT];
    return stp_memory_text(rule ? rule->memory : STP_MEMORY_PLAIN,
                           rule ? rule->min_ctas : 0, text);
}

// Comments say what a file means: "# rules N", "# gpu NAME" for the questions
// behind it, "# ask QUESTION -> ANSWER".  One without "# rules" has none.
void ExpectAnswers(const char *folder, stp_policy_kind kind,
                   decltype(Ask) *ask_policy, int least_files, int least_asked)
{
    int n_files = 0, n_asked = 0;

    for (const auto &path : Fixtures(folder)) {
        SCOPED_TRACE(path.filename().string());
        stp_policy *loaded = nullptr;
        stp_error err{};
        ASSERT_EQ(STP_OK, stp_policy_load(kind, path.c_str(), &loaded, &err))
            << err.text;
        Policy policy(loaded);
        std::ifstream in(path);
        std::string line, gpu;
        size_t n_rules = 0;

        while (std::getline(in, line)) {
            if (!line.empty() && line.back() == '\r')
                line.pop_back();
            const size_t rules = line.find("# rules "),
                         ask = line.find("# ask ");
            const size_t arrow = line.find(" -> ");

            if (rules != std::string::npos)
                n_rules = std::stoul(line.substr(rules + 8));
            if (line.rfind("# gpu ", 0) == 0)
                gpu = line.substr(6);
            if (ask == std::string::npos)
                continue;
            EXPECT_EQ(line.substr(arrow + 4),
                      ask_policy(policy.get(), gpu,
                                 line.substr(ask + 6, arrow - ask - 6)))
                << line;
            n_asked++;
        }
        EXPECT_EQ(n_rules, stp_policy_size(policy.get()));
        n_files++;
    }
    EXPECT_GE(n_files, least_files) << "fixtures are missing";
    EXPECT_GE(n_asked, least_asked);
}

TEST(GoodPolicyFixtures, MeanWhatTheirCommentsSay)
{
    ExpectAnswers("good", STP_POLICY_OF_ARMS, Ask, 18, 80);
}

TEST(GoodMemoryPolicyFixtures, MeanWhatTheirCommentsSay)
{
    ExpectAnswers("memory/good", STP_POLICY_OF_MEMORY, AskMemory, 12, 40);
}

TEST(GoodStagePolicyFixtures, MeanWhatTheirCommentsSay)
{
    ExpectAnswers("stage/good", STP_POLICY_OF_STAGE, AskMemory, 2, 12);
}

} // namespace
