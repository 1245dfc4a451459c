/*
 * companion.h - what a plugin that learns does beside deciding
 *
 * The static plugin has none.  The learning one reads clocks and files, has a
 * thread to think in, and is NCCL's profiler, too.
 */
#ifndef STP_COMPANION_H
#define STP_COMPANION_H

#include "nccl_tuner_abi.h"
#include "plugin/backend.h"
#include "plugin/settings.h"

struct stp_companion; /* one communicator's; opaque */

struct stp_companion_ops {
    /*
     * Reads what the user set beside *settings: fills *what_ret, whose pointers
     * live until end().  Bad values are failures, as stp_settings_read().
     */
    enum stp_status (*prepare)(const struct stp_plugin_settings *settings,
                               const struct stp_comm_info *info,
                               struct stp_companion **companion_ret,
                               struct stp_settings *what_ret,
                               struct stp_error *err);

    /* Begins, with the backend's instance.  Says what it cannot do by 'log'. */
    void (*begin)(struct stp_companion *companion, void *self,
                  ncclDebugLogger_t log);

    /* In place of the backend's. */
    bool (*choose)(struct stp_companion *companion,
                   const struct stp_query *query,
                   const struct stp_cost_view *view,
                   struct stp_choice *choice_ret);

    /* Ends, before the backend's instance is closed; saves what was learned.
     * NULL is allowed, and returned. */
    struct stp_companion *(*end)(struct stp_companion *companion);
};

/* Defined once by whatever is linked into a plugin; prepare is NULL for one
 * that has none. */
extern const struct stp_companion_ops stp_companion;

#endif /* STP_COMPANION_H */
