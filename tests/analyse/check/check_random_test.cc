// Check's findings and fixes for random policies, against their definition.
#include <random>
#include <tuple>

#include <gmock/gmock.h>

extern "C" {
#include "analyse/check/check.h"
}

#include "support/random_policies.h"
#include "support/slow.h"

using namespace policy_text;
using first_rule::In;
using first_rule::InterestingSizes;
using first_rule::Queries;

namespace
{

constexpr uint64_t kEnd = 4294967295;

stp_findings Check(const std::string &csv)
{
    const stp_check_options options = {csv.data(), csv.size(),
                                       STP_POLICY_OF_ARMS};
    stp_findings findings{};
    stp_error err{};

    EXPECT_EQ(STP_OK, stp_check(&options, &findings, &err)) << err.text;
    return findings;
}

std::string Fix(const std::string &csv)
{
    stp_findings findings = Check(csv);
    size_t len = 0;
    char *text = stp_check_fix(csv.data(), csv.size(), &findings, &len);
    std::string fixed(text, len);
    free(text);
    stp_findings_free(&findings);
    return fixed;
}

size_t CountFixes(const std::string &csv, stp_fix fix)
{
    stp_findings findings = Check(csv);
    size_t n = 0;

    for (size_t i = 0; i < findings.n; i++)
        n += findings.at[i].fix == fix;
    stp_findings_free(&findings);
    return n;
}

using Answer = std::tuple<bool, int, int, int, uint32_t>;

Answer Ask(const Compiled &compiled, const stp_query &query, const Costs &costs)
{
    stp_choice c{};
    stp_cost_view view = costs.View();
    bool found = stp_compiled_lookup(compiled.get(), &query, &view, &c);

    return {found, c.algo, c.proto, c.n_channels, c.chunk_bytes};
}

// Above 4 GiB a mended end may decide what no rule decided, whatever NCCL
// rules out.
bool IsUndecided(const stp_policy *policy, const stp_shape &shape,
                 const stp_query &query)
{
    Compiled compiled = Compile(policy, shape);

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            Costs costs;
            costs.cost.assign(64, -1.0f);
            costs.Set(a, p, 1);
            if (LineOf(compiled, query, costs) != 0)
                return false;
        }
    return true;
}

// Many rules end at 4 GiB.
rc::Gen<RandomPolicy> AnyPolicyOfEnds()
{
    return AnyPolicy(STP_POLICY_OF_ARMS, {kEnd, kEnd, kEnd, kEnd, kEnd, kEnd});
}

TEST(CheckFix, DecidesAsTheOriginalForRandomPolicies)
{
    size_t n_dropped = 0, n_ends = 0, n_above = 0;

    EXPECT_TRUE(Holds("fixed policies", [&] {
        const std::string csv = (*AnyPolicyOfEnds()).Csv(), fixed = Fix(csv);
        Policy old_policy = Parse(csv), new_policy = Parse(fixed);
        const stp_shape shape = AnyShape();
        const Costs costs = AnyCosts();
        const int coll = *rc::gen::element(kAllReduce, kAllReduce, 0, 1, 2, 3);
        RC_ASSERT(bool(old_policy));
        RC_ASSERT(bool(new_policy));
        Compiled was = Compile(old_policy.get(), shape),
                 is = Compile(new_policy.get(), shape);

        n_dropped += CountFixes(csv, STP_FIX_DROP);
        n_ends += CountFixes(csv, STP_FIX_END);
        for (uint64_t n_bytes :
             InterestingSizes(old_policy.get(), shape.n_ranks))
            for (const stp_query &query : Queries(coll, n_bytes)) {
                if (Ask(was, query, costs) == Ask(is, query, costs))
                    continue;
                RC_ASSERT(n_bytes > kEnd);
                RC_ASSERT(IsUndecided(old_policy.get(), shape, query));
                n_above++;
            }
    }));
    // it is no test of nothing
    EXPECT_GT(n_dropped, 300u);
    EXPECT_GT(n_ends, 20u);
    EXPECT_GT(n_above, 20u);
}

TEST(CheckFix, LeavesNothingForASecondFix)
{
    STP_SLOW();
    EXPECT_TRUE(Holds("fixed policies", [] {
        const std::string fixed = Fix((*AnyPolicyOfEnds()).Csv());

        RC_ASSERT(fixed == Fix(fixed));
        RC_ASSERT(CountFixes(fixed, STP_FIX_DROP) == 0u);
        RC_ASSERT(CountFixes(fixed, STP_FIX_END) == 0u);
    }));
}

// ---- dead rules, by all that can be asked ----

// Up to 6 rules, so small that all that tells them apart can be asked.
class Small
{
  public:
    explicit Small(uint64_t seed) : rng_(seed)
    {
    }

    std::string Csv()
    {
        std::string csv = "collective,algorithm,protocol,min_bytes,max_bytes,"
                          "min_bytes_per_rank,max_bytes_per_rank,nRanks,"
                          "regBuff\n";
        for (int n = 2 + Below(5); n > 0; n--)
            csv += "allreduce,ring," +
                   std::string(Below(3) ? "ll," : "simple,") + Range(9) + "," +
                   Range(4) + "," +
                   Pick({"-1", "-1", "1", "2", "1-2", "2-inf", "3-inf"}) + "," +
                   Pick({"-1", "-1", "0", "1"}) + "\n";
        return csv;
    }

  private:
    std::mt19937_64 rng_;

    int Below(int n)
    {
        return (int)(rng_() % (uint64_t)n);
    }
    std::string Pick(const std::vector<std::string> &words)
    {
        return words[(size_t)Below((int)words.size())];
    }
    std::string Range(int n)
    {
        int a = Below(3) ? 0 : Below(n), b = Below(n);
        if (a > b)
            std::swap(a, b);
        return std::to_string(a) + "," + (Below(3) ? "inf" : std::to_string(b));
    }
};

// The lines that are the first of their pair for some question.
std::set<unsigned> Reached(const stp_policy *policy)
{
    std::set<unsigned> lines;

    for (uint64_t ranks = 1; ranks <= 12; ranks++)
        for (uint64_t bytes = 0; bytes <= 60; bytes++)
            for (int reg = 0; reg <= 1; reg++) {
                bool taken[NCCL_NUM_PROTOCOLS] = {};
                for (size_t i = 0; i < stp_policy_size(policy); i++) {
                    const stp_rule *r = stp_policy_rule(policy, i);
                    if (taken[r->proto] || !In(r->bytes, bytes) ||
                        !In(r->bytes_per_rank, bytes / ranks) ||
                        !In(r->ranks, ranks) ||
                        (r->reg_buff != -1 && r->reg_buff != reg))
                        continue;
                    taken[r->proto] = true;
                    lines.insert(r->line);
                }
            }
    return lines;
}

TEST(Check, CallsDeadOnlyWhatNothingReaches)
{
    size_t n_dead = 0;

    for (uint64_t seed = 0; seed < 1500; seed++) {
        SCOPED_TRACE(seed);
        const std::string csv = Small(seed).Csv();
        Policy policy = Parse(csv);
        const std::set<unsigned> reached = Reached(policy.get());
        stp_findings findings = Check(csv);

        for (size_t i = 0; i < findings.n; i++) {
            const stp_finding &f = findings.at[i];
            if (f.kind != STP_CHECK_DEAD)
                continue;
            n_dead++;
            EXPECT_EQ(0u, reached.count(f.line)) << "line " << f.line << " of\n"
                                                 << csv;
        }
        stp_findings_free(&findings);
    }
    EXPECT_GT(n_dead, 500u);
}

} // namespace
