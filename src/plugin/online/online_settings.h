/* online_settings.h - environment variables of the online plugin
 *
 * steptune-plugins(7), src/cli/man/steptune-plugins.7, lists them with ranges
 * and defaults, but for three:
 *
 *   STEPTUNE_EVIDENCE    a file of what earlier runs know
 * (core/learn/evidence.h) STEPTUNE_THOROUGH=1  all arms are tried, at any cost,
 * and searches go on where noise hid gains; `steptune tune` sets both
 *   STEPTUNE_INLINE=1    for tests in virtual time: observes and decides on the
 *                        launch path instead of in a thread, and confirms in
 *                        windows of 1 ms
 *
 * An empty value counts as unset. */
#pragma once

#include "core/learn/learner.h"
#include "plugin/settings.h"

struct stp_online_settings {
    struct stp_learner_rules rules;
    bool is_frozen;
    bool is_thorough;
    bool is_inline;
    char warm_start[STP_PATH_SIZE]; /* "": none was named */
    char rewards[STP_PATH_SIZE];
    char learned[STP_PATH_SIZE];
    char journal[STP_PATH_SIZE];  /* "" for none */
    char evidence[STP_PATH_SIZE]; /* "" for none */
    char trace[STP_PATH_SIZE];    /* likewise */
    char metrics[STP_PATH_SIZE];  /* a folder; likewise */
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
