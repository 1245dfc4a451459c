/* witness.h - a tuner in the test program that decides nothing and remembers
 * what NCCL did with it */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum witness_what { WITNESS_INIT, WITNESS_ASK, WITNESS_FINALIZE };

struct witness_event {
    enum witness_what what;
    void *context;
    uint64_t comm_id; /* init */
    size_t n_ranks;
    size_t n_bytes; /* ask */
    int coll;
    int n_pipe_ops;
    int reg_buff;
    int thread; /* small numbers by first appearance */
};

/* All so far, oldest first; returns how many. */
size_t witness_events(const struct witness_event **events_ret);

#ifdef __cplusplus
}
#endif
