/*
 * loader.h - finds, opens and closes the tuner of a process
 */
#ifndef MOCK_LOADER_H
#define MOCK_LOADER_H

#include <stdbool.h>

#include "mock_nccl.h"
#include "plugins/profiler.h"
#include "plugins/tuner.h"
#include "versions/versions.h"

const struct mock_version *mock_nccl_version(const struct mock_nccl *nccl);

/* What a communicator's model starts from. */
void mock_nccl_constants(const struct mock_nccl *nccl,
                         ncclTunerConstants_v5_t *constants_ret);

/* NCCL_ALGO and NCCL_PROTO, or NULL. */
const char *mock_nccl_algo(const struct mock_nccl *nccl);
const char *mock_nccl_proto(const struct mock_nccl *nccl);

/* What it has of a profiler. */
struct mock_profiler *mock_nccl_profiler(const struct mock_nccl *nccl);

/* NCCL_COLLNET_ENABLE. */
bool mock_nccl_collnet(const struct mock_nccl *nccl);

/*
 * The tuner for one more communicator, or NULL.  *owner_ret says whether this
 * communicator takes part in the count that mock_loader_release() keeps.
 */
struct mock_tuner *mock_loader_acquire(struct mock_nccl *nccl, bool *owner_ret);

/* Closes the tuner if the communicator's share was the last. */
void mock_loader_release(struct mock_nccl *nccl, bool owner);

#endif /* MOCK_LOADER_H */
