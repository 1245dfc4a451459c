// Journals of jobs in virtual time say what arms gain, whose gains are known,
// while GPUs stall.
extern "C" {
#include "report/learning/learning.h"
}

#include "core/learn/learner_job.h"
#include "nccl_tuner_abi.h"
#include "support/slow.h"

namespace
{

using bandit_job::Arm;
using bandit_job::kOwn;
using bandit_job::kRingLl;
using bandit_job::kTreeLl128;

// Shares of a step that tree/LL128 and ring/LL save; other arms lose.
struct Gains {
    double tree, ring;

    double Of(const Arm &arm) const
    {
        return arm == kTreeLl128 ? tree
               : arm == kRingLl  ? ring
               : arm == kOwn     ? 0
                                 : -.02;
    }
};

// A minute of steps of 36 ms, all-reduces of a kind and a small one, which
// either stall, one of sixteen for 4 to 13 ms, or are interrupted: after some
// steps the job evaluates, which takes four small all-reduces and 'ms'.
struct Evaluations {
    unsigned steps;
    double ms;        // 0: none
    unsigned n_calls; // of a step; of 6: one sequence of all is short enough
};

class Minute : public learner_job::Job
{
  public:
    void TestBody() override
    {
    }
    void Run(const Gains &gains, uint64_t seed, const Evaluations &job)
    {
        noise_ = 0;
        confirm_us_ = 300000;
        ahead_ = 20;
        think_every_ = 2;
        Open(STP_LEARN_GPU, 1);
        for (uint64_t n = 1; now_ns_ < 61e9; n++) {
            const bool evaluates =
                n % job.steps == 0 ||
                (n % (2 * job.steps + 3) == 0 && job.n_calls > 6);
            const double call_us =
                36000. / job.n_calls * std::exp(.003 * Noise(seed, n));
            const double stall_us =
                job.ms == 0 && stp_rng_unit(seed, 2 * n) < 1. / 16
                    ? 4000 + 9000 * stp_rng_unit(seed, 2 * n + 1)
                    : 0;

            for (unsigned i = 0; i < job.n_calls; i++)
                Call(i / (job.n_calls - 1), [&](unsigned key, const Arm &arm) {
                    return call_us + (i == 2 ? stall_us : 0) -
                           (key == 0 ? gains.Of(arm) * 36000 / (job.n_calls - 1)
                                     : 0);
                });
            for (unsigned i = 0; i < 4 && evaluates; i++)
                Call(2, [&](unsigned, const Arm &) {
                    return job.ms * 250 * std::exp(.01 * Noise(seed + 1, n));
                });
        }
    }
    void AddTo(std::vector<stp_journal_line> *lines, uint64_t comm)
    {
        for (const stp_learn_event &e : events_) {
            const unsigned key = e.key < 0 ? 0 : unsigned(e.key);
            const Arm arm = Name(key, e.arm);
            stp_journal_line line{};

            line.comm = comm;
            line.n_ranks = line.n_nodes = 1;
            line.kind = e.kind;
            line.coll = e.key < 0 ? -1 : ncclFuncAllReduce;
            line.bytes.min = line.bytes.max = key;
            line.arm.algo = int8_t(arm.algo);
            line.arm.proto = int8_t(arm.proto);
            line.arm.n_channels = uint8_t(arm.n_channels);
            line.value = e.value;
            line.gain.gain = e.gain;
            lines->push_back(line);
        }
    }
};

// Sums up the journals of 'n_comms' such jobs; the sum is to be freed.
stp_learning Learn(const Gains &gains, uint64_t n_comms, uint64_t seed,
                   const Evaluations &evaluations)
{
    std::vector<stp_journal_line> all;
    stp_learning sum{};

    for (uint64_t comm = 1; comm <= n_comms; comm++) {
        Minute job;
        job.Run(gains, 100 * comm + seed, evaluations);
        job.AddTo(&all, comm);
    }
    const stp_journal_lines lines = {all.data(), all.size()};
    stp_learning_sum(&lines, &sum);
    return sum;
}

// Blocks that stalls have hit count neither for an arm nor for those that are
// compared with it, and no communicator's are taken for another one's.
TEST(PlantedLearning, TellsTheGainsOfArmsWhereGpusStall)
{
    const struct {
        Gains gains;
        uint64_t n_comms;
    } cases[] = {
        {{.02, .035}, 1}, {{.05, .07}, 1}, {{.01, .02}, 1}, {{0, 0}, 1},
        {{.02, .035}, 2}, {{.01, .02}, 2}, {{0, 0}, 2},
    };
    unsigned n = 0, n_close = 0, n_held = 0, n_false = 0;

    for (const auto &c : cases)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            stp_learning sum = Learn(c.gains, c.n_comms, seed, {100000, 0, 6});

            for (size_t a = 0; a < sum.keys[0].n_arms; a++) {
                const stp_learning_arm &arm = sum.keys[0].arms[a];
                const auto gain = stp_learning_gain_of(&arm.blocks);
                const double is =
                    1 / (1 - c.gains.Of({arm.arm.algo, arm.arm.proto,
                                         arm.arm.n_channels}));

                if (arm.arm.algo < 0 || arm.blocks.n < 6)
                    continue;
                n++;
                n_close += std::abs(gain.gain - is) < .003;
                n_held += gain.low < is + 1e-4 && is - 1e-4 < gain.high;
                n_false += is <= 1 && gain.low > 1.002;
            }
            stp_learning_free(&sum);
        }
    EXPECT_LE(200u, n);
    EXPECT_GE(n_close, .85 * n) << "less than half, with stalls";
    EXPECT_GE(n_held, .94 * n);
    EXPECT_EQ(0u, n_false);
}

// An evaluation takes calls and time that are no step's: what the rules gain
// together is told without them, however often it comes.
TEST(PlantedLearning, ComparesTheRulesOfJobsThatEvaluateOften)
{
    STP_SLOW();
    const Evaluations all[] = {{300, 800, 30}, {60, 200, 30}, {28, 100, 30},
                               {14, 50, 30},   {10, 2, 24},   {10, 2, 100},
                               {8, 2, 100},    {50, 600, 6}};
    const double is = 1 / (1 - .035);
    unsigned n_told = 0, n_held = 0, n_close = 0;

    for (const Evaluations &evaluations : all)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            stp_learning sum = Learn({.02, .035}, 1, seed, evaluations);
            const auto gain = stp_learning_gain_of(&sum.sets[0].blocks);
            const bool told = sum.sets[0].blocks.n >= 6;
            n_told += told;
            n_close += told && std::abs(gain.gain - is) < .003;
            n_held += told && gain.low < is + 1e-4 && is - 1e-4 < gain.high;
            stp_learning_free(&sum);
        }
    EXPECT_LE(152u, n_told) << "of 160";
    EXPECT_GE(n_close, .85 * n_told);
    EXPECT_GE(n_held, .9 * n_told);
}

} // namespace
