/* comm.c - calls of a communicator's tuner, and NCCL's use of the answers */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mix.h"
#include "base/log.h"
#include "base/names.h"
#include "comm/comm.h"
#include "machine/machine.h"
#include "model/channels.h"
#include "plugins/loader.h"

/* ---- asking ---- */

/* The cost table of a call, contiguous as on NCCL's stack, between guard cells,
 * which a tuner must not write. */
enum {
    GUARD = 16, /* guard cells before the table, and after it */
    TABLE = NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS,
};
static const unsigned char guard_pattern[sizeof(float)] = {0xc0, 0xff, 0xee,
                                                           0xc0};

static int comm_count_broken(const float *cells)
{
    int n = 0;

    for (int i = 0; i < GUARD; i++)
        n += memcmp(&cells[i], guard_pattern, sizeof(guard_pattern)) != 0;
    return n;
}

/* Fails if the tuner's 'function' did. */
static ncclResult_t comm_check_answer(const struct mock_comm *comm,
                                      const char *function, ncclResult_t rc)
{
    if (rc == ncclSuccess)
        return ncclSuccess;
    return mock_fail(rc, "tuner '%s': %s returned %d (%s)",
                     mock_tuner_name(comm->tuner), function, (int)rc,
                     mock_result_name(rc));
}

static ncclResult_t comm_ask_tuner(struct mock_comm *comm,
                                   const struct mock_call *call,
                                   struct mock_outcome *outcome)
{
    int n = comm->version->n_algos * NCCL_NUM_PROTOCOLS;
    float cells[GUARD + TABLE + GUARD];
    struct mock_ask_args args = {
        .coll = call->coll,
        .n_bytes = call->n_bytes,
        .n_pipe_ops = call->n_pipe_ops,
        .reg_buff = call->reg_buff != 0,
        .n_algos = comm->version->n_algos,
        .table = cells + GUARD,
    };
    int before, after;
    ncclResult_t rc;

    for (int i = 0; i < GUARD + TABLE + GUARD; i++)
        memcpy(&cells[i], guard_pattern, sizeof(guard_pattern));
    memcpy(args.table, outcome->cost, (size_t)n * sizeof(float));
    rc = mock_tuner_ask(comm->tuner, comm->context, &args,
                        &outcome->asked_channels);
    memcpy(outcome->cost_after, args.table, (size_t)n * sizeof(float));
    before = comm_count_broken(cells);
    after = comm_count_broken(cells + GUARD + n);
    if (before + after != 0)
        return mock_fail(ncclInternalError,
                         "tuner '%s' wrote outside the cost table: %d floats "
                         "before and %d after its %d entries",
                         mock_tuner_name(comm->tuner), before, after, n);
    return comm_check_answer(comm, "getCollInfo", rc);
}

static ncclResult_t comm_ask(struct mock_comm *comm,
                             const struct mock_call *call,
                             struct mock_outcome *outcome)
{
    const struct mock_ask_args args = {
        .coll = call->coll,
        .n_bytes = call->n_bytes,
        .n_pipe_ops = 1,
        .collnet = mock_model_collnet(&comm->model, call),
        .nvls = mock_model_nvls(&comm->model, call),
    };

    if (comm->tuner == NULL)
        return ncclSuccess;
    if (comm->version->choice.selection != MOCK_SELECT_PAIR ||
        comm->nccl->options.static_always)
        return comm_ask_tuner(comm, call, outcome);
    /* 2.21 passes no table; the tuner's one answer is the pair */
    outcome->algo = NCCL_ALGO_UNDEF;
    outcome->proto = NCCL_PROTO_UNDEF;
    outcome->asked_channels = 0;
    return comm_check_answer(
        comm, "getCollInfo",
        mock_tuner_ask_pair(comm->tuner, comm->context, &args, &outcome->algo,
                            &outcome->proto, &outcome->asked_channels));
}

enum { LINE_SIZE = 1024 };

/* ---- deciding ---- */

/* The <words> of lines on decisions. */
struct decision {
    const struct mock_call *call;
    const struct mock_outcome *outcome;
    size_t n_bytes;
    float us;
};

static void comm_report(const char *text, const struct decision *d)
{
    int algo = d->outcome->algo;
    int proto = d->outcome->proto;
    char line[LINE_SIZE];
    char numbers[6][32];
    const struct mock_blank blanks[] = {
        {"function", mock_coll_in_messages(d->call->coll)},
        {"algorithm", mock_algo_in_messages(algo)},
        {"protocol", mock_proto_in_messages(proto)},
        {"bytes", numbers[0]},
        {"us", numbers[1]},
        {"algo", numbers[2]},
        {"proto", numbers[3]},
        {"lo", numbers[4]},
        {"hi", numbers[5]},
    };

    if (!mock_log_is_enabled(NCCL_LOG_INFO))
        return;
    snprintf(numbers[0], sizeof(numbers[0]), "%zu", d->n_bytes);
    snprintf(numbers[1], sizeof(numbers[1]), "%f", (double)d->us);
    snprintf(numbers[2], sizeof(numbers[2]), "%d", algo);
    snprintf(numbers[3], sizeof(numbers[3]), "%d", proto);
    snprintf(numbers[4], sizeof(numbers[4]), "%d", d->outcome->first_channel);
    snprintf(numbers[5], sizeof(numbers[5]), "%d",
             d->outcome->first_channel + d->outcome->n_channels - 1);
    mock_fill(line, sizeof(line), text, blanks, MOCK_N_OF(blanks));
    MOCK_INFO(NCCL_TUNING, "%s", line);
}

/* The sentence " NCCL_ALGO was set to ring." for a variable that is set. */
static int comm_describe(const char *name, const char *value, char *text_ret,
                         size_t size)
{
    text_ret[0] = '\0';
    if (value == NULL)
        return 0;
    return snprintf(text_ret, size, " %s was set to %s.", name, value);
}

static ncclResult_t comm_fail_no_algorithm(const struct mock_comm *comm,
                                           const struct mock_call *call)
{
    const struct mock_choice_rules *rules = &comm->version->choice;
    const struct mock_nccl_options *options = &comm->nccl->options;
    char algo[LINE_SIZE];
    char proto[LINE_SIZE];
    char line[LINE_SIZE];
    const struct mock_blank blanks[] = {
        {"function", mock_coll_in_messages(call->coll)},
        {"type",
         mock_type_in_messages(call->coll, call->element_size, call->fp8)},
        {"NCCL_ALGO", algo},
        {"NCCL_PROTO", proto},
    };
    int by_user =
        comm_describe("NCCL_ALGO", options->algo, algo, sizeof(algo)) +
        comm_describe("NCCL_PROTO", options->proto, proto, sizeof(proto));

    mock_fill(line, sizeof(line), rules->nothing, blanks, MOCK_N_OF(blanks));
    MOCK_WARN("%s", line);
    return mock_fail(by_user && rules->reports_variables ? ncclInvalidUsage
                                                         : ncclInternalError,
                     "%s", line);
}

/* Fails if NCCL would use an invalid choice and crash, hang or corrupt data. */
static ncclResult_t comm_check_winner(const struct mock_call *call,
                                      const struct mock_outcome *outcome)
{
    int algo = outcome->algo;
    int proto = outcome->proto;
    const char *reason;

    if (!mock_kernel_exists(call->coll, algo, proto))
        reason = "has no kernel for it and would crash";
    else if (outcome->cost[algo][proto] < 0)
        reason = "had ruled it out on this machine and has not set it up";
    else
        return ncclSuccess;
    return mock_fail(ncclInternalError, "%s/%s was chosen for %s, but NCCL %s",
                     mock_word(&mock_algos, algo),
                     mock_word(&mock_protos, proto),
                     mock_word(&mock_colls, call->coll), reason);
}

/* NCCL's decision from a cost table after the tuner's edits: sets the outcome's
 * algorithm and protocol from 'cost_after' by the version's rules; in 2.21 they
 * hold the tuner's answer, UNDEF for none. Warns as NCCL does if no entry is
 * left, and also fails where NCCL would crash later. */
static ncclResult_t comm_choose_pair(const struct mock_comm *comm,
                                     const struct mock_call *call,
                                     enum mock_scope scope,
                                     struct mock_outcome *outcome)
{
    const struct mock_version *version = comm->version;
    const struct mock_choice_rules *rules = &version->choice;
    struct decision d = {call, outcome, call->n_bytes, rules->ceiling};
    mock_table backup;
    ncclResult_t rc = ncclSuccess;

    if (rules->selection == MOCK_SELECT_PAIR &&
        outcome->algo != NCCL_ALGO_UNDEF && outcome->proto != NCCL_PROTO_UNDEF)
        /* 2.21 runs the tuner's pair without a table */
        return outcome->algo >= 0 && outcome->algo < version->n_algos &&
                       outcome->proto >= 0 &&
                       outcome->proto < NCCL_NUM_PROTOCOLS
                   ? comm_check_winner(call, outcome)
                   : mock_fail(ncclInternalError,
                               "algorithm %d and protocol %d were chosen for "
                               "%s, and NCCL would read outside its tables",
                               outcome->algo, outcome->proto,
                               mock_word(&mock_colls, call->coll));
    if (mock_select(rules, version->n_algos, outcome, &d.us)) {
        if (scope == MOCK_SCOPE_ALL)
            rc = comm_check_winner(call, outcome);
    } else {
        /* up to 2.23 NCCL uses a forbidden ring if nothing else is left */
        mock_model_backup(&comm->model, call, backup);
        if (!mock_select_first(backup, NCCL_NUM_ALGORITHMS, rules->ceiling,
                               &outcome->algo, &outcome->proto,
                               rules->selection == MOCK_SELECT_PAIR ? NULL
                                                                    : &d.us))
            rc = comm_fail_no_algorithm(comm, call);
    }
    outcome->us = d.us;
    if (rc == ncclSuccess && rules->decided != NULL && comm->listener.rank == 0)
        comm_report(rules->decided, &d);
    return rc;
}

/* ---- scheduling ---- */

/* Calls getChunkSize of a v6 tuner for channels of 'count' elements each. */
static ncclResult_t comm_ask_chunk(struct mock_comm *comm,
                                   const struct mock_work *work, int n_channels,
                                   size_t n_bytes, struct mock_outcome *outcome)
{
    size_t max;
    size_t own =
        mock_default_chunk(&comm->model, work, n_channels, n_bytes, &max);
    size_t chunk = own;

    MOCK_TRY(comm_check_answer(comm, "getChunkSize",
                               mock_tuner_chunk(comm->tuner, comm->context,
                                                (ncclFunc_t)work->coll, n_bytes,
                                                work->algo, work->proto,
                                                n_channels, &chunk)));
    if (chunk > max) {
        MOCK_INFO(NCCL_TUNING,
                  "%s: tuner chunk size %zu exceeds buffer max %d, clamping",
                  mock_coll_in_messages(work->coll), chunk, (int)max);
        chunk = max;
    }
    if (chunk < mock_chunk_grain(work->proto))
        return mock_fail(ncclInternalError,
                         "tuner '%s': a chunk of %zu bytes is below the grain "
                         "of %zu, and NCCL would divide by 0",
                         mock_tuner_name(comm->tuner), chunk,
                         mock_chunk_grain(work->proto));
    if (chunk != own && outcome->chunk_bytes == 0)
        outcome->chunk_bytes = chunk;
    return ncclSuccess;
}

struct mock_work mock_comm_work(const struct mock_call *call,
                                const struct mock_outcome *outcome)
{
    return (struct mock_work){
        .coll = call->coll,
        .algo = outcome->algo,
        .proto = outcome->proto,
        .n_bytes = call->n_bytes,
        .element_size = call->element_size,
    };
}

ncclResult_t mock_comm_schedule(struct mock_comm *comm,
                                const struct mock_call *call,
                                struct mock_lane *lane,
                                struct mock_outcome *outcome, int room,
                                bool *fits_ret)
{
    struct mock_work work = mock_comm_work(call, outcome);
    struct mock_schedule schedule;
    ncclResult_t rc = ncclSuccess;
    int n = lane->max_channels;

    /* all are announced; NCCL would fail on these counts */
    if (lane->alone && (n < 1 || n > lane->limit))
        return mock_fail(ncclInternalError,
                         "%d channels for %s, which NCCL takes as they are, "
                         "but the communicator has %d",
                         n, mock_word(&mock_algos, outcome->algo), lane->limit);
    if (n == 0 || (n < 0 && !comm->model.rules->accepts_negative))
        return mock_fail(ncclInternalError,
                         "%d channels leave no bytes for each, and NCCL would "
                         "divide by 0",
                         n);
    mock_schedule(lane, &comm->model, &work, &schedule);
    outcome->n_channels = schedule.n_channels;
    outcome->first_channel = schedule.first;
    *fits_ret = schedule.n_channels <= room;
    if (!*fits_ret)
        return ncclSuccess;
    if (comm->tuner != NULL && mock_tuner_has_chunks(comm->tuner)) {
        /* NCCL's order */
        const size_t counts[] = {schedule.lo, schedule.hi, schedule.mid};

        for (int i = 0; i < 3 && rc == ncclSuccess; i++)
            if (counts[i] != 0)
                rc =
                    comm_ask_chunk(comm, &work, schedule.n_together,
                                   counts[i] * schedule.element_bytes, outcome);
    }
    if (rc == ncclSuccess) {
        const char *text = comm->version->choice.scheduled;
        struct decision decision = {
            .call = call,
            .outcome = outcome,
            .n_bytes = mock_share_bytes(&comm->model, call),
        };

        if (text != NULL && comm->listener.rank == 0)
            comm_report(text, &decision);
    }
    return rc;
}

/* The channel limit of one collective. */
static ncclResult_t comm_count_channels(const struct mock_comm *comm,
                                        const struct mock_call *call,
                                        struct mock_outcome *outcome,
                                        int *max_channels_ret)
{
    int asked = outcome->asked_channels;
    int n = mock_default_channels(&comm->model, outcome->algo, outcome->proto,
                                  call->n_bytes);

    if (asked != 0) {
        switch (comm->version->choice.channels) {
        case MOCK_CHANNELS_WHOLE:
            n = asked;
            break;
        case MOCK_CHANNELS_FIELD:
            n = mock_channel_field(asked);
            break;
        default:
            n = asked > 0 && asked < n ? asked : n;
        }
        outcome->tuned_channels = n;
    }
    if (n == 0)
        return mock_fail(ncclInternalError,
                         "%d channels are 0 in NCCL's 8-bit field, and NCCL "
                         "would divide by 0",
                         asked);
    *max_channels_ret = n;
    return ncclSuccess;
}

/* ---- one collective ---- */

bool mock_comm_asks(const struct mock_comm *comm, const struct mock_call *call)
{
    return call->n_bytes != 0 && comm->model.n_ranks != 1;
}

ncclResult_t mock_comm_decide(struct mock_comm *comm,
                              const struct mock_call *call,
                              enum mock_scope scope,
                              struct mock_outcome *outcome,
                              int *max_channels_ret)
{
    ncclResult_t rc;

    mock_model_table(&comm->model, call, outcome->cost);
    for (int a = NCCL_ALGO_COLLNET_DIRECT;
         a <= NCCL_ALGO_NVLS_TREE && scope == MOCK_SCOPE_PLAIN_PROTOCOL; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            outcome->cost[a][p] = NCCL_ALGO_PROTO_IGNORE;
    memcpy(outcome->cost_after, outcome->cost, sizeof(outcome->cost));
    outcome->asked = true;
    rc = comm_ask(comm, call, outcome);
    MOCK_THEN(rc, comm_choose_pair(comm, call, scope, outcome));
    MOCK_THEN(rc, comm_count_channels(comm, call, outcome, max_channels_ret));
    return rc;
}

ncclResult_t mock_comm_preview(struct mock_comm *comm,
                               const struct mock_call *call)
{
    struct mock_outcome nothing = {0};

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            nothing.cost[a][p] = NCCL_ALGO_PROTO_IGNORE;
    return comm_ask(comm, call, &nothing);
}

ncclResult_t mock_comm_decide_own(struct mock_comm *comm,
                                  const struct mock_call *call,
                                  struct mock_outcome *outcome,
                                  int *max_channels_ret)
{
    int algo = outcome->algo;
    int proto = outcome->proto;
    ncclResult_t rc;

    if (comm->version->choice.selection != MOCK_SELECT_PAIR)
        return ncclSuccess;
    rc = comm_ask(comm, call, outcome);
    outcome->algo = algo;
    outcome->proto = proto;
    outcome->tuned_channels = 0;
    MOCK_THEN(rc, comm_count_channels(comm, call, outcome, max_channels_ret));
    return rc;
}

/* ---- communicators: creating, splitting, ending ---- */

static ncclResult_t comm_init_tuner(struct mock_comm *comm, uint64_t comm_id,
                                    ncclTunerConstants_v7_t *constants)
{
    int n_ranks = comm->machine->info.n_ranks;
    int n_nodes = comm->machine->info.n_nodes;
    struct mock_init_args args = {
        .comm_id = comm_id,
        .n_ranks = (size_t)n_ranks,
        .n_nodes = (size_t)n_nodes,
        .domains = {n_nodes, n_ranks / n_nodes, n_ranks / n_nodes},
        .constants = constants,
    };
    const char *name = mock_tuner_name(comm->tuner);
    ncclTunerConstants_v7_t lost = {0};
    ncclResult_t rc;

    if (!mock_tuner_is_complete(comm->tuner))
        return mock_fail(ncclInternalError,
                         "tuner '%s' has a NULL function, which NCCL would "
                         "call",
                         name);
    if (comm->version->choice.drops_edits)
        args.constants = &lost;
    rc = mock_tuner_init(comm->tuner, &args, &comm->context);
    if (rc == ncclSuccess)
        return ncclSuccess;
    return mock_fail(rc, "tuner '%s': init returned %d (%s)%s", name, (int)rc,
                     mock_result_name(rc),
                     mock_tuner_has_finalize(comm->tuner)
                         ? ""
                         : "; NCCL would then crash in ncclCommAbort");
}

/* Like ncclCommAbort and ncclCommDestroy: after a failed finalize of the tuner,
 * NCCL stops and leaves everything loaded. */
static ncclResult_t comm_drop_plugins(struct mock_comm *comm)
{
    ncclResult_t rc = ncclSuccess;

    if (comm->tuner != NULL && mock_tuner_is_complete(comm->tuner) &&
        mock_tuner_has_finalize(comm->tuner))
        rc = mock_tuner_finalize(comm->tuner, comm->context);
    if (rc == ncclSuccess && comm->tuner != NULL)
        mock_loader_release(comm->nccl, comm->owns_tuner);
    if (rc == ncclSuccess)
        mock_listener_leave(&comm->listener);
    return rc;
}

ncclResult_t mock_comm_create_rank(struct mock_nccl *nccl,
                                   const struct mock_machine *machine,
                                   uint64_t comm_id, int rank,
                                   struct mock_comm **comm_ret)
{
    const struct mock_nccl_options *options = &nccl->options;
    struct mock_machine_info info = machine->info;
    bool alone = info.n_ranks == 1;
    struct mock_user_choice choice = {0};
    ncclTunerConstants_v7_t constants;
    struct mock_comm *comm;
    ncclResult_t rc = ncclSuccess;

    if (options->limits.min_ctas < 0 ||
        options->limits.min_ctas > options->limits.max_ctas)
        return mock_refuse("minCTAs of %d and maxCTAs of %d, but NCCL expects "
                           "maxCTAs wherever minCTAs is set, and no less",
                           options->limits.min_ctas, options->limits.max_ctas);
    comm = calloc(1, sizeof(*comm));
    if (comm == NULL)
        return mock_fail_memory();
    comm->nccl = nccl;
    comm->version = nccl->version;
    comm->machine = machine;
    comm->id = comm_id;
    if (options->constants != NULL)
        constants = *options->constants;
    else
        mock_release_constants((int)nccl->version->model.release, &constants);
    mock_listener_join(&comm->listener, nccl->profiler, comm_id, info.n_ranks,
                       info.n_nodes, rank);
    comm->tuner = mock_loader_acquire(nccl, &comm->owns_tuner);
    if (comm->tuner != NULL)
        rc = comm_init_tuner(comm, comm_id, &constants);
    /* NCCL reads NCCL_ALGO and NCCL_PROTO after init, and not for one rank */
    MOCK_THEN(
        rc, mock_user_choice_parse(comm->version, alone ? NULL : options->algo,
                                   alone ? NULL : options->proto, &choice));
    if (rc != ncclSuccess) {
        comm_drop_plugins(comm);
        free(comm);
        return rc;
    }
    choice.limits = options->limits;
    memcpy(choice.variables, options->variables, sizeof(choice.variables));
    choice.collnet = options->collnet && mock_machine_collnet(machine, &info);
    mock_machine_fit_nvls(machine, &comm->version->model, &info);
    if (options->no_nvls)
        info.n_nvls_channels = 0;
    mock_model_build(&comm->model, &info, &machine->graphs,
                     &comm->version->model, &constants, &choice);
    comm->top_channels = comm->model.n_channels;
    *comm_ret = comm;
    return ncclSuccess;
}

ncclResult_t mock_comm_create(struct mock_nccl *nccl,
                              const struct mock_machine *machine,
                              uint64_t comm_id, struct mock_comm **comm_ret)
{
    return mock_comm_create_rank(nccl, machine, comm_id, 0, comm_ret);
}

/* Creates a child: with the parents' channels at most, if it shares them. */
static ncclResult_t comm_create_child(const struct mock_comm *parent,
                                      const struct mock_machine *machine,
                                      uint64_t id, int rank,
                                      enum mock_variable shares,
                                      struct mock_comm **child_ret)
{
    const int nvls = parent->model.n_nvls_channels;
    struct mock_model *model;

    MOCK_TRY(mock_comm_create_rank(parent->nccl, machine, id, rank, child_ret));
    if (mock_variable_number(parent->nccl->options.variables[shares], 0) != 1)
        return ncclSuccess;
    model = &(*child_ret)->model;
    (*child_ret)->top_channels = parent->top_channels;
    if (model->n_channels > parent->top_channels)
        model->n_channels = parent->top_channels;
    if (nvls > 0 && model->n_nvls_channels > nvls)
        model->n_nvls_channels = nvls;
    return ncclSuccess;
}

ncclResult_t mock_comm_split(struct mock_comm *parent,
                             const struct mock_machine *machine, int color,
                             int rank, struct mock_comm **child_ret)
{
    parent->n_splits++;
    if (color >= 0)
        return comm_create_child(
            parent, machine, mock_child_id(parent->id, parent->n_splits, color),
            rank, MOCK_COMM_SPLIT_SHARE_RESOURCES, child_ret);
    *child_ret = NULL;
    return ncclSuccess;
}

ncclResult_t mock_comm_shrink(struct mock_comm *parent,
                              const struct mock_machine *machine,
                              struct mock_comm **child_ret)
{
    return comm_create_child(parent, machine, mock_child_id(parent->id, 0, 0),
                             parent->listener.rank,
                             MOCK_COMM_SHRINK_SHARE_RESOURCES, child_ret);
}

void mock_comm_destroy(struct mock_comm *comm)
{
    if (comm == NULL)
        return;
    comm_check_answer(comm, "finalize", comm_drop_plugins(comm));
    free(comm);
}

int mock_comm_tuner_version(const struct mock_comm *comm)
{
    return comm->tuner != NULL ? comm->tuner->version : 0;
}

/* ---- the profiler ---- */

void mock_comm_kernel_began(struct mock_comm *comm,
                            const struct mock_outcome *outcome,
                            const struct mock_channel_time *times,
                            void **handles_ret)
{
    mock_profile_kernel_start(&comm->listener, outcome, times, handles_ret);
}

void mock_comm_kernel_ended(struct mock_comm *comm,
                            const struct mock_outcome *outcome,
                            const struct mock_channel_time *times,
                            void *const *handles)
{
    mock_profile_kernel_stop(&comm->listener, outcome, times, handles);
}
