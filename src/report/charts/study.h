/*
 * study.h - tables and sentences of the study that plot.h draws
 */
#ifndef STP_STUDY_H
#define STP_STUDY_H

#include <stdio.h>

#include "analyse/curves.h"

/* All return STP_OK or STP_ERR_NOMEM. */

/* Markdown: a row per curve and size. */
enum stp_status stp_study_write_results(const struct stp_curves *curves,
                                        FILE *fp, struct stp_error *err);

/* Markdown: a row per transport and number of processes. */
enum stp_status stp_study_write_summary(const struct stp_curves *curves,
                                        FILE *fp, struct stp_error *err);

/* 2 to 5 sentences: the fastest transport, how time grows with size and with
 * processes, where bandwidth saturates, and how noisy the rounds are. */
enum stp_status stp_study_write_analysis(const struct stp_curves *curves,
                                         FILE *fp, struct stp_error *err);

#endif /* STP_STUDY_H */
