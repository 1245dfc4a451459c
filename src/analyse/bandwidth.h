/* bandwidth.h - how fast data moved, as nccl-tests reports it
 *
 * The formulas are those of nccl-tests' doc/PERFORMANCE.md.  With n ranks, each
 * with a link of bandwidth B, a collective of S bytes takes at least t = f S /
 * B, where f depends on the collective alone; so S / t * f says how much of the
 * links was used, whatever n.  S is what a tuner is told: the whole vector, and
 * for allgather and reducescatter that of all ranks together.
 *
 *   allreduce                  2 (n - 1) / n
 *   allgather, reducescatter   (n - 1) / n
 *   broadcast, reduce          1 */
#pragma once

#include <stdint.h>

/* f, of 'n_ranks' >= 1. */
double stp_bus_factor(int coll, unsigned n_ranks);

/* S / t in GB/s (1e9 bytes), of 'us' > 0. */
double stp_algbw(uint64_t n_bytes, double us);

/* S / t * f in GB/s. */
double stp_busbw(int coll, unsigned n_ranks, uint64_t n_bytes, double us);
