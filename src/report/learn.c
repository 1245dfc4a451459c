#include "report/learn.h"

#include <math.h>

#include "report/json.h"
#include "report/table.h"

/* ---- text ---- */

static void add_row(struct stp_table *t, const char *name,
                    const struct stp_learned *l)
{
    stp_table_add(t, "%s", name);
    stp_table_add(t, "%zu", l->n_keys);
    stp_table_add(t, "%.0f", l->settled_median);
    stp_table_add(t, "%.0f", l->settled_p95);
    stp_table_add(t, "%.0f", l->searched_median);
    stp_table_add(t, "%.0f", l->searched_p95);
    stp_table_add(t, "%+.2f", 100 * l->lost_first);
    stp_table_add(t, "%+.2f", 100 * l->lost);
    stp_table_add(t, "%zu of %zu", l->n_best, l->n_finals);
    if (isfinite(l->final.high))
        stp_table_add(t, "%.3f (%.3f-%.3f)", l->final.gain, l->final.low,
                      l->final.high);
    else
        stp_table_add(t, "%.3f", l->final.gain);
    stp_table_add(t, "%u", l->n_worse);
}

enum stp_status stp_print_learned(const struct stp_learner *learners,
                                  const struct stp_learned *learned, size_t n,
                                  FILE *fp, struct stp_error *err)
{
    struct stp_table *t =
        stp_table_create("<strategy|keys|settled|p95|searched|p95|lost %|all "
                         "%|within 1% of best|final gain|"
                         "worse than AUTO");

    for (size_t i = 0; i < n && t != NULL; i++)
        add_row(t, learners[i].name, &learned[i]);
    return stp_table_finish(t, fp, err);
}

/* ---- JSON ---- */

static void add_learned(cJSON *row, const char *name,
                        const struct stp_learned *l)
{
    stp_json_word(row, "strategy", name);
    stp_json_number(row, "keys", (double)l->n_keys);
    stp_json_number(row, "settled_median", l->settled_median);
    stp_json_number(row, "settled_p95", l->settled_p95);
    stp_json_number(row, "searched_median", l->searched_median);
    stp_json_number(row, "searched_p95", l->searched_p95);
    stp_json_number(row, "lost_first", l->lost_first);
    stp_json_number(row, "lost", l->lost);
    stp_json_number(row, "best", (double)l->n_best);
    stp_json_number(row, "finals", (double)l->n_finals);
    stp_json_gain(row, &l->final);
    stp_json_number(row, "worse", l->n_worse);
    cJSON_AddBoolToObject(row, "modelled", l->modelled);
}

enum stp_status stp_print_learned_json(const struct stp_learn_job *job,
                                       const char *machine,
                                       const struct stp_learner *learners,
                                       const struct stp_learned *learned,
                                       size_t n, FILE *fp,
                                       struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *rows;

    stp_json_word(root, "machine", machine);
    stp_json_number(root, "steps", (double)job->n_steps);
    stp_json_number(root, "seeds", job->n_seeds);
    stp_json_number(root, "compute_noise", job->compute_noise);
    rows = cJSON_AddArrayToObject(root, "strategies");
    for (size_t i = 0; i < n; i++)
        add_learned(stp_json_row(rows), learners[i].name, &learned[i]);
    return stp_json_finish(root, fp, err);
}
