/*
 * comm.h - the steps of a collective, alone or in a group
 */
#ifndef MOCK_COMM_H
#define MOCK_COMM_H

#include "model/channels.h"
#include "model/cost_model.h"
#include "plugins/profiler.h"
#include "plugins/tuner.h"

struct mock_comm {
    struct mock_nccl *nccl;
    const struct mock_version *version;
    const struct mock_machine *machine;
    struct mock_tuner *tuner; /* NULL if there is none */
    bool owns_tuner;          /* see mock_loader_acquire() */
    uint64_t id;
    uint64_t n_splits;
    struct mock_listener listener;
    void *context;
    struct mock_model model; /* with the tuner's edits of its constants */
};

/* Whether NCCL has a decision to make: without bytes or other ranks it copies
 * or does nothing, and asks no tuner. */
bool mock_comm_asks(const struct mock_comm *comm, const struct mock_call *call);

/* The part of a decision that its caller uses besides the channels. */
enum mock_scope {
    MOCK_SCOPE_ALL,
    MOCK_SCOPE_PROTOCOL,
    MOCK_SCOPE_PLAIN_PROTOCOL, /* of a table without NVLS and CollNet */
};

/* Runs table, tuner and selection; returns the channel limit. */
ncclResult_t mock_comm_decide(struct mock_comm *comm,
                              const struct mock_call *call,
                              enum mock_scope scope,
                              struct mock_outcome *outcome,
                              int *max_channels_ret);

/* Calls the tuner with a table in which all is ruled out, as NCCL does
 * from 2.31 on while it looks for a symmetric kernel. */
ncclResult_t mock_comm_preview(struct mock_comm *comm,
                               const struct mock_call *call);

/* 2.21 then asks about each collective of a shared decision, and uses the
 * channels of that answer; other versions keep the decision's. */
ncclResult_t mock_comm_decide_own(struct mock_comm *comm,
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
