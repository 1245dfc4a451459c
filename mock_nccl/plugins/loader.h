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

/* The default constants of a communicator's cost model. */
void mock_nccl_constants(const struct mock_nccl *nccl,
                         ncclTunerConstants_v5_t *constants_ret);

/* The options of mock_nccl_create(). */
const struct mock_nccl_options *
mock_nccl_get_options(const struct mock_nccl *nccl);

/* The profiler of the process. */
struct mock_profiler *mock_nccl_profiler(const struct mock_nccl *nccl);

/*
 * Returns the tuner for one more communicator, or NULL. *owner_ret is true if
 * this communicator is counted by mock_loader_release().
 */
struct mock_tuner *mock_loader_acquire(struct mock_nccl *nccl, bool *owner_ret);

/* Closes the tuner if the communicator's reference was the last. */
void mock_loader_release(struct mock_nccl *nccl, bool owner);

#endif /* MOCK_LOADER_H */
