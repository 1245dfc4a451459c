/*
 * group_apart.h - collectives of a group that NCCL decides separately from runs
 */
#ifndef MOCK_GROUP_APART_H
#define MOCK_GROUP_APART_H

#include "comm/group_order.h"

/* Moves broadcasts of several roots from the tasks to g->broadcasts. */
void mock_apart_broadcasts(struct mock_group *g);

/* Decides and schedules these broadcasts, as AllGatherV. */
ncclResult_t mock_apart_gather(struct mock_group *g);

/* Removes tasks that run from symmetric windows, and marks those that could;
 * may call the tuner. */
ncclResult_t mock_apart_symmetric(struct mock_group *g);

#endif /* MOCK_GROUP_APART_H */
