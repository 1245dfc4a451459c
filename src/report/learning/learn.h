/*
 * learn.h - simulated learners against NCCL and an oracle, as tables and JSON
 */
#ifndef STP_REPORT_LEARN_H
#define STP_REPORT_LEARN_H

#include <stdio.h>

#include "analyse/simulate/simulate.h"

/* A row a learner; 'learned' has as many as 'learners'.  Then a row a kind of
 * message, with each plugin's choice. */
enum stp_status stp_print_learned(const struct stp_learner *learners,
                                  const struct stp_learned *learned, size_t n,
                                  FILE *fp, struct stp_error *err);
enum stp_status stp_print_learned_json(const struct stp_learn_job *job,
                                       const char *machine,
                                       const struct stp_learner *learners,
                                       const struct stp_learned *learned,
                                       size_t n, FILE *fp,
                                       struct stp_error *err);

#endif /* STP_REPORT_LEARN_H */
