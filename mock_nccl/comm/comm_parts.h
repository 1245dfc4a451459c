/*
 * comm_parts.h - what a communicator is made of
 */
#ifndef MOCK_COMM_PARTS_H
#define MOCK_COMM_PARTS_H

#include "comm/comm.h"
#include "plugins/profiler.h"
#include "plugins/tuner.h"

struct mock_comm {
    struct mock_nccl *nccl;
    const struct mock_machine *machine;
    struct mock_tuner *tuner; /* NULL if there is none */
    bool owns_tuner;          /* see mock_loader_acquire() */
    uint64_t id;
    uint64_t n_splits;
    struct mock_listener listener;
    void *context;
    struct mock_model model;
};

#endif /* MOCK_COMM_PARTS_H */
