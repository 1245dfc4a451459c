#include "report/learning/learn.h"

#include <math.h>

#include "core/names.h"
#include "report/json.h"
#include "report/table.h"
#include "report/terminal.h"
#include "report/words.h"

/* ---- learners ---- */

static void learn_put(const char *name, const struct stp_learned *l,
                      struct stp_table *t)
{
    stp_table_word(t, "strategy", "<strategy", name);
    stp_table_count(t, "keys", "?keys", l->n_keys);
    stp_table_number(t, "trials_median", "trials", l->trials_median, 0);
    stp_table_number(t, "settled_median", "settled", l->settled_median, 0);
    stp_table_number(t, "settled_p95", "?p95", l->settled_p95, 0);
    stp_table_number(t, "searched_median", "searched", l->searched_median, 0);
    stp_table_number(t, "searched_p95", "?p95", l->searched_p95, 0);
    stp_table_count(t, "trying", NULL, l->n_trying);
    stp_table_text(t, "still trying", "%zu of %zu", l->n_trying, l->n_finals);
    stp_table_number(t, "lost_first", NULL, l->lost_first, 4);
    stp_table_text(t, "lost %", "%+.2f", 100 * l->lost_first);
    stp_table_number(t, "lost", NULL, l->lost, 4);
    stp_table_text(t, "?all %", "%+.2f", 100 * l->lost);
    stp_table_count(t, "best", NULL, l->n_best);
    stp_table_count(t, "finals", NULL, l->n_finals);
    stp_table_text(t, "within 1% of best", "%zu of %zu", l->n_best,
                   l->n_finals);
    if (t->format == STP_TABLE_JSON)
        stp_table_gain(t, &l->final);
    else if (isfinite(l->final.high))
        stp_table_text(t, "final gain", "%.3f (%.3f-%.3f)", l->final.gain,
                       l->final.low, l->final.high);
    else
        stp_table_text(t, "final gain", "%.3f", l->final.gain);
    stp_table_count(t, "worse", "?worse than AUTO", l->n_worse);
    stp_table_word(t, "source", NULL,
                   stp_source_name(l->n_modelled > 0 ? STP_SOURCE_MODELLED
                                                     : STP_SOURCE_VIRTUAL));
    stp_table_count(t, "times", NULL, l->n_times);
    stp_table_count(t, "modelled_times", NULL, l->n_modelled);
}

/* ---- messages ---- */

static void learn_put_message(const struct stp_learned_key *key,
                              struct stp_table *t)
{
    char size[32];
    char arm[STP_RAN_NAME];

    stp_size_name(key->n_bytes, size);
    stp_ran_name(key->best.algo, key->best.proto, key->best.n_channels, arm);
    stp_table_row(t);
    stp_table_text(t, "<message", "%s %s", stp_coll_name(key->coll), size);
    stp_table_word(t, "collective", NULL, stp_coll_name(key->coll));
    stp_table_count(t, "bytes", NULL, key->n_bytes);
    stp_table_word(t, "best_arm", "<best arm", arm);
    stp_table_number(t, "over_auto", NULL, key->gain, 3);
    stp_table_text(t, "over AUTO", "%.3fx", key->gain);
    stp_table_count(t, "best", NULL, key->n_best);
    stp_table_number(t, "searched_median", NULL, key->searched_median, 0);
}

/* A column a plugin, as far as there is room. */
static void learn_put_plugins(const struct stp_learner *learners,
                              const struct stp_learned *learned, size_t n,
                              size_t key, struct stp_table *t)
{
    char heading[48];

    for (size_t i = 0, left = 13; i < n && left > 0; i++) {
        const struct stp_learned *l = &learned[i];

        if (learners[i].kind != STP_LEARNER_PLUGIN)
            continue;
        snprintf(heading, sizeof(heading), "%.32s finds it", learners[i].name);
        stp_table_text(t, heading, "%zu of %zu (%.0f)", l->keys[key].n_best,
                       l->n_finals / l->n_keys, l->keys[key].searched_median);
        left--;
    }
}

/* The result: where each plugin ended. */
static void learn_print_ends(const struct stp_learner *learners,
                             const struct stp_learned *learned, size_t n,
                             FILE *fp)
{
    for (size_t i = 0; i < n; i++) {
        const struct stp_learned *l = &learned[i];
        struct stp_paragraph paragraph;
        char interval[STP_INTERVAL];

        if (learners[i].kind != STP_LEARNER_PLUGIN)
            continue;
        stp_interval_text(&l->final, interval);
        fprintf(stp_paragraph_begin(&paragraph, fp),
                "%s: the last fifth of the steps, trials included, is %.3fx as "
                "fast as with NCCL's own choice (%s), and slower beyond doubt "
                "in %u of %zu jobs.",
                learners[i].name, l->final.gain, interval, l->n_worse,
                // NOLINTNEXTLINE(clang-analyzer-core.DivideZero)
                l->n_finals / l->n_keys);
        stp_paragraph_end(&paragraph);
    }
}

enum stp_status stp_print_learned(const struct stp_learner *learners,
                                  const struct stp_learned *learned, size_t n,
                                  FILE *fp, struct stp_error *err)
{
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);
    enum stp_status status;

    for (size_t i = 0; i < n; i++) {
        stp_table_row(&t);
        learn_put(learners[i].name, &learned[i], &t);
    }
    status = stp_table_end(&t, fp, err);
    if (status != STP_OK || n == 0)
        return status;
    for (size_t k = 0; k < learned[0].n_keys; k++) {
        learn_put_message(&learned[0].keys[k], &t);
        learn_put_plugins(learners, learned, n, k, &t);
    }
    fputc('\n', fp);
    status = stp_table_end(&t, fp, err);
    fputc('\n', fp);
    learn_print_ends(learners, learned, n, fp);
    return status;
}

enum stp_status stp_print_learned_json(const struct stp_learn_job *job,
                                       const char *machine,
                                       const struct stp_learner *learners,
                                       const struct stp_learned *learned,
                                       size_t n, FILE *fp,
                                       struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();
    struct stp_table rows;

    stp_json_word(root, "machine", machine);
    stp_json_number(root, "steps", (double)job->n_steps);
    stp_json_number(root, "seeds", job->n_seeds);
    stp_json_number(root, "compute_noise", job->compute_noise);
    stp_json_number(root, "stalls", job->stalls);
    rows = stp_table_array(root, "strategies");
    for (size_t i = 0; i < n; i++) {
        cJSON *row = stp_table_row(&rows);
        struct stp_table messages;

        learn_put(learners[i].name, &learned[i], &rows);
        messages = stp_table_array(row, "messages");
        for (size_t k = 0; k < learned[i].n_keys; k++)
            learn_put_message(&learned[i].keys[k], &messages);
    }
    return stp_json_finish(root, fp, err);
}
