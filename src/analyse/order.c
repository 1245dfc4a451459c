#include "analyse/order.h"

#define RETURN_UNLESS_SAME(x, y)                                               \
    do {                                                                       \
        if ((x) != (y))                                                        \
            return STP_ORDER(x, y);                                            \
    } while (0)

int stp_order_kinds(const struct stp_measurement *a,
                    const struct stp_measurement *b)
{
    RETURN_UNLESS_SAME(a->coll, b->coll);
    RETURN_UNLESS_SAME(a->n_nodes, b->n_nodes);
    RETURN_UNLESS_SAME(a->n_ranks, b->n_ranks);
    RETURN_UNLESS_SAME(a->type, b->type);
    RETURN_UNLESS_SAME(a->op, b->op);
    RETURN_UNLESS_SAME(a->root, b->root);
    RETURN_UNLESS_SAME(a->in_place, b->in_place);
    return stp_workload_order(&a->work, &b->work);
}

int stp_order_arms(const struct stp_measurement *a,
                   const struct stp_measurement *b)
{
    RETURN_UNLESS_SAME(a->arm.kind, b->arm.kind);
    RETURN_UNLESS_SAME(a->arm.algo, b->arm.algo);
    RETURN_UNLESS_SAME(a->arm.proto, b->arm.proto);
    return STP_ORDER(a->arm.n_channels, b->arm.n_channels);
}
