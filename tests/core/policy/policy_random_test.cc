// Compiled policies against the definition, for random ones, and at the limits.
#include <algorithm>
#include <random>
#include <tuple>

#include <gmock/gmock.h>

extern "C" {
#include "core/names.h"
}

#include "support/random_policies.h"
#include "support/slow.h"

using namespace policy_text;
using first_rule::InterestingSizes;
using first_rule::Queries;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace
{

// ---- limits ----

// Rule i begins at i bytes and all differ in numPipeOps, so that n of them need
// 1 + 2 + ... + n entries.
std::string Staircase(int n, const std::string &coll = "allreduce")
{
    std::string csv;

    for (int i = 0; i < n; i++)
        csv += coll + "," + std::to_string(i) + ",inf,ring,ll,1,1,8," +
               std::to_string(i + 1) + "\n";
    return csv;
}

TEST(PolicyCompile, TakesTwoToThe22EntriesAndRefusesMore)
{
    const stp_shape shape = {8, 1, nullptr};
    const std::string rules = Staircase(2895) + Staircase(67, "reduce") +
                              Staircase(10, "broadcast") +
                              Staircase(4, "allgather");
    Policy most = Parse(rules + "reducescatter,0,inf,ring,ll,1,1,8\n");
    Policy more = Parse(rules + "reducescatter,0,inf,ring,ll,1,1,8,1\n"
                                "reducescatter,0,inf,ring,ll,1,1,8,2\n");
    stp_compiled *untouched = reinterpret_cast<stp_compiled *>(&more);
    stp_compiled *refused = untouched;
    stp_error err{};

    Compiled compiled = Compile(most.get(), shape);
    stp_status status = stp_policy_compile(more.get(), &shape, &refused, &err);

    EXPECT_EQ(2000u, LineOf(compiled, {kAllReduce, 1999, 2000, 0}));
    EXPECT_EQ(0u, LineOf(compiled, {kAllReduce, 1998, 2000, 0}));
    EXPECT_EQ(STP_ERR_LIMIT, status);
    EXPECT_EQ(untouched, refused);
    EXPECT_THAT(err.text, HasSubstr("more than 4194304 entries"));
    EXPECT_EQ(0u, err.line);
    EXPECT_EQ(STP_ERR_LIMIT,
              stp_policy_compile(more.get(), &shape, &refused, nullptr));
}

// 1000 rules that can win everywhere, 3000 behind them that never can, and one
// more break: what counts is one entry in either range for each that can.
TEST(PolicyCompile, CountsNoRuleThatCanNeverWin)
{
    std::string csv;
    for (int i = 1; i <= 1000; i++)
        csv += "allreduce,0,inf,ring,ll,1,1,8," + std::to_string(i) + "\n";
    for (int i = 0; i < 3000; i++)
        csv += "allreduce," + std::to_string(10 * i) + "," +
               std::to_string(10 * i + 5) + ",ring,ll,2,1,8,1,0\n";
    csv += "allreduce,1G,inf,tree,ll,1,1,8\n";

    Both b(csv);

    ASSERT_TRUE(b.compiled);
    EXPECT_THAT(Breaks(b.compiled, kAllReduce), ElementsAre(1u << 30));
}

// 6,000 rules that can win everywhere, and behind them 12,000 that the first
// hides: where those begin and end is no range.
TEST(PolicyCompile, CountsNoEndThatChangesNothing)
{
    std::string csv;
    for (int i = 1; i <= 6000; i++)
        csv += "allreduce,0,inf,ring,ll,1,1,8," + std::to_string(i) + "\n";
    for (int i = 1; i <= 12000; i++)
        csv += "allreduce," + std::to_string(10 * i) + "," +
               std::to_string(10 * i + 5) + ",ring,ll,2,1,8,1\n";

    Both b(csv);

    ASSERT_TRUE(b.compiled);
    EXPECT_THAT(Breaks(b.compiled, kAllReduce), IsEmpty());
}

// 12,000 rules that each hide 12,000 others.
TEST(PolicyCompile, RefusesWhatWouldTakeForEver)
{
    STP_SLOW();
    const stp_shape shape = {8, 1, nullptr};
    std::string csv;
    for (int i = 0; i < 12000; i++)
        csv += "allreduce," + std::to_string(10 * i) + "," +
               std::to_string(10 * i + 9) + ",ring,ll,1,1,8\n";
    for (int i = 1; i <= 12000; i++)
        csv += "allreduce,0,119999,ring,ll,1,1,8," + std::to_string(i) + "\n";
    Policy policy = Parse(csv);
    stp_compiled *compiled = nullptr;

    EXPECT_EQ(STP_ERR_LIMIT,
              stp_policy_compile(policy.get(), &shape, &compiled, nullptr));
    EXPECT_EQ(nullptr, compiled);
}

TEST(MemoryPolicyMatch, IsNothingIfNoneOfManyRulesMatches)
{
    std::string csv = "collective,memory\n";
    for (int i = 0; i < 64; i++)
        csv += "reduce,sym\n";
    Policy policy = Parse(csv, STP_POLICY_OF_MEMORY);
    stp_memory_query query = {kAllReduce, 8 << 20, 8, 1, false, nullptr, false};

    EXPECT_EQ(nullptr, stp_memory_policy_match(policy.get(), &query));
    query.coll = ncclFuncReduce;
    EXPECT_EQ(stp_policy_rule(policy.get(), 0),
              stp_memory_policy_match(policy.get(), &query));
    query.n_ranks = 0;
    EXPECT_EQ(nullptr, stp_memory_policy_match(policy.get(), &query));
}

// ---- against the definition ----

std::tuple<int, int, int, int, int, int, int, int, int, uint32_t>
Words(const stp_rule &r)
{
    return {r.coll,       r.algo,     r.proto,   r.n_channels, r.memory,
            r.n_pipe_ops, r.reg_buff, r.overlap, r.graph,      r.chunk_bytes};
}

bool operator==(const stp_range &a, const stp_range &b)
{
    return a.min == b.min && a.max == b.max;
}

// Members that a policy of the kind lacks have their defaults.
bool SaysTheSame(stp_rule want, const stp_rule &got, stp_policy_kind kind)
{
    if (kind == STP_POLICY_OF_ARMS) {
        want.memory = got.memory;
    } else {
        want.algo = got.algo;
        want.proto = got.proto;
        want.n_channels = 0;
        want.bytes_per_rank = {0, UINT64_MAX};
        want.n_pipe_ops = want.reg_buff = -1;
        want.chunk_bytes = 0;
    }
    if (kind != STP_POLICY_OF_MEMORY)
        want.overlap = -1;
    if (kind != STP_POLICY_OF_STAGE)
        want.graph = -1;
    return Words(want) == Words(got) && want.bytes == got.bytes &&
           want.bytes_per_rank == got.bytes_per_rank &&
           want.nodes == got.nodes && want.ranks == got.ranks &&
           std::string(want.gpu ? want.gpu : "*") == (got.gpu ? got.gpu : "*");
}

TEST(PolicyParse, GivesTheRulesThatWerePrinted)
{
    for (stp_policy_kind kind :
         {STP_POLICY_OF_ARMS, STP_POLICY_OF_MEMORY, STP_POLICY_OF_STAGE})
        EXPECT_TRUE(Holds("of printed rules", [kind] {
            const RandomPolicy random = *AnyPolicy(kind);
            Policy policy = Parse(random.Csv(), kind);
            RC_ASSERT(bool(policy));

            RC_ASSERT(random.rules.size() == stp_policy_size(policy.get()));
            for (size_t i = 0; i < random.rules.size(); i++)
                RC_ASSERT(SaysTheSame(random.rules[i],
                                      *stp_policy_rule(policy.get(), i), kind));
        }));
}

TEST(CompiledLookup, EqualsTheDefinitionForRandomPolicies)
{
    EXPECT_TRUE(Holds("lookup", [] {
        Policy policy = Parse((*AnyPolicy(STP_POLICY_OF_ARMS)).Csv());
        const stp_shape shape = AnyShape();
        const Costs costs = AnyCosts();
        const int coll = *rc::gen::element(kAllReduce, kAllReduce, 0, 1, 2, 3);
        const stp_cost_view view = costs.View();
        RC_ASSERT(bool(policy));
        Compiled compiled = Compile(policy.get(), shape);

        for (uint64_t n_bytes : InterestingSizes(policy.get(), shape.n_ranks))
            for (const stp_query &query : Queries(coll, n_bytes)) {
                const stp_rule *want =
                    first_rule::Find(policy.get(), shape, query, view);
                stp_choice got{};

                bool found =
                    stp_compiled_lookup(compiled.get(), &query, &view, &got);

                RC_ASSERT((want ? want->line : 0) == got.line);
                RC_ASSERT((want != nullptr) == found);
                if (want == nullptr)
                    continue;
                RC_ASSERT(std::make_tuple(want->algo, want->proto,
                                          want->n_channels,
                                          want->chunk_bytes) ==
                          std::make_tuple(got.algo, got.proto, got.n_channels,
                                          got.chunk_bytes));
            }
    }));
}

TEST(MemoryPolicyMatch, IsTheFirstRuleOfRandomPolicies)
{
    EXPECT_TRUE(Holds("match", [] {
        const stp_policy_kind kind =
            *rc::gen::element(STP_POLICY_OF_MEMORY, STP_POLICY_OF_STAGE);
        Policy policy = Parse((*AnyPolicy(kind)).Csv(), kind);
        const stp_shape shape = AnyShape();
        const bool is_so = *rc::gen::arbitrary<bool>();
        RC_ASSERT(bool(policy));

        for (uint64_t n_bytes : InterestingSizes(policy.get(), 1)) {
            const stp_memory_query query = {
                kAllReduce, n_bytes,   shape.n_ranks, shape.n_nodes,
                is_so,      shape.gpu, is_so};
            const stp_rule *want = first_rule::Find(policy.get(), query);

            RC_ASSERT((want == stp_memory_policy_match(policy.get(), &query)));
        }
    }));
}

TEST(CompiledLookup, EqualsTheDefinitionForManyRules)
{
    for (uint64_t seed = 0; seed < 3; seed++) {
        SCOPED_TRACE(seed);
        std::mt19937_64 rng(seed);
        std::string csv;
        for (int i = 0; i < 3000; i++) {
            uint64_t a = rng() >> (seed == 0 ? 40 : rng() % 64);
            uint64_t b = seed == 2 ? a + rng() % 100 : rng() >> rng() % 64;
            csv += std::string("allreduce,") + std::to_string(std::min(a, b)) +
                   "," + std::to_string(std::max(a, b)) +
                   (rng() % 2 ? ",ring,ll,1,1,8\n" : ",tree,simple,2,1,8\n");
        }
        Both b(csv);
        const stp_shape shape = {8, 1, nullptr};
        const Costs costs;
        const stp_cost_view view = costs.View();

        for (int i = 0; i < 3000; i++) {
            const stp_rule *rule = stp_policy_rule(b.policy.get(), (size_t)i);
            for (uint64_t n : {rule->bytes.min - 1, rule->bytes.min,
                               rule->bytes.max, rule->bytes.max + 1}) {
                const stp_query query = {kAllReduce, n, 1, 0};
                const stp_rule *want =
                    first_rule::Find(b.policy.get(), shape, query, view);

                ASSERT_EQ(want ? want->line : 0, LineOf(b.compiled, query))
                    << n;
            }
        }
    }
}

// Returns the rules that answer all queries of a size; equal lists mean that no
// decision changes.
std::vector<const stp_rule *> Answers(const stp_policy *policy,
                                      const stp_shape &shape, int coll,
                                      uint64_t n_bytes)
{
    std::vector<const stp_rule *> answers;
    const Costs costs;

    for (const stp_query &query : Queries(coll, n_bytes))
        answers.push_back(first_rule::Find(policy, shape, query, costs.View()));
    return answers;
}

TEST(CompiledNextBreak, VisitsEveryChangeOfRandomPolicies)
{
    EXPECT_TRUE(Holds("breaks", [] {
        Policy policy = Parse((*AnyPolicy(STP_POLICY_OF_ARMS)).Csv());
        const stp_shape shape = AnyShape();
        RC_ASSERT(bool(policy));
        Compiled compiled = Compile(policy.get(), shape);
        const std::vector<uint64_t> breaks = Breaks(compiled, kAllReduce);

        RC_ASSERT(std::is_sorted(breaks.begin(), breaks.end()));
        for (uint64_t n : InterestingSizes(policy.get(), shape.n_ranks))
            RC_ASSERT(n == 0 || n == UINT64_MAX ||
                      Answers(policy.get(), shape, kAllReduce, n) ==
                          Answers(policy.get(), shape, kAllReduce, n - 1) ||
                      std::binary_search(breaks.begin(), breaks.end(), n));
    }));
}

} // namespace
