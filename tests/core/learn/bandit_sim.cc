#include "core/learn/bandit_sim.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

extern "C" {
#include "core/rng.h"
}

namespace bandit_sim
{

namespace
{

void Must(ncclResult_t rc)
{
    if (rc != ncclSuccess)
        throw std::runtime_error(mock_last_error());
}

mock_run RunOf(const Key &key, const stp_bandit_arm &arm)
{
    if (arm.algo < 0)
        return {key.coll, key.n_bytes, key.algo, key.proto, 0};
    return {key.coll, key.n_bytes, arm.algo, arm.proto, arm.n_channels};
}

// Pairs that NCCL allows, with channel counts as the bandit tries them.
double BestOf(const Key &key)
{
    unsigned channels =
        unsigned(mock_machine_get_info(key.machine)->n_channels);
    double best = key.own_us;

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            for (unsigned n : {0U, channels / 2, channels / 4, channels})
                if (key.cost[a][p] >= 0)
                    best = std::min(
                        best, MeanOf(key, {int8_t(a), int8_t(p), uint8_t(n)}));
    return best;
}

// What happens to a call besides what runs: the same for every arm.
struct Chance {
    double round;
    double iteration;
    double factor;
};

Chance ChanceOf(const Options &options, unsigned call)
{
    uint64_t seed = stp_rng(options.seed, 1);
    double u = stp_rng_unit(seed, 3 * call);
    double v = stp_rng_unit(seed, 3 * call + 1);
    double normal = std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * M_PI * v);
    return {stp_rng_unit(stp_rng(options.seed, 2), call / options.round_calls),
            stp_rng_unit(seed, 3 * call + 2),
            std::exp(normal * options.extra_noise)};
}

double TimeOf(const Key &key, const stp_bandit_arm &arm, const Chance &chance)
{
    mock_run run = RunOf(key, arm);
    mock_time time;
    mock_overlap overlap;

    if (key.compute_us > 0) {
        Must(mock_machine_overlap(key.machine, &run, key.compute_us,
                                  chance.round, chance.iteration, &overlap));
        return mock_overlapped_us(&overlap, key.n_layers) * chance.factor;
    }
    Must(mock_machine_time(key.machine, &run, chance.round, chance.iteration,
                           &time));
    return time.us * chance.factor;
}

struct Close {
    void operator()(stp_bandit *bandit) const
    {
        stp_bandit_close(bandit);
    }
};
using Bandit = std::unique_ptr<stp_bandit, Close>;

Bandit Open(stp_bandit_rules rules, const Key &key, uint64_t seed)
{
    stp_bandit *bandit = nullptr;
    stp_error err;
    stp_cost_view view{&key.cost[0][0], NCCL_NUM_ALGORITHMS,
                       NCCL_NUM_PROTOCOLS};

    rules.seed = seed;
    if (stp_bandit_open(&rules, &bandit, &err) != STP_OK)
        throw std::runtime_error(err.text);
    stp_bandit_add_key(
        bandit, 0, &view,
        unsigned(mock_machine_get_info(key.machine)->n_channels));
    return Bandit(bandit);
}

} // namespace

double MeanOf(const Key &key, const stp_bandit_arm &arm)
{
    mock_run run = RunOf(key, arm);
    mock_time time;
    double sum = 0;
    constexpr int n = 20; // a multiple of the recorded rounds

    if (key.compute_us > 0) {
        for (int i = 0; i < n * n; i++)
            sum += TimeOf(key, arm, {(i / n + .5) / n, (i % n + .5) / n, 1});
        return sum / (n * n);
    }
    Must(mock_machine_mean_time(key.machine, &run, &time));
    return time.us;
}

Key KeyOf(const mock_machine *machine, ncclFunc_t coll, size_t n_bytes)
{
    Key key{machine, coll, n_bytes, -1, -1, {}, 0, 0, 0, 0};
    mock_nccl_options options{};
    mock_nccl *nccl;
    mock_comm *comm;
    mock_call call{};
    mock_outcome outcome;

    call.coll = coll;
    call.n_bytes = n_bytes;
    Must(mock_nccl_create(&options, &nccl));
    Must(mock_comm_create(nccl, machine, 1, &comm));
    Must(mock_comm_collective(comm, &call, &outcome));
    mock_comm_destroy(comm);
    mock_nccl_destroy(nccl);
    key.algo = outcome.algo;
    key.proto = outcome.proto;
    memcpy(key.cost, outcome.cost, sizeof(key.cost));
    key.own_us = MeanOf(key, {-1, 0, 0});
    key.best_us = BestOf(key);
    return key;
}

std::vector<Key> KeysOf(const mock_machine *machine)
{
    std::vector<Key> keys;

    for (int coll = 0; coll < NCCL_NUM_TUNED_FUNCS; coll++) {
        size_t sizes[128];
        size_t n = mock_machine_sizes(machine, ncclFunc_t(coll), sizes, 128);

        for (size_t i = 0; i < std::min<size_t>(n, 128); i++)
            keys.push_back(KeyOf(machine, ncclFunc_t(coll), sizes[i]));
    }
    return keys;
}

std::vector<Key> OverlapKeysOf(const mock_machine *machine)
{
    mock_overlap_setting settings[128];
    size_t n = mock_machine_overlap_settings(machine, settings, 128);
    std::vector<Key> keys;

    for (size_t i = 0; i < std::min<size_t>(n, 128); i++) {
        Key key = KeyOf(machine, settings[i].coll, settings[i].n_bytes);
        key.compute_us = settings[i].compute_us;
        key.n_layers = settings[i].n_layers;
        key.own_us = MeanOf(key, {-1, 0, 0});
        key.best_us = BestOf(key);
        keys.push_back(key);
    }
    return keys;
}

Outcome Learn(const Key &key, const stp_bandit_rules &rules,
              const Options &options)
{
    Bandit bandit = Open(rules, key, options.seed);
    Outcome out{};
    stp_bandit_want want{};
    bool is_wanted = false;
    unsigned due = 0, running = 0, before = 0, worse = 0;
    unsigned until = options.n_calls, last = 0;
    bool is_slower = false;
    double elapsed = 0, own_total = 0;

    out.settled_at = options.n_calls;
    for (unsigned call = 0; call < options.n_calls; call++) {
        if (is_wanted && call >= due) {
            stp_bandit_began(bandit.get(), &want);
            before = want.is_trial ? running : want.arm;
            until = want.is_trial ? call + want.n_calls : options.n_calls;
            running = want.arm;
            is_wanted = false;
        } else if (options.returns && call >= until && running != before) {
            stp_bandit_want back{0, before, false, 0};
            stp_bandit_began(bandit.get(), &back);
            running = before;
            is_wanted = false;
        }
        if (options.worsens_at != 0 && call == options.worsens_at)
            worse = running;
        Chance chance = ChanceOf(options, call);
        stp_bandit_arm arm = stp_bandit_get_arm(bandit.get(), 0, running).arm;
        double own = TimeOf(key, {-1, 0, 0}, chance);
        double us = TimeOf(key, arm, chance);
        if (worse != 0 && running == worse)
            us *= options.worsens_by;
        elapsed += us;
        own_total += own;
        out.saved += own - us;
        if (running != last) {
            is_slower = MeanOf(key, arm) > key.own_us;
            last = running;
        }
        if (is_slower) {
            out.lost += us - own;
            out.n_slower++;
        }
        stp_bandit_call(bandit.get(), 0);
        stp_bandit_reward(bandit.get(), 0, running, us);
        if (!is_wanted && stp_bandit_wants(bandit.get(), elapsed, &want)) {
            is_wanted = true;
            due = call + options.lag;
        }
        if (!out.is_settled && stp_bandit_get_key(bandit.get(), 0).is_settled) {
            out.is_settled = true;
            out.settled_at = call + 1;
        }
    }
    stp_bandit_key_state state = stp_bandit_get_key(bandit.get(), 0);
    out.n_trial_calls = unsigned(state.n_trial_calls);
    out.final_arm = state.best;
    out.final_us =
        MeanOf(key, stp_bandit_get_arm(bandit.get(), 0, state.best).arm);
    out.lost /= own_total;
    out.saved /= own_total;
    return out;
}

} // namespace bandit_sim
