// A bandit that learns on a recorded machine, call by call, over its times.
#ifndef BANDIT_SIM_H
#define BANDIT_SIM_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

extern "C" {
#include "core/learn/bandit.h"
}

#include "mock_nccl.h"

namespace bandit_sim
{

// A collective of one size on a machine.
struct Key {
    const mock_machine *machine;
    ncclFunc_t coll;
    size_t n_bytes;
    int algo; // NCCL's own choice
    int proto;
    mock_table cost;
    double compute_us; // of a layer that it runs beside; 0: it runs alone
    int n_layers;      // of an iteration, whose time is what is learned from
    double own_us;     // the true mean of NCCL's own choice
    double best_us; // and of the best arm that NCCL's model does not rule out
};

// Those that the machine has interleaved times of, in order.
std::vector<Key> KeysOf(const mock_machine *machine);
Key KeyOf(const mock_machine *machine, ncclFunc_t coll, size_t n_bytes);

// Those whose iterations beside compute were recorded.
std::vector<Key> OverlapKeysOf(const mock_machine *machine);

struct Options {
    uint64_t seed = 1;
    unsigned n_calls = 1000;
    unsigned lag = 1;          // calls from want to began
    bool returns = true;       // to what ran before once a trial had its calls
    unsigned round_calls = 25; // that share what drifts
    double extra_noise = 0;  // standard deviation of a further factor, such as
                             // that of a step's other work
    unsigned worsens_at = 0; // from this call on the arm that is in force then
    double worsens_by = 1;   // takes this many times as long
};

struct Outcome {
    bool is_settled;
    unsigned n_trial_calls; // as the bandit counts them
    unsigned settled_at;    // the call; n_calls if it did not settle
    double lost;     // with arms slower than NCCL's own, in its times of all
                     // calls
    double saved;    // in all, likewise
    double final_us; // the true mean of what it ends with
    unsigned final_arm;
    unsigned n_slower; // calls with arms slower than NCCL's own
};

Outcome Learn(const Key &key, const stp_bandit_rules &rules,
              const Options &options);

// The true mean of an arm.
double MeanOf(const Key &key, const stp_bandit_arm &arm);

} // namespace bandit_sim

#endif // BANDIT_SIM_H
