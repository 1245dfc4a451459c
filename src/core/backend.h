/*
 * backend.h - what decides, seen from the plugin
 *
 * A backend decides; it knows nothing of NCCL's ABI, of the environment or of a
 * logger.  Each tuner plugin is plugin/ linked with exactly one backend.  A new
 * backend is one file in backend/ and one line in src/CMakeLists.txt.
 */
#ifndef STP_BACKEND_H
#define STP_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/policy.h"
#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The communicator that an instance serves. */
struct stp_comm_info {
    uint64_t comm_id; /* same on every rank; 0 if NCCL gave none (v2-v4) */
    struct stp_shape shape; /* lives only as long as the call */
};

/* What the user set.  Strings live only as long as the call. */
struct stp_settings {
    const char *policy_path; /* never NULL */
};

struct stp_backend_ops {
    /* Shown by NCCL in its log.  Static storage. */
    const char *name;

    /*
     * Makes an instance for one communicator.  On failure *self_ret is
     * untouched, *err says why, close() is not called, and NCCL tunes alone.
     * May be called from several threads at once, for different
     * communicators.  May read files.
     */
    enum stp_status (*open)(const struct stp_comm_info *info,
                            const struct stp_settings *settings,
                            void **self_ret, struct stp_error *err);

    /*
     * Answers '*query' into *choice_ret with a pair that '*view' allows, or
     * returns false and leaves it untouched to let NCCL decide.  Every rank of
     * a communicator must give the same answers in the same order, or the job
     * hangs.  On NCCL's launch path: must not block, allocate, log or do I/O.
     * Calls for one instance never overlap; those for different instances may.
     */
    bool (*choose)(void *self, const struct stp_query *query,
                   const struct stp_cost_view *view,
                   struct stp_choice *choice_ret);

    /*
     * A number, not 0, that is equal for two instances only if they answer
     * every question alike.  The plugin compares it between the ranks of a
     * host.
     */
    uint64_t (*fingerprint)(const void *self);

    /* Writes one line for the log that says what this instance will do. */
    void (*describe)(const void *self, char *buf, size_t size);

    /* Frees the instance.  No other call follows. */
    void (*close)(void *self);
};

/* Defined once by whichever backend is linked into a plugin. */
extern const struct stp_backend_ops stp_backend;

#ifdef __cplusplus
}
#endif
#endif /* STP_BACKEND_H */
