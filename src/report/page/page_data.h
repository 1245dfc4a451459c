/*
 * page_data.h - the files that a page is made from, as rows of one size each
 */
#ifndef STP_PAGE_DATA_H
#define STP_PAGE_DATA_H

#include "analyse/iterations.h"
#include "analyse/verify.h"
#include "report/page/page.h"
#include "report/policy_file.h"
#include "report/results/memory_rules.h"

enum { STP_PAGE_TEXT = 480 };

/* A policy, or measurements: collectives are compared, training steps summed
 * up. */
struct stp_page_file {
    const char *name; /* without its folder; NULL: none */
    char run[STP_RUN_NAME];
    char *text; /* of a policy */
    struct stp_policy *rules;
    char hash[STP_POLICY_HASH_NAME]; /* of the rules */
    struct stp_policy_mark mark;     /* what the file says */
    struct stp_dataset data;
    struct stp_comparisons comparisons;
    struct stp_iteration_summary iterations;
    struct stp_regime *regimes; /* in 'iterations' */
    size_t n_regimes;
};

/* One size of a panel. */
struct stp_page_row {
    const struct stp_point *swept;       /* NULL: not in the sweep */
    const struct stp_point *tried;       /* NULL: not in the verification */
    const struct stp_point *point;       /* 'tried', or else 'swept' */
    const struct stp_comparison *best;   /* the fastest arm of the sweep that a
                                            tuner can choose; NULL: none is
                                            faster than AUTO */
    const struct stp_comparison *setup;  /* the fastest setup of the sweep,
                                            faster than AUTO or not; NULL: none
                                            was measured */
    const struct stp_comparison *policy; /* of 'point'; NULL: no rule matches,
                                            or its arm was not measured */
    enum stp_verdict verdict;
    unsigned line; /* of the matching rule, from 1; 0: none */
};

/* Rows that differ in size alone, ascending. */
struct stp_page_panel {
    const struct stp_page_row *rows;
    size_t n_rows;
};

struct stp_page_data {
    const char *title;                              /* NULL: the usual one */
    struct stp_memory_rules memory;                 /* of the memory policy */
    struct stp_page_file files[STP_PAGE_N_SOURCES]; /* by source */
    struct stp_page_row *rows;                      /* by panel, then size */
    size_t n_rows;
    struct stp_page_panel *panels;
    size_t n_panels;
    char run[STP_RUN_NAME]; /* that the files are of; "": they do not say */
    char warnings[STP_PAGE_N_SOURCES][STP_PAGE_TEXT]; /* sentences: what was
                                                       left out, or says less */
    size_t n_warnings;
};

/*
 * Reads all files into *data_ret, which is to be freed even after a failure. It
 * points into 'sources'.  A file of another run, of another machine, or that
 * verifies another policy is left out, and a warning says so: STP_ERR_RANGE if
 * the user named it.
 */
enum stp_status stp_page_read(const struct stp_page_sources *sources,
                              struct stp_page_data *data_ret,
                              struct stp_error *err);
void stp_page_free(struct stp_page_data *data);

/* Appends to 'text', and cuts what is too long. */
void stp_page_say(char text[STP_PAGE_TEXT], const char *fmt, ...)
    STP_PRINTF(2, 3);

/* The first set that was read. */
const struct stp_page_file *
stp_page_first_set(const struct stp_page_data *data);

/* The fewest and the most ranks of all rows of all sets. */
struct stp_range stp_page_ranks(const struct stp_page_data *data);

#endif /* STP_PAGE_DATA_H */
