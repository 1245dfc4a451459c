#include "analyse/order.h"

int stp_order_kinds(const struct stp_measurement *a,
                    const struct stp_measurement *b)
{
    STP_RETURN_ORDER(STP_ORDER(a->coll, b->coll));
    STP_RETURN_ORDER(STP_ORDER(a->n_nodes, b->n_nodes));
    STP_RETURN_ORDER(STP_ORDER(a->n_ranks, b->n_ranks));
    STP_RETURN_ORDER(STP_ORDER(a->type, b->type));
    STP_RETURN_ORDER(STP_ORDER(a->op, b->op));
    STP_RETURN_ORDER(STP_ORDER(a->root, b->root));
    STP_RETURN_ORDER(STP_ORDER(a->in_place, b->in_place));
    return stp_workload_order(&a->work, &b->work);
}

int stp_order_arms(const struct stp_measurement *a,
                   const struct stp_measurement *b)
{
    STP_RETURN_ORDER(STP_ORDER(a->arm.kind, b->arm.kind));
    STP_RETURN_ORDER(STP_ORDER(a->arm.algo, b->arm.algo));
    STP_RETURN_ORDER(STP_ORDER(a->arm.proto, b->arm.proto));
    STP_RETURN_ORDER(STP_ORDER(a->arm.n_channels, b->arm.n_channels));
    STP_RETURN_ORDER(STP_ORDER(a->arm.chunk_bytes, b->arm.chunk_bytes));
    STP_RETURN_ORDER(STP_ORDER(a->arm.setup.memory, b->arm.setup.memory));
    STP_RETURN_ORDER(STP_ORDER(a->arm.setup.min_ctas, b->arm.setup.min_ctas));
    STP_RETURN_ORDER(STP_ORDER(a->arm.setup.max_ctas, b->arm.setup.max_ctas));
    return STP_ORDER(a->arm.setup.cga, b->arm.setup.cga);
}
