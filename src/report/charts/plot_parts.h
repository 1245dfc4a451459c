/*
 * plot_parts.h - what the files that make plots and their texts share
 */
#ifndef STP_PLOT_PARTS_H
#define STP_PLOT_PARTS_H

#include "report/charts/plot.h"

enum { STP_LABEL = 160, STP_PLOT_WIDTH = 1200, STP_PLOT_HEIGHT = 720 };

/* A curve and what sets it apart from the others in the same plot. */
struct stp_labelled {
    const struct stp_curve *curve;
    char label[STP_LABEL];  /* arm, ranks and so on, as far as they differ */
    char series[STP_LABEL]; /* of a study: the same without the processes */
};

struct stp_labelled_set {
    struct stp_labelled *all;
    size_t n;
};

/* "All-reduce" for ncclFuncAllReduce, and so on.  Static storage. */
const char *stp_coll_title(int coll);

/* "8", "1K", "1.5M", "1G": powers of two. */
void stp_size_name(uint64_t n_bytes, char name[32]);

/* For sentences: "1 MB", "1.5 MiB", "8 bytes": powers of ten if it is a round
 * number of them. */
void stp_size_text(uint64_t n_bytes, char text[32]);

/* Fills the labels: the arm, and what else is needed to tell all apart. */
void stp_label_arms(struct stp_labelled_set *set);

/* Fills labels and series: the backend, and what else is needed to tell all of
 * a number of processes apart. */
void stp_label_series(struct stp_labelled_set *set);

/* What all curves have in common: "4 ranks of NVIDIA H200, bf16 sum". */
void stp_common_title(const struct stp_labelled_set *set, char *text,
                      size_t size);

/* Where they were measured: "h200x4, NVIDIA H200, NCCL 2.28.9". */
void stp_origin_text(const struct stp_dataset *data, char *text, size_t size);

/* Where the times are from: "h200x4: NVIDIA H200, NCCL 2.28.9, recorded; ...".
 */
void stp_source_line(const struct stp_labelled_set *set, char *text,
                     size_t size);

/*
 * The curves of the plot, to be freed with stp_labelled_free(): of a study all
 * that are all-reduce under AUTO, out of place where both were measured.
 * STP_OK or STP_ERR_NOMEM.
 */
enum stp_status stp_pick_curves(const struct stp_curves *curves,
                                const struct stp_plot *plot,
                                struct stp_labelled_set *set_ret,
                                struct stp_error *err);
enum stp_status stp_pick_study(const struct stp_curves *curves,
                               struct stp_labelled_set *set_ret,
                               struct stp_error *err);

void stp_labelled_free(struct stp_labelled_set *set);

/* The point of the curve at the size nearest to 100 MB, 10^8 or 100 MiB; NULL
 * if there is none within a factor of 2. */
const struct stp_curve_point *stp_study_100mb(const struct stp_curve *curve);

/* Where a curve's bus bandwidth is the highest. */
struct stp_bandwidth_peak {
    double gbps;
    uint64_t n_bytes;
    uint64_t saturated; /* the first size within 10 percent of it */
};

struct stp_bandwidth_peak stp_bandwidth_peak(const struct stp_curve *curve);

/* The parts of scripts that all plots share: grid, key and, below, where the
 * times are from; an axis of sizes; and one of values from 'min' to 'max'. */
void stp_plot_write_rules(const char *source, FILE *fp);
void stp_plot_write_sizes(double min, double max, FILE *fp);
void stp_plot_write_log_y(double min, double max, FILE *fp);

/* The rules and a title, with what the curves have in common. */
void stp_plot_write_frame(const struct stp_labelled_set *set,
                          const struct stp_plot *plot, const char *what,
                          FILE *fp);

/* "#000000" and so on, for the i-th of several.  Static storage. */
const char *stp_plot_colour(size_t i);

void stp_plot_write_lines(const struct stp_labelled_set *set,
                          const struct stp_plot *plot, FILE *fp);
void stp_plot_write_bars(const struct stp_labelled_set *set,
                         const struct stp_plot *plot, FILE *fp);

#endif /* STP_PLOT_PARTS_H */
