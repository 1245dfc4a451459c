/*
 * guard.h - a cost table between guard cells, which a tuner must not write
 */
#ifndef MOCK_GUARD_H
#define MOCK_GUARD_H

#include <stdbool.h>

#include "mock_nccl.h"

enum {
    MOCK_GUARD = 16, /* guard cells before the table, and after it */
    MOCK_TABLE = NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS,
};

struct mock_guarded {
    float cells[MOCK_GUARD + MOCK_TABLE + MOCK_GUARD];
    int n; /* number of the table's cells */
};

/* Copies the first 'n_algos' rows of a table. */
void mock_guard(struct mock_guarded *guarded, const mock_table table,
                int n_algos);

/* The table, contiguous as on NCCL's stack. */
float *mock_guarded_table(struct mock_guarded *guarded);

/* False if guard cells have changed: their numbers before and after the table.
 */
bool mock_guard_holds(const struct mock_guarded *guarded, int *before_ret,
                      int *after_ret);

#endif /* MOCK_GUARD_H */
