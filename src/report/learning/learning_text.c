/* learning_text.c - what was learned, as a table and as JSON */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/names.h"
#include "core/text.h"
#include "report/json.h"
#include "report/learning/learning_json.h"
#include "report/table.h"
#include "report/words.h"

/* ---- text ---- */

static size_t count_settled(const struct stp_learning *l, bool with_arm)
{
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++)
        n += l->keys[i].is_settled && (l->keys[i].with.algo >= 0 || !with_arm);
    return n;
}

static void print_policy(const struct stp_learning *l, const char *policy,
                         FILE *fp)
{
    if (count_settled(l, true) > 0 && policy != NULL)
        fprintf(fp, "the learned policy is %s.\n", policy);
    else if (count_settled(l, true) > 0)
        fprintf(fp, "the learned policy was not written: the job was killed, "
                    "or NCCL_DEBUG=WARN says why.\n");
    else if (count_settled(l, false) > 0)
        fprintf(fp, "nothing is better than what ran before.\n");
    else
        fprintf(fp, "nothing was learned.\n");
}

static void add_gain(struct stp_table *t, const struct stp_learning_gain *gain)
{
    if (gain->gain > 0.0 && isfinite(gain->high))
        stp_table_add(t, "%.3fx (%.3f to %.3f)", gain->gain, gain->low,
                      gain->high);
    else
        stp_table_add(t, "-");
}

static void add_verdict(struct stp_table *t, const struct stp_learning_key *key)
{
    const char *name = stp_learning_verdict_name(key->verdict);

    if (key->verdict != STP_LEARNING_NOISY)
        stp_table_add(t, "%s", name);
    else if (key->steps_needed > 0.0 && key->steps_needed < 1e9)
        stp_table_add(t, "%s (%.0f steps needed)", name, key->steps_needed);
    else
        stp_table_add(t, "%s (no steps to tell by)", name);
}

/* What the key is settled with, 'base' being as in struct
 * stp_learning_setting. */
static void add_choice(struct stp_table *t, const struct stp_learning_key *key,
                       const char *base)
{
    char name[STP_RAN_NAME];

    if (!key->is_settled) {
        stp_table_add(t, "-");
    } else if (key->with.algo >= 0) {
        stp_ran_name(key->with.algo, key->with.proto, key->with.n_channels,
                     name);
        stp_table_add(t, "%s", name);
    } else if (base != NULL) {
        stp_table_add(t, "as in %s", stp_base_name(base));
    } else {
        stp_table_add(t, "NCCL's own");
    }
}

static void add_row(struct stp_table *t, const struct stp_learning_key *key,
                    const char *base)
{
    static const struct stp_learning_gain none = {0};
    bool has_arm = key->is_settled && key->with.algo >= 0;

    if (key->n_nodes > 1)
        stp_table_add(t, "%" PRIu64 " on %" PRIu64 " nodes", key->n_ranks,
                      key->n_nodes);
    else
        stp_table_add(t, "%" PRIu64, key->n_ranks);
    stp_table_add(t, "%s", stp_coll_name(key->coll));
    stp_table_add(t, "%" PRIu64, key->bytes.min);
    stp_table_add(t, "%" PRIu64, key->bytes.max);
    stp_table_add(t, "%" PRIu64, key->n_times);
    stp_table_add(t, "%" PRIu64, key->n_trials);
    add_choice(t, key, base);
    add_gain(t, has_arm ? &key->gain : &none);
    add_gain(t, &key->steps);
    add_verdict(t, key);
}

enum stp_status stp_print_learning(const struct stp_learning *learning,
                                   const struct stp_learning_setting *setting,
                                   FILE *fp, struct stp_error *err)
{
    struct stp_table *t;

    fprintf(fp,
            "Learning by strategy %s, objective %s, %" PRIu64 " step%s timed: ",
            setting->strategy, setting->objective, learning->n_steps,
            learning->n_steps == 1 ? "" : "s");
    print_policy(learning, setting->policy, fp);
    if (learning->n == 0)
        return STP_OK;
    t = stp_table_create("ranks|<collective|from bytes|to bytes|times|trials|"
                         "<settled with|<gain|<gain of steps|<verdict");
    for (size_t i = 0; t != NULL && i < learning->n; i++)
        add_row(t, &learning->keys[i], setting->base);
    return stp_table_finish(t, fp, err);
}

/* ---- JSON ---- */

static void json_gain(cJSON *object, const char *name,
                      const struct stp_learning_gain *gain)
{
    cJSON *row;

    if (!(gain->gain > 0.0)) {
        cJSON_AddNullToObject(object, name);
        return;
    }
    row = cJSON_AddObjectToObject(object, name);
    stp_json_number(row, "gain", gain->gain);
    stp_json_number(row, "gain_low", gain->low);
    stp_json_number(row, "gain_high", gain->high);
}

static void json_arms(cJSON *row, const struct stp_learning_key *key)
{
    cJSON *list = cJSON_AddArrayToObject(row, "arms");

    for (size_t i = 0; i < key->n_arms; i++) {
        const struct stp_learning_arm *a = &key->arms[i];
        cJSON *arm = stp_json_row(list);

        if (a->arm.algo < 0)
            cJSON_AddNullToObject(arm, "choice");
        else
            stp_json_pair(arm, "choice", a->arm.algo, a->arm.proto,
                          a->arm.n_channels);
        stp_json_number(arm, "times", (double)a->n);
        stp_json_number(arm, "mean", a->mean);
    }
}

static void json_key(cJSON *row, const struct stp_learning_key *key)
{
    stp_json_number(row, "nNodes", (double)key->n_nodes);
    stp_json_number(row, "nRanks", (double)key->n_ranks);
    cJSON_AddStringToObject(row, "collective", stp_coll_name(key->coll));
    stp_json_number(row, "min_bytes", (double)key->bytes.min);
    stp_json_number(row, "max_bytes", (double)key->bytes.max);
    stp_json_number(row, "times", (double)key->n_times);
    stp_json_number(row, "trials", (double)key->n_trials);
    cJSON_AddBoolToObject(row, "settled", key->is_settled);
    if (key->is_settled && key->with.algo >= 0)
        stp_json_pair(row, "choice", key->with.algo, key->with.proto,
                      key->with.n_channels);
    else
        cJSON_AddNullToObject(row, "choice");
    json_gain(row, "time", &key->gain);
    json_gain(row, "step", &key->steps);
    if (key->verdict == STP_LEARNING_NOISY && key->steps_needed > 0.0)
        stp_json_number(row, "steps_needed", key->steps_needed);
    else
        cJSON_AddNullToObject(row, "steps_needed");
    cJSON_AddStringToObject(row, "verdict",
                            stp_learning_verdict_name(key->verdict));
    json_arms(row, key);
}

void stp_json_learning(cJSON *root, const struct stp_learning *learning,
                       const struct stp_learning_setting *setting)
{
    cJSON *object = cJSON_AddObjectToObject(root, "learning");
    cJSON *rows;

    cJSON_AddStringToObject(object, "strategy", setting->strategy);
    cJSON_AddStringToObject(object, "objective", setting->objective);
    stp_json_number(object, "steps", (double)learning->n_steps);
    stp_json_word(object, "learned", setting->policy);
    rows = cJSON_AddArrayToObject(object, "messages");
    for (size_t i = 0; i < learning->n; i++)
        json_key(stp_json_row(rows), &learning->keys[i]);
}
