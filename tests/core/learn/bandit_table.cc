// How strategies learn on the recorded machines: prints a table over many
// seeds.  Not a test: bandit_sim_test asserts what of it must hold.
//
//   bandit_table [SEEDS [LAG [FIRST_SEED]]]
//
// LAG: calls between what is wanted and what runs.  With STEPTUNE_TABLE_SIZES
// set also a line for every size, after how far NCCL's own choice is from the
// best.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
#include "core/names.h"
}

#include "core/learn/bandit_sim.h"

namespace
{

using namespace bandit_sim;

struct Tally {
    std::vector<double> calls, at, lost;
    double saved = 0;
    size_t n = 0, n_good = 0, n_fair = 0, n_worse = 0, n_slow = 0;

    void Add(const Key &key, const Outcome &out)
    {
        // Less than the least gain is to be left alone.
        double need = key.own_us <= 1.02 * key.best_us ? 1.02 : 1.01;
        calls.push_back(out.n_trial_calls);
        at.push_back(out.settled_at);
        lost.push_back(100 * out.lost);
        saved += 100 * out.saved;
        n++;
        n_good += out.final_us <= 1.01 * key.best_us;
        n_fair += out.final_us <= need * key.best_us;
        // 0.2 percent are no difference.
        n_worse += out.final_us > 1.002 * key.own_us;
        n_slow += !out.is_settled;
    }
};

double Quantile(std::vector<double> values, double p)
{
    std::sort(values.begin(), values.end());
    return values[size_t(p * double(values.size() - 1) + .5)];
}

void Print(const char *machine, const char *coll, const char *strategy,
           const Tally &t)
{
    double per = 100. / double(t.n);
    printf("%-8s %-13s %-8s %6.0f %5.0f %6.0f %6.0f %6.1f  %6.3f %6.3f  "
           "%6.2f  %5.1f  %5.1f  %5.1f\n",
           machine, coll, strategy, Quantile(t.calls, .5),
           Quantile(t.calls, .95), Quantile(t.at, .5), Quantile(t.at, .95),
           per * double(t.n_slow), Quantile(t.lost, .5), Quantile(t.lost, 1),
           t.saved / double(t.n), per * double(t.n_good),
           per * double(t.n_fair), per * double(t.n_worse));
}

Outcome Fixed(double us, const Key &key)
{
    return {true, 0, 0, 0, 1 - us / key.own_us, us, 0, 0};
}

stp_bandit_rules Halving()
{
    return stp_bandit_rules_default(STP_STRATEGY_HALVING);
}

stp_bandit_rules Epsilon()
{
    return stp_bandit_rules_default(STP_STRATEGY_EPSILON);
}

void Table(const mock_machine *machine, const char *name, unsigned first,
           unsigned seeds, unsigned lag)
{
    std::vector<Key> keys = KeysOf(machine);
    bool detail = getenv("STEPTUNE_TABLE_SIZES") != nullptr;

    for (int coll = 0; coll < NCCL_NUM_TUNED_FUNCS; coll++) {
        Tally own, epsilon, halving, oracle;

        for (const Key &key : keys) {
            if (key.coll != coll)
                continue;
            Tally one;
            for (unsigned seed = first; seed < first + seeds; seed++) {
                Options options;
                options.seed = seed;
                options.lag = lag;
                Outcome out = Learn(key, Halving(), options);
                halving.Add(key, out);
                one.Add(key, out);
                epsilon.Add(key, Learn(key, Epsilon(), options));
            }
            own.Add(key, Fixed(key.own_us, key));
            oracle.Add(key, Fixed(key.best_us, key));
            if (detail) {
                printf("%9zu %.3f ", key.n_bytes, key.own_us / key.best_us);
                Print(name, stp_coll_name(coll), "halving", one);
            }
        }
        if (own.n == 0)
            continue;
        Print(name, stp_coll_name(coll), "auto", own);
        Print(name, stp_coll_name(coll), "epsilon", epsilon);
        Print(name, stp_coll_name(coll), "halving", halving);
        Print(name, stp_coll_name(coll), "oracle", oracle);
    }
}

} // namespace

int main(int argc, char **argv)
{
    unsigned seeds = argc > 1 ? unsigned(atoi(argv[1])) : 100;
    unsigned lag = argc > 2 ? unsigned(atoi(argv[2])) : 4;
    std::vector<std::string> names{"h200x2", "h200x4"};

    unsigned first = argc > 3 ? unsigned(atoi(argv[3])) : 1;
    printf("                                calls to       settled at   un-   "
           "lost %%          saved  within  or left worse\n"
           "machine  collective    strategy settle   p95   call    p95 "
           "settled  median  most   %%       1%%     alone  than auto\n");
    try {
        for (const std::string &name : names) {
            mock_machine *machine;
            std::string path = STP_FIXTURES "/machines/" + name;

            if (mock_machine_load(path.c_str(), &machine) != ncclSuccess)
                throw std::runtime_error(mock_last_error());
            Table(machine, name.c_str(), first, seeds, lag);
            mock_machine_free(machine);
        }
    } catch (const std::exception &e) {
        fprintf(stderr, "bandit_table: %s\n", e.what());
        return 1;
    }
    return 0;
}
