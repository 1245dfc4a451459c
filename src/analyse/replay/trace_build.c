#include "analyse/replay/trace_build.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "core/utf8.h"
#include "launch/take.h"

static unsigned groups_largest_divisor(unsigned n, unsigned most)
{
    unsigned d = most < n ? most : n;

    while (n % d != 0)
        d--;
    return d;
}

struct stp_rank_groups stp_rank_groups_cut(const struct stp_rank_groups *groups,
                                           unsigned n_ranks)
{
    const unsigned left = n_ranks / groups->stride;
    const unsigned asked = groups->size != 0 ? groups->size
                           : left > 1        ? left
                                             : n_ranks;
    const unsigned size = groups_largest_divisor(n_ranks, asked);

    return (struct stp_rank_groups){
        size, groups_largest_divisor(n_ranks / size, groups->stride)};
}

/* The slot of that name; 0 if there is none.  There must be slots. */
static size_t *trace_find_slot(const struct stp_trace_build *b,
                               const char *name)
{
    size_t mask = 2 * b->comm_capacity - 1;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    size_t at;

    for (const char *s = name; *s != '\0'; s++)
        hash = (hash ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
    for (at = hash & mask; b->slots[at] != 0; at = (at + 1) & mask)
        if (strcmp(b->trace.comms[b->slots[at] - 1].name, name) == 0)
            break;
    return &b->slots[at];
}

size_t stp_trace_find_comm(const struct stp_trace_build *b, const char *name)
{
    size_t found = b->slots != NULL ? *trace_find_slot(b, name) : 0;

    return found != 0 ? found - 1 : b->trace.n_comms;
}

size_t stp_trace_add_comm(struct stp_trace_build *b,
                          const struct stp_trace_comm *comm)
{
    struct stp_trace *t = &b->trace;
    const size_t replaces = stp_trace_find_comm(b, comm->name);

    STP_TAKE_ROOM(t->comms, t->n_comms, b->comm_capacity);
    if (t->n_comms == 0 || 2 * t->n_comms == b->comm_capacity) {
        /* it has grown, and its table of names has to */
        free(b->slots);
        STP_TAKE(b->slots, 2 * b->comm_capacity);
        for (size_t i = 0; i < t->n_comms; i++)
            *trace_find_slot(b, t->comms[i].name) = i + 1;
    }
    t->comms[t->n_comms] = *comm;
    t->comms[t->n_comms].replaces = replaces;
    *trace_find_slot(b, comm->name) = t->n_comms + 1;
    return t->n_comms++;
}

void stp_trace_add_row(struct stp_trace_build *b,
                       const struct stp_trace_row *row)
{
    STP_TAKE_ROOM(b->trace.rows, b->trace.n_rows, b->row_capacity);
    b->trace.rows[b->trace.n_rows++] = *row;
}

void stp_trace_add_compute(struct stp_trace_build *b,
                           const struct stp_trace_compute *compute)
{
    STP_TAKE_ROOM(b->trace.computes, b->trace.n_computes, b->compute_capacity);
    b->trace.computes[b->trace.n_computes] = *compute;
    b->trace.computes[b->trace.n_computes++].row = b->trace.n_rows;
}

enum stp_status stp_trace_add_time(struct stp_trace_build *b, double us,
                                   const struct stp_trace_place *place,
                                   struct stp_error *err)
{
    const double n = fmax(1, ceil(us / STP_MAX_COMPUTE_US));
    const struct stp_trace_compute compute = {.us = us / n, .place = *place};

    if (us < 1)
        return STP_OK;
    if (!(n <= 1e6))
        return stp_fail_at(err, STP_ERR_SYNTAX, place->line, 0,
                           "compute of %g us, expected at most %g", us,
                           1e6 * STP_MAX_COMPUTE_US);
    for (double i = 0; i < n; i++)
        stp_trace_add_compute(b, &compute);
    return STP_OK;
}

void stp_trace_add_skip(struct stp_trace_build *b, const char *name, size_t len,
                        unsigned line)
{
    struct stp_trace_skip skip = {.n = 1, .line = line};

    stp_printable(name, len, skip.name, sizeof(skip.name));
    for (size_t i = 0; i < b->trace.n_skips; i++)
        if (strcmp(b->trace.skips[i].name, skip.name) == 0) {
            b->trace.skips[i].n++;
            return;
        }
    STP_TAKE_ROOM(b->trace.skips, b->trace.n_skips, b->skip_capacity);
    b->trace.skips[b->trace.n_skips++] = skip;
}

enum stp_status stp_trace_finish(struct stp_trace_build *b,
                                 enum stp_status status,
                                 struct stp_trace *trace_ret,
                                 struct stp_error *err)
{
    char skips[300] = "";

    for (size_t i = 0; i < b->trace.n_skips && i < 4; i++)
        stp_append(skips, sizeof(skips), "%s%s", i > 0 ? ", " : " but with ",
                   b->trace.skips[i].name);
    free(b->slots);
    if (status == STP_OK && b->trace.n_rows == 0)
        status = stp_fail_at(
            err, STP_ERR_SYNTAX, b->trace.cut_line, 0,
            "%s without a collective to play%s, expected one at least",
            b->trace.format, skips);
    if (status == STP_OK)
        *trace_ret = b->trace;
    else
        stp_trace_free(&b->trace);
    return status;
}

void stp_trace_free(struct stp_trace *trace)
{
    for (size_t i = 0; i < trace->n_comms; i++)
        free(trace->comms[i].color);
    free(trace->rows);
    free(trace->computes);
    free(trace->skips);
    free(trace->comms);
    memset(trace, 0, sizeof(*trace));
}
