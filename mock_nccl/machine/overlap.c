#include "machine/overlap.h"

#include <math.h>
#include <stdlib.h>

#include "machine/machine.h"
#include "machine/records.h"
#include "machine/timings.h"
#include "model/channels.h"

/* A ratio that far beyond the last recorded one is as good as that: products
 * are fitted to a ratio no closer. */
static const double same_log_ratio = 0.05;

/* The mean over all that was recorded on h200x4, in logarithms. */
static const double default_slowdown = 1.43;

/* ---- two streams ---- */

/* Compute and collectives of an iteration, under way. */
struct streams {
    const struct mock_overlap *beside;
    int n_to_compute;    /* layers, the current one included */
    int n_to_send;       /* layers whose collective has not ended */
    int n_waiting;       /* collectives that may run, the current included */
    double compute_left; /* us alone, of the current ones */
    double comm_left;
    double now_us;
};

/* Lets both run until the next of them ends. */
static void overlap_advance(struct streams *s)
{
    bool computes = s->n_to_compute > 0;
    bool sends = s->n_waiting > 0;
    double slower = computes && sends ? s->beside->slowdown : 1;
    bool compute_ends = computes && (!sends || s->compute_left <= s->comm_left);
    bool comm_ends = sends && (!computes || s->comm_left <= s->compute_left);
    double alone = compute_ends ? s->compute_left : s->comm_left;

    s->now_us += alone * slower;
    if (computes)
        s->compute_left -= alone;
    if (sends)
        s->comm_left -= alone;
    if (compute_ends) {
        s->n_to_compute--;
        s->n_waiting++;
        s->compute_left = s->beside->compute_us;
    }
    if (comm_ends) {
        s->n_to_send--;
        s->n_waiting--;
        s->comm_left = s->beside->comm_us;
    }
}

double mock_overlapped_us(const struct mock_overlap *beside, int n_layers)
{
    struct streams s = {
        .beside = beside,
        .n_to_compute = n_layers,
        .n_to_send = n_layers,
        .compute_left = beside->compute_us,
        .comm_left = beside->comm_us,
    };

    while (s.n_to_send > 0)
        overlap_advance(&s);
    return s.now_us;
}

double mock_sequential_us(const struct mock_overlap *beside, int n_layers)
{
    return n_layers * (beside->compute_us + beside->comm_us);
}

void mock_side_by_side(const struct mock_overlap *beside,
                       double *compute_us_ret, double *comm_us_ret)
{
    double both = fmin(beside->compute_us, beside->comm_us);
    double more = both * (beside->slowdown - 1);

    *compute_us_ret = beside->compute_us + more;
    *comm_us_ret = beside->comm_us + more;
}

/* ---- what was recorded ---- */

/* What is wanted of it. */
struct wanted {
    int coll;
    int algo;
    int proto;
    int n_channels; /* 0: NCCL's own */
    size_t n_bytes;
    double log_bytes;
    double log_ratio;
    int round;
    double iteration;
};

struct estimate {
    double log_slowdown;
    double spread;
    enum mock_time_source source;
};

static struct estimate estimate_of(const struct mock_beside_point *point,
                                   const struct wanted *w)
{
    const struct mock_beside_row *row = &point->rows[w->round];

    return (struct estimate){
        .log_slowdown = row->log_slowdown,
        .spread = mock_quantile(row->quantile, w->iteration),
        .source = MOCK_TIME_RECORDED,
    };
}

static struct estimate overlap_mix(struct estimate lo, struct estimate hi,
                                   double weight)
{
    enum mock_time_source source =
        lo.source > hi.source ? lo.source : hi.source;

    return (struct estimate){
        .log_slowdown =
            (1 - weight) * lo.log_slowdown + weight * hi.log_slowdown,
        .spread = (1 - weight) * lo.spread + weight * hi.spread,
        .source =
            source > MOCK_TIME_INTERPOLATED ? source : MOCK_TIME_INTERPOLATED,
    };
}

/* Beyond the last of what was recorded, that is held. */
static struct estimate held(struct estimate e)
{
    e.source = MOCK_TIME_MODELLED;
    return e;
}

static struct estimate held_ratio(const struct mock_beside_point *last,
                                  const struct wanted *w)
{
    struct estimate e = estimate_of(last, w);

    if (fabs(last->log_ratio - w->log_ratio) > same_log_ratio)
        return held(e);
    e.source = MOCK_TIME_INTERPOLATED;
    return e;
}

static struct estimate at_size(const struct mock_beside_size *size,
                               const struct wanted *w)
{
    const struct mock_beside_point *hi = size->points;
    const struct mock_beside_point *end = hi + size->n_points;

    while (hi < end && hi->log_ratio < w->log_ratio)
        hi++;
    if (hi < end && hi->log_ratio == w->log_ratio)
        return estimate_of(hi, w);
    if (hi == end || hi == size->points)
        return held_ratio(hi == end ? hi - 1 : hi, w);
    return overlap_mix(estimate_of(hi - 1, w), estimate_of(hi, w),
                       (w->log_ratio - hi[-1].log_ratio) /
                           (hi->log_ratio - hi[-1].log_ratio));
}

static struct estimate of_arm(const struct mock_beside_arm *arm,
                              const struct wanted *w)
{
    const struct mock_beside_size *hi = arm->sizes;
    const struct mock_beside_size *end = hi + arm->n_sizes;

    while (hi < end && hi->n_bytes < w->n_bytes)
        hi++;
    if (hi < end && hi->n_bytes == w->n_bytes)
        return at_size(hi, w);
    if (hi == end || hi == arm->sizes)
        return held(at_size(hi == end ? hi - 1 : hi, w));
    return overlap_mix(at_size(hi - 1, w), at_size(hi, w),
                       (w->log_bytes - hi[-1].log_bytes) /
                           (hi->log_bytes - hi[-1].log_bytes));
}

/* ---- arms ---- */

enum likeness {
    UNLIKE,      /* another collective, or sizes on one side of the wanted */
    LIKE_COLL,   /* the wanted size is between its sizes */
    LIKE_PAIR,   /* the same algorithm and protocol, too */
    N_LIKENESSES /* the same arm is none of these */
};

static bool reaches(const struct mock_beside_arm *arm, size_t n_bytes)
{
    return arm->sizes[0].n_bytes <= n_bytes &&
           arm->sizes[arm->n_sizes - 1].n_bytes >= n_bytes;
}

static enum likeness likeness(const struct mock_beside_arm *arm,
                              const struct wanted *w)
{
    if (arm->coll != w->coll || !reaches(arm, w->n_bytes))
        return UNLIKE;
    return arm->algo == w->algo && arm->proto == w->proto ? LIKE_PAIR
                                                          : LIKE_COLL;
}

static const struct mock_beside_arm *
overlap_find_arm(const struct mock_beside *beside, const struct wanted *w)
{
    for (int i = 0; i < beside->n_arms; i++)
        if (likeness(&beside->arms[i], w) == LIKE_PAIR &&
            beside->arms[i].n_channels == w->n_channels)
            return &beside->arms[i];
    return NULL;
}

/* The mean over the arms that are most like the wanted one. */
static struct estimate of_others(const struct mock_beside *beside,
                                 const struct wanted *w)
{
    struct estimate mean = {0, 0, MOCK_TIME_MODELLED};
    enum likeness most = UNLIKE;
    int n = 0;

    for (int i = 0; i < beside->n_arms; i++) {
        const struct mock_beside_arm *arm = &beside->arms[i];
        enum likeness like = likeness(arm, w);
        struct estimate e;

        if (like < most)
            continue;
        if (like > most) {
            mean.log_slowdown = mean.spread = n = 0;
            most = like;
        }
        e = of_arm(arm, w);
        mean.log_slowdown += e.log_slowdown;
        mean.spread += e.spread;
        n++;
    }
    mean.log_slowdown /= n;
    mean.spread /= n;
    return mean;
}

static struct estimate estimate(const struct mock_machine *machine,
                                const struct wanted *w)
{
    const struct mock_beside_arm *arm;

    if (machine->beside == NULL)
        return (struct estimate){log(default_slowdown), 1, MOCK_TIME_MODELLED};
    arm = overlap_find_arm(machine->beside, w);
    return arm != NULL ? of_arm(arm, w) : of_others(machine->beside, w);
}

/* ---- the interface ---- */

static ncclResult_t overlap_check(double compute_us, double round,
                                  double iteration)
{
    if (!(compute_us > 0 && compute_us < INFINITY))
        return mock_fail(ncclInvalidArgument, "no compute of %g us",
                         compute_us);
    if (!(round >= 0 && round < 1 && iteration >= 0 && iteration < 1))
        return mock_fail(ncclInvalidArgument,
                         "round %g or iteration %g is not in [0, 1)", round,
                         iteration);
    return ncclSuccess;
}

static struct wanted wanted_of(const struct mock_machine *machine,
                               const struct mock_run *run, double ratio)
{
    int own = mock_default_channels(&machine->model, run->algo, run->proto,
                                    run->n_bytes);

    return (struct wanted){
        .coll = run->coll,
        .algo = run->algo,
        .proto = run->proto,
        .n_channels = run->n_channels < own ? run->n_channels : 0,
        .n_bytes = run->n_bytes,
        .log_bytes = log((double)run->n_bytes),
        .log_ratio = log(ratio),
    };
}

ncclResult_t mock_machine_overlap(const struct mock_machine *machine,
                                  const struct mock_run *run, double compute_us,
                                  double round, double iteration,
                                  struct mock_overlap *overlap_ret)
{
    ncclResult_t rc = overlap_check(compute_us, round, iteration);
    struct mock_time alone = {0};
    struct wanted w;
    struct estimate e;

    if (rc == ncclSuccess)
        rc = mock_machine_mean_time(machine, run, &alone);
    if (rc != ncclSuccess)
        return rc;
    w = wanted_of(machine, run, compute_us / alone.us);
    w.round = (int)(round * mock_machine_overlap_rounds(machine));
    w.iteration = iteration;
    e = estimate(machine, &w);
    overlap_ret->compute_us = compute_us * e.spread;
    overlap_ret->comm_us = alone.us * e.spread;
    overlap_ret->slowdown = exp(e.log_slowdown);
    overlap_ret->source = e.source;
    if (e.source != MOCK_TIME_RECORDED && alone.source > e.source)
        overlap_ret->source = alone.source;
    return ncclSuccess;
}

unsigned mock_machine_overlap_rounds(const struct mock_machine *machine)
{
    return machine->beside != NULL ? (unsigned)machine->beside->n_rounds : 0;
}

size_t mock_machine_overlap_settings(const struct mock_machine *machine,
                                     struct mock_overlap_setting *settings,
                                     size_t max)
{
    const struct mock_beside *beside = machine->beside;
    size_t n = beside != NULL ? (size_t)beside->n_settings : 0;

    for (size_t i = 0; i < n && i < max; i++)
        settings[i] = beside->settings[i];
    return n;
}

/* ---- overlap load ---- */

/* What is being built, and from what. */
struct overlap_build {
    const char *path;
    const struct mock_machine *machine;
    struct mock_beside *beside;
    const struct mock_record *previous;
    double comm_us; /* of the current size and arm, alone */
};

static const double min_slowdown = 1. / 64;
static const double max_slowdown = 64;

/* ---- one row ---- */

/* mock_overlapped_us() rises with the slowdown. */
static double overlap_bisect(struct mock_overlap beside, int n_layers,
                             double us)
{
    double lo = log(min_slowdown);
    double hi = log(max_slowdown);

    for (int i = 0; i < 60; i++) {
        double middle = (lo + hi) / 2;

        beside.slowdown = exp(middle);
        if (mock_overlapped_us(&beside, n_layers) < us)
            lo = middle;
        else
            hi = middle;
    }
    return (lo + hi) / 2;
}

static ncclResult_t overlap_find_slowdown(const struct overlap_build *b,
                                          const struct mock_record *r,
                                          double *log_slowdown_ret)
{
    struct mock_overlap beside = {.compute_us = r->compute_us,
                                  .comm_us = b->comm_us};
    double found = overlap_bisect(beside, r->n_layers, r->mean);
    double reached;

    beside.slowdown = exp(found);
    reached = mock_overlapped_us(&beside, r->n_layers);
    if (fabs(reached - r->mean) > 1e-9 * r->mean)
        return mock_fail(ncclInvalidArgument,
                         "%s:%d: mean_us %g cannot be: %d layers of %g us, "
                         "each with a collective of %g us alone",
                         b->path, r->line, r->mean, r->n_layers, r->compute_us,
                         b->comm_us);
    *log_slowdown_ret = found;
    return ncclSuccess;
}

/* ---- what is new with a row ---- */

static bool overlap_same_arm(const struct mock_record *a,
                             const struct mock_record *b)
{
    return a->coll == b->coll && a->algo == b->algo && a->proto == b->proto &&
           a->n_channels == b->n_channels;
}

static ncclResult_t overlap_find_comm(struct overlap_build *b,
                                      const struct mock_record *r)
{
    const struct mock_run run = {
        .coll = (ncclFunc_t)r->coll,
        .n_bytes = r->n_bytes,
        .algo = r->algo,
        .proto = r->proto,
        .n_channels = r->n_channels,
    };
    struct mock_time time = {0};
    ncclResult_t rc = mock_machine_mean_time(b->machine, &run, &time);

    b->comm_us = time.us;
    return rc;
}

static void overlap_add_arm(struct overlap_build *b,
                            const struct mock_record *r)
{
    b->beside->arms[b->beside->n_arms++] = (struct mock_beside_arm){
        .coll = r->coll,
        .algo = r->algo,
        .proto = r->proto,
        .n_channels = r->n_channels,
        .sizes = &b->beside->sizes[b->beside->n_sizes],
    };
}

static void add_size(struct overlap_build *b, const struct mock_record *r)
{
    struct mock_beside *beside = b->beside;

    beside->arms[beside->n_arms - 1].n_sizes++;
    beside->sizes[beside->n_sizes++] = (struct mock_beside_size){
        .n_bytes = r->n_bytes,
        .log_bytes = log((double)r->n_bytes),
        .points = &beside->points[beside->n_points],
    };
}

static void add_point(struct overlap_build *b, const struct mock_record *r)
{
    struct mock_beside *beside = b->beside;

    beside->sizes[beside->n_sizes - 1].n_points++;
    beside->points[beside->n_points++] = (struct mock_beside_point){
        .log_ratio = log(r->compute_us / b->comm_us),
        .compute_us = r->compute_us,
        .n_layers = r->n_layers,
        .m = r->m,
        .n = r->n,
        .k = r->k,
        .rows = &beside->rows[beside->n_rows],
    };
}

/* Opens the arm, size and point that a record is the first of. */
static ncclResult_t open_new(struct overlap_build *b,
                             const struct mock_record *r)
{
    const struct mock_record *p = b->previous;
    bool new_arm = p == NULL || !overlap_same_arm(p, r);
    bool new_size = new_arm || p->n_bytes != r->n_bytes;
    ncclResult_t rc = ncclSuccess;

    if (!new_size && p->compute_us == r->compute_us) {
        if (p->n_layers != r->n_layers)
            return mock_fail(ncclInvalidArgument,
                             "%s:%d: %d layers, but line %d has %d with the "
                             "same compute_us",
                             b->path, r->line, r->n_layers, p->line,
                             p->n_layers);
        return ncclSuccess;
    }
    if (new_size)
        rc = overlap_find_comm(b, r);
    if (rc != ncclSuccess)
        return rc;
    if (new_arm)
        overlap_add_arm(b, r);
    if (new_size)
        add_size(b, r);
    add_point(b, r);
    return ncclSuccess;
}

/* Rounds count from 1 in every point, without a gap. */
static ncclResult_t check_round(const struct overlap_build *b,
                                const struct mock_record *r)
{
    const struct mock_beside *beside = b->beside;
    const struct mock_beside_row *first =
        beside->points[beside->n_points - 1].rows;
    int expected = (int)(&beside->rows[beside->n_rows] - first) + 1;

    if (r->round == expected)
        return ncclSuccess;
    return mock_fail(ncclInvalidArgument,
                     "%s:%d: round %d, but round %d is the next of this size, "
                     "compute_us and arm",
                     b->path, r->line, r->round, expected);
}

static ncclResult_t add_record(struct overlap_build *b,
                               const struct mock_record *r)
{
    ncclResult_t rc = open_new(b, r);
    struct mock_beside_row *row = &b->beside->rows[b->beside->n_rows];

    if (rc == ncclSuccess)
        rc = check_round(b, r);
    if (rc == ncclSuccess)
        rc = overlap_find_slowdown(b, r, &row->log_slowdown);
    if (rc != ncclSuccess)
        return rc;
    mock_quantiles(r, row->quantile);
    b->beside->n_rows++;
    b->previous = r;
    return ncclSuccess;
}

/* ---- all rows ---- */

static ncclResult_t check_rounds(const char *path, struct mock_beside *beside)
{
    beside->n_rounds = beside->n_rows / beside->n_points;
    for (int i = 0; i < beside->n_points; i++) {
        const struct mock_beside_row *end = i + 1 < beside->n_points
                                                ? beside->points[i + 1].rows
                                                : beside->rows + beside->n_rows;
        int n = (int)(end - beside->points[i].rows);

        if (n != beside->n_rounds)
            return mock_fail(
                ncclInvalidArgument,
                "%s: %d rounds with compute_us %g, but others have "
                "%d",
                path, n, beside->points[i].compute_us, beside->n_rounds);
    }
    return ncclSuccess;
}

static int by_setting(const void *a_, const void *b_)
{
    const struct mock_overlap_setting *a = a_;
    const struct mock_overlap_setting *b = b_;

    if (a->coll != b->coll)
        return a->coll < b->coll ? -1 : 1;
    if (a->n_bytes != b->n_bytes)
        return a->n_bytes < b->n_bytes ? -1 : 1;
    if (a->compute_us != b->compute_us)
        return a->compute_us < b->compute_us ? -1 : 1;
    return a->n_layers - b->n_layers;
}

/* Each once, whatever the arm. */
static void overlap_list_settings(struct mock_beside *beside)
{
    struct mock_overlap_setting *list = beside->settings;
    int n = 0;

    for (int i = 0; i < beside->n_arms; i++)
        for (int j = 0; j < beside->arms[i].n_sizes; j++) {
            const struct mock_beside_size *size = &beside->arms[i].sizes[j];

            for (int k = 0; k < size->n_points; k++)
                list[n++] = (struct mock_overlap_setting){
                    .coll = (ncclFunc_t)beside->arms[i].coll,
                    .n_bytes = size->n_bytes,
                    .compute_us = size->points[k].compute_us,
                    .n_layers = size->points[k].n_layers,
                    .m = size->points[k].m,
                    .n = size->points[k].n,
                    .k = size->points[k].k,
                };
        }
    qsort(list, (size_t)n, sizeof(*list), by_setting);
    for (int i = 0; i < n; i++)
        if (i == 0 || by_setting(&list[i - 1], &list[i]) != 0)
            list[beside->n_settings++] = list[i];
}

static bool overlap_alloc(struct mock_beside *beside, int n)
{
    beside->arms = calloc((size_t)n, sizeof(*beside->arms));
    beside->sizes = calloc((size_t)n, sizeof(*beside->sizes));
    beside->points = calloc((size_t)n, sizeof(*beside->points));
    beside->rows = calloc((size_t)n, sizeof(*beside->rows));
    beside->settings = calloc((size_t)n, sizeof(*beside->settings));
    return beside->arms != NULL && beside->sizes != NULL &&
           beside->points != NULL && beside->rows != NULL &&
           beside->settings != NULL;
}

static ncclResult_t overlap_build(struct overlap_build *b,
                                  const struct mock_records *records)
{
    ncclResult_t rc = ncclSuccess;

    if (!overlap_alloc(b->beside, records->n))
        return mock_fail_memory();
    for (int i = 0; i < records->n && rc == ncclSuccess; i++)
        rc = add_record(b, &records->list[i]);
    if (rc == ncclSuccess)
        rc = check_rounds(b->path, b->beside);
    if (rc == ncclSuccess)
        overlap_list_settings(b->beside);
    return rc;
}

ncclResult_t mock_beside_load(const char *path,
                              const struct mock_machine *machine,
                              struct mock_beside **beside_ret)
{
    struct overlap_build b = {.path = path, .machine = machine};
    struct mock_records records = {NULL, 0, 0};
    ncclResult_t rc;

    b.beside = calloc(1, sizeof(*b.beside));
    if (b.beside == NULL)
        return mock_fail_memory();
    rc = mock_records_load_overlap(path, &machine->model, &records);
    if (rc == ncclSuccess)
        rc = overlap_build(&b, &records);
    mock_records_free(&records);
    if (rc != ncclSuccess) {
        mock_beside_free(b.beside);
        return rc;
    }
    *beside_ret = b.beside;
    return ncclSuccess;
}

void mock_beside_free(struct mock_beside *beside)
{
    if (beside == NULL)
        return;
    free(beside->arms);
    free(beside->sizes);
    free(beside->points);
    free(beside->rows);
    free(beside->settings);
    free(beside);
}
