/* comm_life.c - communicators: creating, splitting, ending */
#include <stdlib.h>

#include "base/id.h"
#include "comm/comm_parts.h"
#include "machine/machine.h"
#include "plugins/loader.h"

static ncclResult_t init_tuner(struct mock_comm *comm, uint64_t comm_id,
                               ncclTunerConstants_v5_t *constants)
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
    ncclTunerConstants_v5_t lost = {0};
    ncclResult_t rc;

    if (!mock_tuner_is_complete(comm->tuner))
        return mock_fail(ncclInternalError,
                         "tuner '%s' has a NULL function, which NCCL would "
                         "call",
                         name);
    if (mock_comm_choice(comm)->forgets_edits)
        args.constants = &lost;
    rc = mock_tuner_init(comm->tuner, &args, &comm->context);
    if (rc == ncclSuccess)
        return ncclSuccess;
    return mock_fail(rc, "tuner '%s': init returned %d (%s)%s", name, (int)rc,
                     mock_result_name(rc),
                     atomic_load(&comm->tuner->has_finalize)
                         ? ""
                         : "; NCCL would then crash in ncclCommAbort");
}

static ncclResult_t drop_tuner(struct mock_comm *comm)
{
    ncclResult_t rc = ncclSuccess;

    if (mock_tuner_is_complete(comm->tuner) &&
        atomic_load(&comm->tuner->has_finalize))
        rc = mock_tuner_finalize(comm->tuner, comm->context);
    if (rc == ncclSuccess)
        mock_loader_release(comm->nccl, comm->owns_tuner);
    return rc;
}

/* As ncclCommAbort and ncclCommDestroy do: after a tuner's finalize that failed
 * they go no further, and all stays loaded. */
static ncclResult_t drop_plugins(struct mock_comm *comm)
{
    ncclResult_t rc = ncclSuccess;

    if (comm->tuner != NULL)
        rc = drop_tuner(comm);
    if (rc == ncclSuccess)
        mock_listener_leave(&comm->listener);
    return rc;
}

/* NCCL reads what the user allows after the tuner's init, and not at all for
 * one rank. */
static ncclResult_t build_model(struct mock_comm *comm,
                                const ncclTunerConstants_v5_t *constants)
{
    const struct mock_machine *machine = comm->machine;
    struct mock_machine_info info = machine->info;
    bool alone = info.n_ranks == 1;
    struct mock_user_choice choice;
    ncclResult_t rc = mock_user_choice_parse(
        mock_nccl_version(comm->nccl),
        alone ? NULL : mock_nccl_algo(comm->nccl),
        alone ? NULL : mock_nccl_proto(comm->nccl), &choice);

    if (rc != ncclSuccess)
        return rc;
    choice.collnet =
        mock_nccl_collnet(comm->nccl) && mock_machine_collnet(machine, &info);
    mock_model_build(&comm->model, &info, &machine->graphs,
                     mock_nccl_version(comm->nccl)->model, constants, &choice);
    return ncclSuccess;
}

static void join_profiler(struct mock_comm *comm, int rank)
{
    const struct mock_machine_info *info = &comm->machine->info;
    const struct mock_join join = {.comm_id = comm->id,
                                   .n_ranks = info->n_ranks,
                                   .n_nodes = info->n_nodes,
                                   .rank = rank};

    comm->listener.rank = rank;
    mock_listener_join(&comm->listener, mock_nccl_profiler(comm->nccl), &join);
}

ncclResult_t mock_comm_create_rank(struct mock_nccl *nccl,
                                   const struct mock_machine *machine,
                                   uint64_t comm_id, int rank,
                                   struct mock_comm **comm_ret)
{
    ncclTunerConstants_v5_t constants;
    struct mock_comm *comm = calloc(1, sizeof(*comm));
    ncclResult_t rc = ncclSuccess;

    if (comm == NULL)
        return mock_fail_memory();
    comm->nccl = nccl;
    comm->machine = machine;
    comm->id = comm_id;
    mock_nccl_constants(nccl, &constants);
    join_profiler(comm, rank);
    comm->tuner = mock_loader_acquire(nccl, &comm->owns_tuner);
    if (comm->tuner != NULL)
        rc = init_tuner(comm, comm_id, &constants);
    if (rc == ncclSuccess)
        rc = build_model(comm, &constants);
    if (rc != ncclSuccess) {
        drop_plugins(comm);
        free(comm);
        return rc;
    }
    *comm_ret = comm;
    return ncclSuccess;
}

ncclResult_t mock_comm_create(struct mock_nccl *nccl,
                              const struct mock_machine *machine,
                              uint64_t comm_id, struct mock_comm **comm_ret)
{
    return mock_comm_create_rank(nccl, machine, comm_id, 0, comm_ret);
}

ncclResult_t mock_comm_split(struct mock_comm *parent,
                             const struct mock_machine *machine, int color,
                             struct mock_comm **child_ret)
{
    parent->n_splits++;
    if (color >= 0)
        return mock_comm_create_rank(
            parent->nccl, machine,
            mock_child_id(parent->id, parent->n_splits, color),
            parent->listener.rank, child_ret);
    *child_ret = NULL;
    return ncclSuccess;
}

ncclResult_t mock_comm_shrink(struct mock_comm *parent,
                              const struct mock_machine *machine,
                              struct mock_comm **child_ret)
{
    return mock_comm_create_rank(parent->nccl, machine,
                                 mock_child_id(parent->id, 0, 0),
                                 parent->listener.rank, child_ret);
}

uint64_t mock_comm_id(const struct mock_comm *comm)
{
    return comm->id;
}

void mock_comm_destroy(struct mock_comm *comm)
{
    ncclResult_t rc;

    if (comm == NULL)
        return;
    rc = drop_plugins(comm);
    if (rc != ncclSuccess)
        mock_fail(rc, "tuner '%s': finalize returned %d (%s)",
                  mock_tuner_name(comm->tuner), (int)rc, mock_result_name(rc));
    free(comm);
}

int mock_comm_tuner_version(const struct mock_comm *comm)
{
    return comm->tuner != NULL ? comm->tuner->version : 0;
}

/* ---- the profiler ---- */

struct mock_listener *mock_comm_listener(struct mock_comm *comm)
{
    return &comm->listener;
}

void mock_comm_kernel_ran(struct mock_comm *comm,
                          const struct mock_outcome *outcome,
                          const struct mock_channel_time *times)
{
    void *handles[MOCK_MAX_CHANNELS];

    mock_comm_kernel_began(comm, outcome, times, handles);
    mock_comm_kernel_ended(comm, outcome, times, handles);
}

void mock_comm_kernel_began(struct mock_comm *comm,
                            const struct mock_outcome *outcome,
                            const struct mock_channel_time *times,
                            void **handles_ret)
{
    mock_hear_kernel_begin(&comm->listener, outcome, times, handles_ret);
}

void mock_comm_kernel_ended(struct mock_comm *comm,
                            const struct mock_outcome *outcome,
                            const struct mock_channel_time *times,
                            void *const *handles)
{
    mock_hear_kernel_end(&comm->listener, outcome, times, handles);
}
