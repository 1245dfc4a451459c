/*
 * comm.h - the steps of a collective, for one alone and for groups
 */
#ifndef MOCK_COMM_H
#define MOCK_COMM_H

#include "channels.h"

/* What the communicator's cost model is, tuner's edits included. */
const struct mock_model *mock_comm_model(const struct mock_comm *comm);

/* Fills defaults into *filled_ret, clears *outcome, and refuses a call that
 * means nothing. */
ncclResult_t mock_comm_check(const struct mock_call *call,
                             struct mock_call *filled_ret,
                             struct mock_outcome *outcome);

/* Whether there is anything to decide: without bytes or other ranks NCCL copies
 * or does nothing, and asks nobody. */
bool mock_comm_asks(const struct mock_comm *comm, const struct mock_call *call);

/* Table, tuner, selection; and the most channels that it may have. */
ncclResult_t mock_comm_decide(struct mock_comm *comm,
                              const struct mock_call *call,
                              struct mock_outcome *outcome,
                              int *max_channels_ret);

/* Announces a decided collective to the lane of its kind, then schedules it. */
void mock_comm_announce(const struct mock_comm *comm,
                        const struct mock_call *call,
                        const struct mock_outcome *outcome, int max_channels,
                        struct mock_lane *lane);
ncclResult_t mock_comm_schedule(struct mock_comm *comm,
                                const struct mock_call *call,
                                struct mock_lane *lane,
                                struct mock_outcome *outcome);

#endif /* MOCK_COMM_H */
