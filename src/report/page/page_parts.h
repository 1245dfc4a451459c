/*
 * page_parts.h - what the page's files share with each other only
 */
#ifndef STP_PAGE_PARTS_H
#define STP_PAGE_PARTS_H

#include <stdio.h>

#include "analyse/iterations.h"
#include "analyse/verify.h"
#include "report/page/page.h"

/* ---- what was read ---- */

/* A policy file. */
struct stp_page_policy {
    const char *name; /* without its folder; NULL: none */
    char *text;
    size_t len;
    struct stp_policy *rules;
};

enum stp_page_set_kind {
    STP_PAGE_SWEEP,
    STP_PAGE_VERIFY,
    STP_PAGE_ITERATIONS,
    STP_PAGE_OVERLAP_VERIFY,
    STP_PAGE_N_SETS,
};

/* A file of measurements: the first two kinds are compared, the others summed
 * up as iterations. */
struct stp_page_set {
    const char *name; /* without its folder; NULL: none */
    struct stp_dataset data;
    struct stp_comparisons comparisons;
    struct stp_iteration_summary iterations;
    struct stp_regime *regimes; /* in 'iterations' */
    size_t n_regimes;
};

/* One size of one kind of call. */
struct stp_page_row {
    const struct stp_point *swept;     /* NULL: not in the sweep */
    const struct stp_point *tried;     /* NULL: the policy was not run there */
    const struct stp_point *point;     /* 'tried', or else 'swept' */
    const struct stp_comparison *best; /* the fastest arm of the sweep; NULL:
                                          none is faster than AUTO */
    const struct stp_comparison *policy; /* of 'point'; NULL: no rule, or one
                                            whose arm nobody measured */
    enum stp_verdict verdict;
    unsigned line; /* of the rule, from 1; 0: none */
};

/* Rows that differ in size alone. */
struct stp_page_panel {
    const struct stp_page_row *rows;
    size_t n_rows;
};

/* What it comes to. */
struct stp_page_summary {
    char machine[128]; /* "4 x NVIDIA H200 with NCCL 2.28.9" */
    bool has_policy;
    bool tried; /* the policy was run, not just its arms */
    size_t n_rules;
    size_t n_sizes;
    size_t n_changed;
    size_t n_faster;
    size_t n_slower;
    size_t n_below;       /* changed, and the whole interval is below 1, but the
                             loss is within noise */
    size_t n_unknown;     /* a rule's arm was not measured */
    bool one_round;       /* there are no intervals */
    struct stp_gain best; /* the largest gain: of the policy, or of the best arm
                             without one; gain 1 if there is none */
    int best_coll;
    uint64_t best_bytes;
    struct stp_gain worst; /* the smallest of n_slower, or else of n_below */
    int worst_coll;
    uint64_t worst_bytes;
    double mean_gain; /* geometric, of the policy over all sizes */
};

struct stp_page_data {
    const char *title;
    struct stp_page_policy policy;
    struct stp_page_policy overlap;
    struct stp_page_set sets[STP_PAGE_N_SETS];
    struct stp_page_row *rows; /* by kind of call, then size */
    size_t n_rows;
    struct stp_page_panel *panels;
    size_t n_panels;
    struct stp_page_summary summary;
};

/* Reads all files into *data, which is to be freed even after a failure.
 * Points into 'sources'. */
enum stp_status stp_page_read(const struct stp_page_sources *sources,
                              struct stp_page_data *data,
                              struct stp_error *err);
void stp_page_free(struct stp_page_data *data);

/* The gain of the policy at a row: 1 where it leaves NCCL's choice; false where
 * nobody knows. */
bool stp_page_gain(const struct stp_page_row *row, struct stp_gain *gain_ret);

/* What the policy takes at a row; that of AUTO where it leaves it. */
double stp_page_policy_us(const struct stp_page_row *row);

/* Fills all of the summary. */
void stp_page_sum_up(const struct stp_page_data *data,
                     struct stp_page_summary *summary);

/* ---- words ---- */

enum { STP_PAGE_TEXT = 480, STP_PAGE_NAME = 96 };

/* The summary as one sentence. */
void stp_page_sentence(const struct stp_page_summary *summary,
                       char text[STP_PAGE_TEXT]);

/* What iterations with the overlap policy come to. */
struct stp_page_overlap {
    size_t n; /* workloads */
    size_t n_faster;
    size_t n_slower; /* by more than twice AUTO's noise */
    size_t n_below;  /* by less */
    double best;     /* gains */
    double worst;
};
void stp_page_sum_up_overlap(const struct stp_iteration_summary *iterations,
                             struct stp_page_overlap *overlap);

/* What is said of them; false if there were none. */
bool stp_page_overlap_sentence(const struct stp_page_overlap *overlap,
                               char text[STP_PAGE_TEXT]);

/* "1164 recorded, 96 single_pass" */
void stp_page_sources_text(const struct stp_dataset *data,
                           char text[STP_PAGE_NAME]);

/* What the worst source of the 'n' sets means: "Times were recorded on that
 * machine and are played back ...".  NULL without times. */
const char *stp_page_source_sentence(const struct stp_page_set *sets, size_t n);

/* "All-gather", with ranks, type and so on where panels differ in them. */
void stp_page_panel_name(const struct stp_page_data *data,
                         const struct stp_page_panel *panel,
                         char name[STP_PAGE_NAME]);

/* ---- SVG ---- */

/* Values from 'min' to 'max' > 'min' over the places from 'from' to 'to'. */
struct stp_page_axis {
    double min, max;
    double from, to;
    bool log;
};

enum { STP_PAGE_TICKS = 12 };

double stp_page_at(const struct stp_page_axis *axis, double value);

/* Round values within an axis, ascending, STP_PAGE_TICKS at most: multiples of
 * 1, 2 or 5 times a power of ten; those times powers of ten; powers of two.
 * Returns how many. */
size_t stp_page_ticks(double min, double max, double ticks[STP_PAGE_TICKS]);
size_t stp_page_log_ticks(double min, double max, double ticks[STP_PAGE_TICKS]);
size_t stp_page_size_ticks(double min, double max,
                           double ticks[STP_PAGE_TICKS]);

/* Bus bandwidth, latency and gain of one panel, each a figure. */
void stp_page_write_plots(const struct stp_page_panel *panel, const char *name,
                          FILE *fp);
/* The gain, with what was chosen below it. */
void stp_page_write_gain(const struct stp_page_panel *panel, const char *name,
                         FILE *fp);

/* Begins a figure: caption, legend and the SVG; and ends it. */
struct stp_page_legend {
    const char *style; /* CSS class */
    const char *text;
};
void stp_page_begin_plot(const char *caption, const char *label,
                         const struct stp_page_legend *legend, int height,
                         FILE *fp);
void stp_page_end_plot(FILE *fp);

/* Sizes along the bottom, with lines up to 'top'; a tick's line and label at
 * the left; and all ticks of a value with 'decimals' (-1: as needed). */
void stp_page_write_sizes(const struct stp_page_axis *x, double top,
                          double bottom, FILE *fp);
void stp_page_write_values(const struct stp_page_axis *y, int decimals,
                           FILE *fp);

/* The axis of a panel's sizes. */
struct stp_page_axis stp_page_size_axis(const struct stp_page_panel *panel);

/* Where the part of row 'i' begins and ends along the axis: what points at it
 * is nearest to it. */
void stp_page_column(const struct stp_page_panel *panel,
                     const struct stp_page_axis *x, size_t i, double *from_ret,
                     double *to_ret);

enum {
    STP_PAGE_WIDTH = 680,
    STP_PAGE_LEFT = 62,
    STP_PAGE_RIGHT = 588, /* labels of arms stand behind it */
    STP_PAGE_TOP = 14,
};

/* ---- parts of the page ---- */

void stp_page_write_machine(const struct stp_page_data *data, FILE *fp);
void stp_page_write_rules(const struct stp_page_data *data, FILE *fp);
void stp_page_write_table(const struct stp_page_data *data, FILE *fp);
enum stp_status stp_page_write_iterations(const struct stp_page_data *data,
                                          FILE *fp, struct stp_error *err);
enum stp_status stp_page_write_method(const struct stp_page_data *data,
                                      FILE *fp, struct stp_error *err);

/* Style sheet and script. */
extern const char stp_page_style[];
extern const char stp_page_script[];

#endif /* STP_PAGE_PARTS_H */
