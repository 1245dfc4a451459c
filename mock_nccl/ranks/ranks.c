/* ranks.c - creates, splits and destroys communicators with all their ranks */
#include "ranks/ranks.h"

#include <stdlib.h>

#include "base/error.h"
#include "machine/machine.h"

enum {
    MAX_THREADS = 64
}; /* threads that init at the same time in one process */

/* ---- one order ---- */

static ncclResult_t ranks_name_rank(const struct mock_rank *rank,
                                    ncclResult_t rc)
{
    return mock_fail_prefix(rc, "rank %d: ", rank->number);
}

/* ---- one order for all ---- */

/* Runs the order on rank after rank, until one fails. */
static ncclResult_t ranks_run_in_turn(struct mock_rank *ranks, int n,
                                      const struct mock_order *order)
{
    ncclResult_t rc = ncclSuccess;

    for (int r = 0; r < n && rc == ncclSuccess; r++)
        rc = ranks_name_rank(&ranks[r],
                             mock_rank_run_order(&ranks[r], order, NULL));
    return rc;
}

/* Runs the order on all ranks at the same time; the failure is that of the
 * first rank that has one. */
static ncclResult_t ranks_run_at_once(struct mock_rank *ranks, int n,
                                      const struct mock_order *order)
{
    ncclResult_t rc = ncclSuccess;
    int n_posted = 0;

    while (n_posted < n && rc == ncclSuccess) {
        struct mock_rank *rank = &ranks[n_posted];

        rc = ranks_name_rank(rank, rank->carrier->ops->post(rank, order, NULL));
        n_posted += rc == ncclSuccess;
    }
    return mock_ranks_wait(ranks, n_posted, rc);
}

/* Like NCCL, starts a thread for each communicator of a group, for this order
 * only. */
static ncclResult_t ranks_run_in_threads(struct mock_rank *ranks, int n,
                                         const struct mock_order *order)
{
    ncclResult_t rc = ncclSuccess;
    int n_started = 0;

    while (n_started < n && rc == ncclSuccess) {
        rc = mock_thread_start(&ranks[n_started]);
        n_started += rc == ncclSuccess;
    }
    if (rc == ncclSuccess)
        rc = ranks_run_at_once(ranks, n, order);
    while (n_started > 0) {
        struct mock_rank *rank = &ranks[--n_started];

        rank->carrier->ops->stop(rank);
    }
    return rc;
}

static ncclResult_t ranks_create_at_once(const struct mock_ranks *ranks,
                                         const struct mock_order *order)
{
    struct mock_rank *all = ranks->pool->ranks;
    ncclResult_t rc = ncclSuccess;

    if (all[0].carrier != NULL)
        return ranks_run_at_once(all, ranks->n, order);
    for (int r = 0; r < ranks->n && rc == ncclSuccess; r += MAX_THREADS) {
        int left = ranks->n - r;

        rc = ranks_run_in_threads(
            &all[r], left < MAX_THREADS ? left : MAX_THREADS, order);
    }
    return rc;
}

/* ---- ending ---- */

static void ranks_free_pool(struct mock_rank_pool *pool)
{
    for (int r = 0; r < pool->n; r++) {
        struct mock_rank *rank = &pool->ranks[r];

        if (rank->carrier != NULL)
            rank->carrier->ops->stop(rank);
        free(rank->comms);
    }
    free(pool->ranks);
    free(pool);
}

/* The last thread of a process finalizes its communicators, the first rank
 * first, then from the last down. Ranks that failed or died have nothing to
 * finalize. */
void mock_ranks_destroy(struct mock_ranks *ranks)
{
    const struct mock_order order = {.task = MOCK_DESTROY,
                                     .comm = ranks != NULL ? ranks->comm : 0};

    if (ranks == NULL)
        return;
    if (ranks->n > 0)
        mock_rank_run_order(&ranks->pool->ranks[0], &order, NULL);
    for (int r = ranks->n - 1; r > 0; r--)
        mock_rank_run_order(&ranks->pool->ranks[r], &order, NULL);
    if (--ranks->pool->n_users == 0)
        ranks_free_pool(ranks->pool);
    free(ranks);
}

/* ---- beginning ---- */

static ncclResult_t ranks_start(struct mock_rank_pool *pool,
                                enum mock_layout layout)
{
    struct mock_rank *rank = &pool->ranks[pool->n];

    if (layout == MOCK_THREADS)
        return mock_thread_start(rank);
    if (layout == MOCK_PROCESSES)
        return mock_process_start(rank, pool->ranks);
    return ncclSuccess;
}

static ncclResult_t ranks_start_pool(struct mock_nccl *nccl, int n,
                                     enum mock_layout layout,
                                     struct mock_rank_pool **pool_ret)
{
    struct mock_rank_pool *pool = calloc(1, sizeof(*pool));
    ncclResult_t rc = ncclSuccess;

    if (pool == NULL)
        return mock_fail_memory();
    pool->ranks = calloc((size_t)n, sizeof(*pool->ranks));
    if (pool->ranks == NULL)
        rc = mock_fail_memory();
    while (rc == ncclSuccess && pool->n < n) {
        pool->ranks[pool->n].number = pool->n;
        pool->ranks[pool->n].nccl = nccl;
        rc = ranks_start(pool, layout);
        pool->n += rc == ncclSuccess;
    }
    if (rc == ncclSuccess)
        *pool_ret = pool;
    else
        ranks_free_pool(pool);
    return rc;
}

static ncclResult_t ranks_make_ranks(struct mock_rank_pool *pool, int n,
                                     struct mock_ranks **ranks_ret)
{
    struct mock_ranks *ranks = calloc(1, sizeof(*ranks));

    if (ranks == NULL)
        return mock_fail_memory();
    ranks->pool = pool;
    ranks->n = n;
    ranks->comm = pool->n_comms++;
    pool->n_users++;
    *ranks_ret = ranks;
    return ncclSuccess;
}

/* Destroys the ranks and keeps the error. */
static ncclResult_t ranks_abandon(struct mock_ranks *ranks, ncclResult_t rc)
{
    struct mock_kept kept;

    mock_keep(&kept, rc);
    mock_ranks_destroy(ranks);
    return mock_restore(&kept);
}

ncclResult_t mock_ranks_create(struct mock_nccl *nccl,
                               const struct mock_machine *machine,
                               const struct mock_ranks_options *options,
                               struct mock_ranks **ranks_ret)
{
    const struct mock_order order = {.task = MOCK_CREATE,
                                     .comm_id = options->comm_id,
                                     .machine = machine,
                                     .before = options->before_init,
                                     .user = options->user};
    struct mock_rank_pool *pool = NULL;
    struct mock_ranks *ranks = NULL;
    ncclResult_t rc =
        ranks_start_pool(nccl, machine->info.n_ranks, options->layout, &pool);

    if (rc != ncclSuccess)
        return rc;
    rc = ranks_make_ranks(pool, pool->n, &ranks);
    if (rc != ncclSuccess) {
        ranks_free_pool(pool);
        return rc;
    }
    rc = options->at_once ? ranks_create_at_once(ranks, &order)
                          : ranks_run_in_turn(pool->ranks, pool->n, &order);
    if (rc != ncclSuccess)
        return ranks_abandon(ranks, rc);
    *ranks_ret = ranks;
    return ncclSuccess;
}

/* ---- children ---- */

/* The parent's first ranks execute 'order', the rest the same without a color.
 */
static ncclResult_t ranks_make_child(struct mock_ranks *parent,
                                     const struct mock_machine *machine,
                                     struct mock_order order,
                                     struct mock_ranks **child_ret)
{
    struct mock_ranks *child = NULL;
    int n = machine->info.n_ranks;
    struct mock_rank *all = parent->pool->ranks;
    ncclResult_t rc;

    if (n > parent->n)
        return mock_fail(ncclInvalidArgument,
                         "a child of %d ranks, but its parent has %d", n,
                         parent->n);
    rc = ranks_make_ranks(parent->pool, n, &child);
    if (rc != ncclSuccess)
        return rc;
    order.comm = child->comm;
    order.parent = parent->comm;
    order.machine = machine;
    rc = ranks_run_in_turn(all, n, &order);
    order.color = -1;
    if (rc == ncclSuccess && order.task == MOCK_SPLIT)
        rc = ranks_run_in_turn(&all[n], parent->n - n, &order);
    if (rc != ncclSuccess)
        return ranks_abandon(child, rc);
    *child_ret = child;
    return ncclSuccess;
}

ncclResult_t mock_ranks_split(struct mock_ranks *parent,
                              const struct mock_machine *machine, int color,
                              struct mock_ranks **child_ret)
{
    const struct mock_order order = {.task = MOCK_SPLIT, .color = color};

    return ranks_make_child(parent, machine, order, child_ret);
}

ncclResult_t mock_ranks_shrink(struct mock_ranks *parent,
                               const struct mock_machine *machine,
                               struct mock_ranks **child_ret)
{
    const struct mock_order order = {.task = MOCK_SHRINK};

    return ranks_make_child(parent, machine, order, child_ret);
}
