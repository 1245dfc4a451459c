#include "report/learning/job_rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/text.h"
#include "launch/take.h"
#include "report/policy_file.h"
#include "report/table.h"

static const double least_gain = 1.001;

static bool rules_is_of(const struct stp_learning_set *set,
                        const struct stp_learning_key *key)
{
    return set->n_nodes == key->n_nodes && set->n_ranks == key->n_ranks;
}

/* The key's arm in force in the set; NULL: none is. */
static const struct stp_bandit_arm *
rules_find_in_set(const struct stp_learning_set *set,
                  const struct stp_learning_key *key)
{
    for (size_t i = 0; i < set->n_arms; i++)
        if (set->arms[i].coll == key->coll &&
            set->arms[i].bytes.min == key->bytes.min)
            return &set->arms[i].arm;
    return NULL;
}

/* Whether the set is of all rules for its shape, and of no others. */
static bool rules_are_set(const struct stp_job_rules *r,
                          const struct stp_learning_set *set)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        const struct stp_job_rule *rule = &r->rules[i];
        const struct stp_bandit_arm *arm;

        if (!rules_is_of(set, rule->key))
            continue;
        arm = rules_find_in_set(set, rule->key);
        if (arm == NULL || arm->algo != rule->arm.algo ||
            arm->proto != rule->arm.proto ||
            arm->n_channels != rule->arm.n_channels)
            return false;
        n++;
    }
    return n == set->n_arms;
}

/* Puts together the blocks of all sets of the rules for the key's shape. */
static struct stp_job_total rules_total(const struct stp_job_rules *r,
                                        const struct stp_learning_key *key,
                                        const struct stp_learning *all)
{
    struct stp_job_total total = {.n_nodes = key->n_nodes,
                                  .n_ranks = key->n_ranks};
    struct stp_learning_blocks sum = {0};

    for (size_t i = 0; i < all->n_sets; i++) {
        const struct stp_learning_set *set = &all->sets[i];

        if (!rules_is_of(set, key) || !rules_are_set(r, set))
            continue;
        total.n_broken += set->n_broken;
        if (set->blocks.n == 0)
            continue;
        stp_learning_pool(&set->blocks, &sum);
        total.n_comms++;
        total.window_us = set->window_us;
    }
    total.n_blocks = sum.n;
    total.gain = stp_learning_gain_of(&sum);
    return total;
}

/* Leaves out rules that make windows shorter and not the steps, as where the
 * host bounds the job and the GPUs catch up with it. */
static void rules_leave_out(struct stp_job_rules *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        struct stp_job_total *t = r->totals;

        while (t->n_nodes != r->rules[i].key->n_nodes ||
               t->n_ranks != r->rules[i].key->n_ranks)
            t++;
        t->is_left_out = t->gain.gain > 0 && t->gain.high < least_gain;
        if (!t->is_left_out)
            r->rules[n++] = r->rules[i];
    }
    r->n = n;
}

void stp_job_rules_make(const struct stp_learning *all,
                        const struct stp_learning *last,
                        struct stp_job_rules *rules_ret)
{
    struct stp_job_rules r = {0};

    STP_TAKE(r.rules, all->n);
    STP_TAKE(r.totals, all->n);
    for (size_t k = 0; k < all->n; k++) {
        const struct stp_learning_key *key = &all->keys[k];
        const struct stp_learning *from = all;
        const struct stp_learning_arm *best = NULL;

        /* The arm with the greatest gain is taken of those in force on any
         * communicator of the last run, or of all where that has no such key.
         */
        for (size_t i = 0; i < last->n; i++)
            if (last->keys[i].n_nodes == key->n_nodes &&
                last->keys[i].n_ranks == key->n_ranks &&
                last->keys[i].coll == key->coll &&
                last->keys[i].bytes.min == key->bytes.min)
                from = last;
        for (size_t i = 0; i < from->n_sets; i++) {
            const struct stp_learning_set *set = &from->sets[i];
            const struct stp_bandit_arm *arm =
                rules_is_of(set, key) ? rules_find_in_set(set, key) : NULL;
            size_t at =
                arm != NULL ? stp_learning_find_arm(key, arm) : key->n_arms;

            if (at < key->n_arms && key->arms[at].blocks.n > 1 &&
                (best == NULL ||
                 key->arms[at].blocks.log_gain > best->blocks.log_gain))
                best = &key->arms[at];
        }
        if (best != NULL)
            r.rules[r.n++] = (struct stp_job_rule){
                .key = key,
                .arm = best->arm,
                .n_blocks = best->blocks.n,
                .gain = stp_learning_gain_of(&best->blocks),
            };
    }
    /* keys are in the order of shapes */
    for (size_t i = 0; i < r.n; i++)
        if (i == 0 || r.rules[i].key->n_nodes != r.rules[i - 1].key->n_nodes ||
            r.rules[i].key->n_ranks != r.rules[i - 1].key->n_ranks)
            r.totals[r.n_totals++] = rules_total(&r, r.rules[i].key, all);
    rules_leave_out(&r);
    *rules_ret = r;
}

void stp_job_rules_free(struct stp_job_rules *rules)
{
    free(rules->rules);
    free(rules->totals);
    *rules = (struct stp_job_rules){0};
}

void stp_job_evidence_write(const struct stp_learning *all, FILE *fp)
{
    fputs("collective,min_bytes,max_bytes,nNodes,nRanks,algorithm,protocol,"
          "channels,blocks,log_gain,log_ss\n",
          fp);
    for (size_t i = 0; i < all->n; i++)
        for (size_t k = 0; k < all->keys[i].n_arms; k++) {
            const struct stp_learning_key *key = &all->keys[i];
            const struct stp_learning_arm *arm = &key->arms[k];

            if (arm->blocks.n == 0 || arm->arm.algo < 0)
                continue;
            fprintf(fp, "%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",",
                    stp_coll_name(key->coll), key->bytes.min, key->bytes.max,
                    key->n_nodes, key->n_ranks);
            fprintf(fp, "%s,%s,%d,%zu,%.9g,%.9g\n",
                    stp_algo_name(arm->arm.algo),
                    stp_proto_name(arm->arm.proto), arm->arm.n_channels,
                    arm->blocks.n, arm->blocks.log_gain, arm->blocks.log_ss);
        }
}

void stp_job_totals_write(const struct stp_job_rules *rules, const char *prefix,
                          FILE *fp)
{
    for (size_t i = 0; i < rules->n_totals; i++) {
        const struct stp_job_total *t = &rules->totals[i];
        char of[64] = "", mean[64] = "";

        if (rules->n_totals > 1)
            snprintf(of, sizeof(of), " for communicators of %" PRIu64 " ranks",
                     t->n_ranks);
        if (t->n_comms > 1) /* whose steps may differ */
            snprintf(mean, sizeof(mean), ", on average of %zu communicators,",
                     t->n_comms);
        if (t->gain.gain > 0)
            fprintf(fp,
                    "%s%s%s%s is%s %.3fx as fast as without Steptune (%.3f to "
                    "%.3f): %zu block%s of windows of %.2g s measured in the "
                    "job%s.\n",
                    prefix, of[0] != '\0' ? "With the rules" : "The step", of,
                    of[0] != '\0' ? " the step" : "", mean, t->gain.gain,
                    t->gain.low, t->gain.high, t->n_blocks, STP_S(t->n_blocks),
                    t->window_us / 1e6,
                    t->is_left_out
                        ? ", and what won in windows of equal work is left out"
                    : t->gain.low <= 1
                        ? ", which leave open whether steps gain or lose: "
                          "`steptune tune --resume` measures for longer"
                        : "");
        else
            fprintf(fp,
                    "%sThe rules%s were not compared together with the job "
                    "as it is: %s.\n",
                    prefix, of,
                    t->n_nodes > 1 ? "a run with the policy shows that"
                    : t->n_broken > 0
                        ? "other collectives, as of an evaluation, came "
                          "between in most blocks of windows, and `steptune "
                          "compare` shows that between runs"
                        : "the job ended before that");
    }
}

static void rules_write(const struct stp_job_rules *rules, const char *gpu,
                        FILE *fp)
{
    fputs("# Measured in the job itself: a rule took turns with what ran "
          "before in windows of equal work.\n",
          fp);
    stp_job_totals_write(rules, "# ", fp);
    if (rules->n == 0)
        fputs("# No rule: no arm makes the step shorter beyond doubt.\n", fp);
    else
        fprintf(fp,
                "collective,min_bytes,max_bytes,algorithm,protocol,channels,"
                "nNodes,nRanks%s\n",
                gpu != NULL ? ",gpu" : "");
    for (size_t i = 0; i < rules->n; i++) {
        const struct stp_job_rule *rule = &rules->rules[i];
        const struct stp_learning_key *key = rule->key;

        fprintf(fp,
                "\n# %.3fx (%.3f to %.3f) in windows of equal work, %zu blocks "
                "measured\n",
                rule->gain.gain, rule->gain.low, rule->gain.high,
                rule->n_blocks);
        fprintf(fp, "%s,%" PRIu64 ",%" PRIu64 ",%s,%s,%d,%" PRIu64 ",%" PRIu64,
                stp_coll_name(key->coll), key->bytes.min, key->bytes.max,
                stp_algo_name(rule->arm.algo), stp_proto_name(rule->arm.proto),
                rule->arm.n_channels == 0 ? -1 : rule->arm.n_channels,
                key->n_nodes, key->n_ranks);
        fprintf(fp, gpu != NULL ? ",%s\n" : "\n", gpu);
    }
}

enum stp_status stp_job_rules_save(const struct stp_job_rules *rules,
                                   const struct stp_job_origin *origin,
                                   const char *path, struct stp_error *err)
{
    const char *gpu = origin->gpu;
    char made_by[4200];
    struct stp_policy_text text = {
        .kind = STP_POLICY_OF_ARMS, .made_by = made_by, .run = ""};

    stp_policy_text_begin(&text);
    if (gpu != NULL && !stp_gpu_is_plain(gpu, strlen(gpu)))
        gpu = NULL;
    if (gpu != NULL)
        fprintf(text.fp, "# " STP_MEASURED_ON "%s\n", gpu);
    if (origin->same_bits)
        fputs("# bits: same\n"
              "# Nothing was tried for sums, whose bits stay those of NCCL's "
              "own choice.\n",
              text.fp);
    rules_write(rules, origin->is_portable ? NULL : gpu, text.fp);
    snprintf(made_by, sizeof(made_by), "steptune tune -- %s", origin->command);
    return stp_policy_text_end(&text, path, err);
}

void stp_json_job_rules(cJSON *root, const struct stp_job_rules *rules)
{
    struct stp_table t = stp_table_array(root, "rules");

    for (size_t i = 0; i < rules->n; i++) {
        const struct stp_job_rule *rule = &rules->rules[i];

        stp_table_row(&t);
        stp_table_count(&t, "nNodes", NULL, rule->key->n_nodes);
        stp_table_count(&t, "nRanks", NULL, rule->key->n_ranks);
        stp_table_word(&t, "collective", NULL, stp_coll_name(rule->key->coll));
        stp_table_count(&t, "min_bytes", NULL, rule->key->bytes.min);
        stp_table_count(&t, "max_bytes", NULL, rule->key->bytes.max);
        stp_table_ran(&t, "choice", NULL, rule->arm.algo, rule->arm.proto,
                      rule->arm.n_channels);
        stp_table_count(&t, "blocks", NULL, rule->n_blocks);
        stp_put_learning_gain(&rule->gain, "step", NULL, &t);
    }
    t = stp_table_array(root, "together");
    for (size_t i = 0; i < rules->n_totals; i++) {
        const struct stp_job_total *total = &rules->totals[i];

        stp_table_row(&t);
        stp_table_count(&t, "nNodes", NULL, total->n_nodes);
        stp_table_count(&t, "nRanks", NULL, total->n_ranks);
        stp_table_count(&t, "communicators", NULL, total->n_comms);
        stp_table_count(&t, "blocks", NULL, total->n_blocks);
        stp_table_number(&t, "window_us", NULL, total->window_us, 0);
        stp_put_learning_gain(&total->gain, "step", NULL, &t);
    }
}
