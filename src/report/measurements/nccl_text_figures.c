/* nccl_text_figures.c - what sizes, times and bandwidths of rows say of each
 * other, of the test and of its ranks */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "analyse/bandwidth.h"
#include "core/dtype.h"
#include "report/measurements/nccl_text_row.h"

/* Whether the bandwidth is that of the time, as far as both have digits: two
 * after the point, or five in all; of long times our text has two.  Old tests
 * print busbw as algbw. */
static bool figures_are_near(double said, double ours, double us)
{
    const double slack = us < 1e7 ? 2e-3 + 0.006 / us : 0.06;

    return said < 0 || fabs(said - ours) <= slack * ours + 0.0055;
}

bool stp_nccl_row_agrees(const struct stp_nccl_row *row)
{
    bool agrees = true;

    for (int i = 0; i < 2; i++)
        if (row->places[i].us > 0 && row->places[i].algbw > 0)
            agrees &= figures_are_near(
                row->places[i].algbw,
                stp_algbw(row->n_bytes, row->places[i].us), row->places[i].us);
    return agrees;
}

void stp_nccl_figures_add(struct stp_nccl_figures *f,
                          const struct stp_nccl_row *row,
                          const struct stp_measurement *m, char *doubt,
                          size_t size)
{
    const int coll = m->coll;
    const unsigned n = coll >= 0 ? m->n_ranks : 0;
    const struct stp_nccl_place *p =
        &row->places[m->in_place && !row->in_place];
    const bool is_split =
        coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;
    const double most = fmax(p->algbw, p->busbw);
    const double digits = most < 1000 ? 0.0051 : 6e-5 * most;
    const struct {
        const char *name;
        double said, ours; /* said < 0: not said, or not known */
    } figures[] = {
        {"busbw", n > 0 ? p->busbw : -1,
         n > 0 ? stp_busbw(coll, n, row->n_bytes, p->us) : 0},
        {"algbw", p->algbw != p->busbw ? p->algbw : -1,
         stp_algbw(row->n_bytes, p->us)},
        {"count", n > 0 && row->count != UINT64_MAX ? (double)row->count : -1,
         (double)row->n_bytes / stp_type_size(row->type) / (is_split ? n : 1)},
    };

    f->n_parts =
        row->count == UINT64_MAX || row->count == 0
            ? 0
            : row->n_bytes / row->count / (uint64_t)stp_type_size(row->type);
    f->is_timed[m->in_place] = true;
    f->is_checked[m->in_place] |= m->n_wrong >= 0;
    for (int i = 0; i < 3 && *doubt == '\0' && (p->algbw != 0 || p->busbw != 0);
         i++)
        if (!figures_are_near(figures[i].said, figures[i].ours, p->us))
            snprintf(doubt, size,
                     "%s %g, but %" PRIu64
                     " bytes in %g us among %u ranks, as the text lists, are "
                     "%.6g",
                     figures[i].name, figures[i].said, row->n_bytes, p->us,
                     m->n_ranks, figures[i].ours);
    if (!(p->algbw > digits) || !(p->busbw > 0))
        return;
    f->tells_ranks |= p->algbw != p->busbw;
    f->low = fmax(f->low, (p->busbw - digits) / (p->algbw + digits));
    f->high = fmin(f->high, (p->busbw + digits) / (p->algbw - digits));
}

int stp_nccl_figures_test(const struct stp_nccl_figures *f,
                          const struct stp_nccl_row *row, unsigned n_ranks)
{
    const bool reduces = row->op >= 0, has_root = row->root != UINT32_MAX;
    const bool is_checked = f->is_checked[0] || f->is_checked[1];
    /* all-to-all, and sends, are checked in one place alone */
    const bool is_exchange =
        f->is_checked[0] && f->is_timed[1] && !f->is_checked[1];
    /* all-to-all has a column of redop in all versions */
    const bool tells = reduces || is_checked || row->op == -2;
    const bool is_once = f->low <= 1 && f->high >= 1;
    const bool is_pair = is_once && f->is_checked[1] && f->n_parts == 1;
    const double part = n_ranks > 0 ? 1 - 1.0 / n_ranks : f->high / 2;
    const bool is_known =
        f->high < STP_NCCL_ANY_RATIO; /* some bandwidth has digits */
    const bool is_twice = f->low <= 2 * part && f->high >= 2 * part &&
                          (n_ranks > 0 || f->low > 1 || is_pair);
    const bool is_part = n_ranks > 0 ? f->low <= part && f->high >= part
                                     : f->low >= 0.49 && f->high < 1;

    if (has_root && f->n_parts < 2 &&
        (is_known ? is_once : n_ranks != 1 && f->n_parts == 1))
        return reduces ? ncclFuncReduce : ncclFuncBroadcast;
    if (reduces && !has_root && (is_known ? is_twice : f->n_parts == 1) &&
        (f->low > 1 || (n_ranks != 1 && f->n_parts < 2 && !is_exchange)))
        return ncclFuncAllReduce;
    if (n_ranks == 1 || !tells || (!is_known && f->n_parts < 2))
        return -2;
    if (!has_root && !is_exchange && f->n_parts != 1 && (is_part || !is_known))
        return reduces ? ncclFuncReduceScatter : ncclFuncAllGather;
    return is_once || is_part ? -1 : -2;
}

void stp_nccl_figures_ranks(const struct stp_nccl_figures *f, int coll,
                            double *least_ret, double *most_ret)
{
    const double of_many = coll >= 0 ? 2 * stp_bus_factor(coll, 2) : 0;
    const bool is_split =
        coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;
    const bool tells = coll >= 0 && f->low <= f->high && f->low < of_many &&
                       (f->tells_ranks || coll == ncclFuncAllReduce) &&
                       stp_bus_factor(coll, 3) != stp_bus_factor(coll, 2);

    *least_ret = tells ? fmax(2, ceil(1 / (1 - f->low / of_many))) : 2;
    *most_ret = tells && f->high < of_many ? floor(1 / (1 - f->high / of_many))
                                           : UINT32_MAX;
    if (is_split && f->n_parts > 1 && f->n_parts < UINT32_MAX)
        *least_ret = *most_ret = (double)f->n_parts;
}
