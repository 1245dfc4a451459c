#define _GNU_SOURCE /* memmem() */
#include "report/learning/staged.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/csv.h"
#include "core/names.h"
#include "core/policy/policy.h"
#include "core/qsort.h"
#include "core/utf8.h"
#include "launch/take.h"
#include "report/file.h"
#include "report/table.h"

/* By collective, size and type. */
static int staged_order(const void *a, const void *b)
{
    return strcmp(((const struct stp_staged_calls *)a)->key,
                  ((const struct stp_staged_calls *)b)->key);
}

/* Adds what the library wrote of a process. Only rows have numbers. */
static enum stp_status staged_add_report(struct stp_staged *staged,
                                         const char *path,
                                         struct stp_error *err)
{
    char *text;
    size_t len, n;

    STP_TRY(stp_read_file(path, STP_MAX_FILE, &text, &len, err));
    staged->n_processes++;
    for (const char *s = text, *line;
         (line = stp_next_line(&s, text + len, &n)) != NULL;) {
        struct stp_staged_calls c = {.gain = {NAN, NAN}}, *all;
        char row[256];
        size_t i = 0;

        stp_csv_value(line, n, "# stepped aside: ", staged->aside,
                      sizeof(staged->aside));
        stp_printable(line, n, row, sizeof(row));
        staged->waits |= strcmp(row, "# NCCL_WORKLOAD_OVERLAP=0") == 0;
        if (sscanf(row,
                   "%23[^,],%23[^,],%" SCNu64 ",%" SCNu64 ",%" SCNu64
                   ",%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%23s",
                   c.collective, c.type, &c.min_bytes, &c.max_bytes, &c.n_ctas,
                   &c.n_staged, &c.n_plain, &c.n_captured, c.why) < 8)
            continue;
        snprintf(c.key, sizeof(c.key), "%s %020ju %s %s %ju", c.collective,
                 (uintmax_t)c.min_bytes, c.type, c.why, (uintmax_t)c.n_ctas);
        staged->n_staged += c.n_staged;
        staged->n_all += c.n_staged + c.n_plain;
        STP_TAKE_ROOM(staged->calls, staged->n, staged->capacity);
        all = staged->calls;
        all[staged->n] = c;
        while (strcmp(all[i].key, c.key) != 0)
            i++;
        if (i < staged->n) {
            all[i].n_staged += c.n_staged;
            all[i].n_plain += c.n_plain;
            all[i].n_captured += c.n_captured;
        }
        staged->n += i == staged->n;
    }
    free(text);
    return STP_OK;
}

/* Takes "# BYTES B: ... gain GAIN (...) ... ROUNDS rounds SOURCE", as
 * report/memory_file.c writes it above a rule, for collectives of that size. */
static void staged_take_gain(struct stp_staged *staged,
                             const struct stp_rule *rule, const char *line,
                             size_t len)
{
    static const char before[] = ", gain ", from[] = " rounds ";
    const char *gain = memmem(line, len, before, strlen(before)),
               *source = memmem(line, len, from, strlen(from));
    uint64_t n_bytes;
    double value;

    if (staged->n == 0 || gain == NULL || source == NULL || source < gain ||
        !stp_parse_u64(line + 2, strcspn(line + 2, " "), &n_bytes) ||
        !stp_parse_double(gain + strlen(before),
                          strcspn(gain + strlen(before), " "), &value))
        return;
    source += strlen(from);
    for (struct stp_staged_calls *c = staged->calls;
         c < staged->calls + staged->n; c++)
        if (strcmp(stp_coll_name(rule->coll), c->collective) == 0 &&
            c->n_staged > 0 && (uint64_t)rule->min_ctas == c->n_ctas &&
            n_bytes >= c->min_bytes && n_bytes <= c->max_bytes &&
            (rule->overlap == -1 || rule->overlap != (int)staged->waits) &&
            (rule->graph == -1 ||
             (rule->graph == 1 ? c->n_captured > 0
                               : c->n_captured < c->n_staged))) {
            c->gain[0] = fmin(c->gain[0], value);
            c->gain[1] = fmax(c->gain[1], value);
            stp_printable(source, (size_t)(line + len - source), c->source,
                          sizeof(c->source));
        }
}

enum stp_status stp_staged_load(const char *dir, const char *rules,
                                struct stp_staged *staged_ret,
                                struct stp_error *err)
{
    struct stp_staged staged = {.n = 0};
    struct stp_policy *policy = NULL;
    char *text = NULL;
    size_t len, n, next = 0;
    unsigned number = 0;
    enum stp_status status =
        stp_policy_load(STP_POLICY_OF_STAGE, rules, &policy, err);
    const struct dirent *entry;
    DIR *folder = opendir(dir);

    STP_THEN(status, stp_read_file(rules, STP_MAX_FILE, &text, &len, err));
    if (folder == NULL && status == STP_OK)
        status = stp_cannot(err, "read", dir);
    while (status == STP_OK && (entry = readdir(folder)) != NULL) {
        const size_t n_digits = strspn(entry->d_name, "0123456789");
        char path[4096];

        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (strcmp(entry->d_name + n_digits, ".csv") == 0)
            status = staged_add_report(&staged, path, err);
    }
    if (folder != NULL)
        closedir(folder);
    STP_SORT(staged.calls, staged.n, staged_order);
    /* the lines between the rule before and a rule are the rule's */
    for (const char *s = text, *above = text, *line, *comment;
         status == STP_OK && next < stp_policy_size(policy) &&
         (line = stp_next_line(&s, text + len, &n));) {
        const struct stp_rule *rule = stp_policy_rule(policy, next);

        if (rule->line != ++number)
            continue;
        next++;
        while ((comment = stp_next_line(&above, line, &n)) != NULL)
            staged_take_gain(&staged, rule, comment, n);
    }
    free(text);
    stp_policy_free(policy);
    if (status == STP_OK)
        *staged_ret = staged;
    else
        free(staged.calls);
    return status;
}

void stp_staged_text(const struct stp_staged *staged,
                     char text[STP_STAGED_TEXT])
{
    if (staged->n_processes == 0)
        snprintf(
            text, STP_STAGED_TEXT,
            "No process said what it staged: it was killed at once, or made no "
            "communicator through the library. `steptune doctor PROGRAM` "
            "says how a program finds NCCL.");
    else
        snprintf(text, STP_STAGED_TEXT,
                 "%" PRIu64 " of %" PRIu64
                 " collectives were staged, in %zu process%s.%s%s",
                 staged->n_staged, staged->n_all, staged->n_processes,
                 staged->n_processes == 1 ? "" : "es",
                 staged->aside[0] != '\0' ? " Stepped aside: " : "",
                 staged->aside);
}

void stp_print_staged(const struct stp_staged *staged, cJSON *root, FILE *fp)
{
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);
    char text[STP_STAGED_TEXT];
    bool any_gain = false, any_waits = false;

    stp_staged_text(staged, text);
    if (root == NULL) {
        fprintf(fp, "%s\n", text);
    } else {
        t = stp_table_member(root, "staged");
        stp_table_count(&t, "processes", NULL, staged->n_processes);
        stp_table_word(&t, "what", NULL, text);
        t = stp_table_array(t.row, "calls");
    }
    for (size_t i = 0; i < staged->n; i++) {
        const struct stp_staged_calls *c = &staged->calls[i];

        any_gain |= !isnan(c->gain[0]);
        any_waits |= strcmp(c->why, "overlap") == 0;
        stp_table_row(&t);
        stp_table_word(&t, "collective", "<collective", c->collective);
        stp_table_word(&t, "type", "<type", c->type);
        stp_table_count(&t, "min_bytes", "from bytes", c->min_bytes);
        stp_table_count(&t, "max_bytes", "to bytes", c->max_bytes);
        stp_table_count(&t, "min_ctas", "CTAs", c->n_ctas);
        stp_table_count(&t, "staged", "staged", c->n_staged);
        stp_table_count(&t, "plain", "plain", c->n_plain);
        stp_table_count(&t, "captured", "in graphs", c->n_captured);
        stp_table_word(&t, "why_plain", "<why plain", *c->why ? c->why : NULL);
        stp_table_number(&t, "gain", "gain", c->gain[0], 3);
        stp_table_number(&t, "gain_to", "to", c->gain[1], 3);
        stp_table_word(&t, "source", "<source", *c->source ? c->source : NULL);
    }
    if (root == NULL)
        stp_table_end(&t, fp);
    if (root == NULL && any_gain)
        fputs("The gains are those of single collectives by which the rules "
              "stand; `steptune compare --stage` measures the job's.\n",
              fp);
    if (root == NULL && any_waits)
        fputs("More rules hold for jobs in which nothing runs beside "
              "collectives (why plain: overlap): set NCCL_WORKLOAD_OVERLAP=0 "
              "if this is such a job.\n",
              fp);
}
