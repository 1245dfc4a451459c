/*
 * group_apart.h - collectives that NCCL does not decide in runs
 */
#ifndef MOCK_GROUP_APART_H
#define MOCK_GROUP_APART_H

#include "comm/group_order.h"

/* Moves broadcasts of several roots out of the tasks. */
void mock_apart_broadcasts(struct mock_group *g);

/* Decides and schedules them, as AllGatherV. */
ncclResult_t mock_apart_gather(struct mock_group *g);

/* Drops tasks that run from symmetric windows, and marks those that could; may
 * ask the tuner. */
ncclResult_t mock_apart_symmetric(struct mock_group *g);

#endif /* MOCK_GROUP_APART_H */
