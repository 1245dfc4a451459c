/*
 * online_settings.h - environment variables of the online plugin
 *
 *   STEPTUNE_STRATEGY       halving (default) or epsilon (core/learn/bandit.h)
 *   STEPTUNE_OBJECTIVE      auto (default), step, gpu or file
 *                           (core/learn/learner.h); auto is file for epsilon
 * and where NCCL_TUNER_REWARD_FILE is set STEPTUNE_ARMS           arms to try,
 * such as tree/simple,ring/ll128/16; default: all that NCCL's cost table allows
 *   NCCL_TUNER_EPS          epsilon's share of exploration, 0 to 1; default 0.1
 *   NCCL_TUNER_REWARD_FILE  where the application writes durations, one line
 * per call in their order (core/learn/learner.h); default
 *                           /tmp/nccl_tuner_rewards_<commId>.log
 *   STEPTUNE_PRUNE          arms that NCCL expects to take this many times
 *                           its best's time are not tried; default 2.5; 0: all
 *                           are tried
 *   STEPTUNE_MIN_GAIN       gain that an arm needs, 0 to 1; default 0.02
 *   STEPTUNE_BUDGET         share of the time that trials may lose, 0 to 1;
 *                           default 0.01
 *   STEPTUNE_RETEST         calls of a message between re-tests; default 1000;
 *                           0: none
 *   STEPTUNE_WARM_START     a policy to begin with; default: that of
 *                           NCCL_TUNER_CONFIG_FILE, if there is one
 *   STEPTUNE_FREEZE         1: nothing is tried; default 0
 *   STEPTUNE_LEARNED        file of learned rules, a policy;
 *                           default steptune.learned.conf
 *   STEPTUNE_SAVE_MINUTES   how often, besides at the end; default 5
 *   STEPTUNE_JOURNAL        a CSV of every decision and reward; default: none
 *   STEPTUNE_SEED           of random numbers; default 0
 *   STEPTUNE_INLINE         1: thinks on the launch path, for a job in virtual
 *                           time; default 0
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
    char warm_start[STP_PATH_SIZE]; /* "": none was named */
    char rewards[STP_PATH_SIZE];
    char learned[STP_PATH_SIZE];
    char journal[STP_PATH_SIZE]; /* "" for none */
};

/* Reads the environment.  STP_ERR_SYNTAX or STP_ERR_LIMIT names variable and
 * value. */
enum stp_status stp_online_settings_read(uint64_t comm_id,
                                         struct stp_online_settings *ret,
                                         struct stp_error *err);

/* The file of the policy that decides where no arm is in force; NULL: none.
 * Lives as long as both arguments. */
const char *stp_online_base(const struct stp_online_settings *online,
                            const struct stp_plugin_settings *settings);

#endif /* STP_ONLINE_SETTINGS_H */
