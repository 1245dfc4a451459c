/*
 * learner_job.h - a job whose learner is told what happens, and followed
 */
#ifndef LEARNER_JOB_H
#define LEARNER_JOB_H

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <vector>

extern "C" {
#include "core/learn/learner.h"
}

#include "core/learn/bandit_job.h"

namespace learner_job
{

using bandit_job::Costs;

struct Close {
    void operator()(stp_learner *learner) const
    {
        stp_learner_close(learner);
    }
};

// A job whose ranks follow a proposal at once, and note its calls.
class Learner : public testing::Test
{
  protected:
    void Open(stp_learn_objective objective,
              stp_strategy strategy = STP_STRATEGY_HALVING, double epsilon = 0)
    {
        stp_learner_rules rules{};
        stp_learner *learner = nullptr;
        stp_error err{};

        rules.bandit = stp_bandit_rules_default(strategy);
        rules.bandit.epsilon = epsilon;
        rules.bandit.budget = budget_;
        rules.bandit.retest_calls = retest_calls_;
        rules.bandit.n_arms = 1;
        rules.bandit.arms[0] = {NCCL_ALGO_TREE, NCCL_PROTO_LL128, 0};
        rules.objective = objective;
        ASSERT_EQ(STP_OK,
                  stp_learner_open(
                      &rules,
                      [](void *self, const stp_learn_event *event) {
                          static_cast<Learner *>(self)->events_.push_back(
                              *event);
                      },
                      this, &learner, &err))
            << err.text;
        learner_.reset(learner);
    }

    void AddKey(unsigned key)
    {
        Costs costs;
        stp_cost_view view = costs.View();
        stp_learner_add_key(learner_.get(), key, &view, 0);
    }

    void Note(stp_note_kind kind, unsigned key, unsigned arm, uint64_t t_ns)
    {
        stp_note note{};
        note.kind = kind;
        note.key = static_cast<uint8_t>(key);
        note.arm = static_cast<uint8_t>(arm);
        note.t_ns = t_ns;
        stp_learner_note(learner_.get(), &note);
    }

    void Took(unsigned key, unsigned arm, double us)
    {
        stp_note note{};
        note.kind = STP_NOTE_TOOK;
        note.key = static_cast<uint8_t>(key);
        note.arm = static_cast<uint8_t>(arm);
        note.us = us;
        stp_learner_note(learner_.get(), &note);
    }

    // What is wanted next comes into force.
    void Follow()
    {
        stp_bandit_want want{};
        stp_bandit_arm arm{};

        if (!stp_learner_wants(learner_.get(), &want, &arm))
            return;
        wants_.push_back(want);
        arm_[want.key] = want.arm;
        left_[want.key] = want.n_calls;
        Note(STP_NOTE_BEGAN, want.key, want.arm, 0);
    }

    // The GPU is 'behind_' calls behind the host, and so is its clock.
    void Ran(unsigned key)
    {
        queue_.push_back({key, arm_[key], now_ns_});
        if (queue_.size() <= behind_)
            return;
        Note(STP_NOTE_RAN, queue_.front().key, queue_.front().arm,
             queue_.front().t_ns);
        queue_.pop_front();
    }

    // A call, with what runs on the GPU until the next.
    void Call(unsigned key, double us)
    {
        Note(STP_NOTE_CALL, key, 0, host_ ? host_(now_ns_) : now_ns_);
        Ran(key);
        now_ns_ += static_cast<uint64_t>(us * 1e3);
        if (left_[key] > 0 && --left_[key] == 0) {
            arm_[key] = 0; // all ranks go back by themselves
            Note(STP_NOTE_BEGAN, key, 0, 0);
        }
        if (follows_)
            Follow();
    }

    // Steps of 'keys', each of which takes 'us' by what is in force.
    using Time = std::function<double(unsigned key, unsigned arm)>;
    void Steps(size_t n, const std::vector<unsigned> &keys, const Time &time)
    {
        for (size_t s = 0; s < n; s++)
            for (unsigned key : keys) {
                const unsigned arm = arm_[key];
                const double us = time(key, arm);
                Call(key, us);
                if (gpu_)
                    Took(key, arm, gpu_(key, arm));
            }
    }

    size_t N(stp_learn_kind kind, int key = -2) const
    {
        size_t n = 0;
        for (const stp_learn_event &e : events_)
            n += e.kind == kind && (key == -2 || e.key == key);
        return n;
    }

    std::set<double> Values(stp_learn_kind kind, int key, unsigned arm) const
    {
        std::set<double> values;
        for (const stp_learn_event &e : events_)
            if (e.kind == kind && e.key == key && e.arm == arm)
                values.insert(e.value);
        return values;
    }

    std::unique_ptr<stp_learner, Close> learner_;
    std::vector<stp_learn_event> events_;
    std::vector<stp_bandit_want> wants_;
    double budget_ = 1;
    unsigned retest_calls_ = 0;
    unsigned arm_[STP_BANDIT_KEYS]{};
    unsigned left_[STP_BANDIT_KEYS]{};
    Time gpu_; // NULL: the GPU's times are not heard of
    bool follows_ = true;
    struct Run {
        unsigned key, arm;
        uint64_t t_ns;
    };
    std::deque<Run> queue_;
    size_t behind_ = 0;
    std::function<uint64_t(uint64_t)> host_; // the host's clock at the GPU's
    uint64_t now_ns_ = 1000000;
};

// The arm is a tenth faster, or as much slower.
inline double Faster(unsigned, unsigned arm)
{
    return arm == 0 ? 100 : 90;
}
inline double Slower(unsigned, unsigned arm)
{
    return arm == 0 ? 100 : 110;
}

} // namespace learner_job

#endif // LEARNER_JOB_H
