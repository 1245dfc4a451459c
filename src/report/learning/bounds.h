/* bounds.h - how much a job could gain at most
 *
 * Shares of the job's time by which it could be shorter: 0.01 is 1 percent.
 * What is spent in collectives bounds it before anything is tried, and the
 * arms' intervals once they were. */
#pragma once

#include "report/learning/learning.h"

/* Whether a key has no row: its collectives take less than 0.1 percent, and
 * nothing was won. */
bool stp_bounds_is_small(const struct stp_learning_key *key);

/* By what share the job is shorter at most (95 percent) by arms of the key;
 * NaN: not known. */
double stp_bounds_of_key(const struct stp_learning_key *key);

/* The same by arms of all keys together, beside those that have won. */
double stp_bounds_of_all(const struct stp_learning *learning);

/* Whether all that has won on a communicator was compared together, unless a
 * schedule has no trial of that. */
bool stp_bounds_are_confirmed(const struct stp_learning *learning);

/* The share in percent, rounded up to 0.1. */
double stp_bounds_percent(double share);

/* Prints sentences: what collectives take, and whether the host bounds the
 * job; then, below the rows, what arms may gain, and what else has no row. */
void stp_print_headroom(const struct stp_learning *learning, FILE *fp);
void stp_print_bounds(const struct stp_learning *learning, FILE *fp);
