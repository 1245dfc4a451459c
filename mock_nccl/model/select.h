/* select.h - the entry of a cost table that NCCL selects */
#pragma once

#include <stdbool.h>

#include "mock_nccl.h"
#include "versions/versions.h"

/* Selects the first smallest entry that is not below zero and is below
 * 'ceiling', among NCCL's 'n_algos' first algorithms. *time_ret, unless it is
 * NULL, receives that entry. Returns false and touches nothing if there is
 * none. */
bool mock_select_first(const mock_table table, int n_algos, float ceiling,
                       int *algo_ret, int *proto_ret, float *time_ret);

/* Selects an entry of 'cost_after' by a version's rule; *time receives it.
 * False, with algorithm and protocol UNDEF, if there is none. */
bool mock_select(const struct mock_choice_rules *rules, int n_algos,
                 struct mock_outcome *outcome, float *time);

/* Whether NCCL has a kernel for the triple on any machine. */
bool mock_kernel_exists(int coll, int algo, int proto);
