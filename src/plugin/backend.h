/* backend.h - the part of a tuner plugin that chooses
 *
 * Each tuner plugin is tuner_abi.c linked with one backend: policy.c in the
 * static plugin, online/online.c in the online one.  A backend knows nothing of
 * the versions of NCCL's ABI. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agree/agreement.h"
#include "core/policy/policy.h"
#include "core/status.h"
#include "nccl_tuner_abi.h"
#include "plugin/settings.h"

/* The communicator that an instance serves. */
struct stp_comm_info {
    uint64_t comm_id; /* same on every rank; 0 if NCCL gave none (v2-v4) */
    struct stp_shape shape; /* lives only as long as the call */
    size_t n_local;         /* ranks on this host, at least */
};

struct stp_shared_policy;
struct stp_backend; /* one communicator's instance; opaque */

/* Makes an instance for one communicator; may read files.  On failure *err says
 * why, and *subject_ret the setting or file that is at fault.  'settings' may
 * be changed; 'log' may be NULL.  May be called from several threads at once,
 * for different communicators. */
enum stp_status stp_backend_open(const struct stp_comm_info *info,
                                 struct stp_plugin_settings *settings,
                                 ncclDebugLogger_t log,
                                 struct stp_backend **backend_ret,
                                 const char **subject_ret,
                                 struct stp_error *err);

/* Sets the instance's parts of a fingerprint: settings, policy (not 0) and
 * file, which are equal for two instances only if they answer every query
 * alike. */
void stp_backend_fingerprint(const struct stp_backend *backend,
                             struct stp_fingerprint *fingerprint);

/* The policy that the instance answers from, or begins with; NULL: none. */
const struct stp_shared_policy *
stp_backend_policy(const struct stp_backend *backend);

/* Whether the instance takes part in proposals of an agreement
 * (agree/agreement.h), beside comparing fingerprints. */
bool stp_backend_proposes(const struct stp_backend *backend);

/* Takes part in an agreement, NULL if there is none, which lives as long as the
 * instance if stp_backend_proposes(). */
void stp_backend_join(struct stp_backend *backend,
                      struct stp_agreement *agreement);

/* Writes one line for the log that says how this instance will choose. */
void stp_backend_describe(const struct stp_backend *backend, char *buf,
                          size_t size);

/* Begins to learn, after stp_backend_join(). */
void stp_backend_start(struct stp_backend *backend);

/* Answers '*query' into *choice_ret with a pair that '*view' allows; or leaves
 * it untouched and returns false: NCCL decides.  Every rank of a communicator
 * must give the same answers in the same order, or the job hangs.  On NCCL's
 * launch path: must not allocate, log, block or do I/O.  Calls for one instance
 * never overlap; those for different instances may. */
bool stp_backend_choose(struct stp_backend *backend,
                        const struct stp_query *query,
                        const struct stp_cost_view *view,
                        struct stp_choice *choice_ret);

/* Saves what was learned and frees the instance.  NULL is allowed. */
void stp_backend_close(struct stp_backend *backend);
