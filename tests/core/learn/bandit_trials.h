// A job whose trials run in windows of equal work, with what arms save there.
#pragma once

#include <deque>

extern "C" {
#include "core/learn/proposal.h"
}

#include "core/learn/bandit_job.h"
#include "core/learn/noise.h"

namespace bandit_job
{

inline constexpr double kWindowUs = 1000;
inline constexpr unsigned kWindow = 10; // calls, half of which are of the key

// How many us a window is shorter with an arm than with NCCL's own choice.
using Saved = std::function<double(const Arm &)>;

inline Saved Saves(const Arm &best, double us)
{
    return [=](const Arm &arm) {
        return arm == best ? us : arm == kOwn ? 0. : -20.;
    };
}

// A job in which trials run one after another, and whose times arrive 'late'
// trials later.
struct Trials {
    Bandit bandit;
    Saved saved;
    double noise; // of a window
    unsigned late = 0;
    uint64_t seed = 1;
    uint64_t n_calls = 100000;
    uint64_t n_windows = 0;
    double lost_us = 0;
    double together = 0; // what the set saves beside its arms
    std::deque<stp_block> blocks;
    std::vector<Arm> tried;
    unsigned n_trials = 0;
    unsigned n_set_blocks = 0;

    explicit Trials(const Saved &what_arms_save, double of_noise = .002,
                    const stp_bandit_rules &rules = Halving())
        : bandit(Open(rules)), saved(what_arms_save), noise(of_noise)
    {
        AddKey(bandit);
        SetWindow(bandit, {kWindow / 2}, kWindow);
        stp_bandit_set_noise(bandit.get(), of_noise);
    }

    Arm Incumbent(unsigned key = 0)
    {
        return ArmOf(bandit, stp_bandit_get_key(bandit.get(), key).running,
                     key);
    }

    double Window(const Arm &arm)
    {
        n_calls += kWindow;
        return (kWindowUs - saved(arm)) *
               std::exp(noise * Noise(seed, n_windows++));
    }

    // Trials of the set have windows as key 0 alone has.
    void Play(const stp_bandit_want &want, unsigned block)
    {
        bool is_set = want.key == STP_BANDIT_SET;
        const Arm arm = is_set ? kOwn : ArmOf(bandit, want.arm, want.key);
        const Arm incumbent = Incumbent(is_set ? 0 : want.key);
        double own[2], with[2];
        stp_block b{};

        for (int i = 0; i < 2; i++) {
            own[i] = Window(incumbent) - (is_set ? together : 0);
            with[i] = Window(arm);
        }
        lost_us += (is_set ? 4 : 2) * (saved(incumbent) - saved(arm));
        n_calls += is_set ? 4 * kWindow : 0; // windows that do not count
        b.trial.key = want.key;
        b.trial.arm = want.arm;
        b.trial.base = is_set ? stp_bandit_get_set(bandit.get()).number
                              : State(want.key).running;
        b.trial.n_blocks = want.n_blocks;
        b.trial.n_calls = kWindow;
        b.is_complete = true;
        b.is_last = block + 1 == want.n_blocks;
        b.own_us = (own[0] + own[1]) / 2;
        b.arm_us = (with[0] + with[1]) / 2;
        b.gain = std::log(b.own_us / b.arm_us);
        b.spread[0] = std::log(own[0] / own[1]);
        b.spread[1] = std::log(with[0] / with[1]);
        blocks.push_back(b);
    }

    // Does what the bandit wants next; false if that is nothing.
    bool Next()
    {
        stp_bandit_clock clock{n_calls, kWindowUs / kWindow};
        stp_bandit_want want;

        if (!stp_bandit_wants(bandit.get(), &clock, &want))
            return false;
        stp_bandit_began(bandit.get(), &want);
        if (want.key == STP_BANDIT_SET)
            n_set_blocks += want.n_blocks;
        else
            n_trials += want.n_blocks > 0;
        if (want.n_blocks > 0 && want.key != STP_BANDIT_SET)
            tried.push_back(ArmOf(bandit, want.arm, want.key));
        for (unsigned m = 0; m <= want.n_mates; m++) {
            stp_bandit_want one = want;

            if (m > 0) {
                one.key = want.mates[m - 1].key;
                one.arm = want.mates[m - 1].arm;
            }
            for (unsigned i = 0; i < want.n_blocks; i++)
                Play(one, i);
        }
        return true;
    }

    void Arrive(size_t left)
    {
        while (blocks.size() > left) {
            stp_bandit_block(bandit.get(), &blocks.front(), n_calls);
            blocks.pop_front();
        }
    }

    stp_bandit_key_state State(unsigned key = 0)
    {
        return stp_bandit_get_key(bandit.get(), key);
    }

    // Arms of key 0 of which something is known.
    unsigned Known()
    {
        unsigned n = 0;

        for (unsigned i = 0; i < State().n_arms; i++)
            n += stp_bandit_get_arm(bandit.get(), 0, i).n > 0;
        return n;
    }

    // Runs until the key has settled and its arm is in force.
    Arm Settle(unsigned key = 0)
    {
        for (int i = 0; i < 5000 && !State(key).is_settled; i++) {
            bool did = Next();

            Arrive(did ? late : 0);
            if (!did)
                n_calls += kWindow;
        }
        EXPECT_TRUE(State(key).is_settled);
        Arrive(0);
        while (State(key).running != State(key).best && Next())
            ;
        return Incumbent(key);
    }

    // Compares the set with NCCL's own choice until nothing is to come.
    stp_bandit_set_state Confirm()
    {
        for (int i = 0; i < 1000; i++) {
            if (stp_bandit_get_set(bandit.get()).is_dropped || !Next())
                break;
            Arrive(0);
        }
        return stp_bandit_get_set(bandit.get());
    }
};

} // namespace bandit_job
