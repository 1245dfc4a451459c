/* page_data.h - the files that a page is made from, as rows of one size each,
 * and what it says of them */
#pragma once

#include <cjson/cJSON.h>

#include "analyse/iterations.h"
#include "analyse/verify.h"
#include "core/text.h"
#include "report/page/page.h"
#include "report/policy_file.h"
#include "report/results/memory_rules.h"

enum { STP_PAGE_TEXT = 800, STP_PAGE_WARNINGS = 32 };

/* A policy, or measurements: collectives are compared, steps summed up. */
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
    bool is_compared; /* in the sweep, with an arm that a tuner can choose */
    bool is_told;     /* likewise, and an interval says how sure that is */
    enum stp_verdict verdict;
    unsigned line;  /* of the matching rule, from 1; 0: none */
    size_t n_panel; /* of the first of rows that differ in size alone, how many
                       they are; 0: of the others */
};

struct stp_page_data {
    const char *title;                     /* NULL: the usual one */
    struct stp_memory_rules memory, stage; /* of the policies so called */
    struct stp_page_file files[STP_PAGE_N_SOURCES]; /* by source */
    struct stp_page_row *rows;                      /* by panel, then size */
    size_t n_rows;
    char run[STP_RUN_NAME]; /* that the files are of; "": they do not say */
    char warnings[STP_PAGE_WARNINGS][STP_PAGE_TEXT]; /* sentences: what was left
                                                        out, or says less */
    size_t n_warnings;
    bool auto_is_wrong; /* somewhere */
};

/* Reads all files into *data_ret, which is to be freed even after a failure. It
 * points into 'sources'.  A file of another run, of another machine, or that
 * verifies another policy is left out, and a warning says so: STP_ERR_RANGE if
 * the user named it. */
enum stp_status stp_page_read(const struct stp_page_sources *sources,
                              struct stp_page_data *data_ret,
                              struct stp_error *err);
void stp_page_free(struct stp_page_data *data);

/* Appends to a text of STP_PAGE_TEXT bytes, and cuts what is too long. */
#define STP_PAGE_ADD(text, ...) stp_append(text, STP_PAGE_TEXT, __VA_ARGS__)

/* The first set that was read. */
const struct stp_page_file *
stp_page_first_set(const struct stp_page_data *data);

/* The fewest and the most ranks of all rows of all sets. */
struct stp_range stp_page_ranks(const struct stp_page_data *data);

/* ---- figures, and sentences that state them ---- */

/* A gain and the collective it was measured at; no pairs: there is none. */
struct stp_page_extreme {
    struct stp_gain gain;
    int coll;
    uint64_t n_bytes;
    unsigned n_ranks;
};

struct stp_page_summary {
    char machine[STP_PAGE_TEXT]; /* "4 x NVIDIA H200 with NCCL 2.28.9" */
    char own[STP_AUTO_TEXT];     /* AUTO, as stp_auto_words() has it */
    bool has_policy;
    bool tried; /* the policy itself was run, not only its arms */
    size_t n_rules;
    size_t n_sizes;
    size_t n_compared; /* of these, with arms that a tuner can choose */
    size_t n_told;     /* likewise, with an interval */
    size_t n_changed;
    size_t n_faster;
    size_t n_slower;
    size_t n_below;   /* changed sizes whose whole interval is below 1, but by
                         no more than the noise */
    size_t n_unknown; /* sizes at which a rule's arm was not measured */
    bool no_interval; /* of some changed size */
    bool is_captured; /* the first set is, in CUDA graphs */
    bool has_ranks;   /* not all sizes are of as many ranks */
    struct stp_page_extreme best;  /* the largest gain of the policy, or of an
                                      arm if there is no policy; gain 1: none */
    struct stp_page_extreme worst; /* the smallest of n_slower, or else of
                                      n_below */
    /* Without a policy the largest gains of registered buffers, and of staged
     * ones; gain 0: none. */
    struct stp_page_extreme setups[2];
    double mean_gain; /* geometric, of the policy over all measured sizes */
};

/* The summary as one sentence. */
void stp_page_sentence(const struct stp_page_summary *summary,
                       char text[STP_PAGE_TEXT]);

/* Training steps with the overlap policy. */
struct stp_page_overlap {
    size_t n; /* workloads */
    size_t n_faster;
    size_t n_slower; /* by more than twice AUTO's noise */
    size_t n_below;  /* by less */
    double best;     /* gains */
    double worst;
};

/* The same as one sentence; false if there were no such steps. */
bool stp_page_overlap_sentence(const struct stp_page_overlap *overlap,
                               char text[STP_PAGE_TEXT]);

/* ---- the template ---- */

/* Writes the 'len' bytes at 'text' so that a browser shows them as they are, in
 * an element or a quoted attribute.  Invalid UTF-8, and control characters
 * except tab and newline, become U+FFFD. */
void stp_html_text(const char *text, size_t len, FILE *fp);

/* Tags of a template, a subset of Mustache:
 *   {{name}}    the string or number as text, which is never markup; the
 *               object of a choice as "ring/ll128/16"
 *   {{name:2}}  the number with two decimals; {{name:+2}} always with a sign;
 *               {{name:2%}} in percent
 *   {{name:size}}  bytes such as "2M"
 *   {{name:interval}}  a gain's "0.993 to 1.012", by name_low, name_high and
 *               rounds, or "one round" or "-"
 *   {{+name:size}}  the number and the noun: "1 size", "2 sizes"
 *   {{&name}}   the string as it is: markup, style or script; the object as
 *               JSON, in which no "</script>" ends the script around it
 *   {{#name}}...{{/name}}  once for each element of a list, or else once if the
 *               value is there; names are looked up in the value first
 *   {{?name}}...{{/name}}  once if the value is there
 *   {{^name}}...{{/name}}  once if it is not: absent, null, false or an empty
 *               list
 *
 * Names are looked up from the innermost object outwards. */

/* Writes the filled template to 'fp'.  Absent names leave nothing.  The
 * template is part of the program: its tags must be complete. */
void stp_page_fill(const char *html, const cJSON *values, FILE *fp);
