/*
 * online_settings.h - environment variables of the online plugin
 *
 * steptune-plugins(7), src/cli/man/steptune-plugins.7, lists them with ranges
 * and defaults.  One more is for jobs in virtual time alone: STEPTUNE_INLINE=1
 * observes and decides on the launch path instead of in a thread.
 *
 * An empty value counts as unset.
 */
#ifndef STP_ONLINE_SETTINGS_H
#define STP_ONLINE_SETTINGS_H

#include "core/learn/learner.h"
#include "plugin/settings.h"

struct stp_online_settings {
    struct stp_learner_rules rules;
    bool is_frozen;
    bool is_inline;
    unsigned save_minutes;
    double confirm_ms;
    char warm_start[STP_PATH_SIZE]; /* "": none was named */
    char rewards[STP_PATH_SIZE];
    char learned[STP_PATH_SIZE];
    char journal[STP_PATH_SIZE];  /* "" for none */
    char evidence[STP_PATH_SIZE]; /* "" for none */
    char trace[STP_PATH_SIZE];    /* likewise */
    unsigned trace_calls;         /* that it may have of a process */
};

/* Reads the environment.  STP_ERR_SYNTAX or STP_ERR_LIMIT names variable and
 * value. */
enum stp_status stp_online_settings_read(uint64_t comm_id,
                                         struct stp_online_settings *ret,
                                         struct stp_error *err);

/* The file of the policy that decides where no arm is in force; NULL: none,
 * which STEPTUNE_WARM_START=none asks for.
 * Lives as long as both arguments. */
const char *stp_online_base(const struct stp_online_settings *online,
                            const struct stp_plugin_settings *settings);

#endif /* STP_ONLINE_SETTINGS_H */
