#include "analyse/explain/explain.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/explain/explainer.h"
#include "analyse/probes.h"
#include "core/qsort.h"
#include "launch/take.h"

enum { SEED = 1 }; /* of random sizes: a plugin is explained alike each time */

struct explain {
    struct stp_explainer explainer;
    uint64_t grain;     /* one element a rank */
    uint64_t max_bytes; /* a multiple of it */
    struct stp_explanation out;
    uint64_t *sizes; /* to ask of a collective, multiples of the grain */
    size_t n_sizes, capacity;
    enum stp_status status; /* of the first failure */
    struct stp_error *err;
};

static struct stp_explained explain_ask(struct explain *e, int coll,
                                        uint64_t n_bytes)
{
    struct stp_asked asked = {0};
    const struct mock_outcome *tuned = &asked.tuned;

    STP_THEN(e->status,
             stp_explainer_ask(&e->explainer, coll, n_bytes, &asked, e->err));
    return (struct stp_explained){
        .coll = coll,
        .min_bytes = n_bytes,
        .max_bytes = n_bytes,
        .auto_pick = {asked.alone.algo, asked.alone.proto},
        .pick = {tuned->algo, tuned->proto},
        .asked_channels = tuned->asked_channels,
        .min_channels = tuned->n_channels,
        .max_channels = tuned->n_channels,
        .decider = asked.decider,
        .line = asked.line,
    };
}

bool stp_pick_equal(struct stp_pick a, struct stp_pick b)
{
    return a.algo == b.algo && a.proto == b.proto;
}

static bool explain_same(const struct stp_explained *a,
                         const struct stp_explained *b)
{
    return stp_pick_equal(a->auto_pick, b->auto_pick) &&
           stp_pick_equal(a->pick, b->pick) &&
           a->asked_channels == b->asked_channels && a->decider == b->decider &&
           a->line == b->line;
}

static void explain_extend(struct stp_explained *range,
                           const struct stp_explained *to)
{
    range->max_bytes = to->max_bytes;
    if (to->min_channels < range->min_channels)
        range->min_channels = to->min_channels;
    if (to->max_channels > range->max_channels)
        range->max_channels = to->max_channels;
}

static void explain_append(struct explain *e, const struct stp_explained *x)
{
    struct stp_explanation *out = &e->out;

    STP_TAKE_ROOM(out->ranges, out->n_ranges, out->capacity);
    out->ranges[out->n_ranges++] = *x;
}

/* Moves the last range's end up to just below the first size, at most that of
 * *to, at which something else happens, and begins a range there. */
static void explain_bisect(struct explain *e, const struct stp_explained *to)
{
    struct stp_explained left = e->out.ranges[e->out.n_ranges - 1];
    struct stp_explained right = *to;

    while (e->status == STP_OK && right.min_bytes - left.max_bytes > e->grain) {
        uint64_t mid = left.max_bytes + (right.min_bytes - left.max_bytes) / 2 /
                                            e->grain * e->grain;
        struct stp_explained x = explain_ask(e, to->coll, mid);

        if (explain_same(&left, &x))
            explain_extend(&left, &x);
        else
            right = x;
    }
    explain_extend(&e->out.ranges[e->out.n_ranges - 1], &left);
    explain_append(e, &right);
}

/* Goes on to the probe at 'n_bytes', over however many switch points. */
static void explain_advance(struct explain *e, int coll, uint64_t n_bytes)
{
    struct stp_explained x = explain_ask(e, coll, n_bytes);

    while (e->status == STP_OK) {
        struct stp_explained *last = &e->out.ranges[e->out.n_ranges - 1];

        if (explain_same(last, &x)) {
            if (x.max_bytes > last->max_bytes)
                explain_extend(last, &x);
            return;
        }
        explain_bisect(e, &x);
    }
}

/* Adds a size, or the multiples of the grain beside it. */
static void explain_add_size(struct explain *e, uint64_t n_bytes)
{
    for (uint64_t size = n_bytes / e->grain * e->grain;
         size < n_bytes + e->grain; size += e->grain) {
        if (size == 0 || size > e->max_bytes)
            continue;
        STP_TAKE_ROOM(e->sizes, e->n_sizes, e->capacity);
        e->sizes[e->n_sizes++] = size;
    }
}

static int explain_compare_sizes(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Both ends, all probes, larger ones, and range ends of the policy. */
static void explain_choose_sizes(struct explain *e, int coll)
{
    const struct stp_compiled *compiled = e->explainer.compiled;
    uint64_t end = 0;

    e->n_sizes = 0;
    explain_add_size(e, e->grain);
    explain_add_size(e, e->max_bytes);
    for (size_t i = 0; i < STP_N_PROBES; i++)
        explain_add_size(e, stp_probe(SEED, i));
    for (uint64_t size = UINT64_C(1) << 34; size < e->max_bytes;
         size += size / 64)
        explain_add_size(e, size);
    while (compiled != NULL && end < e->max_bytes) {
        end = stp_compiled_next_break(compiled, coll, end);
        if (end <= e->max_bytes)
            explain_add_size(e, end);
    }
    STP_SORT(e->sizes, e->n_sizes, explain_compare_sizes);
}

enum stp_status stp_explain(const struct stp_explain_options *options,
                            struct stp_explanation *out_ret,
                            struct stp_error *err)
{
    struct explain e = {.err = err};

    STP_TRY(stp_explainer_open(&e.explainer, options, err));
    e.grain = stp_explainer_grain(&e.explainer);
    e.max_bytes = options->max_bytes / e.grain * e.grain;
    for (int coll = 0; coll < NCCL_NUM_TUNED_FUNCS; coll++) {
        struct stp_explained x;

        if (options->coll >= 0 && options->coll != coll)
            continue;
        explain_choose_sizes(&e, coll);
        x = explain_ask(&e, coll,
                        options->is_one ? options->max_bytes : e.sizes[0]);
        explain_append(&e, &x);
        e.out.n_sizes = 1;
        for (size_t i = 1;
             i < e.n_sizes && !options->is_one && e.status == STP_OK; i++)
            if (e.sizes[i] != e.sizes[i - 1]) {
                explain_advance(&e, coll, e.sizes[i]);
                e.out.n_sizes++;
            }
    }
    stp_explainer_close(&e.explainer);
    free(e.sizes);
    if (e.status == STP_OK)
        *out_ret = e.out;
    else
        stp_explanation_free(&e.out);
    return e.status;
}

void stp_explanation_free(struct stp_explanation *explanation)
{
    free(explanation->ranges);
    memset(explanation, 0, sizeof(*explanation));
}
