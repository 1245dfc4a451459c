/* group_order.c - the order of a group's collectives: by traffic in bins a
 * quarter of an octave wide, largest first (ncclTaskCollSorterInsert() in
 * NCCL's src/include/comm.h), then by kind, smallest first, so that collectives
 * of one bin and kind keep the application's order (ncclPrepareTasks() in
 * src/enqueue.cc). 2.21 is simpler. */
#include "comm/comm.h"

#include <stdlib.h>

enum {
    SORT_UNIT_LOG2 = 10, /* the first bin holds all below 1 KiB */
    SORT_MAX_LOG2 = 30,  /* the last bin holds all from 1 GiB on */
    SORT_BITS = 2,       /* log2 of the number of bins per octave */
    RUN_FACTOR = 4,      /* largest over smallest in a run is below this */
};

/* The order of two numbers, for qsort(). */
#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static size_t group_order_element_size(const struct mock_call *call)
{
    return call->coll == ncclFuncAllGather || call->coll == ncclFuncBroadcast
               ? 1
               : call->element_size;
}

bool mock_same_kind(const struct mock_call *a, const struct mock_call *b)
{
    return a->coll == b->coll &&
           group_order_element_size(a) == group_order_element_size(b) &&
           a->kind == b->kind && a->no_nvls == b->no_nvls && a->fp8 == b->fp8;
}

/* Largest first; in a bin the last inserted task is first. */
static int group_order_compare_size(const void *pa, const void *pb)
{
    const struct mock_task *a = pa;
    const struct mock_task *b = pb;

    if (a->bin != b->bin)
        return a->bin > b->bin ? -1 : 1;
    return COMPARE(b->place, a->place);
}

/* Tasks with 'apart' are last, list by list, smallest first. */
static int group_order_compare_list(const void *pa, const void *pb)
{
    const struct mock_task *a = pa;
    const struct mock_task *b = pb;

    if (a->apart != b->apart)
        return a->apart ? 1 : -1;
    if (!a->apart)
        return COMPARE(a->place, b->place);
    if (a->list != b->list)
        return COMPARE(a->list, b->list);
    return COMPARE(b->place, a->place);
}

/* By kind; the last task of the list is first. */
static int group_order_compare_kind(const void *pa, const void *pb)
{
    const struct mock_task *a = pa;
    const struct mock_task *b = pb;

    if (a->kind != b->kind)
        return COMPARE(a->kind, b->kind);
    return COMPARE(b->place, a->place);
}

void mock_group_sort(struct mock_task *tasks, size_t n)
{
    const size_t max = (size_t)1 << SORT_MAX_LOG2;

    /* the bin as a small float: exponent, and SORT_BITS of mantissa */
    for (size_t i = 0; i < n; i++) {
        size_t traffic = tasks[i].traffic < max ? tasks[i].traffic : max;
        unsigned units = (unsigned)(traffic >> SORT_UNIT_LOG2);
        unsigned log2 = 31 - (unsigned)__builtin_clz(units | 1);
        unsigned exponent = 0;

        if (log2 >= SORT_BITS) {
            exponent = log2 - (SORT_BITS - 1);
            units >>= log2 - SORT_BITS;
        }
        tasks[i].bin =
            exponent << SORT_BITS | (units & ((1u << SORT_BITS) - 1));
    }
    qsort(tasks, n, sizeof(*tasks), group_order_compare_size);
}

static void group_order_number(struct mock_task *tasks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tasks[i].place = i;
}

static int group_order_compare_old_kind(const struct mock_task *a,
                                        const struct mock_task *b)
{
    /* NCCL's number of the type that an element size stands for */
    static const int types[] = {[1] = 0, [2] = 9, [4] = 7, [8] = 8};
    const int orders[] = {
        COMPARE(b->call.coll, a->call.coll),
        COMPARE(types[b->call.element_size], types[a->call.element_size]),
        COMPARE(b->call.no_nvls, a->call.no_nvls),
        COMPARE(b->call.kind, a->call.kind)};
    int i = 0;

    while (i < 3 && orders[i] == 0)
        i++;
    return orders[i];
}

/* By collective, type, operation and size, descending; of equal tasks the later
 * first. */
static int group_order_compare_old(const void *pa, const void *pb)
{
    const struct mock_task *a = pa;
    const struct mock_task *b = pb;
    int order = group_order_compare_old_kind(a, b);

    if (order != 0)
        return order;
    if (a->call.n_bytes != b->call.n_bytes)
        return a->call.n_bytes > b->call.n_bytes ? -1 : 1;
    return a->number > b->number ? -1 : 1;
}

static void group_order_by_traffic(struct mock_task *tasks, size_t n)
{
    size_t n_kinds = 0;

    mock_group_sort(tasks, n);
    group_order_number(tasks, n);
    /* NCCL removes the tasks with 'apart', and appends them after the others,
     * which reverses their order */
    for (size_t i = 0; i < n; i++) {
        size_t j = 0;

        if (!tasks[i].apart)
            continue;
        while (!tasks[j].apart ||
               !mock_same_kind(&tasks[i].call, &tasks[j].call) ||
               tasks[i].call.windows != tasks[j].call.windows)
            j++;
        tasks[i].list = j;
    }
    qsort(tasks, n, sizeof(*tasks), group_order_compare_list);
    group_order_number(tasks, n);
    for (size_t i = 0; i < n; i++) {
        size_t j = 0;

        while (!mock_same_kind(&tasks[i].call, &tasks[j].call))
            j++;
        tasks[i].kind = j < i ? tasks[j].kind : n_kinds++;
    }
    qsort(tasks, n, sizeof(*tasks), group_order_compare_kind);
}

void mock_group_order(const struct mock_choice_rules *rules,
                      struct mock_task *tasks, size_t n)
{
    if (n < 2)
        return; /* most tasks are alone */
    if (!rules->groups_by_count) {
        group_order_by_traffic(tasks, n);
        return;
    }
    qsort(tasks, n, sizeof(*tasks), group_order_compare_old);
    for (size_t i = 1; i < n; i++)
        tasks[i].kind =
            tasks[i - 1].kind +
            (group_order_compare_old_kind(&tasks[i - 1], &tasks[i]) != 0);
}

size_t mock_group_run_end(const struct mock_choice_rules *rules,
                          const struct mock_task *tasks, size_t n, size_t i)
{
    size_t end = i + 1;

    while (end < n && tasks[end].kind == tasks[i].kind &&
           (rules->groups_by_count ||
            tasks[end].traffic < RUN_FACTOR * tasks[i].traffic))
        end++;
    return end;
}
