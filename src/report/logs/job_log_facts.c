#define _GNU_SOURCE /* strsep() */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/qsort.h"
#include "launch/take.h"
#include "nccl_tuner_abi.h"
#include "report/logs/job_log_facts.h"
#include "report/table.h"

/* ---- what facts say ---- */

enum { SAID = 256 }; /* bytes of what a fact says; more is cut by "..." */

/* "NET/IB/3(1)/GDRDMA" becomes "NET/IB/GDRDMA, PXN". */
static void facts_name_transport(const struct stp_field *via, char *text,
                                 size_t size)
{
    bool is_device = false, has_proxy = false;
    size_t n = 0;

    for (size_t i = 0; i < via->len && n + 8 < size; i++) {
        if (via->s[i] == '/')
            is_device = i + 1 < via->len && via->s[i + 1] >= '0' &&
                        via->s[i + 1] <= '9';
        has_proxy |= is_device && via->s[i] == '(';
        if (!is_device)
            text[n++] = via->s[i];
    }
    snprintf(text + n, size - n, "%s", has_proxy ? ", PXN" : "");
}

/* A word of the log as Steptune spells it: a name, or the number of one. */
static void facts_name(const struct stp_field *word,
                       int (*from_name)(const char *, size_t),
                       const char *(*name_of)(int), char *text, size_t size)
{
    const int n = stp_log_word(word, 64, from_name);

    if (n >= 0)
        snprintf(text, size, "%s", name_of(n));
    else
        snprintf(text, size, "%.*s", STP_SHOWN(word));
}

static void facts_say(const struct stp_log_fact *fact, char text[SAID])
{
    static const char kinds[] = "/?#@cap";
    char raw[SAID] = "", word[2 * SAID];
    size_t n = 0;

    for (const char *s = fact->row->says; *s != '\0' && n + 1 < SAID; s++) {
        const int i = s[0] == '$' ? s[1] - '1' : 0;
        const struct stp_field *v = &fact->value[i];

        if (*s != '$') {
            raw[n++] = *s;
            raw[n] = '\0';
            continue;
        }
        s++;
        switch (s[1]) {
        case '/':
            facts_name_transport(v, word, SAID);
            break;
        case '?':
            snprintf(word, SAID, "%s", stp_field_is(v, "0") ? "off" : "on");
            break;
        case '#':
            snprintf(word, SAID, "%.6g", stp_log_number(fact, i));
            break;
        case '@':
            snprintf(word, SAID, "%20.0f", stp_log_number(fact, i));
            break;
        case 'c':
            facts_name(v, stp_coll_from_name, stp_coll_name, word, SAID);
            break;
        case 'a':
            facts_name(v, stp_algo_from_name, stp_algo_name, word, SAID);
            break;
        case 'p':
            facts_name(v, stp_proto_from_name, stp_proto_name, word, SAID);
            break;
        default:
            snprintf(word, sizeof(word), "%.*s", (int)v->len, v->s);
        }
        n += (size_t)snprintf(raw + n, SAID - n, "%s", word);
        s += s[1] != '\0' && strchr(kinds, s[1]) != NULL;
    }
    if (n >= SAID)
        memcpy(raw + SAID - 4, "...", 4);
    memcpy(text, raw, SAID);
}

/* ---- facts that say the same ---- */

struct log_said {
    char text[SAID];
    size_t n_lines, n_ranks;
    unsigned line, rank; /* the first; 0: of none that is known */
};

struct log_list {
    struct log_said *said;
    size_t n, capacity;
};

static int facts_compare(const void *a, const void *b)
{
    const struct log_said *x = a, *y = b;

    STP_RETURN_ORDER(strcmp(x->text, y->text));
    STP_RETURN_ORDER(STP_ORDER(x->rank, y->rank));
    return STP_ORDER(x->line, y->line);
}

/* Decisions have an order of their own; of other facts what most lines say is
 * first. */
static int facts_compare_counts(const void *a, const void *b)
{
    const struct log_said *x = a, *y = b;

    if (strchr(x->text, '\t') == NULL)
        STP_RETURN_ORDER(STP_ORDER(y->n_lines, x->n_lines));
    return strcmp(x->text, y->text);
}

/* Lists what the facts of a scope say of something; NULL: of all. */
static void facts_list(const struct stp_job_log *log, enum stp_log_scope scope,
                       const char *what, unsigned shape, struct log_list *list)
{
    struct log_said *all;
    size_t n = 0;

    list->n = 0;
    for (size_t k = 0; k < log->n_facts; k++) {
        const struct stp_log_fact *f = &log->facts[k];

        if (f->row->scope != scope ||
            (what != NULL && strcmp(f->row->what, what) != 0) ||
            (scope == STP_LOG_OF_COMM && f->shape != shape))
            continue;
        STP_TAKE_ROOM(list->said, list->n, list->capacity);
        all = list->said;
        all[list->n] = (struct log_said){.n_lines = 1,
                                         .n_ranks = f->rank > 0,
                                         .line = f->line,
                                         .rank = f->rank};
        facts_say(f, all[list->n++].text);
    }
    if (list->n == 0)
        return;
    all = list->said;
    STP_SORT(all, list->n, facts_compare);
    for (size_t i = 1; i < list->n; i++) {
        const bool is_new_rank =
            all[i].rank > 0 && all[i].rank != all[i - 1].rank;

        if (strcmp(all[i].text, all[n].text) != 0) {
            all[++n] = all[i];
            continue;
        }
        all[n].n_lines++;
        all[n].n_ranks += is_new_rank;
    }
    list->n = n + 1;
    STP_SORT(all, list->n, facts_compare_counts);
}

/* ---- tables ---- */

/* A row; with 0 lines one of what the log lacks.  Shape 0 is the job's. */
static void facts_put(struct stp_table *t, unsigned shape, const char *what,
                      const struct log_said *said)
{
    const bool lacks = said->n_lines == 0;
    const bool is_long = strlen(said->text) >= STP_TABLE_CELL;

    stp_table_row(t);
    what += *what == '?';
    stp_table_word(t, "what", NULL, what);
    stp_table_text(t, "<what", "%s%s", shape > 0 ? "  " : "", what);
    stp_table_word(t, "says", NULL, said->text);
    stp_table_text(t, "<the log says", "%.*s%s", (int)(is_long ? 100 : SAID),
                   said->text, is_long ? "..." : "");
    stp_table_number(t, "communicator", NULL, shape > 0 ? shape : NAN, 0);
    stp_table_number(t, "ranks", "?ranks",
                     said->n_ranks > 0 ? (double)said->n_ranks : NAN, 0);
    stp_table_number(t, "lines", "?lines", lacks ? NAN : (double)said->n_lines,
                     0);
    stp_table_number(t, "line", "in line", lacks ? NAN : (double)said->line, 0);
}

/* The rows of the job, or of communicators of a shape; 0: of unknown ones. */
static void facts_put_scope(struct stp_table *t, const struct stp_job_log *log,
                            enum stp_log_scope scope, unsigned shape)
{
    const size_t most = t->format == STP_TABLE_JSON ? SIZE_MAX : 12;
    struct log_list list = {NULL, 0, 0};
    const char *last = NULL;

    for (const struct stp_log_row *row = stp_log_rows; row->line != NULL;
         row++) {
        struct log_said lacks = {.n_lines = 0};

        if (row->scope != scope ||
            (last != NULL && strcmp(row->what, last) == 0))
            continue;
        last = row->what;
        facts_list(log, scope, last, shape, &list);
        for (size_t k = 0; k < list.n && k < most; k++)
            facts_put(t, shape, last, &list.said[k]);
        if (list.n > most) {
            snprintf(lacks.text, SAID, "%zu others", list.n - most);
            facts_put(t, shape, last, &lacks);
        }
        if (list.n == 0 && last[0] == '?' &&
            (scope == STP_LOG_OF_JOB || shape > 0)) {
            stp_log_lacks(log, row, lacks.text, SAID);
            facts_put(t, shape, last, &lacks);
        }
    }
    free(list.said);
}

static void facts_put_all(struct stp_table *t, const struct stp_job_log *log)
{
    facts_put_scope(t, log, STP_LOG_OF_JOB, 0);
    for (unsigned i = 1; i <= log->n_shapes; i++) {
        const struct stp_log_shape *shape = &log->shapes[i - 1];
        const struct stp_log_fact *f =
            stp_log_next(log, STP_LOG_SHAPE, i, NULL);
        struct log_said said = {.n_ranks = shape->n_logged,
                                .n_lines = f != NULL,
                                .line = f != NULL ? f->line : 0};

        if (f != NULL)
            snprintf(said.text, SAID, "%u ranks on %u node%s, %u on each",
                     shape->n_ranks, shape->n_nodes, STP_S(shape->n_nodes),
                     shape->per_node);
        else
            snprintf(said.text, SAID,
                     "%u ranks, on nodes that it does not count",
                     shape->n_ranks);
        facts_put(t, 0, "communicator", &said);
        facts_put_scope(t, log, STP_LOG_OF_COMM, i);
    }
    for (size_t i = 0; i < log->n_facts; i++)
        if (log->facts[i].row->scope == STP_LOG_OF_COMM &&
            log->facts[i].shape == 0) {
            const struct log_said said = {
                .text = "others, of which the log does not tell the ranks"};

            facts_put(t, 0, "communicator", &said);
            facts_put_scope(t, log, STP_LOG_OF_COMM, 0);
            return;
        }
}

static void facts_put_decisions(struct stp_table *t,
                                const struct stp_job_log *log)
{
    static const char *const columns[][2] = {{"collective", "<collective"},
                                             {"bytes", "bytes"},
                                             {"algorithm", "<algorithm"},
                                             {"protocol", "<protocol"},
                                             {"channels", "<channels"}};
    struct log_list list = {NULL, 0, 0};

    facts_list(log, STP_LOG_OF_CALL, NULL, 0, &list);
    for (size_t i = 0; i < list.n; i++) {
        char *rest = list.said[i].text;

        stp_table_row(t);
        for (int c = 0; c < 5; c++) {
            char *word = strsep(&rest, "\t");

            word += strspn(word, " ");
            if (c == 1)
                stp_table_count(t, columns[c][0], columns[c][1],
                                strtoull(word, NULL, 10));
            else
                stp_table_word(t, columns[c][0], columns[c][1],
                               *word != '\0' ? word : NULL);
        }
        stp_table_count(t, "calls", "calls", list.said[i].n_lines);
        stp_table_count(t, "line", "in line", list.said[i].line);
    }
    free(list.said);
}

void stp_print_job_log(const struct stp_job_log *log,
                       const struct stp_diagnosis *findings, bool is_json,
                       FILE *fp)
{
    const unsigned minor = stp_log_minor(log);
    const struct stp_log_row *row = stp_log_rows;
    struct stp_table t = stp_table_result(is_json);
    char lacks[SAID];

    stp_table_rows(&t, "facts");
    facts_put_all(&t, log);
    if (!is_json) {
        stp_table_end(&t, fp);
        t = stp_table_result(false);
    }
    stp_table_rows(&t, "decisions");
    facts_put_decisions(&t, log);
    if (is_json) {
        stp_put_diagnosis(&t, findings);
    } else if (t.n_cells > 0) {
        fprintf(fp, "\nAlgorithms by size, in bytes %s:\n",
                minor == 0   ? "as NCCL counts them"
                : minor < 24 ? "of all ranks"
                             : "of one rank's part");
    } else {
        while (row->key != STP_LOG_RAN)
            row++;
        stp_log_lacks(log, row, lacks, SAID);
        fprintf(fp, "\nAlgorithms by size: %s\n", lacks);
    }
    stp_table_end(&t, fp);
    if (!is_json) {
        fputc('\n', fp);
        stp_print_diagnosis(findings, false, fp);
    }
}
