/*
 * plot_journal_parts.h - what the files that plot journals share
 */
#ifndef STP_PLOT_JOURNAL_PARTS_H
#define STP_PLOT_JOURNAL_PARTS_H

#include "report/charts/plot_parts.h"
#include "report/learning/plot_journal.h"

enum { STP_JOURNAL_LABEL = 96, STP_JOURNAL_CURVES = 7 };

/* The keys with the most times, most first. */
struct stp_busiest {
    const struct stp_learning_key *keys[STP_JOURNAL_CURVES];
    size_t n;
    size_t n_all; /* that have times */
};

struct stp_busiest stp_find_busiest(const struct stp_learning *learning,
                                    size_t max);

/* "TITLE: WHAT", and how many of all messages are shown if not all are. */
void stp_journal_title(const struct stp_journal_plot *plot, const char *what,
                       const struct stp_busiest *shown,
                       char title[STP_LABEL * 2]);

/* "allgather, 4M to 5M, 4 ranks". */
void stp_journal_key_label(const struct stp_learning_key *key,
                           char text[STP_JOURNAL_LABEL]);

/* The arm that was the best as known at the end: what the key settled with,
 * else the one with the lowest mean of those with a few times.  A number of
 * the key's arms; n_arms if it has no times. */
size_t stp_journal_best(const struct stp_learning_key *key);

enum stp_status stp_write_regret(const struct stp_journal_plot *plot, FILE *fp,
                                 struct stp_error *err);
enum stp_status stp_write_arms(const struct stp_journal_plot *plot, FILE *fp,
                               struct stp_error *err);

#endif /* STP_PLOT_JOURNAL_PARTS_H */
