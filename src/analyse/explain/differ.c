#include "analyse/explain/differ.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/mock/mock_source.h"

enum { MAX_SIZES = 256 };

/* ---- ranges ---- */

static struct stp_differing differ_get_side(const struct stp_explained *x)
{
    return (struct stp_differing){x->pick, x->asked_channels, x->tuned_channels,
                                  NAN};
}

static bool differ_same_side(const struct stp_differing *a,
                             const struct stp_differing *b)
{
    return stp_pick_equal(a->pick, b->pick) &&
           a->asked_channels == b->asked_channels;
}

/* Adds what both ranges hold, to the range before if it goes on: lines of a
 * policy that say the same end ranges, too. */
static void differ_add(struct stp_differences *out,
                       const struct stp_explained *a,
                       const struct stp_explained *b, bool goes_on)
{
    struct stp_difference d = {
        .coll = a->coll,
        .min_bytes = a->min_bytes > b->min_bytes ? a->min_bytes : b->min_bytes,
        .max_bytes = a->max_bytes < b->max_bytes ? a->max_bytes : b->max_bytes,
        .first = differ_get_side(a),
        .second = differ_get_side(b),
        .source = STP_SOURCE_MODELLED,
    };
    struct stp_difference *last =
        goes_on ? &out->ranges[out->n_ranges - 1] : NULL;

    if (last != NULL && last->coll == d.coll &&
        differ_same_side(&last->first, &d.first) &&
        differ_same_side(&last->second, &d.second))
        last->max_bytes = d.max_bytes;
    else
        out->ranges[out->n_ranges++] = d;
}

/* Both cover the same collectives and sizes, without gaps, so that one of the
 * two ranges at hand ends first, or both end. */
static void differ_compare(const struct stp_explanation *first,
                           const struct stp_explanation *second,
                           struct stp_differences *out)
{
    bool goes_on = false;
    size_t i = 0, j = 0;

    while (i < first->n_ranges && j < second->n_ranges) {
        const struct stp_explained *a = &first->ranges[i];
        const struct stp_explained *b = &second->ranges[j];
        bool differs = !stp_pick_equal(a->pick, b->pick) ||
                       a->asked_channels != b->asked_channels;

        if (differs)
            differ_add(out, a, b, goes_on);
        goes_on = differs;
        i += a->max_bytes <= b->max_bytes;
        j += b->max_bytes <= a->max_bytes;
    }
}

/* ---- times ---- */

/* The recorded size nearest to the middle of the range, else the middle. */
static uint64_t differ_choose_size(const struct mock_machine *machine,
                                   const struct stp_difference *d)
{
    double middle = sqrt((double)d->min_bytes * (double)d->max_bytes);
    size_t sizes[MAX_SIZES];
    size_t n =
        mock_machine_sizes(machine, (ncclFunc_t)d->coll, sizes, MAX_SIZES);
    double best = INFINITY;
    uint64_t at = (uint64_t)middle;

    for (size_t i = 0; i < n && i < MAX_SIZES; i++) {
        double far = fabs(log((double)sizes[i] / middle));

        if (sizes[i] >= d->min_bytes && sizes[i] <= d->max_bytes &&
            far < best) {
            best = far;
            at = sizes[i];
        }
    }
    return at;
}

/* Returns what the time is worth. */
static enum stp_source differ_fill_time(const struct mock_machine *machine,
                                        const struct stp_difference *d,
                                        struct stp_differing *x,
                                        bool *single_pass)
{
    const struct mock_run run = {.coll = (ncclFunc_t)d->coll,
                                 .n_bytes = d->at_bytes,
                                 .algo = x->pick.algo,
                                 .proto = x->pick.proto,
                                 .n_channels = x->tuned_channels};
    struct mock_time time;

    if (mock_machine_mean_time(machine, &run, &time) != ncclSuccess ||
        time.source == MOCK_TIME_MODELLED)
        return STP_SOURCE_MODELLED;
    x->us = time.us;
    *single_pass |= time.is_single_pass;
    return stp_mock_source(time.source);
}

static void differ_fill_times(const struct mock_machine *machine,
                              struct stp_difference *d)
{
    enum stp_source first, second;

    d->at_bytes = differ_choose_size(machine, d);
    first = differ_fill_time(machine, d, &d->first, &d->single_pass);
    second = differ_fill_time(machine, d, &d->second, &d->single_pass);
    d->source = stp_source_worst(first, second);
}

enum stp_status stp_differ(const struct stp_explanation *first,
                           const struct stp_explanation *second,
                           const char *machine_path,
                           struct stp_differences *out_ret,
                           struct stp_error *err)
{
    struct stp_differences out = {0};
    struct mock_machine *machine;

    if (mock_machine_load(machine_path, &machine) != ncclSuccess)
        return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    out.ranges =
        calloc(first->n_ranges + second->n_ranges + 1, sizeof(*out.ranges));
    if (out.ranges == NULL) {
        mock_machine_free(machine);
        return stp_nomem(err);
    }
    differ_compare(first, second, &out);
    for (size_t i = 0; i < out.n_ranges; i++)
        differ_fill_times(machine, &out.ranges[i]);
    mock_machine_free(machine);
    *out_ret = out;
    return STP_OK;
}

void stp_differences_free(struct stp_differences *differences)
{
    free(differences->ranges);
    memset(differences, 0, sizeof(*differences));
}
