/* splits.h - the ways in which ranks were divided into groups, by number */
#pragma once

#include "device/call.h"

enum { STP_MAX_SPLITS = 8 };

/* All zero to begin with. */
struct stp_splits {
    struct stp_rank_groups all[STP_MAX_SPLITS];
    unsigned n;
};

/* The number of these groups, from 1; 0 for all ranks in one, and for groups
 * that were not added. */
unsigned stp_splits_find(const struct stp_splits *splits,
                         const struct stp_rank_groups *groups);

/* Adds groups, which become number 'n'.  STP_ERR_RANGE if there is no room. */
enum stp_status stp_splits_add(struct stp_splits *splits,
                               const struct stp_rank_groups *groups,
                               struct stp_error *err);
