/* recorded.c - what became of a recording */
#include <inttypes.h>

#include "core/names.h"
#include "core/text.h"
#include "report/measurements/machine_folder.h"
#include "report/table.h"

enum { MAX_SHOWN = 5, TEXT = 320 }; /* differences, and one of them */

static void recorded_describe(const struct stp_nccl_choice *nccl,
                              const struct stp_nccl_choice *mock,
                              char text[TEXT])
{
    enum { N_COSTS = NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS };
    const float *p = &nccl->question.cost[0][0];
    const float *q = &mock->question.cost[0][0];
    int cost = 0; /* the first entry that differs */
    snprintf(text, TEXT,
             "%s %" PRIu64 " %s: NCCL %s/%s on %d channel%s, mock NCCL %s/%s "
             "on %d",
             stp_coll_name(nccl->what.coll), nccl->what.n_bytes,
             stp_type_name(nccl->what.type), stp_algo_name(nccl->algo),
             stp_proto_name(nccl->proto), nccl->n_channels,
             nccl->n_channels == 1 ? "" : "s", stp_algo_name(mock->algo),
             stp_proto_name(mock->proto), mock->n_channels);

    while (cost < N_COSTS &&
           (p[cost] == q[cost] || (p[cost] < 0 && q[cost] < 0)))
        cost++;
    if (cost < N_COSTS)
        stp_append(text, TEXT, "; cost of %s/%s %.9g us, mock NCCL %.9g",
                   stp_algo_name(cost / NCCL_NUM_PROTOCOLS),
                   stp_proto_name(cost % NCCL_NUM_PROTOCOLS), (double)p[cost],
                   (double)q[cost]);
}

size_t stp_recorded_alike(const struct stp_recorded *recorded)
{
    const struct stp_choices *nccl = &recorded->record->choices;
    size_t n = 0;

    for (size_t i = 0; i < nccl->n_rows; i++)
        n += stp_choice_equal(&nccl->rows[i], &recorded->mock->rows[i]);
    return n;
}

void stp_print_recorded(const struct stp_recorded *recorded, bool is_json,
                        FILE *fp)
{
    const struct stp_machine_record *r = recorded->record;
    const size_t n_times = stp_machine_n_times(r);
    const size_t n_alike = stp_recorded_alike(recorded);
    const size_t n_differ = r->choices.n_rows - n_alike;
    struct stp_table t = stp_table_result(is_json);
    char text[TEXT];
    size_t n_shown = 0;

    if (!is_json) {
        fprintf(fp,
                "%s\n\n%s: %zu time%s of collectives, %zu of iterations with "
                "compute\n%zu of %zu choices reproduced",
                r->info.what, recorded->path, n_times, n_times == 1 ? "" : "s",
                r->overlap.data.n_rows, n_alike, r->choices.n_rows);
        if (n_differ > 0)
            fprintf(fp, ", %zu differ%s", n_differ, n_differ == 1 ? "s" : "");
        fputc('\n', fp);
    }
    stp_table_rows(&t, "differences");
    stp_table_word(&t, "machine", NULL, r->info.what);
    stp_table_word(&t, "folder", NULL, recorded->path);
    stp_table_count(&t, "times", NULL, n_times);
    stp_table_count(&t, "times_of_iterations", NULL, r->overlap.data.n_rows);
    stp_table_count(&t, "choices", NULL, r->choices.n_rows);
    stp_table_count(&t, "reproduced", NULL, n_alike);
    for (size_t i = 0; i < r->choices.n_rows; i++) {
        if (stp_choice_equal(&r->choices.rows[i], &recorded->mock->rows[i]))
            continue;
        recorded_describe(&r->choices.rows[i], &recorded->mock->rows[i], text);
        if (is_json)
            cJSON_AddItemToArray(t.list, cJSON_CreateString(text));
        else if (n_shown++ < MAX_SHOWN)
            fprintf(fp, "  %s\n", text);
    }
    stp_table_end(&t, fp);
}
