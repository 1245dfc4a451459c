/* order.h - in what order measurements are looked at */
#pragma once

#include "bench/measurement.h"

/* Ends the function unless 'a' and 'b', measurements or points, are alike in
 * their collective, ranks, type, operation, root, place and graph. */
#define STP_RETURN_KIND_ORDER(a, b)                                            \
    do {                                                                       \
        STP_RETURN_ORDER(STP_ORDER((a)->coll, (b)->coll));                     \
        STP_RETURN_ORDER(STP_ORDER((a)->n_nodes, (b)->n_nodes));               \
        STP_RETURN_ORDER(STP_ORDER((a)->n_ranks, (b)->n_ranks));               \
        STP_RETURN_ORDER(STP_ORDER((a)->type, (b)->type));                     \
        STP_RETURN_ORDER(STP_ORDER((a)->op, (b)->op));                         \
        STP_RETURN_ORDER(STP_ORDER((a)->root, (b)->root));                     \
        STP_RETURN_ORDER(STP_ORDER((a)->in_place, (b)->in_place));             \
        STP_RETURN_ORDER(STP_ORDER((a)->graph, (b)->graph));                   \
    } while (0)

/* By collective, nodes, ranks, type, operation, root, place, graph and
 * workload, as qsort() wants it. */
int stp_order_kinds(const struct stp_measurement *a,
                    const struct stp_measurement *b);

/* By arm, AUTO first. */
int stp_order_arms(const struct stp_measurement *a,
                   const struct stp_measurement *b);
