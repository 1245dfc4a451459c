/* objective.h - what a policy is to shorten, and the measurements that say so
 *
 *   time        of a collective alone
 *   iteration   of training iterations, in which collectives share the machine
 *               with compute: by rows of workloads only
 *
 * A policy for iterations must hold for any job.  So the pairs of all workloads
 * at one size, whatever their mode, layers and ratio, count as rounds of one
 * comparison, and an arm that any workload shows slower at a size is no arm
 * there.
 *
 * A row of fsdp counts for both collectives that ran with its arm, allgather
 * and reducescatter. */
#pragma once

#include "analyse/compare.h"

enum stp_objective {
    STP_OBJECTIVE_TIME,
    STP_OBJECTIVE_ITERATION,
    STP_N_OBJECTIVES,
};

/* "time" or "iteration". */
const char *stp_objective_name(enum stp_objective objective);

/* The one of that name, or -1. */
int stp_objective_from_name(const char *word, size_t len);

/* Copies the rows that say something of the objective into *selected_ret, which
 * is empty. An arm that forces an algorithm, a protocol or channels alone
 * becomes the pair that NCCL ran with it, since rules name both; it is left out
 * where nobody knows the pair. STP_ERR_RANGE if there are no such rows;
 * *selected_ret is empty then. */
enum stp_status stp_objective_select(const struct stp_dataset *data,
                                     enum stp_objective objective,
                                     struct stp_dataset *selected_ret,
                                     struct stp_error *err);

/* Compares what stp_objective_select() gave, for stp_derive_on(); otherwise
 * like stp_compare().  Points are of no workload. */
enum stp_status stp_objective_compare(const struct stp_dataset *selected,
                                      enum stp_objective objective,
                                      struct stp_comparisons *comparisons_ret,
                                      struct stp_error *err);

/* Compares the arms of registered buffers in one of the two situations in which
 * an application asks:
 *
 *   overlapped  iterations in which compute goes on beside a collective
 *   alone       collectives for which compute waits.  A collective back to back
 *               with itself finds its data and kernels warm as in no step.  So
 *               at sizes within those of sequential iterations that were
 *               measured, of the same type, what such an iteration takes beyond
 *               its compute counts instead, as the time of a collective.
 *
 * 'alone' has collectives alone, 'iterations' the iterations; both may be the
 * same data; other rows of either are left out.  Without any that say something
 * *comparisons_ret has no points.  Free with stp_comparisons_free(). */
enum stp_status stp_compare_registered(const struct stp_dataset *alone,
                                       const struct stp_dataset *iterations,
                                       bool overlaps,
                                       struct stp_comparisons *comparisons_ret,
                                       struct stp_error *err);

/* The workload of a row that comes next after '*after' in the order of
 * stp_workload_order(); the first if that is NULL.  False if there is none. */
bool stp_next_workload(const struct stp_dataset *data,
                       const struct stp_workload *after,
                       struct stp_workload *next_ret);
