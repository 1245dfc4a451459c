#include "analyse/explain/differ.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/mock/operation.h"

enum { MAX_SIZES = 256 };

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

static bool differ_is_like(const struct stp_differing *side,
                           const struct stp_explained *x)
{
    return stp_pick_equal(side->pick, x->pick) &&
           side->asked_channels == x->asked_channels;
}

/* Lists the ranges in which both explanations decide one way each. Both cover
 * the same collectives and sizes, without gaps, so one of the two ranges at
 * hand ends first, or both end. A range with the same decisions as the one
 * before extends that: equal lines of a policy end ranges, too. */
static void differ_find_ranges(const struct stp_explanation *first,
                               const struct stp_explanation *second,
                               struct stp_differences *out)
{
    struct stp_difference *last = NULL; /* the range before, if it differs */
    size_t i = 0, j = 0;

    while (i < first->n_ranges && j < second->n_ranges) {
        const struct stp_explained *a = &first->ranges[i];
        const struct stp_explained *b = &second->ranges[j];
        const bool a_is_first = a->max_bytes <= b->max_bytes;
        const bool b_is_first = b->max_bytes <= a->max_bytes;
        const uint64_t end = a_is_first ? a->max_bytes : b->max_bytes;

        if (stp_pick_equal(a->pick, b->pick) &&
            a->asked_channels == b->asked_channels)
            last = NULL;
        else if (last != NULL && last->coll == a->coll &&
                 differ_is_like(&last->first, a) &&
                 differ_is_like(&last->second, b))
            last->max_bytes = end;
        else {
            last = &out->ranges[out->n_ranges++];
            *last = (struct stp_difference){
                .coll = a->coll,
                .min_bytes =
                    a->min_bytes > b->min_bytes ? a->min_bytes : b->min_bytes,
                .max_bytes = end,
                .first = {a->pick, a->asked_channels, a->tuned_channels, NAN},
                .second = {b->pick, b->asked_channels, b->tuned_channels, NAN},
                .source = STP_SOURCE_MODELLED,
            };
        }
        i += a_is_first;
        j += b_is_first;
    }
}

enum stp_status stp_differ(const struct stp_explanation *first,
                           const struct stp_explanation *second,
                           const char *machine_path,
                           struct stp_differences *out_ret,
                           struct stp_error *err)
{
    struct stp_differences out = {.n_sizes = first->n_sizes};
    struct mock_machine *machine;

    if (mock_machine_load(machine_path, &machine) != ncclSuccess)
        return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    out.ranges =
        calloc(first->n_ranges + second->n_ranges + 1, sizeof(*out.ranges));
    if (out.ranges == NULL) {
        mock_machine_free(machine);
        return stp_nomem(err);
    }
    differ_find_ranges(first, second, &out);
    for (size_t i = 0; i < out.n_ranges; i++) {
        struct stp_difference *d = &out.ranges[i];
        enum stp_source source;

        d->at_bytes = differ_choose_size(machine, d);
        source = differ_fill_time(machine, d, &d->first, &d->single_pass);
        d->source = stp_source_worst(
            source, differ_fill_time(machine, d, &d->second, &d->single_pass));
    }
    mock_machine_free(machine);
    *out_ret = out;
    return STP_OK;
}

void stp_differences_free(struct stp_differences *differences)
{
    free(differences->ranges);
    memset(differences, 0, sizeof(*differences));
}
