#include <string.h>

#include "core/learn/learner_parts.h"

/* ---- names ---- */

static const char *const objectives[STP_N_LEARN_OBJECTIVES] = {
    [STP_LEARN_AUTO] = "auto",
    [STP_LEARN_STEP] = "step",
    [STP_LEARN_GPU] = "gpu",
    [STP_LEARN_FILE] = "file",
};

static const char *const kinds[STP_N_LEARN_KINDS] = {
    [STP_LEARN_TRIAL] = "trial",     [STP_LEARN_BACK] = "back",
    [STP_LEARN_BLOCK] = "block",     [STP_LEARN_REWARD] = "reward",
    [STP_LEARN_STEPPED] = "step",    [STP_LEARN_PERIOD] = "period",
    [STP_LEARN_SETTLED] = "settled", [STP_LEARN_CONFIRMED] = "confirmed",
    [STP_LEARN_LONGER] = "longer",   [STP_LEARN_NOISY] = "noisy",
};

const char *stp_learn_objective_name(enum stp_learn_objective objective)
{
    return objectives[objective];
}

int stp_learn_objective_from_name(const char *word, size_t len)
{
    for (int i = 0; i < STP_N_LEARN_OBJECTIVES; i++)
        if (strlen(objectives[i]) == len &&
            memcmp(objectives[i], word, len) == 0)
            return i;
    return -1;
}

const char *stp_learn_kind_name(enum stp_learn_kind kind)
{
    return kinds[kind];
}

/* ---- telling ---- */

void stp_learner_tell(const struct stp_learner *learner,
                      enum stp_learn_kind kind, int key, unsigned arm,
                      double value)
{
    const struct stp_learn_event event = {.kind = kind,
                                          .call = learner->n_calls,
                                          .key = key,
                                          .arm = arm,
                                          .value = value};

    if (learner->sink != NULL)
        learner->sink(learner->user, &event);
}

void stp_learner_tell_settled(const struct stp_learner *learner, int key,
                              unsigned arm)
{
    struct stp_bandit_key_state state =
        stp_bandit_get_key(learner->bandit, (unsigned)key);
    const struct stp_learn_event event = {.kind = STP_LEARN_SETTLED,
                                          .call = learner->n_calls,
                                          .key = key,
                                          .arm = arm,
                                          .gain = state.gain,
                                          .gain_low = state.gain_low,
                                          .gain_high = state.gain_high};

    if (learner->sink != NULL)
        learner->sink(learner->user, &event);
}

void stp_learner_tell_verdict(const struct stp_learner *learner,
                              enum stp_learn_kind kind)
{
    struct stp_learn_event event = {.kind = kind,
                                    .call = learner->n_calls,
                                    .key = learner->confirm_key,
                                    .arm = learner->confirm_arm};

    event.value = (double)stp_confirm_needed(&learner->confirm);
    stp_confirm_gain(&learner->confirm, &event.gain, &event.gain_low,
                     &event.gain_high);
    if (learner->sink != NULL)
        learner->sink(learner->user, &event);
}
