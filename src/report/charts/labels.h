/* labels.h - which curves a chart or a table has, and how they, sizes and
 * collectives are called */
#pragma once

#include "analyse/curves.h"

enum { STP_LABEL = 160 };

/* A curve and how it differs from the others of the same chart. */
struct stp_labelled {
    const struct stp_curve *curve;
    char label[STP_LABEL];  /* arm, ranks and so on, as far as they differ */
    char series[STP_LABEL]; /* of a study: the label without the processes */
};

struct stp_labelled_set {
    struct stp_labelled *all;
    size_t n;
};

/* "All-reduce" for ncclFuncAllReduce, and so on.  Static storage. */
const char *stp_coll_title(int coll);

/* All GPUs, and what else they share: "4 ranks of NVIDIA H200, bf16 sum". */
void stp_common_title(const struct stp_labelled_set *set, char *text,
                      size_t size);

/* Where the data was measured: "h200x4, NVIDIA H200, NCCL 2.28.9". */
void stp_origin_text(const struct stp_dataset *data, char *text, size_t size);

/* The origin of all times: "h200x4, NVIDIA H200, NCCL 2.28.9, recorded; ...",
 * or "..., 8 of 12 recorded, 4 of 12 modelled; ...". */
void stp_source_line(const struct stp_labelled_set *set, char *text,
                     size_t size);

/* ---- sets of curves ---- */

/* The curves of a collective, labelled: AUTO first, then the arms that are the
 * fastest at most sizes, at most 'n_max' of them.  To be freed with
 * stp_labelled_free(). */
struct stp_labelled_set stp_pick_curves(const struct stp_curves *curves,
                                        int coll, size_t n_max);

/* Picks all curves of the study: those of a collective (-1: of all) under AUTO,
 * out of place where both were measured.  Likewise. */
struct stp_labelled_set stp_pick_study(const struct stp_curves *curves,
                                       int coll);

void stp_labelled_free(struct stp_labelled_set *set);

/* Whether the curve, which is one of 'curves', is part of the study. */
bool stp_in_study(const struct stp_curves *curves, const struct stp_curve *c);

/* The point of the curve at the size nearest to 100 MB, 10^8 or 100 MiB; NULL
 * if there is none within a factor of 2. */
const struct stp_curve_point *stp_study_100mb(const struct stp_curve *curve);

/* Whether curve 'i' is the first one of its series. */
bool stp_is_new_series(const struct stp_labelled_set *set, size_t i);
