// Memory policies of 2 x H200: as measured, derived and played again.
#include "support/cli_fixture.h"
#include "support/slow.h"

extern "C" {
#include "core/names.h"
#include "core/policy/memory_policy.h"
#include "nccl_tuner_abi.h"
}

namespace
{

using namespace cli;
using namespace testing;

// The lines that are rules.
std::vector<std::string> RuleLines(const std::string &text)
{
    std::vector<std::string> rules;

    for (const std::string &line : SplitLines(text))
        if (line.find("all") == 0 || line.find("reduce") == 0)
            rules.push_back(line);
    return rules;
}

// Asks a memory policy about the sizes of training steps in MiB: "allgather 1 4
// sym 32", where 1 is overlapped; answers of collectives alone lack CTAs.
std::vector<std::string> MemoryAnswers(const std::string &path)
{
    std::vector<std::string> answers;
    stp_policy *policy = nullptr;
    stp_error err{};

    EXPECT_EQ(STP_OK, stp_policy_load(STP_POLICY_OF_MEMORY, path.c_str(),
                                      &policy, &err))
        << err.text;
    for (int coll :
         {ncclFuncAllGather, ncclFuncReduceScatter, ncclFuncAllReduce})
        for (bool overlaps : {false, true})
            for (uint64_t mib = 2; mib <= 64; mib *= 2) {
                const stp_memory_query query{coll,     mib << 20,     2,    1,
                                             overlaps, "NVIDIA H200", false};
                const stp_rule *rule = stp_memory_policy_match(policy, &query);
                std::ostringstream answer;

                answer << stp_coll_name(coll) << " " << overlaps << " " << mib
                       << " " << stp_memory_name(rule ? rule->memory : 0);
                if (overlaps && rule != nullptr)
                    answer << " " << rule->min_ctas;
                answers.push_back(answer.str());
            }
    stp_policy_free(policy);
    return answers;
}

// By what tune measured on 2 x H200, and on the recording that was made of them
// just before, in all of the modes that tune measures.
TEST_F(Cli, MemoryRulesOfMeasuredAndOfRecordedGpus)
{
    STP_SLOW();
    const std::string h200 = STP_FIXTURES "/reports/h200x2/steptune.";
    const std::vector<std::string> tuned = MemoryAnswers(h200 + "conf.memory");

    ASSERT_EQ(0, Run("derive " + h200 + "sweep.csv " + h200 +
                     "iterations.csv --as memory -o live.memory")
                     .status);
    ASSERT_EQ(0, Run("tune --on h200x2 -d bfloat16 -o played").status);

    EXPECT_THAT(tuned, IsSupersetOf(
                           {"allgather 0 2 sym", "allgather 1 2 sym 0",
                            "allgather 1 4 sym 32", "reducescatter 1 64 sym 16",
                            "allreduce 0 2 sym", "allreduce 0 64 sym",
                            "allreduce 1 2 sym 16", "allreduce 1 32 sym 32"}));
    EXPECT_EQ(tuned, MemoryAnswers(dir_ / "live.memory"));
    EXPECT_EQ(tuned, MemoryAnswers(dir_ / "played.memory"));
    EXPECT_EQ(RuleLines(Read(h200 + "conf.overlap")),
              RuleLines(Read("played.overlap")));
    EXPECT_THAT(Read("played.iterations.csv"), Not(HasSubstr(",modelled,")));
}

} // namespace
