/* machines.c - `steptune machines`: what --on plays, and what was recorded */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "core/names.h"
#include "device/device.h"
#include "launch/take.h"
#include "mock_nccl.h"
#include "report/table.h"
#include "report/words.h"

static const struct stp_command_line machines_line = {
    .groups = (const struct stp_option_group[]){{0}},
    .args_doc = "[MACHINE...]",
};

/* ---- what was recorded ---- */

enum { MAX_SIZES = 4096 };

struct machines_record {
    size_t n_sizes; /* of interleaved rounds */
    size_t n_graph; /* likewise, in CUDA graphs */
    uint64_t first, last;
    size_t n_overlaps; /* settings overlapped with compute */
};

static struct machines_record machines_look_up(const struct mock_machine *m,
                                               ncclFunc_t coll)
{
    static size_t sizes[MAX_SIZES];
    static struct mock_overlap_setting settings[MAX_SIZES];
    struct machines_record r = {
        .n_graph = mock_machine_sizes(m, coll, true, NULL, 0),
        .n_sizes = mock_machine_sizes(m, coll, false, sizes, MAX_SIZES)};
    const size_t n = mock_machine_overlap_settings(m, settings, MAX_SIZES);
    size_t n_sizes = r.n_sizes;

    if (n_sizes == 0) /* only in graphs */
        n_sizes = mock_machine_sizes(m, coll, true, sizes, MAX_SIZES);
    if (n_sizes > 0) {
        r.first = sizes[0];
        r.last = sizes[(n_sizes < MAX_SIZES ? n_sizes : MAX_SIZES) - 1];
    }
    for (size_t i = 0; i < n && i < MAX_SIZES; i++)
        r.n_overlaps += settings[i].coll == coll &&
                        settings[i].mode != MOCK_MODE_SEQUENTIAL;
    return r;
}

/* ---- rows ---- */

/* Writes the columns that hold for the whole machine, which text has in the
 * first of its rows. */
static void machines_put_machine(const struct mock_machine_info *info,
                                 bool is_first, struct stp_table *t)
{
    char gpus[STP_GPUS_TEXT];

    stp_gpus_text((unsigned)info->n_ranks, (unsigned)info->n_gpus, info->gpu,
                  gpus);
    stp_table_row(t);
    stp_table_text(t, "<machine", "%s", is_first ? info->name : "");
    if (is_first)
        stp_table_text(t, "?<nodes", "%d", info->n_nodes);
    else
        stp_table_text(t, "?<nodes", " ");
    stp_table_text(t, "?<NCCL", "%s", is_first ? info->nccl : "");
    stp_table_text(t, "<GPUs", "%s", is_first ? gpus : "");
}

/* Writes a count, or "-" for none. */
static void machines_put_count(const char *heading, size_t n,
                               struct stp_table *t)
{
    if (n > 0)
        stp_table_count(t, NULL, heading, n);
    else
        stp_table_word(t, NULL, heading, NULL);
}

static void machines_put_record(const char *coll,
                                const struct machines_record *r,
                                unsigned n_rounds, struct stp_table *t)
{
    const bool has_sizes = r->n_sizes + r->n_graph > 0;

    stp_table_word(t, NULL, "<collective", coll);
    machines_put_count("recorded sizes", r->n_sizes, t);
    stp_table_word(t, NULL, "from", has_sizes ? STP_SIZE_TEXT(r->first) : NULL);
    stp_table_word(t, NULL, "to", has_sizes ? STP_SIZE_TEXT(r->last) : NULL);
    machines_put_count("in graphs", r->n_graph, t);
    machines_put_count("rounds", has_sizes ? n_rounds : 0, t);
    machines_put_count("overlapped", r->n_overlaps, t);
}

/* Writes a row for each recorded collective, or one without a collective if
 * there is none; just one row of a machine that is not named. */
static void machines_put_rows(const struct mock_machine *m, bool is_named,
                              struct stp_table *t)
{
    const struct mock_machine_info *info = mock_machine_get_info(m);
    unsigned n_colls = 0;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        const struct machines_record r = machines_look_up(m, (ncclFunc_t)c);

        if (r.n_sizes + r.n_graph + r.n_overlaps == 0)
            continue;
        n_colls++;
        if (is_named) {
            machines_put_machine(info, n_colls == 1, t);
            machines_put_record(stp_coll_name(c), &r,
                                mock_machine_rounds(m, r.n_sizes == 0), t);
        }
    }
    if (is_named && n_colls > 0)
        return;
    machines_put_machine(info, true, t);
    if (is_named)
        machines_put_record("all modelled", &(struct machines_record){0}, 0, t);
    else if (n_colls > 0)
        stp_table_text(t, "<collectives", "%u recorded", n_colls);
    else
        stp_table_text(t, "<collectives", "modelled");
}

/* ---- all of them ---- */

int stp_cmd_machines(int argc, char **argv)
{
    struct stp_arguments names = {0};
    struct stp_machine_list list = {0};
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);
    struct mock_machine *m;
    int exit_status = STP_EXIT_OK;

    stp_options_read(&machines_line, argc, argv, &names);
    if (names.n == 0)
        list = stp_list_machines();
    else
        STP_TAKE(list.paths, (size_t)names.n);
    for (int i = 0; i < names.n && exit_status == STP_EXIT_OK; i++)
        exit_status = stp_choose_machine(names.v[i], list.paths[list.n++]);
    if (exit_status != STP_EXIT_OK)
        list.n = 0;
    for (size_t i = 0; i < list.n; i++) {
        if (mock_machine_load(list.paths[i], &m) != ncclSuccess) {
            exit_status = stp_complain("%s", mock_last_error());
            continue; /* the others are listed */
        }
        machines_put_rows(m, names.n > 0, &t);
        mock_machine_free(m);
    }
    stp_table_end(&t, stdout);
    free(list.paths);
    return exit_status;
}
