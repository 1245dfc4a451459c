/* nccl_text.c - the writer; what the programs are called */
#include "report/measurements/nccl_text.h"

#include <inttypes.h>
#include <string.h>

#include "analyse/bandwidth.h"
#include "analyse/order.h"
#include "core/dtype.h"

static const char *const programs[] = {
    [ncclFuncBroadcast] = "broadcast_perf",
    [ncclFuncReduce] = "reduce_perf",
    [ncclFuncAllGather] = "all_gather_perf",
    [ncclFuncReduceScatter] = "reduce_scatter_perf",
    [ncclFuncAllReduce] = "all_reduce_perf",
    /* not read */
    "alltoall_perf",
    "alltoallv_perf",
    "sendrecv_perf",
    "scatter_perf",
    "gather_perf",
    "hypercube_perf",
    "all_reduce_bias_perf",
};

int stp_nccl_text_find_program(const char *word, size_t len)
{
    for (int c = 0; c < (int)(sizeof(programs) / sizeof(programs[0])); c++) {
        const size_t n = strlen(programs[c]);

        if (len >= n && memcmp(word, programs[c], n) == 0 &&
            (len == n || word[n] == '_'))
            return c;
    }
    return -1;
}

void stp_nccl_text_write_head(const struct stp_nccl_text_run *run, int coll,
                              const struct stp_device *device, FILE *fp)
{
    struct stp_device_info info;
    int major = 0, minor = 0, patch = 0; /* ncclGetVersion() has 22809 */

    stp_device_get_info(device, &info);
    sscanf(info.nccl, "%d.%d.%d", &major, &minor, &patch);
    fprintf(fp,
            "# steptune version %s backend=%s nccl-library=%d nodes=%u\n# %s\n",
            run->version, info.backend, major * 10000 + minor * 100 + patch,
            info.n_nodes, info.what);
    fprintf(fp, "# " STP_NCCL_TEXT_STARTING "%s\n", programs[coll]);
    fprintf(fp, "# nThread %u nGpus %u minBytes %" PRIu64 " maxBytes %" PRIu64,
            run->n_threads, run->n_gpus, run->min_bytes, run->max_bytes);
    if (run->factor > 0)
        fprintf(fp, " step: %g(factor)", run->factor);
    else if (run->step_bytes > 0)
        fprintf(fp, " step: %" PRIu64 "(bytes)", run->step_bytes);
    else
        fputs(" step: several", fp);
    fprintf(fp,
            " warmup iters: %u iters: %s%u agg iters: %u validation: %u graph: "
            "%u rounds: %u\n#\n",
            run->warmup, run->up_to ? "up to " : "", run->iters, run->agg_iters,
            run->check, run->graph, run->rounds);
    fputs("# Using devices\n", fp);
    for (unsigned r = 0; r < info.n_ranks; r++) {
        char line[256];

        stp_device_rank_line(device, r, line, sizeof(line));
        fprintf(fp, "# %s\n", line);
    }
}

void stp_nccl_text_write_section(int coll, const struct stp_arm *arm, FILE *fp)
{
    fprintf(fp, "#\n# " STP_NCCL_TEXT_STARTING "%s\n# Arm: %s\n",
            programs[coll], STP_ARM_TEXT(arm));
}

void stp_nccl_text_write_columns(FILE *fp)
{
    const char *line = "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  "
                       "%6s  %6s  %6s \n";

    fprintf(fp, "#\n#%62s%-35s%-18s\n", "", "out-of-place", "in-place");
    fprintf(fp, line, "size", "count", "type", "redop", "root", "time", "algbw",
            "busbw", "#wrong", "time", "algbw", "busbw", "#wrong");
    fprintf(fp, line, "(B)", "(elements)", "", "", "", "(us)", "(GB/s)",
            "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
}

/* With as many decimals, two at most, as 'width' has room for. */
static void text_write_number(double value, int width, FILE *fp)
{
    char text[64];
    int decimals = 2;

    while (snprintf(text, sizeof(text), "%.*f", decimals, value) > width &&
           decimals > 0)
        decimals--;
    if ((int)strlen(text) > width)
        snprintf(text, sizeof(text), width >= 7 ? "%.1e" : "%.0e", value);
    fprintf(fp, "  %*s", width, text);
}

static void text_write_place(const struct stp_nccl_text_row *row,
                             const struct stp_nccl_text_place *place,
                             struct stp_nccl_text_total *total, FILE *fp)
{
    double busbw;

    if (!(place->us > 0)) {
        fprintf(fp, "  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    busbw = stp_busbw(row->coll, row->n_ranks, row->n_bytes, place->us);
    text_write_number(place->us, 7, fp);
    text_write_number(stp_algbw(row->n_bytes, place->us), 6, fp);
    text_write_number(busbw, 6, fp);
    if (place->n_wrong < 0)
        fprintf(fp, "  %6s", "N/A");
    else
        fprintf(fp, "  %6g", (double)place->n_wrong);
    total->busbw += busbw;
    total->n_busbw++;
    total->n_failed += place->n_wrong > 0;
}

void stp_nccl_text_write_row(const struct stp_nccl_text_row *row,
                             struct stp_nccl_text_total *total, FILE *fp)
{
    const struct stp_nccl_text_times *t = &row->times;
    const struct stp_nccl_text_times *last = &total->times;
    uint64_t count = row->n_bytes / stp_type_size(row->type);

    if (row->coll == ncclFuncAllGather || row->coll == ncclFuncReduceScatter)
        count /= row->n_ranks;
    if (last->rounds != t->rounds || last->iters != t->iters ||
        last->source != t->source || last->single_pass != t->single_pass)
        fprintf(fp, "# Source: %s, %" PRIu64 " iteration%s in %u round%s\n",
                stp_source_words(t->source, t->single_pass), t->iters,
                STP_S(t->iters), t->rounds, STP_S(t->rounds));
    total->times = *t;
    fprintf(fp, "%12" PRIu64 "  %12" PRIu64 "  %8s  %6s  %6d", row->n_bytes,
            count, stp_type_nccl_name(row->type),
            stp_coll_reduces(row->coll) ? stp_op_name(row->op) : "none",
            stp_coll_has_root(row->coll) ? (int)row->root : -1);
    text_write_place(row, &row->out_of_place, total, fp);
    text_write_place(row, &row->in_place, total, fp);
    fputc('\n', fp);
}

void stp_nccl_text_write_foot(const struct stp_nccl_text_total *total, int coll,
                              FILE *fp)
{
    double mean = total->n_busbw > 0 ? total->busbw / total->n_busbw : 0;

    fprintf(fp, "# Out of bounds values : %u %s\n", total->n_failed,
            total->n_failed > 0 ? "FAILED" : "OK");
    fprintf(fp, "# Avg bus bandwidth    : %g \n", mean);
    fprintf(fp, "#\n# Collective test concluded: %s\n", programs[coll]);
}

static struct stp_nccl_text_place
text_collapse_place(const struct stp_dataset *data,
                    const struct stp_measurement *like, bool in_place,
                    struct stp_nccl_text_times *times)
{
    struct stp_nccl_text_place place = {.n_wrong = -1};
    uint64_t iters = 0;
    double sum = 0;
    unsigned n = 0;

    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_measurement *m = &data->rows[i];
        struct stp_measurement other = *m;

        other.in_place = like->in_place;
        if (m->in_place != in_place || m->n_bytes != like->n_bytes ||
            stp_order_kinds(&other, like) != 0 ||
            !stp_arm_equal(&m->arm, &like->arm))
            continue;
        sum += m->us.mean;
        n++;
        iters += m->iters;
        times->source = stp_source_worst(times->source, m->source);
        times->single_pass |= m->single_pass;
        if (m->n_wrong > place.n_wrong)
            place.n_wrong = m->n_wrong;
    }
    if (n == 0)
        return place;
    place.us = sum / n;
    if (times->rounds == 0 || iters < times->iters) {
        times->iters = iters;
        times->rounds = n;
    }
    return place;
}

struct stp_nccl_text_row
stp_nccl_text_collapse(const struct stp_dataset *data,
                       const struct stp_measurement *like)
{
    struct stp_nccl_text_row row = {
        .coll = like->coll,
        .n_bytes = like->n_bytes,
        .type = like->type,
        .op = like->op,
        .root = like->root,
        .n_ranks = like->n_ranks,
        .times = {.source = like->source},
    };

    row.out_of_place = text_collapse_place(data, like, false, &row.times);
    row.in_place = text_collapse_place(data, like, true, &row.times);
    return row;
}
