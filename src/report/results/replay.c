/* replay.c - AUTO's and a plugin's choice for a trace's collectives */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/replay/replay.h"
#include "analyse/traces/trace_step.h"
#include "core/names.h"
#include "core/qsort.h"
#include "core/text.h"
#include "launch/take.h"
#include "report/results/results.h"
#include "report/table.h"

enum { MAX_SKIPS = 5, MAX_UNALIGNED = 5 }; /* names that are printed */

enum { GRAIN = 16 }; /* bytes that NCCL's kernels load and store at once */

/* A collective of the trace; in text it stands for all that are alike. */
struct replay_row {
    const struct stp_trace_row *call;
    const struct stp_replayed *got;
    uint64_t n_calls;
};

static uint64_t replay_count_calls(const struct stp_trace_row *row)
{
    return row->n_launches > 0 ? row->n_launches : 1;
}

/* Ranks are left out of text where all communicators have the same. */
static void replay_put(const struct stp_trace *trace,
                       const struct stp_replay *replay,
                       const struct replay_row *row, struct stp_table *t)
{
    const struct stp_trace_row *call = row->call;
    const struct stp_replayed *got = row->got;

    stp_table_row(t);
    stp_table_word(t, "collective", "<collective",
                   stp_coll_name((int)call->call.coll));
    stp_table_count(t, "bytes", "bytes", call->call.n_bytes);
    stp_table_count(t, "line", NULL, call->place.line);
    stp_table_word(t, "comm", NULL, trace->comms[call->comm].name);
    stp_table_number(t, "ranks", replay->mixed ? "ranks" : NULL, got->n_ranks,
                     0);
    stp_table_count(t, NULL, "calls", row->n_calls);
    stp_table_ran(t, "auto", "<AUTO", got->auto_algo, got->auto_proto, 0);
    stp_table_ran(t, NULL, "<choice", got->algo, got->proto, 0);
    stp_table_ran(t, "choice", NULL, got->algo, got->proto, got->n_channels);
    stp_table_number(t, NULL, "channels", got->n_channels, 0);
}

static int replay_compare(const struct replay_row *a,
                          const struct replay_row *b)
{
    const struct mock_call *x = &a->call->call;
    const struct mock_call *y = &b->call->call;

    STP_RETURN_ORDER(STP_ORDER(x->coll, y->coll));
    STP_RETURN_ORDER(STP_ORDER(x->n_bytes, y->n_bytes));
    return memcmp(a->got, b->got, sizeof(*a->got));
}

static int replay_compare_places(const void *pa, const void *pb)
{
    const struct replay_row *a = pa;
    const struct replay_row *b = pb;

    return (a->call > b->call) - (a->call < b->call);
}

/* Collectives that are alike are in the order of the trace. */
static int replay_compare_all(const void *pa, const void *pb)
{
    int order = replay_compare(pa, pb);

    return order != 0 ? order : replay_compare_places(pa, pb);
}

void stp_print_trace(const struct stp_trace *trace, FILE *fp)
{
    fprintf(fp, "%s: %zu collective%s", trace->format, trace->n_rows,
            STP_S(trace->n_rows));
    if (trace->n_computes > 0)
        fprintf(fp, ", %zu GEMM%s", trace->n_computes,
                STP_S(trace->n_computes));
    fprintf(fp, "\n");
    if (trace->cut_line > 0)
        fprintf(fp, STP_TRACE_CUT "\n", trace->cut_line);
    if (trace->file[0] != '\0')
        fprintf(fp, "of the folder's files %s is played\n", trace->file);
    if (trace->n_skips > 0) {
        size_t n = 0;

        for (size_t i = 0; i < trace->n_skips; i++)
            n += trace->skips[i].n;
        fprintf(fp, "not played, %zu row%s: ", n, STP_S(n));
        for (size_t i = 0; i < trace->n_skips && i < MAX_SKIPS; i++)
            fprintf(fp, "%s%zu x %s (first in line %u)", i > 0 ? ", " : "",
                    trace->skips[i].n, trace->skips[i].name,
                    trace->skips[i].line);
        if (trace->n_skips > MAX_SKIPS)
            fprintf(fp, ", and %zu further names", trace->n_skips - MAX_SKIPS);
        fprintf(fp, "\n");
    }
}

/* Whether parts of ranks begin between two grains, which LL does not mind. */
static bool replay_is_unaligned(const struct stp_trace_row *row,
                                const struct stp_replayed *got)
{
    const struct mock_call *call = &row->call;
    const uint64_t n_ranks = (uint64_t)got->n_ranks;

    return (call->coll == ncclFuncAllGather ||
            call->coll == ncclFuncReduceScatter) &&
           got->proto != NCCL_PROTO_LL && n_ranks > 1 &&
           call->n_bytes / n_ranks % GRAIN != 0;
}

static uint64_t replay_count_unaligned(const struct stp_trace *trace,
                                       const struct stp_replay *replay)
{
    uint64_t n = 0;

    for (size_t i = 0; i < trace->n_rows; i++)
        if (replay_is_unaligned(&trace->rows[i], &replay->rows[i]))
            n += replay_count_calls(&trace->rows[i]);
    return n;
}

void stp_print_unaligned(const struct stp_trace *trace,
                         const struct stp_replay *replay, FILE *fp)
{
    struct replay_row names[MAX_UNALIGNED];
    uint64_t n = replay_count_unaligned(trace, replay);
    size_t n_names = 0;

    if (n == 0)
        return;
    fprintf(fp,
            "not a multiple of %d bytes a rank, which LL128 and Simple move "
            "more slowly, %" PRIu64 " call%s: ",
            GRAIN, n, STP_S(n));
    for (size_t i = 0; i < trace->n_rows; i++) {
        const struct replay_row row = {&trace->rows[i], &replay->rows[i],
                                       replay_count_calls(&trace->rows[i])};
        const struct mock_call *call = &row.call->call;
        size_t k = 0;

        if (!replay_is_unaligned(row.call, row.got))
            continue;
        while (k < n_names && (names[k].call->call.coll != call->coll ||
                               names[k].call->call.n_bytes != call->n_bytes ||
                               names[k].got->n_ranks != row.got->n_ranks))
            k++;
        if (k < n_names)
            names[k].n_calls += row.n_calls;
        else if (k < MAX_UNALIGNED)
            names[n_names++] = row;
    }
    for (size_t i = 0; i < n_names; i++) {
        fprintf(fp,
                "%s%" PRIu64 " x %s of %zu bytes on %d ranks (first in "
                "line %u)",
                i > 0 ? ", " : "", names[i].n_calls,
                stp_coll_name((int)names[i].call->call.coll),
                names[i].call->call.n_bytes, names[i].got->n_ranks,
                names[i].call->place.line);
        n -= names[i].n_calls;
    }
    if (n > 0)
        fprintf(fp, ", and %" PRIu64 " of further sizes", n);
    fprintf(fp, "\n");
}

void stp_print_trace_step(const struct stp_trace *trace,
                          const struct stp_trace_step *step, unsigned n_ranks,
                          FILE *fp)
{
    bool is_first = true;

    if (step->n_steps > 1)
        fprintf(fp, "step %u, of %u that the trace has: ", step->number,
                step->n_steps);
    else
        fprintf(fp, "its step: ");
    fprintf(fp, "%zu collective%s, %zu GEMM%s\n", step->work.n_colls,
            STP_S(step->work.n_colls), step->n_gemms, STP_S(step->n_gemms));
    for (size_t i = 0; i < trace->n_comms; i++) {
        const struct stp_trace_comm *comm = &trace->comms[i];
        const struct stp_rank_groups *groups = &step->groups[i];

        if (!step->is_used[i])
            continue;
        fprintf(fp, "%s%s", is_first ? "" : "; ",
                comm->name[0] != '\0' ? comm->name : "communicator");
        is_first = false;
        if (comm->n_ranks > 0)
            fprintf(fp, " of %d ranks", comm->n_ranks);
        if (groups->size == 0)
            fprintf(fp, " on all %u", n_ranks);
        else
            fprintf(fp, " on %u groups of %u, %u apart", n_ranks / groups->size,
                    groups->size, groups->stride);
    }
    fputc('\n', fp);
}

void stp_print_replay(const struct stp_trace *trace,
                      const struct stp_replay *replay, bool is_json, FILE *fp)
{
    struct stp_table t = stp_table_result(is_json);
    const size_t n_all = is_json ? 0 : trace->n_rows;
    struct replay_row *rows = stp_take(n_all, sizeof(*rows));
    size_t n = 0;

    /* In text one row stands for all that are alike, in the order of the first
     * of each. */
    for (size_t i = 0; i < n_all; i++)
        rows[i] = (struct replay_row){&trace->rows[i], &replay->rows[i],
                                      replay_count_calls(&trace->rows[i])};
    STP_SORT(rows, n_all, replay_compare_all);
    for (size_t i = 0; i < n_all; i++)
        if (n > 0 && replay_compare(&rows[n - 1], &rows[i]) == 0)
            rows[n - 1].n_calls += rows[i].n_calls;
        else
            rows[n++] = rows[i];
    STP_SORT(rows, n, replay_compare_places);
    for (size_t i = 0; i < n; i++)
        replay_put(trace, replay, &rows[i], &t);
    free(rows);
    stp_table_count(&t, "ranks", NULL, replay->n_ranks);
    stp_table_count(&t, "steps", NULL, replay->n_steps);
    stp_table_flag(&t, "modelled", NULL, replay->resized);
    stp_table_count(&t, "asked", NULL, replay->n_asked);
    stp_table_count(&t, "run", NULL, replay->n_run);
    stp_table_count(&t, "unaligned", NULL,
                    replay_count_unaligned(trace, replay));
    stp_table_rows(&t, "collectives");
    for (size_t i = 0; i < trace->n_rows && is_json; i++)
        replay_put(trace, replay,
                   &(struct replay_row){&trace->rows[i], &replay->rows[i], 1},
                   &t);
    stp_table_end(&t, fp);
}
