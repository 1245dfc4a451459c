/* train_summary.h - tables of training runs */
#pragma once

#include <stdio.h>

#include "report/training/train_results.h"

/* Prints one run, epoch by epoch. */
void stp_train_print_run(const struct stp_train_run *run, FILE *fp);

/* A line a configuration, in the order of their first runs: those that only
 * differ in 'repeat' are one, with the means of their numbers.  "-" is for an
 * unknown value.  STP_ERR_NOMEM. */
enum stp_status stp_train_print_summary(const struct stp_train_runs *runs,
                                        FILE *fp, struct stp_error *err);

/* Prints a table for each model of GPU, below its name and its machine. */
enum stp_status stp_train_print_models(const struct stp_train_runs *runs,
                                       FILE *fp, struct stp_error *err);
