#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "machine/recorded.h"
#include "model/channels.h"

/* ---- times without a record ---- */

/* The additional time of a collective on fewer channels than NCCL's own, us.
 * NCCL's cost model has none. With N channels of the communicator, n requested
 * and m NCCL's own for the size:
 *
 *   (R(n) - R(m)) * bytes / bandwidth,  R(x) = cbrt((s * N / x)^3 + 1 - s^3)
 *
 * where the bandwidth is the cost model's, and s the share of the channels that
 * would reach it if channels did not compete. The exponent and s were fitted to
 * the single passes of fixtures/machines/h200x4 over 1 to 24 channels from 64
 * MiB on, and predict the 502 times of other sizes to 5 percent (median; 9 of
 * 10 to 21). Algorithms without records have the values of rings with Simple.
 */
static double timings_stretch(double share, double used)
{
    return cbrt(pow(share / used, 3) + 1 - pow(share, 3));
}

static double timings_fewer_channels_us(const struct mock_model *model,
                                        const struct mock_run *run)
{
    static const double rings[] = {.96, .69, .55};
    static const double trees[] = {.79, .57, .45};
    int own = mock_default_channels(model, run->algo, run->proto, run->n_bytes);
    bool nvls = run->algo == NCCL_ALGO_NVLS || run->algo == NCCL_ALGO_NVLS_TREE;
    double all = nvls ? model->n_nvls_channels : model->n_channels;
    double bandwidth = model->bandwidth[run->coll][run->algo][run->proto];
    double share = (run->algo == NCCL_ALGO_TREE ? trees : rings)[run->proto];

    if (run->n_channels == 0 || run->n_channels >= own || bandwidth == 0)
        return 0;
    return (timings_stretch(share, run->n_channels / all) -
            timings_stretch(share, own / all)) *
           (double)run->n_bytes / (1000 * bandwidth);
}

/* The cost model's time, and that of fewer channels, as the machine's
 * calibration has them. */
static double timings_calibrate(const struct mock_machine *machine,
                                const struct mock_run *run, double us,
                                double fewer_us)
{
    const struct mock_calibration *c =
        &machine->calibration[run->coll][run->algo][run->proto];
    const double latency =
        machine->model.latency[run->coll][run->algo][run->proto];
    const double base =
        mock_default_constants.baseLatencies[run->algo][run->proto];
    const double n = machine->info.n_ranks;

    if (c->source[0] == '\0' || machine->info.n_nodes > 1 || n == 1)
        return us + fewer_us;
    return c->launch_us + c->latency * (latency - base) +
           (c->bandwidth + c->copy * n / (n - 1)) * (us - latency + fewer_us);
}

/* The cost model's time plus that of fewer channels. Fails if NCCL rules the
 * pair out. */
static ncclResult_t timings_model(const struct mock_machine *machine,
                                  const struct mock_run *run,
                                  struct mock_time *time_ret)
{
    const struct mock_call call = {
        .coll = run->coll,
        .n_bytes = run->n_bytes,
        .n_pipe_ops = 1,
    };
    mock_table table;

    if (run->algo >= NCCL_NUM_ALGORITHMS)
        return mock_refuse("no time for %s of registered buffers: none was "
                           "recorded on %s, and none is modelled",
                           mock_word(&mock_colls, run->coll),
                           machine->info.name);
    mock_model_table(&machine->model, &call, table);
    if (table[run->algo][run->proto] < 0)
        return mock_refuse("no time for %s with %s/%s: nothing was recorded on "
                           "%s, and NCCL rules it out",
                           mock_word(&mock_colls, run->coll),
                           mock_word(&mock_algos, run->algo),
                           mock_word(&mock_protos, run->proto),
                           machine->info.name);
    *time_ret = (struct mock_time){
        .us =
            timings_calibrate(machine, run, table[run->algo][run->proto],
                              timings_fewer_channels_us(&machine->model, run)),
        .source = MOCK_TIME_MODELLED,
        .kernel = "",
    };
    return ncclSuccess;
}

/* ---- sizes ---- */

static enum mock_time_source timings_get_source(const struct mock_span *span)
{
    if (span->weight == 0)
        return span->lo->source;
    if (span->lo == span->hi || span->weight > 1)
        return MOCK_TIME_MODELLED;
    return mock_worse_source(
        mock_worse_source(span->lo->source, span->hi->source),
        MOCK_TIME_INTERPOLATED);
}

static const struct mock_row *timings_get_row(const struct mock_point *point,
                                              int round)
{
    return &point->rows[round % point->n_rounds];
}

/* The mean of one round. It does not decrease beyond the last point. */
static double timings_get_mean(const struct mock_span *span, int round)
{
    const struct mock_row *lo = timings_get_row(span->lo, round);
    const struct mock_row *hi = timings_get_row(span->hi, round);

    if (span->weight > 1 && hi->value < lo->value)
        return hi->value;
    return lo->value + span->weight * (hi->value - lo->value);
}

/* Where a size lies on the axis along which times of an arm are straight lines.
 * These are its bytes; of a ring or tree with LL or LL128, whose warps move
 * whole lines at once, the mean of its bytes, twice, and of what all warps of
 * its channels move until they are done. */
static double timings_get_position(const struct mock_model *model,
                                   const struct mock_run *run, double n_bytes)
{
    /* a thread's share of a line without flags, four times for LL128 */
    static const int of_thread[NCCL_NUM_PROTOCOLS] = {8, 60, 0};
    double at_once;

    if (run->algo >= NCCL_NUM_ALGORITHMS || of_thread[run->proto] == 0)
        return n_bytes;
    at_once =
        of_thread[run->proto] * model->max_threads[run->algo][run->proto] *
        mock_default_channels(model, run->algo, run->proto, (size_t)n_bytes);
    if (run->algo == NCCL_ALGO_RING && run->coll != ncclFuncBroadcast &&
        run->coll != ncclFuncReduce) /* each rank's part is moved by itself */
        at_once *= model->n_ranks;
    return (2 * n_bytes + ceil(n_bytes / at_once) * at_once) / 3;
}

/* Sets the weight of a span by the position between its sizes. */
static void timings_set_weight(const struct mock_model *model,
                               const struct mock_run *run,
                               struct mock_span *span)
{
    double lo, hi, at;

    if (span->weight == 0 || span->lo == span->hi)
        return;
    lo = timings_get_position(model, run, (double)span->lo->n_bytes);
    hi = timings_get_position(model, run, (double)span->hi->n_bytes);
    at = timings_get_position(model, run, (double)run->n_bytes);
    /* more channels can move the same bytes in fewer steps */
    if (lo < hi && lo < at && (span->weight > 1) == (at > hi))
        span->weight = (at - lo) / (hi - lo);
}

/* ---- channels ---- */

/* A channel count, and its time relative to that of NCCL's own count. */
struct knot {
    double log_channels;
    double log_ratio;
    enum mock_time_source source;
    bool is_single_pass;
};

/* The i-th recorded count below NCCL's own, which follows the last one; the
 * pair's first arm is of NCCL's own. */
static struct knot timings_get_knot(const struct mock_pair *pair, int i,
                                    int n_own, double log_bytes)
{
    const struct mock_arm *count = &pair->arms[i + 1];
    struct mock_span span;
    struct knot knot;

    if (i + 1 >= pair->n_arms || count->n_channels >= n_own)
        return (struct knot){.log_channels = log(n_own)};
    span = mock_curve_find(&count->sizes, log_bytes);
    knot = (struct knot){
        .log_channels = log(count->n_channels),
        .source = timings_get_source(&span),
    };
    /* The ratio of the largest size applies to larger ones. */
    if (span.weight > 1)
        span.lo = span.hi;
    knot.log_ratio =
        span.lo->rows->log_value +
        span.weight * (span.hi->rows->log_value - span.lo->rows->log_value);
    knot.is_single_pass = span.lo->is_single_pass || span.hi->is_single_pass;
    return knot;
}

/* The ratio of the time on 'n_channels' to that on NCCL's own 'n_own', which is
 * larger. Below the smallest recorded count the slope of the two smallest
 * continues, but fewer channels are never faster. */
static double timings_channel_ratio(const struct mock_pair *pair,
                                    int n_channels, int n_own, double log_bytes,
                                    enum mock_time_source *source_ret,
                                    bool *is_single_pass_ret)
{
    int i = 0;
    struct knot lo, hi;
    double slope;

    while (i + 1 < pair->n_arms && pair->arms[i + 1].n_channels < n_channels)
        i++;
    hi = timings_get_knot(pair, i, n_own, log_bytes);
    *source_ret = hi.source;
    *is_single_pass_ret = hi.is_single_pass;
    if (i + 1 < pair->n_arms && pair->arms[i + 1].n_channels == n_channels)
        return exp(hi.log_ratio);
    lo = timings_get_knot(pair, i > 0 ? i - 1 : 0, n_own, log_bytes);
    *source_ret = mock_worse_source(mock_worse_source(lo.source, hi.source),
                                    MOCK_TIME_INTERPOLATED);
    *is_single_pass_ret |= lo.is_single_pass;
    if (i == 0) {
        hi = timings_get_knot(pair, 1, n_own, log_bytes);
        *source_ret = MOCK_TIME_MODELLED;
    }
    slope = (hi.log_ratio - lo.log_ratio) / (hi.log_channels - lo.log_channels);
    if (i == 0)
        slope = fmin(slope, 0);
    return exp(lo.log_ratio + slope * (log(n_channels) - lo.log_channels));
}

/* ---- one time ---- */

static const struct mock_pair *
timings_get_pair(const struct mock_machine *machine, const struct mock_run *run,
                 bool graph)
{
    return &machine->timings->pairs[graph][run->coll][run->algo][run->proto];
}

/* Whether times were recorded for the pair, of either launch. */
static bool timings_has_pair(const struct mock_machine *machine,
                             const struct mock_run *run)
{
    return machine->timings != NULL &&
           (timings_get_pair(machine, run, false)->n_arms > 0 ||
            timings_get_pair(machine, run, true)->n_arms > 0);
}

bool mock_machine_has_way(const struct mock_machine *machine, ncclFunc_t coll,
                          enum mock_way way, bool graph)
{
    return machine->timings != NULL &&
           machine->timings->pairs[graph][coll][way][0].n_arms > 0;
}

/* Whether a graph's times are the better ones: above the last of them a launch
 * takes no time that anybody sees. */
static bool timings_use_graph(const struct mock_machine *machine,
                              const struct mock_run *run, double log_bytes)
{
    const struct mock_pair *pair = timings_get_pair(machine, run, true);
    const struct mock_curve *sizes;

    if (pair->n_arms == 0 || timings_get_pair(machine, run, false)->n_arms == 0)
        return pair->n_arms > 0;
    sizes = &pair->arms->sizes;
    return run->graph && log_bytes <= sizes->points[sizes->n_points - 1].at;
}

/* Reads whether bits are NCCL's own: nothing is interpolated. */
static enum mock_bits timings_get_bits(const struct mock_pair *pair,
                                       int n_channels, double log_bytes)
{
    for (int i = 0; i < pair->n_arms; i++)
        if (pair->arms[i].n_channels == n_channels) {
            const struct mock_span span =
                mock_curve_find(&pair->arms[i].sizes, log_bytes);

            return span.weight == 0 ? span.lo->bits : MOCK_BITS_UNKNOWN;
        }
    return MOCK_BITS_UNKNOWN;
}

/* The recorded time, but for its value: the span of sizes, and the factor of
 * the channel count. */
static struct mock_time
timings_look_up(const struct mock_machine *machine, const struct mock_run *run,
                double log_bytes, struct mock_span *span_ret, double *ratio_ret)
{
    const bool graph = timings_use_graph(machine, run, log_bytes);
    const struct mock_pair *pair = timings_get_pair(machine, run, graph);
    const struct mock_pair *launched = timings_get_pair(machine, run, false);
    /* fewer channels cost as much in a graph */
    const struct mock_pair *counts = pair->n_arms > 1 ? pair : launched;
    struct mock_span span = mock_curve_find(&pair->arms[0].sizes, log_bytes);
    int n_own = mock_default_channels(&machine->model, run->algo, run->proto,
                                      run->n_bytes);
    const bool is_fewer = run->n_channels != 0 && run->n_channels < n_own;
    const int count = run->n_channels == n_own ? 0 : run->n_channels;
    struct mock_time time = {
        .source = MOCK_TIME_RECORDED,
        .kernel = (span.weight < .5 ? span.lo : span.hi)->kernel,
        .bits = timings_get_bits(pair, count, log_bytes),
    };

    if (time.bits == MOCK_BITS_UNKNOWN)
        time.bits = timings_get_bits(launched, count, log_bytes);
    timings_set_weight(&machine->model, run, &span);
    *span_ret = span;
    *ratio_ret = 1;
    if (is_fewer) {
        time.source = MOCK_TIME_MODELLED; /* if no other count was recorded */
        if (counts->n_arms > 1 && counts->arms[1].n_channels < n_own)
            *ratio_ret =
                timings_channel_ratio(counts, run->n_channels, n_own, log_bytes,
                                      &time.source, &time.is_single_pass);
        else
            *ratio_ret = 1 + timings_fewer_channels_us(&machine->model, run) /
                                 timings_get_mean(&span, 0);
    }
    time.source =
        graph == run->graph && (!is_fewer || counts == pair)
            ? mock_worse_source(time.source, timings_get_source(&span))
            : MOCK_TIME_MODELLED;
    time.is_single_pass |= span.lo->is_single_pass || span.hi->is_single_pass;
    return time;
}

static ncclResult_t timings_check_run(const struct mock_run *run)
{
    if ((unsigned)run->coll >= NCCL_NUM_TUNED_FUNCS ||
        (unsigned)run->algo >= MOCK_NUM_WAYS ||
        (unsigned)run->proto >= NCCL_NUM_PROTOCOLS)
        return mock_refuse(
            "no time for collective %d, algorithm %d and protocol %d",
            (int)run->coll, run->algo, run->proto);
    if (run->n_bytes == 0)
        return mock_refuse("no time for 0 bytes");
    if (run->n_channels < 0)
        return mock_refuse("no time for %d channels", run->n_channels);
    return ncclSuccess;
}

ncclResult_t mock_machine_time(const struct mock_machine *machine,
                               const struct mock_run *run, double round,
                               double iteration, struct mock_time *time_ret)
{
    struct mock_span sizes, span;
    double log_bytes, ratio, weight;
    int i;

    MOCK_TRY(timings_check_run(run));
    if (!(round >= 0 && round < 1 && iteration >= 0 && iteration < 1))
        return mock_refuse("round %g or iteration %g is not in [0, 1)", round,
                           iteration);
    if (!timings_has_pair(machine, run))
        return timings_model(machine, run, time_ret);
    log_bytes = log((double)run->n_bytes);
    *time_ret = timings_look_up(machine, run, log_bytes, &span, &ratio);
    /* all pairs draw from the same number of rounds, the fewest of any, between
     * recorded sizes that of the neighbour with more */
    sizes = mock_curve_find(
        &machine->timings
             ->sizes[timings_use_graph(machine, run, log_bytes)][run->coll],
        log_bytes);
    if (sizes.weight > 1 || sizes.hi->n_rounds > sizes.lo->n_rounds)
        sizes.lo = sizes.hi;
    i = (int)(round * sizes.lo->n_rounds);
    /* the spread relative to the mean, interpolated so that its mean stays 1 */
    weight = fmin(span.weight, 1);
    time_ret->us =
        timings_get_mean(&span, i) * ratio *
        ((1 - weight) * mock_quantile(timings_get_row(span.lo, i), iteration) +
         weight * mock_quantile(timings_get_row(span.hi, i), iteration));
    return ncclSuccess;
}

ncclResult_t mock_machine_mean_time(const struct mock_machine *machine,
                                    const struct mock_run *run,
                                    struct mock_time *time_ret)
{
    struct mock_span span;
    double ratio;
    double sum = 0;
    int n_rounds;

    MOCK_TRY(timings_check_run(run));
    if (!timings_has_pair(machine, run))
        return timings_model(machine, run, time_ret);
    *time_ret =
        timings_look_up(machine, run, log((double)run->n_bytes), &span, &ratio);
    n_rounds = span.lo->n_rounds > span.hi->n_rounds ? span.lo->n_rounds
                                                     : span.hi->n_rounds;
    for (int i = 0; i < n_rounds; i++)
        sum += timings_get_mean(&span, i);
    time_ret->us = sum / n_rounds * ratio;
    return ncclSuccess;
}

struct mock_run mock_outcome_run(const struct mock_call *call,
                                 const struct mock_outcome *outcome)
{
    int kept = outcome->tuned_channels;

    return (struct mock_run){
        .coll = call->coll,
        .n_bytes = call->n_bytes,
        .algo = outcome->algo,
        .proto = outcome->proto,
        /* a negative count gets as many channels as there are */
        .n_channels = kept >= 0 ? kept : INT8_MAX,
    };
}

int mock_outcome_limit(const struct mock_outcome *outcome)
{
    int asked = outcome->asked_channels;
    int kept = outcome->tuned_channels;

    /* others keep the count, or the low bits of one above INT8_MAX */
    return kept > 0 && kept < asked && asked <= INT8_MAX ? kept : 0;
}

/* ---- the file ---- */

/* Adds one arm, a row for each record or, of fewer channels, one for each size:
 * the mean over runs and rounds. */
static ncclResult_t timings_add_arm(const char *path,
                                    const struct mock_records *records,
                                    const struct mock_record *first, int n,
                                    struct mock_recorded *timings)
{
    size_t least = SIZE_MAX; /* sizes of interleaved rounds */
    size_t most = 0;
    struct mock_curve *sizes;

    for (int i = 0; i < n; i++)
        if (first[i].round > 0) {
            least = first[i].n_bytes < least ? first[i].n_bytes : least;
            most = first[i].n_bytes > most ? first[i].n_bytes : most;
        }
    for (const struct mock_record *r = first; r < first + n; r++) {
        struct mock_record key = *r;
        const struct mock_record *own;
        struct mock_point *point;
        struct mock_row *row;

        key.n_channels = 0;
        own = mock_records_find(records, &key);
        if (own == NULL)
            return mock_refuse("%s:%d: %d channels, but no row with channels 0 "
                               "in the same run, round and graph",
                               path, r->line, r->n_channels);
        /* single passes are used only where no rounds were recorded */
        if (r->round == 0 && r->n_bytes >= least && r->n_bytes <= most)
            continue;
        point = mock_recorded_add(timings, r);
        point->n_rounds++;
        point->is_single_pass = r->round == 0 || point->n_rounds == 1;
        point->source = mock_worse_source(point->source, r->source);
        memcpy(point->kernel, r->kernel, sizeof(point->kernel));
        point->bits = r->bits > point->bits ? r->bits : point->bits;
        if (r->n_channels == 0 || point->n_rounds == 1)
            timings->n_rows++;
        row = &timings->rows[timings->n_rows - 1];
        if (r->n_channels == 0) {
            row->value = r->mean;
            mock_set_quantiles(r, row);
        } else {
            row->value += r->mean / own->mean;
        }
    }
    sizes = &timings->arms[timings->n_arms - 1].sizes;
    for (int i = 0; i < sizes->n_points && first->n_channels != 0; i++) {
        struct mock_row *row =
            &timings->rows[timings->n_rows - sizes->n_points + i];

        row->value /= sizes->points[i].n_rounds;
        row->log_value = log(row->value);
        sizes->points[i].n_rounds = 1;
    }
    return ncclSuccess;
}

static int timings_compare_size(const void *a_, const void *b_)
{
    const struct mock_point *a = a_;
    const struct mock_point *b = b_;

    if (a->n_bytes != b->n_bytes)
        return a->n_bytes < b->n_bytes ? -1 : 1;
    if (a->is_single_pass != b->is_single_pass)
        return a->is_single_pass - b->is_single_pass;
    return a->n_rounds - b->n_rounds;
}

ncclResult_t mock_timings_build(const char *path,
                                const struct mock_records *records,
                                struct mock_recorded *timings)
{
    for (int i = 0, n; i < records->n; i += n) {
        const struct mock_record *first = &records->list[i];
        struct mock_pair *pair =
            &timings
                 ->pairs[first->graph][first->coll][first->algo][first->proto];

        for (n = 1; i + n < records->n && first[n].graph == first->graph &&
                    first[n].coll == first->coll &&
                    first[n].algo == first->algo &&
                    first[n].proto == first->proto &&
                    first[n].n_channels == first->n_channels;)
            n++;
        if (pair->n_arms++ == 0)
            pair->arms = &timings->arms[timings->n_arms];
        MOCK_TRY(timings_add_arm(path, records, first, n, timings));
    }
    for (int c = 0; c < 2 * NCCL_NUM_TUNED_FUNCS; c++) {
        /* Lists the sizes of all pairs of a collective, launched one by one or
         * in graphs, and keeps each once. */
        struct mock_curve *merged = &timings->sizes[c & 1][c >> 1];
        struct mock_point *list = &timings->others[timings->n_others];
        size_t n = 0;

        for (int i = 0; i < timings->n_arms; i++) {
            const struct mock_arm *arm = &timings->arms[i];

            if (arm->graph != (c & 1) || arm->coll != c >> 1 ||
                arm->n_channels != 0)
                continue;
            memcpy(list + n, arm->sizes.points,
                   (size_t)arm->sizes.n_points * sizeof(*list));
            n += (size_t)arm->sizes.n_points;
        }
        qsort(list, n, sizeof(*list), timings_compare_size);
        merged->points = list;
        for (size_t i = 0; i < n; i++)
            if (i == 0 || list[merged->n_points - 1].n_bytes != list[i].n_bytes)
                list[merged->n_points++] = list[i];
        timings->n_others += (int)n;
    }
    return ncclSuccess;
}
