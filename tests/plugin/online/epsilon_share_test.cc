// How many calls epsilon-greedy explores with: 8 ranks with the agreement of a
// host, in virtual time.
#include <unistd.h>

extern "C" {
#include "agree/agreement.h"
#include "plugin/online/follower.h"
#include "plugin/online/service.h"
}

#include "core/learn/bandit_job.h"
#include "support/slow.h"

namespace
{

constexpr unsigned kRanks = 8, kApart = 1;

struct Job {
    explicit Job(uint64_t seed)
    {
        rules_.bandit = stp_bandit_rules_default(STP_STRATEGY_EPSILON);
        rules_.objective = STP_LEARN_FILE;
        rules_.bandit.seed = seed;
        stp_comm_info info{};
        info.comm_id = uint64_t(getpid()) << 8 | 1;
        info.shape = {kRanks, 1, nullptr};
        for (unsigned r = 0; r < kRanks; r++) {
            stp_agreement_rank rank{};
            rank.comm_id = info.comm_id;
            rank.n_ranks = rank.n_needed = kRanks;
            rank.number = -1;
            rank.proposes = true;
            EXPECT_EQ(STP_OK,
                      stp_agreement_join(&rank, &agreements_[r], nullptr));
            EXPECT_EQ(STP_OK, stp_follower_open(&info, nullptr, false, &rules_,
                                                nullptr, &ranks_[r], nullptr));
            stp_follower_join(ranks_[r], agreements_[r], false, &rules_);
            if (ranks_[r]->observer != nullptr)
                observer_ = ranks_[r]->observer;
        }
        EXPECT_EQ(STP_OK,
                  stp_observer_begin(observer_, nullptr, nullptr, nullptr));
    }

    ~Job()
    {
        for (unsigned r = 0; r < kRanks; r++) {
            stp_follower_close(ranks_[r]);
            stp_agreement_leave(agreements_[r]);
        }
    }

    // The share of calls of the last third that were not with the best arm.
    double Play(double call_us, uint64_t n_calls)
    {
        const bandit_job::Costs costs;
        const stp_cost_view view = costs.View();
        const stp_query query{ncclFuncAllReduce, 1 << 20, 1, 0};
        double now_us = 0, poll_us = 0;
        uint64_t n_others = 0;
        stp_choice choices[64] = {}; // of the last calls, by the rank ahead

        // The others follow it, each a call behind the next.
        for (uint64_t step = 0; step < n_calls; step++) {
            stp_choice choice{};
            for (unsigned r = kRanks; r-- > 0;) {
                const uint64_t call = step - kApart * (kRanks - 1 - r);
                if (call > step)
                    break;
                choice = {};
                choice.algo = -1;
                stp_follower_choose(ranks_[r], &query, &view, &choice);
                stp_choice *first = &choices[call % 64];
                if (r == kRanks - 1)
                    *first = choice;
                if (choice.algo != first->algo || choice.proto != first->proto)
                    ADD_FAILURE() << "ranks disagree at call " << call;
            }
            const bool is_best = choice.algo == NCCL_ALGO_TREE &&
                                 choice.proto == NCCL_PROTO_LL128;
            const double us = call_us * (is_best ? 1 : 2);
            n_others += !is_best && step >= n_calls / 3 * 2;
            for (now_us += us; poll_us < now_us;
                 poll_us += 1e3 * STP_SERVICE_MS) {
                const stp_reward reward{ncclFuncAllReduce, 1 << 20, 1, kRanks,
                                        us / 1e3};
                stp_observer_run_pass(observer_);
                stp_observer_reward(observer_, &reward);
            }
        }
        return 3.0 * double(n_others) / double(n_calls);
    }

    stp_learner_rules rules_{};
    stp_agreement *agreements_[kRanks] = {};
    stp_follower *ranks_[kRanks] = {};
    stp_observer *observer_ = nullptr;
};

TEST(EpsilonShare, IsThatOfDrawsHoweverLongACallTakes)
{
    STP_SLOW();
    const struct {
        double call_us; // with the best arm, and twice as long with others
        uint64_t n_calls;
        unsigned n_seeds; // from 1 on: one seed has too few draws to tell
    } cases[] = {{10, 450000, 12},
                 {1e3, 60000, 12},
                 {2e4, 30000, 12},
                 {1e5, 30000, 12},
                 {1e6, 9000, 12}};

    for (const auto &c : cases) {
        double share = 0;
        for (unsigned seed = 1; seed <= c.n_seeds; seed++)
            share += Job(seed).Play(c.call_us, c.n_calls) / c.n_seeds;
        printf("%g us: %.2f percent\n", c.call_us, 100 * share);
        EXPECT_NEAR(0.075, share, 0.0075) << c.call_us;
    }
}

} // namespace
