/* ranks.c - creates, splits and destroys communicators with all their ranks */
#include "ranks/rank.h"

#include <stdlib.h>

#include "base/error.h"
#include "machine/machine.h"

enum { MAX_THREADS = 64 }; /* that init at the same time in one process */

/* ---- one order for all ---- */

/* Runs the order on rank after rank, until one fails. */
static ncclResult_t ranks_run_in_turn(struct mock_rank *ranks, int n,
                                      const struct mock_order *order)
{
    for (int r = 0; r < n; r++)
        MOCK_TRY(mock_fail_prefix(mock_rank_run_order(&ranks[r], order, NULL),
                                  "rank %d: ", ranks[r].number));
    return ncclSuccess;
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

        rc = mock_fail_prefix(rank->carrier->ops->post(rank, order, NULL),
                              "rank %d: ", rank->number);
        n_posted += rc == ncclSuccess;
    }
    return mock_ranks_wait(ranks, n_posted, rc);
}

/* Runs the order on all ranks at the same time. Like NCCL, starts a thread for
 * each communicator of a group, for this order only, unless they have one. */
static ncclResult_t ranks_create_at_once(const struct mock_ranks *ranks,
                                         const struct mock_order *order)
{
    struct mock_rank *all = ranks->pool->ranks;
    ncclResult_t rc = ncclSuccess;

    if (all[0].carrier != NULL)
        return ranks_run_at_once(all, ranks->n, order);
    for (int r = 0; r < ranks->n && rc == ncclSuccess; r += MAX_THREADS) {
        const int left = ranks->n - r;
        const int n = left < MAX_THREADS ? left : MAX_THREADS;
        int n_started = 0;

        while (n_started < n && rc == ncclSuccess) {
            rc = mock_thread_start(&all[r + n_started]);
            n_started += rc == ncclSuccess;
        }
        MOCK_THEN(rc, ranks_run_at_once(&all[r], n, order));
        while (n_started > 0) {
            struct mock_rank *rank = &all[r + --n_started];

            rank->carrier->ops->stop(rank);
        }
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
        mock_rank_run_order(mock_ranks_get(ranks, 0), &order, NULL);
    for (int r = ranks->n - 1; r > 0; r--)
        mock_rank_run_order(mock_ranks_get(ranks, r), &order, NULL);
    if (--ranks->pool->n_users == 0)
        ranks_free_pool(ranks->pool);
    free(ranks->members);
    free(ranks);
}

/* ---- beginning ---- */

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
        if (layout == MOCK_THREADS)
            rc = mock_thread_start(&pool->ranks[pool->n]);
        else if (layout == MOCK_PROCESSES)
            rc = mock_process_start(&pool->ranks[pool->n], pool->ranks);
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
    ranks->n_colors = 1;
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
    ncclResult_t rc;

    MOCK_TRY(
        ranks_start_pool(nccl, machine->info.n_ranks, options->layout, &pool));
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

/* Runs the order on the parent's rank 'r', with color and rank in the child. */
static ncclResult_t ranks_run_on(struct mock_ranks *parent, int r,
                                 struct mock_order order, int color, int rank)
{
    struct mock_rank *all = parent->pool->ranks;

    order.color = color;
    order.rank = rank;
    return ranks_run_in_turn(&all[r], 1, &order);
}

/* The parent's first ranks execute 'order', the rest do without a color. */
static ncclResult_t ranks_make_child(struct mock_ranks *parent,
                                     const struct mock_machine *machine,
                                     struct mock_order order,
                                     struct mock_ranks **child_ret)
{
    struct mock_ranks *child = NULL;
    int n = machine->info.n_ranks;
    ncclResult_t rc = ncclSuccess;

    if (parent->members != NULL)
        return mock_refuse("a child of the children of a split, expected one "
                           "of a communicator of all ranks");
    if (n > parent->n)
        return mock_refuse("a child of %d ranks, but its parent has %d", n,
                           parent->n);
    MOCK_TRY(ranks_make_ranks(parent->pool, n, &child));
    order.comm = child->comm;
    order.parent = parent->comm;
    order.machine = machine;
    for (int r = 0; r < n && rc == ncclSuccess; r++)
        rc = ranks_run_on(parent, r, order, order.color, r);
    for (int r = n;
         r < parent->n && rc == ncclSuccess && order.task == MOCK_SPLIT; r++)
        rc = ranks_run_on(parent, r, order, -1, -1);
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

static int ranks_compare_members(const void *pa, const void *pb)
{
    const struct mock_member *a = pa;
    const struct mock_member *b = pb;

    return a->color != b->color
               ? (a->color > b->color) - (a->color < b->color)
               : (a->number > b->number) - (a->number < b->number);
}

/* Lists the ranks that have a color, child by child, and numbers the children.
 * Each must have 'size' ranks. */
static ncclResult_t ranks_list_members(struct mock_ranks *children,
                                       const int *colors, int n_parent,
                                       int size)
{
    int n_of_color = 0;
    int last = -1;

    children->n = 0;
    children->n_colors = 0;
    for (int r = 0; r < n_parent; r++)
        if (colors[r] >= 0)
            children->members[children->n++] =
                (struct mock_member){r, colors[r]};
    qsort(children->members, (size_t)children->n, sizeof(*children->members),
          ranks_compare_members);
    for (int i = 0; i < children->n; i++) {
        struct mock_member *member = &children->members[i];

        n_of_color = member->color == last ? n_of_color + 1 : 1;
        last = member->color;
        children->n_colors += n_of_color == 1;
        member->color = children->n_colors - 1;
        if (n_of_color > size ||
            (n_of_color < size &&
             (i + 1 == children->n || children->members[i + 1].color != last)))
            return mock_refuse("color %d with another number of ranks than %d, "
                               "which its machine has",
                               last, size);
    }
    return children->n > 0
               ? ncclSuccess
               : mock_refuse("a split in which no rank has a color");
}

ncclResult_t mock_ranks_split_colors(struct mock_ranks *parent,
                                     const struct mock_machine *machine,
                                     const int *colors,
                                     struct mock_ranks **children_ret)
{
    const int size = machine->info.n_ranks;
    struct mock_order order = {.task = MOCK_SPLIT, .machine = machine};
    struct mock_ranks *children = NULL;
    ncclResult_t rc;

    if (parent->members != NULL)
        return mock_refuse("a split of the children of a split, expected one "
                           "of a communicator of all ranks");
    MOCK_TRY(ranks_make_ranks(parent->pool, parent->n, &children));
    order.comm = children->comm;
    order.parent = parent->comm;
    children->members = calloc((size_t)parent->n, sizeof(*children->members));
    rc = children->members == NULL
             ? mock_fail_memory()
             : ranks_list_members(children, colors, parent->n, size);
    for (int i = 0; i < children->n && rc == ncclSuccess; i++)
        rc = ranks_run_on(parent, children->members[i].number, order,
                          colors[children->members[i].number], i % size);
    for (int r = 0; r < parent->n && rc == ncclSuccess; r++)
        if (colors[r] < 0)
            rc = ranks_run_on(parent, r, order, -1, -1);
    if (rc != ncclSuccess)
        return ranks_abandon(children, rc);
    *children_ret = children;
    return ncclSuccess;
}

ncclResult_t mock_ranks_shrink(struct mock_ranks *parent,
                               const struct mock_machine *machine,
                               struct mock_ranks **child_ret)
{
    const struct mock_order order = {.task = MOCK_SHRINK};

    return ranks_make_child(parent, machine, order, child_ret);
}
