/* qsort.h - orders, as qsort() wants them */
#pragma once

#include <stdlib.h>

/* Sorts 'n' items; qsort() takes no list that is NULL, as an empty one may be.
 */
#define STP_SORT(items, n, compare)                                            \
    do {                                                                       \
        if ((n) > 0)                                                           \
            qsort((items), (n), sizeof(*(items)), (compare));                  \
    } while (0)

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
