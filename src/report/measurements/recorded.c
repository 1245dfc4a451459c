/* recorded.c - what became of a recording */
#include <inttypes.h>

#include "core/names.h"
#include "report/measurements/machine_folder.h"
#include "report/table.h"

enum { MAX_SHOWN = 5, TEXT = 320 }; /* differences, and one of them */

static const char *recorded_plural(size_t n)
{
    return n == 1 ? "" : "s";
}

/* ---- differences ---- */

/* The first entry of the two tables that differs, from 0; -1 for none. */
static int recorded_find_cost(const struct stp_nccl_choice *a,
                              const struct stp_nccl_choice *b)
{
    const float *p = &a->question.cost[0][0];
    const float *q = &b->question.cost[0][0];

    for (int i = 0; i < NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS; i++)
        if (p[i] != q[i] && (p[i] >= 0 || q[i] >= 0))
            return i;
    return -1;
}

static void recorded_describe(const struct stp_nccl_choice *nccl,
                              const struct stp_nccl_choice *mock,
                              char text[TEXT])
{
    int cost = recorded_find_cost(nccl, mock);
    int n = snprintf(text, TEXT,
                     "%s %" PRIu64 " %s: NCCL %s/%s on %d channel%s, mock NCCL "
                     "%s/%s on %d",
                     stp_coll_name(nccl->what.coll), nccl->what.n_bytes,
                     stp_type_name(nccl->what.type), stp_algo_name(nccl->algo),
                     stp_proto_name(nccl->proto), nccl->n_channels,
                     recorded_plural((size_t)nccl->n_channels),
                     stp_algo_name(mock->algo), stp_proto_name(mock->proto),
                     mock->n_channels);

    if (cost >= 0 && n > 0 && n < TEXT)
        snprintf(text + n, (size_t)(TEXT - n),
                 "; cost of %s/%s %.9g us, mock NCCL %.9g",
                 stp_algo_name(cost / NCCL_NUM_PROTOCOLS),
                 stp_proto_name(cost % NCCL_NUM_PROTOCOLS),
                 (double)(&nccl->question.cost[0][0])[cost],
                 (double)(&mock->question.cost[0][0])[cost]);
}

/* The next difference from choice *at on into 'text'; false if none is left. */
static bool recorded_find_next(const struct stp_recorded *recorded, size_t *at,
                               char text[TEXT])
{
    const struct stp_choices *nccl = &recorded->record->choices;

    for (; *at < nccl->n_rows; ++*at)
        if (!stp_choice_equal(&nccl->rows[*at], &recorded->mock->rows[*at])) {
            recorded_describe(&nccl->rows[*at], &recorded->mock->rows[*at],
                              text);
            ++*at;
            return true;
        }
    return false;
}

size_t stp_recorded_alike(const struct stp_recorded *recorded)
{
    const struct stp_choices *nccl = &recorded->record->choices;
    size_t n = 0;

    for (size_t i = 0; i < nccl->n_rows; i++)
        n += stp_choice_equal(&nccl->rows[i], &recorded->mock->rows[i]);
    return n;
}

/* ---- printing ---- */

static void recorded_print_text(const struct stp_recorded *recorded, FILE *fp)
{
    const struct stp_machine_record *r = recorded->record;
    size_t n_times = stp_machine_n_times(r);
    size_t n_alike = stp_recorded_alike(recorded);
    char text[TEXT];
    size_t at = 0;

    fprintf(
        fp,
        "%s\n\n%s: %zu time%s of collectives, %zu of iterations with compute\n"
        "%zu of %zu choices reproduced",
        r->info.what, recorded->path, n_times, recorded_plural(n_times),
        r->overlap.data.n_rows, n_alike, r->choices.n_rows);
    if (n_alike < r->choices.n_rows)
        fprintf(fp, ", %zu differ%s", r->choices.n_rows - n_alike,
                r->choices.n_rows - n_alike == 1 ? "s" : "");
    fputc('\n', fp);
    for (int i = 0; i < MAX_SHOWN && recorded_find_next(recorded, &at, text);
         i++)
        fprintf(fp, "  %s\n", text);
}

enum stp_status stp_print_recorded(const struct stp_recorded *recorded,
                                   bool is_json, FILE *fp,
                                   struct stp_error *err)
{
    const struct stp_machine_record *r = recorded->record;
    struct stp_table t = stp_table_result(is_json);
    char text[TEXT];
    size_t at = 0;

    if (!is_json)
        recorded_print_text(recorded, fp);
    stp_table_rows(&t, "differences");
    stp_table_word(&t, "machine", NULL, r->info.what);
    stp_table_word(&t, "folder", NULL, recorded->path);
    stp_table_count(&t, "times", NULL, stp_machine_n_times(r));
    stp_table_count(&t, "times_of_iterations", NULL, r->overlap.data.n_rows);
    stp_table_count(&t, "choices", NULL, r->choices.n_rows);
    stp_table_count(&t, "reproduced", NULL, stp_recorded_alike(recorded));
    while (is_json && recorded_find_next(recorded, &at, text))
        cJSON_AddItemToArray(t.list, cJSON_CreateString(text));
    return stp_table_end(&t, fp, err);
}
