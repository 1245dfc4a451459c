/* learning_text.c - what a job may still gain, and the learned arms as text and
 * JSON */
#include "report/learning/learning.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

#include "core/names.h"
#include "core/text.h"
#include "report/json.h"
#include "report/table.h"

static const double small = 0.001;     /* of the time */
static const double aimed = 0.01;      /* to which the time left is told */
static const double host_bound = 0.9;  /* of the launches */
static const double host_ahead = 0.1;  /* likewise */
static const double longest_s = 86400; /* that is worth telling */

/* Whether a key has no row: its collectives take less than 0.1 percent, and
 * nothing was won. */
static bool bounds_is_small(const struct stp_learning_key *key)
{
    return key->busy >= 0 && key->busy < small && key->with.algo < 0;
}

/* By what share the job is shorter at most by arms of the key that were tried,
 * and by all of them; NaN: not known. */
static double bounds_of_tried(const struct stp_learning_key *key)
{
    return fmin(key->n_tried > 0 ? fmax(1 - 1 / key->bound.high, 0) : NAN,
                key->busy >= 0 ? key->busy : (double)NAN);
}

static double bounds_of_key(const struct stp_learning_key *key)
{
    return key->n_untried == 0 ? bounds_of_tried(key)
           : key->busy >= 0    ? key->busy
                               : (double)NAN;
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
        if (learning->keys[i].with.algo < 0)
            sum += bounds_of_key(&learning->keys[i]);
    for (size_t i = 0; i < learning->n_sets; i++)
        if (bounds_is_largest(learning, &learning->sets[i]))
            most += 1 - 1 / learning->sets[i].step_gain;
    return fmin(sum, most > 0 ? most : (double)NAN);
}

bool stp_bounds_may_narrow(const struct stp_learning *learning)
{
    double closed = 0; /* by kinds without an arm to try */

    for (size_t i = 0; i < learning->n; i++) {
        const struct stp_learning_key *key = &learning->keys[i];

        if (key->is_settled && key->n_tried == 0 && key->n_untried == 0)
            closed += bounds_of_key(key);
    }
    return !(stp_bounds_of_all(learning) <= aimed) && !(closed > aimed);
}

bool stp_bounds_are_confirmed(const struct stp_learning *learning)
{
    const unsigned n_blocks =
        stp_bandit_rules_default(STP_STRATEGY_HALVING).confirm_blocks;

    for (size_t i = 0; i < learning->n_sets; i++)
        if (learning->sets[i].n_arms > 0 && !learning->sets[i].has_plan &&
            learning->sets[i].blocks.n + learning->sets[i].n_broken < n_blocks)
            return false;
    return true;
}

static double bounds_percent(double share)
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
                " ranks take %.3g of the %.3g ms of a step "
                "(what the job repeats): "
                "no choice of NCCL's shortens it by more than %.1f "
                "percent.\n",
                set->n_ranks, share * set->step_us / 1e3, set->step_us / 1e3,
                bounds_percent(share));
        if (set->at_once >= host_bound)
            fprintf(fp,
                    "The host seems to bound the job: the GPU began %.0f "
                    "percent of the collectives as soon as they were launched. "
                    "If so, CUDA graphs or torch.compile change that, and no "
                    "choice of NCCL's does.\n",
                    100 * set->at_once);
        else if (set->at_once > host_ahead)
            fprintf(fp,
                    "The GPU waited for the host before %.0f percent of the "
                    "collectives.\n",
                    100 * set->at_once);
    }
    if (is_any)
        fputs("NCCL's events do not tell what other kernels did in that time, "
              "nor when a GPU idled.\n",
              fp);
}

static void bounds_print(const struct stp_learning *learning, FILE *fp)
{
    const double together = stp_bounds_of_all(learning);
    const char *also = "";
    size_t n_small = 0, n_tried = 0, n_untried = 0, n_left = 0, n_bound = 0;
    size_t n_absent = 0;
    double share = 0, most = 0, by_arms = 0;

    for (size_t i = 0; i < learning->n; i++) {
        const struct stp_learning_key *key = &learning->keys[i];

        if (key->with.algo >= 0) {
            also = "Beside what won, no";
            continue;
        }
        if (key->busy == 0 && key->n_tried == 0) {
            n_absent++;
            continue;
        }
        n_left++;
        if (bounds_is_small(key)) {
            n_small++;
            share += key->busy;
        }
        if (key->n_tried > 0) {
            most = fmax(most, bounds_of_tried(key));
            by_arms += bounds_is_small(key) ? 0 : bounds_of_tried(key);
            n_bound += !bounds_is_small(key);
        }
        n_tried += key->n_tried;
        n_untried += key->n_untried;
    }
    if (n_small > 0)
        fprintf(fp,
                "%zu more kind%s of message take%s less than %g percent of the "
                "time%s, %.2g percent together.\n",
                n_small, STP_S(n_small), n_small == 1 ? "s" : "", 100 * small,
                n_small == 1 ? "" : " each", 100 * share);
    if (n_absent > 0)
        fprintf(fp,
                "%zu kind%s of message %s not in what the job repeats, and "
                "not tried.\n",
                n_absent, STP_S(n_absent), n_absent == 1 ? "is" : "are");
    if (n_tried > 0)
        fprintf(fp,
                "%s arm of the %zu that %s tried makes a step shorter by "
                "more than %.1f percent (95 percent confidence).\n",
                also[0] != '\0' ? also : "No", n_tried,
                n_tried == 1 ? "was" : "were", bounds_percent(most));
    if (n_untried > 0)
        fprintf(fp, "%zu more arm%s not tried yet: a longer run tries %s.\n",
                n_untried, n_untried == 1 ? " was" : "s were",
                n_untried == 1 ? "it" : "them");
    if (!isfinite(together) || n_left == 0)
        return;
    fprintf(fp,
            "All %skinds of message together can shorten it by %.1f percent "
            "at most",
            also[0] != '\0' ? "other " : "", bounds_percent(together));
    if (n_tried > 0 && stp_bounds_may_narrow(learning)) {
        /* each kind as long as those that were tried, and more windows */
        const double kinds = (double)(n_left - n_small) / (double)n_bound;
        const double widths = (kinds * by_arms + share) / aimed;
        const double seconds =
            learning->trials_us / 1e6 * (kinds * fmax(widths * widths, 1) - 1);
        const bool is_short = seconds < 100;

        if (seconds > 0 && seconds < longest_s)
            fprintf(fp, "; a bound of %g percent would take about %.0f %s more",
                    100 * aimed,
                    ceil(seconds / (is_short ? 10 : 60)) * (is_short ? 10 : 1),
                    is_short ? "s" : "minutes");
    }
    fputs(".\n", fp);
}

/* ---- as a table and as JSON ---- */

static size_t learning_count_settled(const struct stp_learning *l,
                                     bool with_arm)
{
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++)
        n += l->keys[i].with.algo >= 0 || (l->keys[i].is_settled && !with_arm);
    return n;
}

void stp_put_learning_gain(const struct stp_gain *gain, const char *key,
                           const char *heading, struct stp_table *t)
{
    bool has_gain = gain->gain > 0.0;

    if (t->format == STP_TABLE_JSON && key != NULL && has_gain) {
        struct stp_table object = stp_table_member(t->row, key);

        stp_table_number(&object, "gain", NULL, gain->gain, 3);
        stp_table_number(&object, "gain_low", NULL, gain->low, 3);
        stp_table_number(&object, "gain_high", NULL, gain->high, 3);
    } else if (has_gain && isfinite(gain->high)) {
        stp_table_text(t, heading, "%.3fx (%.3f to %.3f)", gain->gain,
                       gain->low, gain->high);
    } else {
        stp_table_word(t, key, heading, NULL);
    }
}

/* The arm that the key is settled with, 'base' being as in struct
 * stp_learning_setting. */
static void learning_put_choice(const struct stp_learning_key *key,
                                const char *base, struct stp_table *t)
{
    const char *const heading = "<settled with";
    const struct stp_bandit_arm *arm = &key->with;

    stp_table_flag(t, "settled", NULL, key->is_settled);
    if (arm->algo >= 0) {
        stp_table_ran(t, "choice", heading, arm->algo, arm->proto,
                      arm->n_channels);
        return;
    }
    stp_table_word(t, "choice", NULL, NULL);
    if (!key->is_settled)
        stp_table_word(t, NULL, heading, NULL);
    else if (base != NULL)
        stp_table_text(t, heading, "as in %s", stp_base_name(base));
    else
        stp_table_text(t, heading, "left as is");
}

static void learning_put(const struct stp_learning_key *key, const char *base,
                         struct stp_table *t)
{
    static const struct stp_gain none = {0};
    const bool has_arm = key->with.algo >= 0;
    const char *name = key->is_settled     ? "settled"
                       : has_arm           ? "won so far"
                       : key->n_trials > 0 ? "no bound yet"
                                           : "nothing tried";
    const double bound = bounds_of_key(key);
    char nodes[40] = "", of[32] = "";

    if (key->n_nodes > 1)
        snprintf(nodes, sizeof(nodes), " on %" PRIu64 " nodes", key->n_nodes);
    stp_table_count(t, "nNodes", NULL, key->n_nodes);
    stp_table_count(t, "nRanks", NULL, key->n_ranks);
    stp_table_text(t, "ranks", "%" PRIu64 "%s", key->n_ranks, nodes);
    stp_table_word(t, "collective", "<collective", stp_coll_name(key->coll));
    stp_table_count(t, "min_bytes", "from bytes", key->bytes.min);
    stp_table_count(t, "max_bytes", "to bytes", key->bytes.max);
    stp_table_count(t, "times", "times", key->n_times);
    stp_table_count(t, "trials", "trials", key->n_trials);
    learning_put_choice(key, base, t);
    stp_put_learning_gain(&key->gain, "step", NULL, t);
    stp_put_learning_gain(has_arm ? &key->gain : &none, NULL,
                          "<gain of a window", t);
    stp_table_number(t, "busy", NULL, key->busy >= 0 ? key->busy : (double)NAN,
                     5);
    stp_table_number(t, "bound", NULL, bound, 5);
    stp_table_word(t, "verdict", NULL, name);
    if (key->n_untried > 0)
        snprintf(of, sizeof(of), " of %zu", key->n_tried + key->n_untried);
    if (!has_arm && isfinite(bound))
        stp_table_text(t, "<verdict", "gains %.1f percent at most, %zu%s tried",
                       bounds_percent(bound), key->n_tried, of);
    else
        stp_table_text(t, "<verdict", "%s", name);
}

void stp_print_learning(const struct stp_learning *learning,
                        const struct stp_learning_setting *setting, FILE *fp)
{
    fprintf(fp,
            "Learning by strategy %s, objective %s, %" PRIu64 " comparison%s: ",
            setting->strategy, setting->objective, learning->n_blocks,
            STP_S(learning->n_blocks));
    if (learning_count_settled(learning, true) > 0 && setting->policy != NULL)
        fprintf(fp, "the learned policy is %s.\n", setting->policy);
    else if (learning_count_settled(learning, true) > 0)
        fprintf(fp, "the learned policy was not written: the job ended before "
                    "its communicators did, or NCCL_DEBUG=WARN says why.\n");
    else if (learning_count_settled(learning, false) > 0)
        fprintf(fp, "nothing is better than what ran before.\n");
    else if (learning->n_blocks > 0)
        fprintf(fp, "nothing has won so far.\n");
    else if (learning->n_alone > 0)
        fprintf(fp,
                "nothing was learned, for %" PRIu64
                " calls repeat no sequence.\n",
                learning->n_alone);
    else
        fprintf(fp, "nothing was learned%s.\n",
                learning->has_graphs
                    ? ", for NCCL asks once about collectives in CUDA graphs"
                    : "");

    /* All arms in force were compared with what ran before when all single
     * searches had ended. */
    for (size_t i = 0; i < learning->n_sets; i++) {
        const struct stp_learning_set *set = &learning->sets[i];
        const struct stp_gain gain = stp_learning_gain_of(&set->blocks);
        char on[48] = "";

        if (!(gain.gain > 0))
            continue;
        if (learning->n_sets > 1)
            snprintf(on, sizeof(on), " on communicator %016" PRIx64, set->comm);
        fprintf(fp,
                "With all that was learned%s steps are %.3fx as fast as with "
                "%s (%.3f to %.3f; %zu blocks of windows)%s.\n",
                on, gain.gain,
                setting->base != NULL ? stp_base_name(setting->base)
                                      : "the choice without Steptune",
                gain.low, gain.high, set->blocks.n,
                set->is_dropped ? ", so the last of it was dropped" : "");
    }
    stp_print_learned_keys(learning, setting->base, fp);
}

void stp_print_plans(const struct stp_learning *learning, FILE *fp)
{
    bool is_any = false;

    for (size_t i = 0; i < learning->n_sets; i++) {
        const struct stp_learning_set *set = &learning->sets[i];

        if (!(set->plan_us > 0))
            continue;
        is_any = true;
        fprintf(fp,
                "The schedule of %" PRIu64 " ranks on %" PRIu64
                " hosts takes %.3g s at the pace measured; the arms tried are "
                "expected to cost %.2g percent of that (modelled)",
                set->n_ranks, set->n_nodes, set->plan_us / 1e6,
                100 * (1 - set->plan_gain));
        if (set->end_us > set->begin_us)
            fprintf(fp, ", and %s %.2g percent of %.3g s (measured)",
                    set->lost_us < 0 ? "saved" : "cost",
                    100 * fabs(set->lost_us) / (set->end_us - set->begin_us),
                    (set->end_us - set->begin_us) / 1e6);
        fputs(".\n", fp);
    }
    if (is_any)
        fputs("What is found in this run is used from the next on.\n", fp);
}

void stp_print_learned_keys(const struct stp_learning *learning,
                            const char *base, FILE *fp)
{
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);

    if (learning->n == 0)
        return;
    stp_print_headroom(learning, fp);
    stp_print_plans(learning, fp);
    for (size_t i = 0; i < learning->n; i++) {
        if (bounds_is_small(&learning->keys[i]))
            continue;
        stp_table_row(&t);
        learning_put(&learning->keys[i], base, &t);
    }
    stp_table_end(&t, fp);
    bounds_print(learning, fp);
}

void stp_json_learning(cJSON *root, const struct stp_learning *learning,
                       const struct stp_learning_setting *setting)
{
    cJSON *object = cJSON_AddObjectToObject(root, "learning");
    struct stp_table rows;

    stp_json_word(object, "strategy", setting->strategy);
    stp_json_word(object, "objective", setting->objective);
    stp_json_number(object, "comparisons", (double)learning->n_blocks);
    stp_json_word(object, "learned", setting->policy);
    rows = stp_table_array(object, "together");
    for (size_t i = 0; i < learning->n_sets; i++) {
        const struct stp_learning_set *set = &learning->sets[i];
        const struct stp_gain gain = stp_learning_gain_of(&set->blocks);
        char comm[24];

        snprintf(comm, sizeof(comm), "%016" PRIx64, set->comm);
        stp_table_row(&rows);
        stp_table_word(&rows, "comm", NULL, comm);
        stp_table_count(&rows, "nNodes", NULL, set->n_nodes);
        stp_table_count(&rows, "nRanks", NULL, set->n_ranks);
        stp_table_count(&rows, "arms", NULL, set->n_arms);
        stp_table_count(&rows, "blocks", NULL, set->blocks.n);
        stp_table_number(&rows, "window_us", NULL,
                         set->blocks.n > 0 ? set->window_us : NAN, 3);
        stp_table_flag(&rows, "dropped", NULL, set->is_dropped);
        stp_put_learning_gain(&gain, "step", NULL, &rows);
    }
    stp_json_learned_keys(object, learning);
}

void stp_json_learned_keys(cJSON *root, const struct stp_learning *learning)
{
    struct stp_table rows = stp_table_array(root, "messages");

    for (size_t i = 0; i < learning->n; i++) {
        const struct stp_learning_key *key = &learning->keys[i];
        cJSON *row = stp_table_row(&rows);
        struct stp_table arms;

        learning_put(key, NULL, &rows);
        arms = stp_table_array(row, "arms");
        for (size_t k = 0; k < key->n_arms; k++) {
            const struct stp_learning_arm *a = &key->arms[k];

            stp_table_row(&arms);
            if (a->arm.algo < 0)
                stp_table_word(&arms, "choice", NULL, NULL);
            else
                stp_table_ran(&arms, "choice", NULL, a->arm.algo, a->arm.proto,
                              a->arm.n_channels);
            stp_table_count(&arms, "times", NULL, a->n);
            stp_table_number(&arms, "mean", NULL, a->mean, 3);
        }
    }
}
