/*
 * study.h - tables and sentences of a study: collectives under AUTO, of several
 * transports, machines or numbers of processes
 */
#ifndef STP_STUDY_H
#define STP_STUDY_H

#include <stdio.h>

#include "analyse/curves.h"

enum stp_study_text {
    STP_STUDY_RESULTS,  /* Markdown: a row per curve and size */
    STP_STUDY_CSV,      /* the same of all files in one CSV, with backend and
                           machine in each row */
    STP_STUDY_SUMMARY,  /* Markdown: a row per collective, transport, machine
                           and number of processes */
    STP_STUDY_ANALYSIS, /* 2 to 5 sentences a collective: the fastest transport,
                           how time grows with size and with processes, where
                           bandwidth saturates, and how noisy the rounds are */
    STP_N_STUDY_TEXTS,
};

/* The name of the text's file, and its ending: "analysis" and "txt". */
const char *stp_study_name(enum stp_study_text text, const char **ending_ret);

/* STP_OK or STP_ERR_NOMEM. */
enum stp_status stp_study_write(const struct stp_curves *curves,
                                enum stp_study_text text, FILE *fp,
                                struct stp_error *err);

#endif /* STP_STUDY_H */
