#include "report/learning/learn.h"

#include <math.h>
#include <string.h>

#include "core/names.h"
#include "report/charts/labels.h"
#include "report/json.h"
#include "report/table.h"
#include "report/words.h"

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

static enum stp_status print_rows(const struct stp_learner *learners,
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

/* ---- text, of each kind of message ---- */

/* A column for each plugin, as far as there is room. */
static struct stp_table *create_kinds(const struct stp_learner *learners,
                                      size_t n)
{
    char headings[STP_TABLE_COLUMNS * 48] = "<message|<best arm|over AUTO";
    size_t len = strlen(headings);

    for (size_t i = 0, column = 3; i < n && column < STP_TABLE_COLUMNS; i++)
        if (learners[i].kind == STP_LEARNER_PLUGIN) {
            len += (size_t)snprintf(headings + len, sizeof(headings) - len,
                                    "|%.32s finds it", learners[i].name);
            column++;
        }
    return stp_table_create(headings);
}

static void add_kind(struct stp_table *t, const struct stp_learner *learners,
                     const struct stp_learned *learned, size_t n, size_t k)
{
    const struct stp_learned_key *key = &learned[0].keys[k];
    char size[32];
    char arm[STP_RAN_NAME];

    stp_size_name(key->n_bytes, size);
    stp_ran_name(key->best.algo, key->best.proto, key->best.n_channels, arm);
    stp_table_add(t, "%s %s", stp_coll_name(key->coll), size);
    stp_table_add(t, "%s", arm);
    stp_table_add(t, "%.3fx", key->gain);
    for (size_t i = 0; i < n; i++) {
        if (learners[i].kind != STP_LEARNER_PLUGIN)
            continue;
        stp_table_add(t, "%zu of %zu (%.0f)", learned[i].keys[k].n_best,
                      learned[i].n_finals / learned[i].n_keys,
                      learned[i].keys[k].searched_median);
    }
}

enum stp_status stp_print_learned(const struct stp_learner *learners,
                                  const struct stp_learned *learned, size_t n,
                                  FILE *fp, struct stp_error *err)
{
    enum stp_status status = print_rows(learners, learned, n, fp, err);
    struct stp_table *t;

    if (status != STP_OK || n == 0)
        return status;
    t = create_kinds(learners, n);
    for (size_t k = 0; k < learned[0].n_keys && t != NULL; k++)
        add_kind(t, learners, learned, n, k);
    fputc('\n', fp);
    return stp_table_finish(t, fp, err);
}

/* ---- JSON ---- */

static void add_message(cJSON *row, const struct stp_learned_key *key)
{
    char arm[STP_RAN_NAME];

    stp_ran_name(key->best.algo, key->best.proto, key->best.n_channels, arm);
    stp_json_word(row, "collective", stp_coll_name(key->coll));
    stp_json_number(row, "bytes", (double)key->n_bytes);
    stp_json_word(row, "best_arm", arm);
    stp_json_number(row, "over_auto", key->gain);
    stp_json_number(row, "best", (double)key->n_best);
    stp_json_number(row, "searched_median", key->searched_median);
}

static void add_learned(cJSON *row, const char *name,
                        const struct stp_learned *l)
{
    cJSON *messages;

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
    messages = cJSON_AddArrayToObject(row, "messages");
    for (size_t k = 0; k < l->n_keys; k++)
        add_message(stp_json_row(messages), &l->keys[k]);
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
