/* qsort.h - orders, as qsort() wants them */
#pragma once

/* How qsort() wants two numbers compared. */
#define STP_ORDER(x, y) (((x) > (y)) - ((x) < (y)))

/* Returns an order from a function that compares, unless it is 0. */
#define STP_RETURN_ORDER(order)                                                \
    do {                                                                       \
        int order_ = (order);                                                  \
                                                                               \
        if (order_ != 0)                                                       \
            return order_;                                                     \
    } while (0)
