/*
 * curve_sets.h - which curves a chart or a table has
 */
#ifndef STP_CURVE_SETS_H
#define STP_CURVE_SETS_H

#include "core/status.h"
#include "report/charts/labels.h"

/* The curves of a collective, labelled: AUTO first, then the arms that are the
 * fastest at most sizes, at most 'n_max' of them.  To be freed with
 * stp_labelled_free().  STP_OK or STP_ERR_NOMEM. */
enum stp_status stp_pick_curves(const struct stp_curves *curves, int coll,
                                size_t n_max, struct stp_labelled_set *set_ret,
                                struct stp_error *err);

/* Likewise all curves of the study: all-reduce under AUTO, out of place where
 * both were measured. */
enum stp_status stp_pick_study(const struct stp_curves *curves,
                               struct stp_labelled_set *set_ret,
                               struct stp_error *err);

void stp_labelled_free(struct stp_labelled_set *set);

/* Whether the curve, which is one of 'curves', is part of the study. */
bool stp_in_study(const struct stp_curves *curves, const struct stp_curve *c);

/* The point of the curve at the size nearest to 100 MB, 10^8 or 100 MiB; NULL
 * if there is none within a factor of 2. */
const struct stp_curve_point *stp_study_100mb(const struct stp_curve *curve);

/* Whether curve 'i' is the first one of its series. */
bool stp_is_new_series(const struct stp_labelled_set *set, size_t i);

#endif /* STP_CURVE_SETS_H */
