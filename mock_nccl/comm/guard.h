/*
 * guard.h - a cost table with cells around it that a tuner must not touch
 */
#ifndef MOCK_GUARD_H
#define MOCK_GUARD_H

#include <stdbool.h>

#include "mock_nccl.h"

enum {
    MOCK_GUARD = 16, /* cells before and after */
    MOCK_TABLE = NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS,
};

struct mock_guarded {
    float cells[MOCK_GUARD + MOCK_TABLE + MOCK_GUARD];
    int n; /* of the table's cells */
};

/* Takes the first 'n_algos' rows of a table in. */
void mock_guard(struct mock_guarded *guarded, const mock_table table,
                int n_algos);

/* The table, flat as NCCL has it on its stack. */
float *mock_guarded_table(struct mock_guarded *guarded);

/* False if cells around it have changed: how many before and after it. */
bool mock_guard_holds(const struct mock_guarded *guarded, int *before_ret,
                      int *after_ret);

#endif /* MOCK_GUARD_H */
