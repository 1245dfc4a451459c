#include "report/learning/learning.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

static const double small = 0.001;     /* of the time */
static const double aimed = 0.01;      /* to which the time left is told */
static const double host_bound = 0.9;  /* of the launches */
static const double host_ahead = 0.1;  /* likewise */
static const double longest_s = 86400; /* that is worth telling */

static bool bounds_has_won(const struct stp_learning_key *key)
{
    return key->is_settled && key->with.algo >= 0;
}

bool stp_bounds_is_small(const struct stp_learning_key *key)
{
    return key->busy > 0 && key->busy < small && !bounds_has_won(key);
}

double stp_bounds_of_key(const struct stp_learning_key *key)
{
    const double by_arms =
        key->n_tried > 0 ? fmax(1 - 1 / key->bound.high, 0) : NAN;

    return fmin(by_arms, key->busy > 0 ? key->busy : (double)NAN);
}

/* The set with the largest share in collectives of a shape stands for it: the
 * others are on other GPUs. */
static bool bounds_is_largest(const struct stp_learning *l,
                              const struct stp_learning_set *set)
{
    for (const struct stp_learning_set *s = l->sets; s < l->sets + l->n_sets;
         s++)
        if (s->n_ranks == set->n_ranks && s->n_nodes == set->n_nodes &&
            (s->step_gain > set->step_gain ||
             (s->step_gain == set->step_gain && s < set)))
            return false;
    return set->step_gain > 0;
}

double stp_bounds_of_all(const struct stp_learning *learning)
{
    double sum = 0, most = 0;

    for (size_t i = 0; i < learning->n; i++)
        if (!bounds_has_won(&learning->keys[i]))
            sum += stp_bounds_of_key(&learning->keys[i]);
    for (size_t i = 0; i < learning->n_sets; i++)
        if (bounds_is_largest(learning, &learning->sets[i]))
            most += 1 - 1 / learning->sets[i].step_gain;
    return fmin(sum, most > 0 ? most : (double)NAN);
}

bool stp_bounds_are_confirmed(const struct stp_learning *learning)
{
    const unsigned n_blocks =
        stp_bandit_rules_default(STP_STRATEGY_HALVING).confirm_blocks;

    for (size_t i = 0; i < learning->n_sets; i++)
        if (learning->sets[i].n_arms > 0 && !learning->sets[i].has_plan &&
            learning->sets[i].n_blocks < n_blocks)
            return false;
    return true;
}

double stp_bounds_percent(double share)
{
    return fmax(ceil(1e3 * share - 1e-6) / 10, 0.1);
}

void stp_print_headroom(const struct stp_learning *learning, FILE *fp)
{
    bool is_any = false;

    for (size_t i = 0; i < learning->n_sets; i++) {
        const struct stp_learning_set *set = &learning->sets[i];
        const double share = 1 - 1 / set->step_gain;

        if (!bounds_is_largest(learning, set))
            continue;
        is_any = true;
        fprintf(fp,
                "Collectives of %" PRIu64
                " ranks take %.3g of the %.3g ms of a step: "
                "no choice of NCCL's shortens the job by more than %.1f "
                "percent.\n",
                set->n_ranks, share * set->step_us / 1e3, set->step_us / 1e3,
                stp_bounds_percent(share));
        if (set->at_once >= host_bound)
            fprintf(fp,
                    "The host seems to bound the job: the GPU began %.0f "
                    "percent of them as soon as they were launched. If so, "
                    "CUDA graphs or torch.compile change that, and no choice "
                    "of NCCL's does.\n",
                    100 * set->at_once);
        else if (set->at_once > host_ahead)
            fprintf(fp,
                    "The GPU waited for the host before %.0f percent of "
                    "them.\n",
                    100 * set->at_once);
    }
    if (is_any)
        fputs("NCCL's events do not tell what other kernels did in that time, "
              "nor when a GPU idled.\n",
              fp);
}

static void bounds_print_time(double seconds, FILE *fp)
{
    if (!(seconds > 0 && seconds < longest_s))
        return;
    if (seconds < 100)
        fprintf(fp, "; %g percent at most would take about %.0f s more",
                100 * aimed, ceil(seconds / 10) * 10);
    else
        fprintf(fp, "; %g percent at most would take about %.0f minutes more",
                100 * aimed, ceil(seconds / 60));
}

void stp_print_bounds(const struct stp_learning *learning, FILE *fp)
{
    const double together = stp_bounds_of_all(learning);
    const char *also = "";
    size_t n_small = 0, n_tried = 0, n_left = 0;
    double share = 0, most = 0;

    for (size_t i = 0; i < learning->n; i++) {
        const struct stp_learning_key *key = &learning->keys[i];

        if (bounds_has_won(key)) {
            also = "Beside what won, no";
            continue;
        }
        n_left++;
        if (stp_bounds_is_small(key)) {
            n_small++;
            share += key->busy;
        }
        if (key->n_tried > 0)
            most = fmax(most, stp_bounds_of_key(key));
        n_tried += key->n_tried;
    }
    if (n_small > 0)
        fprintf(fp,
                "%zu more kind%s of message take%s less than %g percent of the "
                "time%s, %.2g percent together.\n",
                n_small, n_small == 1 ? "" : "s", n_small == 1 ? "s" : "",
                100 * small, n_small == 1 ? "" : " each", 100 * share);
    if (n_tried > 0)
        fprintf(fp,
                "%s arm of the %zu that were tried makes the job shorter by "
                "more than %.1f percent (95 percent).\n",
                also[0] != '\0' ? also : "No", n_tried,
                stp_bounds_percent(most));
    if (!isfinite(together) || n_left == 0)
        return;
    fprintf(fp,
            "All %skinds of message together can shorten it by %.1f percent "
            "at most",
            also[0] != '\0' ? "other " : "", stp_bounds_percent(together));
    if (n_tried > 0 && together > aimed)
        bounds_print_time(learning->trials_us / 1e6 *
                              (together * together / aimed / aimed - 1),
                          fp);
    fputs(".\n", fp);
}
