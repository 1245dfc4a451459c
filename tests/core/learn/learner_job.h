// A job that learns while it runs, its host ahead of its GPU.
#pragma once

#include <deque>

extern "C" {
#include "core/learn/learner.h"
}

#include "core/learn/bandit_job.h"
#include "core/learn/learner_notes.h"
#include "core/learn/noise.h"

namespace learner_job
{

using bandit_job::Arm;
using bandit_job::Costs;
using bandit_job::kOwn;
using bandit_job::kTreeLl128;

struct Close {
    void operator()(stp_learner *learner) const
    {
        stp_learner_close(learner);
    }
    void operator()(stp_history *history) const
    {
        stp_history_free(history);
    }
};

// GPU time of a call of a key with an arm, with the compute before the next
// call, in us.
using CallUs = std::function<double(unsigned key, const Arm &arm)>;

inline CallUs Saves(double us)
{
    return [us](unsigned, const Arm &arm) {
        return arm == kTreeLl128 ? 100 - us : arm == kOwn ? 100. : 102.;
    };
}

class HearsLearner : public testing::Test
{
  protected:
    std::vector<stp_learn_event> Events(stp_learn_kind kind) const
    {
        std::vector<stp_learn_event> some;

        for (const stp_learn_event &event : events_)
            if (event.kind == kind)
                some.push_back(event);
        return some;
    }

    std::vector<stp_learn_event> events_;
};

// One rank, that takes proposals as all ranks do: at every fourth call, but
// for trials.
class Job : public HearsLearner
{
  protected:
    void Open(stp_learn_objective objective = STP_LEARN_GPU, double budget = 1)
    {
        stp_learner_rules rules{};
        stp_learner *learner = nullptr;
        stp_error err{};

        rules.bandit = stp_bandit_rules_default(objective == STP_LEARN_FILE
                                                    ? STP_STRATEGY_EPSILON
                                                    : STP_STRATEGY_HALVING);
        rules.bandit.epsilon = 0;
        rules.bandit.budget = budget;
        rules.bandit.confirm_us = confirm_us_;
        rules.bandit.persists = persists_;
        rules.objective = objective;
        history_.reset(stp_history_new());
        ASSERT_EQ(STP_OK,
                  stp_learner_open(
                      &rules, history_.get(),
                      [](void *self, const stp_learn_event *event) {
                          static_cast<Job *>(self)->events_.push_back(*event);
                      },
                      this, &learner, &err))
            << err.text;
        learner_.reset(learner);
    }

    void Note(stp_note_kind kind, unsigned key, unsigned arm, uint64_t call,
              uint32_t n_calls = 0, uint8_t rest = 0, uint64_t t_ns = 0)
    {
        const stp_note note =
            learner_notes::Make(kind, key, arm, call, n_calls, rest, t_ns);

        stp_learner_note(learner_.get(), &note);
    }

    // ---- the rank ----

    void TakeProposal()
    {
        const stp_proposal &p = proposal_;

        has_proposal_ = false;
        if (p.kind == STP_PROPOSE_WINDOW) {
            window_ = p.n_calls;
            Note(STP_NOTE_WINDOW, 0, 0, n_calls_, window_);
        } else if (p.kind == STP_PROPOSE_TRIAL) {
            n_trials_++;
            BeginTrial({{p.key, p.index}});
        } else if (p.kind == STP_PROPOSE_ROUND) {
            n_trials_ += p.n_mates;
            std::vector<std::pair<unsigned, unsigned>> mates;
            for (unsigned i = 0; i < p.n_mates; i++)
                mates.push_back({p.mates[i].key, p.mates[i].index});
            BeginTrial(mates);
        } else if (p.kind == STP_PROPOSE_CONFIRM) {
            BeginTrial({{STP_BANDIT_SET, 0}});
        } else {
            in_force_[p.key] = p.index;
            epoch_ = p.is_settled ? STP_EPOCH_SETTLED : STP_EPOCH_HALVING;
            Note(STP_NOTE_SET, p.key, p.index, n_calls_);
        }
    }

    void BeginTrial(const std::vector<std::pair<unsigned, unsigned>> &mates)
    {
        trial_ = {};
        mates_ = mates;
        trial_.n_blocks = proposal_.n_blocks;
        trial_.is_twofold = mates[0].first == STP_BANDIT_SET;
        trial_.n_calls = trial_.is_twofold ? proposal_.n_calls : window_;
        trial_.first_call = n_calls_ + STP_TRIAL_LEAD;
        in_trial_ = true;
        for (unsigned i = 0; i < mates.size(); i++) {
            stp_note note = learner_notes::Make(
                STP_NOTE_TRIAL, mates[i].first, mates[i].second,
                trial_.first_call, trial_.n_calls, uint8_t(trial_.n_blocks), 0);
            note.pattern = uint8_t(stp_trial_pattern(i));
            stp_learner_note(learner_.get(), &note);
        }
    }

    // The arm of a call, and whether a window begins with it.
    unsigned ArmOfCall(unsigned key, bool *is_timed)
    {
        uint64_t at = n_calls_ - trial_.first_call;
        unsigned window;

        *is_timed = stp_learner_is_sampling(learner_.get());
        if (!in_trial_ || n_calls_ < trial_.first_call)
            return in_force_[key];
        window = unsigned(at / trial_.n_calls);
        *is_timed |= at % trial_.n_calls == 0;
        in_trial_ = window < stp_trial_windows(&trial_);
        for (unsigned i = 0; in_trial_ && i < mates_.size(); i++)
            if ((key == mates_[i].first || mates_[i].first == STP_BANDIT_SET) &&
                stp_trial_is_arm(trial_.first_call, stp_trial_pattern(i),
                                 window / stp_trial_turn(&trial_)))
                return mates_[i].second;
        return in_force_[key];
    }

    void Call(unsigned key, const CallUs &us)
    {
        bool is_timed;
        unsigned arm;

        if (key >= n_keys_ && key < STP_BANDIT_KEYS)
            AddKeys(key + 1);
        if (!in_trial_ && has_proposal_ && n_calls_ % epoch_ == 0)
            TakeProposal();
        arm = ArmOfCall(key, &is_timed);
        stp_history_add(history_.get(), uint8_t(key));
        gpu_.push_back({n_calls_++, key, arm, is_timed && has_times_, now_ns_});
        now_ns_ += 1e3 * us(key, Name(key, arm)) *
                   std::exp(noise_ * Noise(seed_, n_calls_));
        while (gpu_.size() > ahead_) {
            const Timed &t = gpu_.front();

            if (t.is_timed)
                Note(STP_NOTE_TIME, t.key, t.arm, t.call, 0, 24,
                     uint64_t(t.ns));
            if (t.is_timed && busy_us_)
                Note(
                    STP_NOTE_END, t.key, t.arm, t.call, 0, 24,
                    uint64_t(t.ns + 1e3 * busy_us_(t.key, Name(t.key, t.arm))));
            gpu_.pop_front();
        }
        if (n_calls_ % think_every_ == 0)
            has_proposal_ |=
                stp_learner_wants(learner_.get(), !has_proposal_, &proposal_);
        if (has_proposal_ && n_refusals_ > 0 &&
            (proposal_.kind == STP_PROPOSE_TRIAL ||
             proposal_.kind == STP_PROPOSE_ROUND)) {
            n_refusals_--;
            has_proposal_ = false;
            stp_learner_refuse(learner_.get());
        }
    }

    void AddKeys(unsigned n)
    {
        Costs costs;
        stp_cost_view view = costs.View();

        for (; n_keys_ < n; n_keys_++)
            stp_learner_add_key(learner_.get(), n_keys_, &view, 0);
    }

    Arm Name(unsigned key, unsigned arm)
    {
        stp_bandit_arm a =
            stp_bandit_get_arm(stp_learner_bandit(learner_.get()), key, arm)
                .arm;
        return {a.algo, a.proto, a.n_channels};
    }

    void Steps(const std::vector<unsigned> &step, size_t n, const CallUs &us)
    {
        for (size_t i = 0; i < n; i++)
            for (unsigned key : step)
                Call(key, us);
    }

    Arm InForce(unsigned key = 0)
    {
        return Name(key, in_force_[key]);
    }

    struct Timed {
        uint64_t call;
        unsigned key, arm;
        bool is_timed;
        double ns;
    };

    std::unique_ptr<stp_history, Close> history_;
    std::unique_ptr<stp_learner, Close> learner_;
    CallUs busy_us_; // of a call's time that of its collective; none: not told
    double noise_ = .002;
    double now_ns_ = 1e9;
    uint64_t seed_ = 1;
    size_t ahead_ = 172;
    unsigned think_every_ = 48;
    bool has_times_ = true;
    double confirm_us_ = 0;
    bool persists_ = false;
    unsigned n_refusals_ = 0; // of the next trials
    uint64_t n_calls_ = 0;
    unsigned n_trials_ = 0;

  private:
    unsigned n_keys_ = 0;
    std::deque<Timed> gpu_;
    bool has_proposal_ = false, in_trial_ = false;
    stp_proposal proposal_{};
    stp_trial trial_{};
    std::vector<std::pair<unsigned, unsigned>> mates_{}; // keys and arms
    unsigned window_ = 0, epoch_ = STP_EPOCH_HALVING;
    unsigned in_force_[STP_BANDIT_KEYS + 1] = {}; // 0 of no key
};

} // namespace learner_job
