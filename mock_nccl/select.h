/*
 * select.h - which entry of a cost table NCCL takes
 */
#ifndef MOCK_SELECT_H
#define MOCK_SELECT_H

#include <stdbool.h>

#include "mock_nccl.h"

/*
 * Takes the first smallest entry that is not below zero and is below 'ceiling',
 * from NCCL's 'n_algos' first algorithms.  Returns false if there is none.
 */
bool mock_select(const mock_table table, int n_algos, float ceiling,
                 int *algo_ret, int *proto_ret);

/* Whether NCCL has a kernel for this at all, on whatever machine. */
bool mock_kernel_exists(int coll, int algo, int proto);

#endif /* MOCK_SELECT_H */
