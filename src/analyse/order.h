/*
 * order.h - in what order measurements are looked at
 */
#ifndef STP_ORDER_H
#define STP_ORDER_H

#include "bench/measurement.h"

/* By collective, nodes, ranks, type, operation, root, place and workload, as
 * qsort() wants it. */
int stp_order_kinds(const struct stp_measurement *a,
                    const struct stp_measurement *b);

/* By arm, AUTO first. */
int stp_order_arms(const struct stp_measurement *a,
                   const struct stp_measurement *b);

#endif /* STP_ORDER_H */
