/* loader.h - finds, opens and closes the tuner of a process */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "mock_nccl.h"
#include "plugins/profiler.h"
#include "plugins/tuner.h"
#include "versions/versions.h"

struct mock_nccl {
    const struct mock_version *version;
    struct mock_nccl_options options; /* with copies of its texts */
    struct mock_profiler *profiler;

    pthread_mutex_t lock; /* protects all members below */
    enum {
        MOCK_TUNER_FAILED = -1, /* final for the process */
        MOCK_TUNER_READY,
        MOCK_TUNER_LOADED
    } status;
    int n_refs;
    void *library;           /* library of the tuner; NULL if it has none */
    void *net_library;       /* the reference of the net plugin itself */
    struct mock_tuner tuner; /* its symbol is NULL once 2.21 has closed it */
    bool wrapped[MOCK_NEWEST_TUNER + 1]; /* wrappers outlive their library */
};

/* Returns the tuner for one more communicator, or NULL. *owner_ret is true if
 * this communicator is counted by mock_loader_release(). */
struct mock_tuner *mock_loader_acquire(struct mock_nccl *nccl, bool *owner_ret);

/* Closes the tuner if the communicator's reference was the last. */
void mock_loader_release(struct mock_nccl *nccl, bool owner);
