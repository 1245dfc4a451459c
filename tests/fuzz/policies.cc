// Policies of arms and of memory, and learned policies.
#include "fuzz/fuzz.h"

#include <cstdlib>

extern "C" {
#include "analyse/check/check.h"
#include "core/policy/memory_policy.h"
#include "plugin/online/learned_file.h"
#include "report/policy_file.h"
}

#include "core/policy/first_rule.h"

namespace fuzz
{

namespace
{

constexpr int kCollectives = ncclFuncAllReduce + 1;
const stp_shape kShapes[] = {
    {8, 1, nullptr}, {2, 2, "NVIDIA H200"}, {1000, 125, "A"}};

std::string AskCompiled(const stp_policy *policy, const stp_shape &shape)
{
    std::vector<float> costs(NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS, 1.0f);
    costs[NCCL_ALGO_RING * NCCL_NUM_PROTOCOLS + NCCL_PROTO_LL] = -1.0f;
    const stp_cost_view view = {costs.data(), NCCL_NUM_ALGORITHMS,
                                NCCL_NUM_PROTOCOLS};
    stp_compiled *compiled;
    stp_error err{};
    std::string fault;

    if (stp_policy_compile(policy, &shape, &compiled, &err) != STP_OK)
        return FaultOf(err);
    for (uint64_t n : first_rule::InterestingSizes(policy, shape.n_ranks))
        for (int coll = 0; coll < kCollectives; coll++)
            for (const stp_query &query : first_rule::Queries(coll, n)) {
                const stp_rule *want =
                    first_rule::Find(policy, shape, query, view);
                stp_choice got{};
                stp_compiled_lookup(compiled, &query, &view, &got);
                if (got.line != (want != nullptr ? want->line : 0))
                    fault = "another rule than the first for " +
                            std::to_string(n) + " bytes";
            }
    stp_compiled_free(compiled);
    return fault;
}

// Applies check's fixes, which must leave a policy that can be read.
std::string Mend(std::string_view bytes, stp_policy_kind kind)
{
    const stp_check_options options = {bytes.data(), bytes.size(), kind};
    stp_findings findings{};
    stp_error err{};
    stp_policy *policy;
    size_t len;

    if (stp_check(&options, &findings, &err) != STP_OK)
        return FaultOf(err);
    char *text = stp_check_fix(bytes.data(), bytes.size(), &findings, &len);
    const stp_status status = stp_policy_parse(kind, text, len, &policy, &err);
    if (status == STP_OK)
        stp_policy_free(policy);
    free(text);
    stp_findings_free(&findings);
    return status == STP_OK ? "" : std::string("mended: ") + err.text;
}

} // namespace

std::string Policy(std::string_view bytes)
{
    stp_policy *policy;
    stp_policy_mark mark;
    stp_error err{};
    std::string fault;

    stp_policy_mark_read(bytes.data(), bytes.size(), &mark);
    if (stp_policy_parse(STP_POLICY_OF_ARMS, bytes.data(), bytes.size(),
                         &policy, &err) != STP_OK)
        return FaultOf(err);
    for (const stp_shape &shape : kShapes)
        if (fault.empty())
            fault = AskCompiled(policy, shape);
    stp_policy_free(policy);
    return fault.empty() ? Mend(bytes, STP_POLICY_OF_ARMS) : fault;
}

static std::string SetupPolicy(std::string_view bytes, stp_policy_kind kind)
{
    stp_policy *policy;
    stp_error err{};
    std::string fault;

    if (stp_policy_parse(kind, bytes.data(), bytes.size(), &policy, &err) !=
        STP_OK)
        return FaultOf(err);
    for (const stp_shape &shape : kShapes)
        for (uint64_t n : first_rule::InterestingSizes(policy, 1))
            for (int i = 0; i < 4 * kCollectives; i++) {
                const stp_memory_query query = {
                    i / 4,      n,         shape.n_ranks, shape.n_nodes,
                    i % 2 == 1, shape.gpu, i / 2 % 2 == 1};
                if (stp_memory_policy_match(policy, &query) !=
                    first_rule::Find(policy, query))
                    fault = "another rule than the first";
            }
    stp_policy_free(policy);
    return fault.empty() ? Mend(bytes, kind) : fault;
}

std::string MemoryPolicy(std::string_view bytes)
{
    return SetupPolicy(bytes, STP_POLICY_OF_MEMORY);
}

std::string StagePolicy(std::string_view bytes)
{
    return SetupPolicy(bytes, STP_POLICY_OF_STAGE);
}

// Whatever of 'before' the job has not learned anew is in force in 'after'.
static std::string FaultOfRules(const stp_policy *before,
                                const stp_policy *after,
                                const stp_learned &rule, const stp_shape &of)
{
    static const std::vector<float> costs(
        NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS, 1.0f);
    const stp_cost_view all = {costs.data(), NCCL_NUM_ALGORITHMS,
                               NCCL_NUM_PROTOCOLS};

    for (const stp_shape &shape : kShapes)
        for (uint64_t n : first_rule::InterestingSizes(before, shape.n_ranks))
            for (int coll = 0; coll < kCollectives; coll++)
                for (const stp_query &query : first_rule::Queries(coll, n)) {
                    const stp_rule *a =
                        first_rule::Find(before, shape, query, all);
                    const stp_rule *b =
                        first_rule::Find(after, shape, query, all);
                    if (&shape == &of && coll == rule.coll &&
                        n >= rule.bytes.min && n <= rule.bytes.max)
                        continue;
                    if ((a == nullptr) != (b == nullptr) ||
                        (a != nullptr &&
                         (a->algo != b->algo || a->proto != b->proto ||
                          a->n_channels != b->n_channels)))
                        return "another rule than before for " +
                               std::to_string(n) + " bytes";
                }
    return "";
}

// A learned policy to which a job adds, after another file was put there.
std::string LearnedPolicy(std::string_view bytes)
{
    const stp_learned rule = {ncclFuncAllReduce,
                              {4096, 8191},
                              {NCCL_ALGO_RING, NCCL_PROTO_LL, 4},
                              1.25,
                              1.2,
                              1.3,
                              40};
    const stp_learned_rules learned = {&rule, 1, false};
    const std::string path = WriteFile("learned.conf", bytes);
    stp_policy *before = nullptr;
    stp_policy *after = nullptr;
    stp_error err{};
    std::string fault;

    stp_policy_load(STP_POLICY_OF_ARMS, path.c_str(), &before, nullptr);
    if (stp_learned_save(path.c_str(), &learned, &kShapes[1], &err) != STP_OK)
        fault = FaultOf(err);
    else if (before != nullptr &&
             stp_policy_load(STP_POLICY_OF_ARMS, path.c_str(), &after, &err) !=
                 STP_OK)
        fault = std::string("a policy became none: ") + err.text;
    else if (before != nullptr)
        fault = FaultOfRules(before, after, rule, kShapes[1]);
    stp_policy_free(before);
    stp_policy_free(after);
    return fault;
}

} // namespace fuzz
