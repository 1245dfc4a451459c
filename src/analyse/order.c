#include "analyse/order.h"

int stp_order_kinds(const struct stp_measurement *a,
                    const struct stp_measurement *b)
{
    STP_RETURN_KIND_ORDER(a, b);
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
