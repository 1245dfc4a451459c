#include "report/learning/ledgers.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/qsort.h"
#include "core/text.h"
#include "launch/take.h"
#include "nccl_tuner_abi.h"
#include "report/file.h"
#include "report/json.h"
#include "report/table.h"

static void ledgers_add_file(const char *dir, const char *name,
                             struct stp_ledgers *ledgers)
{
    struct stp_ledger *ledger;
    char path[4096];
    FILE *fp;
    int n;

    STP_TAKE_ROOM(ledgers->all, ledgers->n, ledgers->capacity);
    ledger = &ledgers->all[ledgers->n];
    n = snprintf(path, sizeof(path), "%s/%s", dir, name);
    fp = n > 0 && n < (int)sizeof(path) ? fopen(path, "rb") : NULL;
    if (fp == NULL)
        return;
    if (fread(ledger, sizeof(*ledger), 1, fp) == 1 && fgetc(fp) == EOF &&
        stp_ledger_is_valid(ledger, sizeof(*ledger)))
        ledgers->n++;
    fclose(fp);
}

/* Large communicators first; a folder lists its files in any order. */
static int ledgers_order(const void *pa, const void *pb)
{
    const struct stp_ledger *a = pa;
    const struct stp_ledger *b = pb;

    STP_RETURN_ORDER(STP_ORDER(b->n_ranks, a->n_ranks));
    STP_RETURN_ORDER(STP_ORDER(a->pid, b->pid));
    return strcmp(b->what, a->what); /* a learner before its followers */
}

enum stp_status stp_ledgers_load(const char *dir,
                                 struct stp_ledgers *ledgers_ret,
                                 struct stp_error *err)
{
    struct stp_ledgers ledgers = {0};
    const struct dirent *entry;
    DIR *folder = opendir(dir);

    if (folder == NULL)
        return stp_cannot(err, "read", dir);
    while ((entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.')
            ledgers_add_file(dir, entry->d_name, &ledgers);
    closedir(folder);
    STP_SORT(ledgers.all, ledgers.n, ledgers_order);
    *ledgers_ret = ledgers;
    return STP_OK;
}

void stp_ledgers_free(struct stp_ledgers *ledgers)
{
    free(ledgers->all);
    *ledgers = (struct stp_ledgers){0};
}

/* Entries of communicators of one size, put together. */
struct ledgers_sum {
    uint64_t n_ranks;
    struct stp_ledger_entry entry;
};

static int ledgers_order_sums(const void *pa, const void *pb)
{
    const struct ledgers_sum *a = pa;
    const struct ledgers_sum *b = pb;

    STP_RETURN_ORDER(STP_ORDER(b->n_ranks, a->n_ranks));
    STP_RETURN_ORDER(STP_ORDER(a->entry.coll, b->entry.coll));
    STP_RETURN_ORDER(STP_ORDER(stp_ledger_class(a->entry.min_bytes),
                               stp_ledger_class(b->entry.min_bytes)));
    STP_RETURN_ORDER(STP_ORDER(a->entry.line, b->entry.line));
    STP_RETURN_ORDER(STP_ORDER(a->entry.algo, b->entry.algo));
    STP_RETURN_ORDER(STP_ORDER(a->entry.proto, b->entry.proto));
    return STP_ORDER(a->entry.n_channels, b->entry.n_channels);
}

static struct ledgers_sum *ledgers_sum_up(const struct stp_ledgers *ledgers,
                                          size_t *n_ret)
{
    struct ledgers_sum *sums;
    size_t n = 0, kept = 0;

    STP_TAKE(sums, ledgers->n * STP_LEDGER_ENTRIES);
    for (size_t i = 0; i < ledgers->n; i++)
        for (size_t k = 0; k < STP_LEDGER_ENTRIES; k++)
            if (ledgers->all[i].entries[k].n_calls > 0)
                sums[n++] = (struct ledgers_sum){ledgers->all[i].n_ranks,
                                                 ledgers->all[i].entries[k]};
    STP_SORT(sums, n, ledgers_order_sums);
    for (size_t i = 0; i < n; i++) {
        struct ledgers_sum *last = kept > 0 ? &sums[kept - 1] : NULL;
        const struct stp_ledger_entry *e = &sums[i].entry;

        if (last == NULL || ledgers_order_sums(last, &sums[i]) != 0) {
            sums[kept++] = sums[i];
            continue;
        }
        last->entry.n_calls += e->n_calls;
        if (e->min_bytes < last->entry.min_bytes)
            last->entry.min_bytes = e->min_bytes;
        if (e->max_bytes > last->entry.max_bytes)
            last->entry.max_bytes = e->max_bytes;
    }
    *n_ret = kept;
    return sums;
}

/* Whether an earlier one is of the same process; or says the same of itself. */
static bool ledgers_repeat(const struct stp_ledgers *l, size_t i,
                           bool of_process)
{
    const struct stp_ledger *a = &l->all[i], *b = l->all;

    while (b < a && (of_process ? b->pid != a->pid
                                : strcmp(b->what, a->what) != 0 ||
                                      b->is_aside != a->is_aside))
        b++;
    return b < a;
}

static void ledgers_print_state(const struct stp_ledgers *ledgers, FILE *fp)
{
    size_t n_processes = 0;

    if (ledgers->n == 0) {
        fprintf(fp,
                "The plugin was not loaded: no communicator of more than one "
                "rank was made by an NCCL of 2.21 or later that reads "
                "NCCL_TUNER_PLUGIN. NCCL_DEBUG=INFO says more.\n");
        return;
    }
    for (size_t i = 0; i < ledgers->n; i++)
        n_processes += !ledgers_repeat(ledgers, i, true);
    fprintf(fp, "The plugin served %zu communicator%s in %zu process%s.\n",
            ledgers->n, STP_S(ledgers->n), n_processes,
            n_processes == 1 ? "" : "es");
    for (size_t i = 0; i < ledgers->n; i++)
        if (!ledgers_repeat(ledgers, i, false))
            fprintf(fp, "%s%s\n",
                    ledgers->all[i].is_aside ? "Stepped aside, left all as is: "
                                             : "Plugin: ",
                    ledgers->all[i].what);
}

/* An entry of an unknown collective, algorithm or protocol is left out. */
static void ledgers_put(const struct ledgers_sum *sum, const char *policy,
                        struct stp_table *t)
{
    const struct stp_ledger_entry *e = &sum->entry;
    bool is_own = e->algo < 0;
    bool has_line = !is_own && e->line != 0; /* or else learning chose it */
    const char *file = policy != NULL ? stp_base_name(policy) : "line";

    if (e->coll < 0 || e->coll >= NCCL_NUM_TUNED_FUNCS ||
        e->algo >= NCCL_NUM_ALGORITHMS || e->proto >= NCCL_NUM_PROTOCOLS)
        return;
    stp_table_row(t);
    stp_table_count(t, "nRanks", "ranks", sum->n_ranks);
    stp_table_word(t, "collective", "<collective", stp_coll_name(e->coll));
    stp_table_count(t, "min_bytes", "from bytes", e->min_bytes);
    stp_table_count(t, "max_bytes", "to bytes", e->max_bytes);
    stp_table_count(t, "calls", "calls", e->n_calls);
    if (is_own) {
        stp_table_word(t, "choice", NULL, NULL);
        stp_table_word(t, NULL, "<choice", "left as is");
    } else {
        stp_table_ran(t, "choice", "<choice", e->algo, e->proto, e->n_channels);
    }
    stp_table_number(t, "line", NULL, has_line ? e->line : NAN, 0);
    stp_table_word(t, "by", NULL,
                   is_own     ? "none"
                   : has_line ? "policy"
                              : "learning");
    if (has_line)
        stp_table_text(t, "<by", "%s:%u", file, (unsigned)e->line);
    else
        stp_table_word(t, NULL, "<by", is_own ? NULL : "learning");
}

void stp_print_ledgers(const struct stp_ledgers *ledgers, const char *policy,
                       const struct stp_learning *learning,
                       const struct stp_learning_setting *setting,
                       const struct stp_staged *staged, bool is_json, FILE *fp)
{
    struct stp_table t = stp_table_result(is_json);
    uint64_t n_lost = 0, n_previews = 0; /* calls that are in no row */
    size_t n_sums;
    struct ledgers_sum *sums = ledgers_sum_up(ledgers, &n_sums);

    if (!is_json)
        ledgers_print_state(ledgers, fp);
    stp_table_word(&t, "policy", NULL, policy);
    stp_table_flag(&t, "loaded", NULL, ledgers->n > 0);
    stp_table_rows(&t, "communicators");
    for (size_t i = 0; i < ledgers->n; i++) {
        const struct stp_ledger *ledger = &ledgers->all[i];

        n_lost += ledger->n_lost;
        n_previews += ledger->n_previews;
        if (!is_json)
            continue;
        stp_table_row(&t);
        stp_table_count(&t, "pid", NULL, ledger->pid);
        stp_table_count(&t, "nRanks", NULL, ledger->n_ranks);
        stp_table_count(&t, "nNodes", NULL, ledger->n_nodes);
        stp_table_flag(&t, "stepped_aside", NULL, ledger->is_aside);
        stp_table_word(&t, "what", NULL, ledger->what);
    }
    stp_table_rows(&t, "decisions");
    for (size_t i = 0; i < n_sums; i++)
        ledgers_put(&sums[i], policy, &t);
    free(sums);
    if (is_json) {
        stp_json_number(t.root, "calls_not_listed", (double)n_lost);
        stp_json_number(t.root, "calls_about_symmetric_kernels",
                        (double)n_previews);
        if (learning != NULL)
            stp_json_learning(t.root, learning, setting);
        if (staged != NULL)
            stp_print_staged(staged, t.root, NULL);
    }
    stp_table_end(&t, fp);
    if (is_json)
        return;
    if (n_lost > 0)
        fprintf(fp, "%" PRIu64 " more calls, of too many kinds to list.\n",
                n_lost);
    if (n_previews > 0)
        fprintf(fp,
                "%" PRIu64 " more calls in which NCCL looked for a kernel for "
                "symmetric windows, and used no answer.\n",
                n_previews);
}

/* ---- for Prometheus ---- */

/* Prints the member 'value' of each row as a sample of the metric, which is its
 * name and its type. */
static void metrics_put(const cJSON *rows, const char *metric,
                        const char *value, FILE *fp)
{
    static const char *const labels[] = {
        "nRanks", "collective", "type",      "min_ctas", "why_plain", "by",
        "line",   NULL,         "algorithm", "protocol", "channels"};
    const cJSON *row;

    fprintf(fp, "# TYPE steptune_%s\n", metric);
    cJSON_ArrayForEach(row, rows)
    {
        const cJSON *sample = cJSON_GetObjectItem(row, value), *from = row;

        if (!cJSON_IsNumber(sample))
            continue;
        fprintf(fp, "steptune_%.*s{bytes=\"%" PRIu64 "\"",
                (int)strcspn(metric, " "), metric,
                UINT64_C(1) << stp_ledger_class((uint64_t)cJSON_GetNumberValue(
                    cJSON_GetObjectItem(row, "min_bytes"))));
        for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
            const cJSON *item = cJSON_GetObjectItem(from, labels[i]);

            if (labels[i] == NULL)
                from = cJSON_GetObjectItem(row, "choice");
            else if (cJSON_IsString(item))
                fprintf(fp, ",%s=\"%s\"", labels[i], item->valuestring);
            else if (cJSON_IsNumber(item))
                fprintf(fp, ",%s=\"%d\"", labels[i], item->valueint);
        }
        fprintf(fp, "} %.15g\n", sample->valuedouble);
    }
}

void stp_print_ledgers_metrics(const struct stp_ledgers *ledgers,
                               const struct stp_staged *staged, FILE *fp)
{
    struct stp_table t = stp_table_result(true);
    const cJSON *calls;
    size_t n_sums;
    struct ledgers_sum *sums = ledgers_sum_up(ledgers, &n_sums);
    size_t n_aside = 0;

    for (size_t i = 0; i < ledgers->n; i++)
        n_aside += ledgers->all[i].is_aside;
    fprintf(fp,
            "# TYPE steptune_communicators gauge\n"
            "steptune_communicators{state=\"in_force\"} %zu\n"
            "steptune_communicators{state=\"stepped_aside\"} %zu\n",
            ledgers->n - n_aside, n_aside);
    stp_table_rows(&t, "decisions");
    for (size_t i = 0; i < n_sums; i++)
        ledgers_put(&sums[i], NULL, &t);
    free(sums);
    metrics_put(t.list, "decisions_total counter", "calls", fp);
    if (staged != NULL) {
        stp_print_staged(staged, t.root, NULL);
        calls =
            cJSON_GetObjectItem(cJSON_GetObjectItem(t.root, "staged"), "calls");
        metrics_put(calls, "staged_total counter", "staged", fp);
        metrics_put(calls, "left_plain_total counter", "plain", fp);
        metrics_put(calls, "staged_gain_least gauge", "gain", fp);
        metrics_put(calls, "staged_gain_most gauge", "gain_to", fp);
        fprintf(fp,
                "# TYPE steptune_staging_stepped_aside gauge\n"
                "steptune_staging_stepped_aside %d\n",
                staged->aside[0] != '\0');
    }
    stp_table_free(&t);
}
