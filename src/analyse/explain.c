#include "analyse/explain.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"

enum { ELEMENT_SIZE = 2, PROBES_PER_OCTAVE = 16 };

struct explain {
    const struct stp_explain_options *options;
    struct mock_machine *machine;
    struct mock_nccl *nccl_alone;
    struct mock_nccl *nccl_tuned;
    struct mock_comm *alone;
    struct mock_comm *tuned;
    struct stp_compiled *compiled; /* NULL without a policy */
    uint64_t grain;                /* one element a rank */
    uint64_t max_bytes;            /* a multiple of it */
    struct stp_explanation out;
    struct stp_error *err;
};

static enum stp_status fail(struct explain *e)
{
    return stp_fail(e->err, STP_ERR_DEVICE, 0, 0, "%s", mock_last_error());
}

/* The line that says what the plugin did, or 0. */
static unsigned deciding_line(const struct explain *e,
                              const struct mock_call *call,
                              const struct mock_outcome *out)
{
    const struct stp_query query = {(int)call->coll, call->n_bytes, 1, 0};
    const struct stp_cost_view view = {out->cost[0], NCCL_NUM_ALGORITHMS,
                                       NCCL_NUM_PROTOCOLS};
    struct stp_choice choice;

    if (e->compiled == NULL ||
        !stp_compiled_lookup(e->compiled, &query, &view, &choice) ||
        choice.algo != out->algo || choice.proto != out->proto ||
        choice.n_channels != out->asked_channels)
        return 0;
    return choice.line;
}

static bool untouched(const struct mock_outcome *out)
{
    return out->asked_channels == 0 &&
           memcmp(out->cost, out->cost_after, sizeof(out->cost)) == 0;
}

static enum stp_status ask(struct explain *e, int coll, uint64_t n_bytes,
                           struct stp_explained *x)
{
    const struct mock_call call = {.coll = (ncclFunc_t)coll,
                                   .n_bytes = n_bytes,
                                   .element_size = ELEMENT_SIZE};
    struct mock_outcome alone, tuned;

    memset(x, 0, sizeof(*x));
    if (mock_comm_collective(e->alone, &call, &alone) != ncclSuccess ||
        mock_comm_collective(e->tuned, &call, &tuned) != ncclSuccess)
        return stp_fail(e->err, STP_ERR_DEVICE, 0, 0,
                        "%s of %" PRIu64 " bytes fails: %s",
                        stp_coll_name(coll), n_bytes, mock_last_error());
    x->coll = coll;
    x->min_bytes = n_bytes;
    x->max_bytes = n_bytes;
    x->auto_pick = (struct stp_pick){alone.algo, alone.proto};
    x->pick = (struct stp_pick){tuned.algo, tuned.proto};
    x->asked_channels = tuned.asked_channels;
    x->min_channels = tuned.n_channels;
    x->max_channels = tuned.n_channels;
    if (untouched(&tuned))
        return STP_OK;
    x->line = deciding_line(e, &call, &tuned);
    x->decider = x->line != 0 ? STP_DECIDER_RULE : STP_DECIDER_PLUGIN;
    return STP_OK;
}

static bool same_pick(struct stp_pick a, struct stp_pick b)
{
    return a.algo == b.algo && a.proto == b.proto;
}

static bool same(const struct stp_explained *a, const struct stp_explained *b)
{
    return same_pick(a->auto_pick, b->auto_pick) &&
           same_pick(a->pick, b->pick) &&
           a->asked_channels == b->asked_channels && a->decider == b->decider &&
           a->line == b->line;
}

static void extend(struct stp_explained *range, const struct stp_explained *to)
{
    range->max_bytes = to->max_bytes;
    range->max_channels = to->max_channels;
}

static struct stp_explained *append(struct explain *e,
                                    const struct stp_explained *x)
{
    struct stp_explanation *out = &e->out;

    if (out->n_ranges == out->capacity) {
        size_t capacity = out->capacity ? 2 * out->capacity : 64;
        struct stp_explained *more =
            realloc(out->ranges, capacity * sizeof(*more));

        if (more == NULL)
            return NULL;
        out->ranges = more;
        out->capacity = capacity;
    }
    out->ranges[out->n_ranges] = *x;
    return &out->ranges[out->n_ranges++];
}

/* Moves the last range's end up to just below the first size, at most that of
 * *to, at which something else happens, and begins a range there. */
static enum stp_status bisect(struct explain *e, const struct stp_explained *to)
{
    struct stp_explained left = e->out.ranges[e->out.n_ranges - 1];
    struct stp_explained right = *to;
    enum stp_status status;

    while (right.min_bytes - left.max_bytes > e->grain) {
        uint64_t mid = left.max_bytes + (right.min_bytes - left.max_bytes) / 2 /
                                            e->grain * e->grain;
        struct stp_explained x;

        status = ask(e, to->coll, mid, &x);
        if (status != STP_OK)
            return status;
        if (same(&left, &x))
            extend(&left, &x);
        else
            right = x;
    }
    extend(&e->out.ranges[e->out.n_ranges - 1], &left);
    if (append(e, &right) == NULL)
        return stp_fail(e->err, STP_ERR_NOMEM, 0, 0, "out of memory");
    return STP_OK;
}

/* Goes on to the probe at 'n_bytes', over however many switch points. */
static enum stp_status advance(struct explain *e, int coll, uint64_t n_bytes)
{
    struct stp_explained x;
    enum stp_status status = ask(e, coll, n_bytes, &x);

    while (status == STP_OK) {
        struct stp_explained *last = &e->out.ranges[e->out.n_ranges - 1];

        if (same(last, &x)) {
            if (x.max_bytes > last->max_bytes)
                extend(last, &x);
            return STP_OK;
        }
        status = bisect(e, &x);
    }
    return status;
}

/* The next probe above 'n_bytes': a step on, or a range end of the policy on
 * the way. */
static uint64_t next_probe(const struct explain *e, int coll, uint64_t n_bytes)
{
    double step = exp2(1.0 / PROBES_PER_OCTAVE);
    uint64_t next = (uint64_t)((double)n_bytes * step);
    uint64_t end = UINT64_MAX;

    if (e->compiled != NULL)
        end = stp_compiled_next_break(e->compiled, coll, n_bytes);
    if (end < next)
        next = (end + e->grain - 1) / e->grain * e->grain;
    next = next / e->grain * e->grain;
    if (next <= n_bytes)
        next = n_bytes + e->grain;
    return next > e->max_bytes ? e->max_bytes : next;
}

static enum stp_status explain_coll(struct explain *e, int coll)
{
    struct stp_explained x;
    enum stp_status status = ask(e, coll, e->grain, &x);
    uint64_t at = e->grain;

    if (status != STP_OK)
        return status;
    if (append(e, &x) == NULL)
        return stp_fail(e->err, STP_ERR_NOMEM, 0, 0, "out of memory");
    while (status == STP_OK && at < e->max_bytes) {
        at = next_probe(e, coll, at);
        status = advance(e, coll, at);
    }
    return status;
}

static enum stp_status compile_policy(struct explain *e)
{
    const struct mock_machine_info *m = mock_machine_get_info(e->machine);
    const struct stp_shape shape = {(size_t)m->n_ranks, (size_t)m->n_nodes,
                                    m->gpu};

    if (e->options->policy == NULL)
        return STP_OK;
    return stp_policy_compile(e->options->policy, &shape, &e->compiled, e->err);
}

static enum stp_status open_nccl(struct explain *e, const char *plugin,
                                 struct mock_nccl **nccl,
                                 struct mock_comm **comm)
{
    const struct mock_nccl_options options = {
        .version = mock_machine_get_info(e->machine)->nccl,
        .tuner_plugin = plugin};

    if (mock_nccl_create(&options, nccl) != ncclSuccess ||
        mock_comm_create(*nccl, e->machine, mock_new_comm_id(), comm) !=
            ncclSuccess)
        return fail(e);
    return STP_OK;
}

static enum stp_status open_all(struct explain *e)
{
    const struct stp_explain_options *o = e->options;
    enum stp_status status;

    if (mock_machine_load(o->machine_path, &e->machine) != ncclSuccess)
        return fail(e);
    e->grain =
        (uint64_t)mock_machine_get_info(e->machine)->n_ranks * ELEMENT_SIZE;
    e->max_bytes = o->max_bytes / e->grain * e->grain;
    status = compile_policy(e);
    if (status == STP_OK)
        status = open_nccl(e, "none", &e->nccl_alone, &e->alone);
    if (status == STP_OK)
        status = open_nccl(e, o->plugin, &e->nccl_tuned, &e->tuned);
    if (status == STP_OK && mock_comm_tuner_version(e->tuned) == 0)
        status = stp_fail(e->err, STP_ERR_DEVICE, 0, 0,
                          "NCCL %s would not load tuner plugin '%s'",
                          mock_machine_get_info(e->machine)->nccl, o->plugin);
    return status;
}

static void close_all(struct explain *e)
{
    if (e->alone != NULL)
        mock_comm_destroy(e->alone);
    if (e->tuned != NULL)
        mock_comm_destroy(e->tuned);
    if (e->nccl_alone != NULL)
        mock_nccl_destroy(e->nccl_alone);
    if (e->nccl_tuned != NULL)
        mock_nccl_destroy(e->nccl_tuned);
    stp_compiled_free(e->compiled);
    mock_machine_free(e->machine);
}

enum stp_status stp_explain(const struct stp_explain_options *options,
                            struct stp_explanation *out_ret,
                            struct stp_error *err)
{
    struct explain e = {.options = options, .err = err};
    enum stp_status status = open_all(&e);

    for (int coll = 0; coll < NCCL_NUM_TUNED_FUNCS && status == STP_OK; coll++)
        status = explain_coll(&e, coll);
    close_all(&e);
    if (status == STP_OK)
        *out_ret = e.out;
    else
        stp_explanation_free(&e.out);
    return status;
}

void stp_explanation_free(struct stp_explanation *explanation)
{
    free(explanation->ranges);
    memset(explanation, 0, sizeof(*explanation));
}
