#include "report/learning/staged.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/csv.h"
#include "core/policy/policy.h"
#include "core/utf8.h"
#include "report/file.h"
#include "report/table.h"
#include "report/take.h"

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
        struct stp_staged_calls c = {0}, *all;
        char row[256];
        size_t i = 0;

        stp_csv_value(line, n, "# stepped aside: ", staged->aside,
                      sizeof(staged->aside));
        stp_printable(line, n, row, sizeof(row));
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

enum stp_status stp_staged_load(const char *dir, struct stp_staged *staged_ret,
                                struct stp_error *err)
{
    struct stp_staged staged = {.n = 0};
    enum stp_status status = STP_OK;
    const struct dirent *entry;
    DIR *folder = opendir(dir);

    if (folder == NULL)
        return stp_cannot(err, "read", dir);
    while (status == STP_OK && (entry = readdir(folder)) != NULL) {
        const size_t n_digits = strspn(entry->d_name, "0123456789");
        char path[4096];

        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (strcmp(entry->d_name + n_digits, ".csv") == 0)
            status = staged_add_report(&staged, path, err);
    }
    closedir(folder);
    if (status == STP_OK && staged.n > 0)
        qsort(staged.calls, staged.n, sizeof(*staged.calls), staged_order);
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
        snprintf(text, STP_STAGED_TEXT,
                 "No process said what it staged: it was killed, or made no "
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
    bool any_waits = false;

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
    }
    if (root == NULL)
        stp_table_end(&t, fp);
    if (root == NULL && any_waits)
        fputs("More rules hold for jobs in which nothing runs beside "
              "collectives (why plain: overlap): set NCCL_WORKLOAD_OVERLAP=0 "
              "if this is such a job.\n",
              fp);
}
