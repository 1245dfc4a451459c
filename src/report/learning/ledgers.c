#include "report/learning/ledgers.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/text.h"
#include "nccl_tuner_abi.h"
#include "report/json.h"
#include "report/learning/learning_json.h"
#include "report/table.h"
#include "report/words.h"

/* ---- reading ---- */

static enum stp_status no_memory(struct stp_error *err)
{
    return stp_nomem(err);
}

/* False if the file is no ledger. */
static bool read_ledger(const char *dir, const char *name,
                        struct stp_ledger *ledger)
{
    char path[4096];
    int n = snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *fp = n > 0 && n < (int)sizeof(path) ? fopen(path, "rb") : NULL;
    bool good;

    if (fp == NULL)
        return false;
    good = fread(ledger, sizeof(*ledger), 1, fp) == 1 && fgetc(fp) == EOF &&
           stp_ledger_is_valid(ledger, sizeof(*ledger));
    fclose(fp);
    return good;
}

static enum stp_status add_file(const char *dir, const char *name,
                                struct stp_ledgers *ledgers,
                                struct stp_error *err)
{
    struct stp_ledger *more =
        realloc(ledgers->all, (ledgers->n + 1) * sizeof(*more));

    if (more == NULL)
        return no_memory(err);
    ledgers->all = more;
    if (read_ledger(dir, name, &more[ledgers->n]))
        ledgers->n++;
    return STP_OK;
}

/* Large communicators first; a folder lists its files in any order. */
static int order_ledgers(const void *pa, const void *pb)
{
    const struct stp_ledger *a = pa;
    const struct stp_ledger *b = pb;

    if (a->n_ranks != b->n_ranks)
        return a->n_ranks > b->n_ranks ? -1 : 1;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    return strcmp(b->what, a->what); /* who learns before who follows */
}

enum stp_status stp_ledgers_load(const char *dir,
                                 struct stp_ledgers *ledgers_ret,
                                 struct stp_error *err)
{
    struct stp_ledgers ledgers = {0};
    enum stp_status status = STP_OK;
    const struct dirent *entry;
    DIR *folder = opendir(dir);

    if (folder == NULL)
        return stp_fail(err, STP_ERR_IO, "cannot read '%.200s': %s", dir,
                        strerror(errno));
    while (status == STP_OK && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.')
            status = add_file(dir, entry->d_name, &ledgers, err);
    closedir(folder);
    if (status != STP_OK) {
        stp_ledgers_free(&ledgers);
        return status;
    }
    if (ledgers.n > 0)
        qsort(ledgers.all, ledgers.n, sizeof(*ledgers.all), order_ledgers);
    *ledgers_ret = ledgers;
    return STP_OK;
}

void stp_ledgers_free(struct stp_ledgers *ledgers)
{
    free(ledgers->all);
    *ledgers = (struct stp_ledgers){0};
}

/* ---- sums ---- */

/* Entries of communicators of one size, put together. */
struct sum {
    uint64_t n_ranks;
    struct stp_ledger_entry entry;
};

struct sums {
    struct sum *all;
    size_t n;
};

#define ORDER(x, y)                                                            \
    do {                                                                       \
        if ((x) != (y))                                                        \
            return (x) < (y) ? -1 : 1;                                         \
    } while (0)

static int order_sums(const void *pa, const void *pb)
{
    const struct sum *a = pa;
    const struct sum *b = pb;

    ORDER(b->n_ranks, a->n_ranks);
    ORDER(a->entry.coll, b->entry.coll);
    ORDER(stp_ledger_class(a->entry.min_bytes),
          stp_ledger_class(b->entry.min_bytes));
    ORDER(a->entry.line, b->entry.line);
    ORDER(a->entry.algo, b->entry.algo);
    ORDER(a->entry.proto, b->entry.proto);
    ORDER(a->entry.n_channels, b->entry.n_channels);
    return 0;
}

static void merge(struct sums *sums)
{
    size_t kept = 0;

    for (size_t i = 0; i < sums->n; i++) {
        struct sum *last = kept > 0 ? &sums->all[kept - 1] : NULL;
        const struct stp_ledger_entry *e = &sums->all[i].entry;

        if (last == NULL || order_sums(last, &sums->all[i]) != 0) {
            sums->all[kept++] = sums->all[i];
            continue;
        }
        last->entry.n_calls += e->n_calls;
        if (e->min_bytes < last->entry.min_bytes)
            last->entry.min_bytes = e->min_bytes;
        if (e->max_bytes > last->entry.max_bytes)
            last->entry.max_bytes = e->max_bytes;
    }
    sums->n = kept;
}

static bool sum_up(const struct stp_ledgers *ledgers, struct sums *sums)
{
    sums->n = 0;
    sums->all = calloc(ledgers->n * STP_LEDGER_ENTRIES + 1, sizeof(*sums->all));
    if (sums->all == NULL)
        return false;
    for (size_t i = 0; i < ledgers->n; i++)
        for (size_t k = 0; k < STP_LEDGER_ENTRIES; k++)
            if (ledgers->all[i].entries[k].n_calls > 0)
                sums->all[sums->n++] = (struct sum){ledgers->all[i].n_ranks,
                                                    ledgers->all[i].entries[k]};
    qsort(sums->all, sums->n, sizeof(*sums->all), order_sums);
    merge(sums);
    return true;
}

static size_t count_processes(const struct stp_ledgers *ledgers)
{
    size_t n = 0;

    for (size_t i = 0; i < ledgers->n; i++) {
        bool seen = false;

        for (size_t k = 0; k < i; k++)
            seen |= ledgers->all[k].pid == ledgers->all[i].pid;
        n += !seen;
    }
    return n;
}

/* Whether an earlier ledger says the same of itself. */
static bool is_repeated(const struct stp_ledgers *ledgers, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(ledgers->all[k].what, ledgers->all[i].what) == 0 &&
            ledgers->all[k].is_aside == ledgers->all[i].is_aside)
            return true;
    return false;
}

/* ---- text ---- */

static void print_state(const struct stp_ledgers *ledgers, FILE *fp)
{
    if (ledgers->n == 0) {
        fprintf(fp,
                "The plugin was not loaded: no communicator of more than one "
                "rank was made by an NCCL of 2.21 or later that reads "
                "NCCL_TUNER_PLUGIN. NCCL_DEBUG=INFO says more.\n");
        return;
    }
    fprintf(fp, "The plugin served %zu communicator%s in %zu process%s.\n",
            ledgers->n, ledgers->n == 1 ? "" : "s", count_processes(ledgers),
            count_processes(ledgers) == 1 ? "" : "es");
    for (size_t i = 0; i < ledgers->n; i++)
        if (!is_repeated(ledgers, i))
            fprintf(fp, "%s%s\n",
                    ledgers->all[i].is_aside
                        ? "Stepped aside, NCCL tuned alone: "
                        : "Plugin: ",
                    ledgers->all[i].what);
}

static void add_choice(struct stp_table *t, const struct stp_ledger_entry *e,
                       const char *policy)
{
    char name[STP_RAN_NAME];

    if (e->algo < 0) {
        stp_table_add(t, "NCCL's own");
        stp_table_add(t, "-");
        return;
    }
    stp_ran_name(e->algo, e->proto, e->n_channels, name);
    stp_table_add(t, "%s", name);
    if (e->line == 0) /* no line of a policy has that */
        stp_table_add(t, "learned");
    else
        stp_table_add(t, "%s:%u",
                      policy != NULL ? stp_base_name(policy) : "line",
                      (unsigned)e->line);
}

static void add_sum(struct stp_table *t, const struct sum *sum,
                    const char *policy)
{
    const struct stp_ledger_entry *e = &sum->entry;

    stp_table_add(t, "%" PRIu64, sum->n_ranks);
    stp_table_add(t, "%s", stp_coll_name(e->coll));
    stp_table_add(t, "%" PRIu64, e->min_bytes);
    stp_table_add(t, "%" PRIu64, e->max_bytes);
    stp_table_add(t, "%" PRIu64, e->n_calls);
    add_choice(t, e, policy);
}

static uint64_t count_lost(const struct stp_ledgers *ledgers)
{
    uint64_t n = 0;

    for (size_t i = 0; i < ledgers->n; i++)
        n += ledgers->all[i].n_lost;
    return n;
}

static bool is_known(const struct stp_ledger_entry *e)
{
    return e->coll >= 0 && e->coll < NCCL_NUM_TUNED_FUNCS &&
           e->algo < NCCL_NUM_ALGORITHMS && e->proto < NCCL_NUM_PROTOCOLS;
}

enum stp_status stp_print_ledgers(const struct stp_ledgers *ledgers,
                                  const char *policy, FILE *fp,
                                  struct stp_error *err)
{
    struct sums sums;
    struct stp_table *t;
    enum stp_status status = STP_OK;

    if (!sum_up(ledgers, &sums))
        return no_memory(err);
    print_state(ledgers, fp);
    if (sums.n > 0) {
        t = stp_table_create(
            "ranks|<collective|from bytes|to bytes|calls|<choice|<by");
        for (size_t i = 0; t != NULL && i < sums.n; i++)
            if (is_known(&sums.all[i].entry))
                add_sum(t, &sums.all[i], policy);
        status = stp_table_finish(t, fp, err);
    }
    if (count_lost(ledgers) > 0)
        fprintf(fp, "%" PRIu64 " more calls, of too many kinds to list.\n",
                count_lost(ledgers));
    free(sums.all);
    return status;
}

/* ---- JSON ---- */

static void add_row(cJSON *row, const struct sum *sum)
{
    const struct stp_ledger_entry *e = &sum->entry;

    stp_json_number(row, "nRanks", (double)sum->n_ranks);
    cJSON_AddStringToObject(row, "collective", stp_coll_name(e->coll));
    stp_json_number(row, "min_bytes", (double)e->min_bytes);
    stp_json_number(row, "max_bytes", (double)e->max_bytes);
    stp_json_number(row, "calls", (double)e->n_calls);
    if (e->algo < 0) {
        cJSON_AddNullToObject(row, "choice");
        cJSON_AddNullToObject(row, "line");
        cJSON_AddStringToObject(row, "by", "nccl");
        return;
    }
    stp_json_pair(row, "choice", e->algo, e->proto, e->n_channels);
    if (e->line == 0)
        cJSON_AddNullToObject(row, "line");
    else
        stp_json_number(row, "line", e->line);
    cJSON_AddStringToObject(row, "by", e->line == 0 ? "learned" : "policy");
}

static void add_communicators(cJSON *root, const struct stp_ledgers *ledgers)
{
    cJSON *list = cJSON_AddArrayToObject(root, "communicators");

    for (size_t i = 0; i < ledgers->n; i++) {
        cJSON *row = stp_json_row(list);

        stp_json_number(row, "pid", ledgers->all[i].pid);
        stp_json_number(row, "nRanks", (double)ledgers->all[i].n_ranks);
        stp_json_number(row, "nNodes", (double)ledgers->all[i].n_nodes);
        cJSON_AddBoolToObject(row, "stepped_aside", ledgers->all[i].is_aside);
        cJSON_AddStringToObject(row, "what", ledgers->all[i].what);
    }
}

enum stp_status
stp_print_ledgers_json(const struct stp_ledgers *ledgers, const char *policy,
                       const struct stp_learning *learning,
                       const struct stp_learning_setting *setting, FILE *fp,
                       struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *rows;
    struct sums sums;

    if (!sum_up(ledgers, &sums)) {
        cJSON_Delete(root);
        return no_memory(err);
    }
    stp_json_word(root, "policy", policy);
    cJSON_AddBoolToObject(root, "loaded", ledgers->n > 0);
    add_communicators(root, ledgers);
    rows = cJSON_AddArrayToObject(root, "decisions");
    for (size_t i = 0; i < sums.n; i++)
        if (is_known(&sums.all[i].entry))
            add_row(stp_json_row(rows), &sums.all[i]);
    stp_json_number(root, "calls_not_listed", (double)count_lost(ledgers));
    if (learning != NULL)
        stp_json_learning(root, learning, setting);
    free(sums.all);
    return stp_json_finish(root, fp, err);
}
