/*
 * loader.h - finds, opens and closes the tuner of a process
 */
#ifndef MOCK_LOADER_H
#define MOCK_LOADER_H

#include <stdbool.h>

#include "mock_nccl.h"
#include "tuner.h"

/* What differs between NCCL's versions. */
struct mock_version {
    int minor; /* of 2.x */
    int newest_tuner;
    int n_algos;
    float cost_ceiling; /* selection takes nothing from here up */
    bool knows_none;    /* NCCL_TUNER_PLUGIN=none */
    unsigned long closing_flags;
    const char *no_algo_prefix; /* of the warning when nothing is left */
};

const struct mock_version *mock_nccl_version(const struct mock_nccl *nccl);

/* NCCL_ALGO and NCCL_PROTO, or NULL. */
const char *mock_nccl_algo(const struct mock_nccl *nccl);
const char *mock_nccl_proto(const struct mock_nccl *nccl);

/*
 * The tuner for one more communicator, or NULL.  *owner_ret says whether this
 * communicator takes part in the count that mock_loader_release() keeps.
 */
struct mock_tuner *mock_loader_acquire(struct mock_nccl *nccl, bool *owner_ret);

/* Closes the tuner if the communicator's share was the last. */
void mock_loader_release(struct mock_nccl *nccl, bool owner);

#endif /* MOCK_LOADER_H */
