#include "plugin/online/online_settings.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/names.h"

static enum stp_status settings_refuse(const char *name, const char *expected,
                                       struct stp_error *err)
{
    return stp_fail(err, STP_ERR_SYNTAX, "%s is '%.60s', expected %s", name,
                    getenv(name), expected);
}

struct setting {
    const char *name;
    enum { REAL, COUNT, FLAG, PATH } kind;
    size_t offset; /* in struct stp_online_settings */
    uint64_t max;  /* of numbers, which are at least 0 */
};

#define SETTING(name, kind, member, max)                                       \
    {                                                                          \
        name, kind, offsetof(struct stp_online_settings, member), max          \
    }

static const struct setting table[] = {
    SETTING("NCCL_TUNER_EPS", REAL, rules.bandit.epsilon, 1),
    SETTING("STEPTUNE_MIN_GAIN", REAL, rules.bandit.min_gain, 1),
    SETTING("STEPTUNE_BUDGET", REAL, rules.bandit.budget, 1),
    SETTING("STEPTUNE_FREEZE", FLAG, is_frozen, 1),
    SETTING("STEPTUNE_THOROUGH", FLAG, is_thorough, 1),
    SETTING("STEPTUNE_INLINE", FLAG, is_inline, 1),
    SETTING("NCCL_TUNER_REWARD_FILE", PATH, rewards, 0),
    SETTING("STEPTUNE_WARM_START", PATH, warm_start, 0),
    SETTING("STEPTUNE_LEARNED", PATH, learned, 0),
    SETTING("STEPTUNE_JOURNAL", PATH, journal, 0),
    SETTING("STEPTUNE_EVIDENCE", PATH, evidence, 0),
    SETTING("STEPTUNE_TRACE", PATH, trace, 0),
    SETTING("STEPTUNE_METRICS", PATH, metrics, 0),
    SETTING("STEPTUNE_TRACE_CALLS", COUNT, trace_calls, 1000000000),
};

static enum stp_status settings_read(const struct setting *s,
                                     struct stp_online_settings *ret,
                                     struct stp_error *err)
{
    const char *text = stp_setting(s->name);
    void *member = (char *)ret + s->offset;
    unsigned long count = 0;
    double real = 0;
    char expected[64], *end;

    if (text == NULL)
        return STP_OK;
    if (s->kind == PATH) {
        if (snprintf(member, STP_PATH_SIZE, "%s", text) < STP_PATH_SIZE)
            return STP_OK;
        return stp_fail(err, STP_ERR_LIMIT,
                        "%s has %zu bytes, expected fewer than %d", s->name,
                        strlen(text), STP_PATH_SIZE);
    }
    if (s->kind == REAL)
        real = strtod(text, &end);
    else
        count = strtoul(text, &end, 10);
    if (*end != '\0' || !(real >= 0 && real <= (double)s->max) ||
        (s->kind != REAL && !('0' <= *text && *text <= '9')) ||
        count > s->max) {
        snprintf(expected, sizeof(expected), "a number from 0 to %" PRIu64,
                 s->max);
        return settings_refuse(s->name, expected, err);
    }
    if (s->kind == REAL)
        *(double *)member = real;
    else if (s->kind == COUNT)
        *(unsigned *)member = (unsigned)count;
    else
        *(bool *)member = count != 0;
    return STP_OK;
}

static const char arms_are[] =
    "arms such as tree/simple,ring/ll128/16, at most 31";

/* "ring/ll128" or "ring/ll128/16", of 'len' bytes. */
static bool settings_read_arm(const char *text, size_t len,
                              struct stp_bandit_arm *arm)
{
    const char *slash = memchr(text, '/', len);
    const char *proto = slash != NULL ? slash + 1 : NULL;
    const char *end = text + len;
    const char *next;
    unsigned long n_channels = 0;
    int a, p;

    if (proto == NULL)
        return false;
    next = memchr(proto, '/', (size_t)(end - proto));
    if (next == NULL)
        next = end;
    a = stp_algo_from_name(text, (size_t)(slash - text));
    p = stp_proto_from_name(proto, (size_t)(next - proto));
    if (next != end) {
        char *stop;

        n_channels = strtoul(next + 1, &stop, 10);
        if (!isdigit((unsigned char)next[1]) || stop != end || n_channels == 0)
            return false;
    }
    *arm = (struct stp_bandit_arm){(int8_t)a, (int8_t)p, (uint8_t)n_channels};
    return a >= 0 && p >= 0 && n_channels <= STP_MAX_CHANNELS;
}

static enum stp_status settings_read_arms(struct stp_bandit_rules *rules,
                                          struct stp_error *err)
{
    const char *text = stp_setting("STEPTUNE_ARMS");

    if (text == NULL)
        return STP_OK;
    rules->n_arms = 0;
    for (;;) {
        size_t len = strcspn(text, ",");

        /* arm 0 is NCCL's own */
        if (rules->n_arms == STP_BANDIT_ARMS - 1 ||
            !settings_read_arm(text, len, &rules->arms[rules->n_arms]))
            return settings_refuse("STEPTUNE_ARMS", arms_are, err);
        rules->n_arms++;
        if (text[len] == '\0')
            return STP_OK;
        text += len + 1;
    }
}

static enum stp_status settings_read_words(struct stp_online_settings *s,
                                           struct stp_error *err)
{
    const char *strategy = stp_setting("STEPTUNE_STRATEGY");
    const char *objective = stp_setting("STEPTUNE_OBJECTIVE");
    const char *bits = stp_setting("STEPTUNE_BITS");
    int strategy_number = STP_STRATEGY_HALVING;
    int objective_number = STP_LEARN_AUTO;

    if (strategy != NULL)
        strategy_number = stp_strategy_from_name(strategy, strlen(strategy));
    if (bits != NULL && strcmp(bits, "same") != 0)
        return settings_refuse("STEPTUNE_BITS", "same", err);
    if (strategy_number < 0)
        return settings_refuse("STEPTUNE_STRATEGY", "halving or epsilon", err);
    if (objective != NULL)
        objective_number =
            stp_learn_objective_from_name(objective, strlen(objective));
    if (objective_number < 0)
        return settings_refuse("STEPTUNE_OBJECTIVE", "auto, gpu or file", err);
    if (objective_number == STP_LEARN_AUTO)
        objective_number = strategy_number == STP_STRATEGY_EPSILON ||
                                   stp_setting("NCCL_TUNER_REWARD_FILE") != NULL
                               ? STP_LEARN_FILE
                               : STP_LEARN_GPU;
    /* Windows are compared by successive elimination, times of an application
     * by epsilon-greedy. */
    if (strategy == NULL && objective_number == STP_LEARN_FILE)
        strategy_number = STP_STRATEGY_EPSILON;
    if ((strategy_number == STP_STRATEGY_EPSILON) !=
        (objective_number == STP_LEARN_FILE))
        return settings_refuse(
            "STEPTUNE_STRATEGY",
            "epsilon with the objective file, halving with gpu", err);
    s->rules.bandit =
        stp_bandit_rules_default((enum stp_strategy)strategy_number);
    s->rules.objective = (enum stp_learn_objective)objective_number;
    s->rules.same_bits = bits != NULL;
    return STP_OK;
}

enum stp_status stp_online_settings_read(uint64_t comm_id,
                                         struct stp_online_settings *ret,
                                         struct stp_error *err)
{
    enum stp_status status;

    *ret = (struct stp_online_settings){.trace_calls = 1000000,
                                        .learned = "steptune.learned.conf"};
    snprintf(ret->rewards, STP_PATH_SIZE,
             "/tmp/nccl_tuner_rewards_%" PRIu64 ".log", comm_id);
    status = settings_read_words(ret, err);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        STP_THEN(status, settings_read(&table[i], ret, err));
    STP_THEN(status, settings_read_arms(&ret->rules.bandit, err));
    if (ret->is_inline)
        ret->rules.bandit.confirm_us = 1000;
    if (ret->is_thorough) {
        ret->rules.bandit.prune = 0;
        ret->rules.bandit.budget = 1;
        ret->rules.bandit.confirm_blocks = 1000000;
        ret->rules.bandit.persists = true;
    }
    return status;
}

const char *stp_online_base(const struct stp_online_settings *online,
                            const struct stp_plugin_settings *settings)
{
    if (strcmp(online->warm_start, "none") == 0)
        return NULL;
    if (online->warm_start[0] != '\0')
        return online->warm_start;
    return settings->policy_is_named || access(settings->policy_path, F_OK) == 0
               ? settings->policy_path
               : NULL;
}
