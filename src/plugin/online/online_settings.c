#include "plugin/online/online_settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/names.h"

static const char *setting(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && *value != '\0' ? value : NULL;
}

static enum stp_status refuse(const char *name, const char *expected,
                              struct stp_error *err)
{
    return stp_fail(err, STP_ERR_SYNTAX, "%s is '%.60s', expected %s", name,
                    getenv(name), expected);
}

/* ---- numbers ---- */

struct number {
    const char *name;
    double min, max;
    double *value;
    const char *expected;
};

static enum stp_status read_number(const struct number *n,
                                   struct stp_error *err)
{
    const char *text = setting(n->name);
    char *end;
    double value;

    if (text == NULL)
        return STP_OK;
    value = strtod(text, &end);
    if (*end != '\0' || !(value >= n->min && value <= n->max))
        return refuse(n->name, n->expected, err);
    *n->value = value;
    return STP_OK;
}

static enum stp_status read_count(const char *name, uint64_t max,
                                  uint64_t *value, struct stp_error *err)
{
    const char *text = setting(name);
    char expected[64];
    char *end;
    unsigned long long number;

    if (text == NULL)
        return STP_OK;
    number = strtoull(text, &end, 10);
    if (*end == '\0' && *text >= '0' && *text <= '9' && number <= max) {
        *value = number;
        return STP_OK;
    }
    snprintf(expected, sizeof(expected), "a number from 0 to %" PRIu64, max);
    return refuse(name, expected, err);
}

static enum stp_status read_flag(const char *name, bool *value,
                                 struct stp_error *err)
{
    uint64_t number = 0;
    enum stp_status status = read_count(name, 1, &number, err);

    *value = number == 1;
    return status;
}

static enum stp_status read_numbers(struct stp_online_settings *s,
                                    struct stp_error *err)
{
    struct stp_bandit_rules *b = &s->rules.bandit;
    uint64_t retest = b->retest_calls;
    uint64_t minutes = 5;
    const struct number numbers[] = {
        {"NCCL_TUNER_EPS", 0, 1, &b->epsilon, "a number from 0 to 1"},
        {"STEPTUNE_PRUNE", 0, 1e6, &b->prune, "a number from 0 to 1000000"},
        {"STEPTUNE_MIN_GAIN", 0, 1, &b->min_gain, "a number from 0 to 1"},
        {"STEPTUNE_BUDGET", 0, 1, &b->budget, "a number from 0 to 1"},
    };
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (status == STP_OK)
            status = read_number(&numbers[i], err);
    if (status == STP_OK)
        status = read_count("STEPTUNE_RETEST", 1000000000, &retest, err);
    if (status == STP_OK)
        status = read_count("STEPTUNE_SAVE_MINUTES", 1000000, &minutes, err);
    if (status == STP_OK)
        status = read_count("STEPTUNE_SEED", UINT64_MAX, &b->seed, err);
    b->retest_calls = (unsigned)retest;
    s->save_minutes = (unsigned)minutes;
    return status;
}

/* ---- arms ---- */

static const char arms_are[] =
    "arms such as tree/simple,ring/ll128/16, at most 31";

/* "ring/ll128" or "ring/ll128/16", of 'len' bytes. */
static bool read_arm(const char *text, size_t len, struct stp_bandit_arm *arm)
{
    const char *slash = memchr(text, '/', len);
    const char *proto = slash != NULL ? slash + 1 : NULL;
    const char *end = text + len;
    const char *next;
    unsigned n_channels = 0;
    int a, p;

    if (proto == NULL)
        return false;
    next = memchr(proto, '/', (size_t)(end - proto));
    if (next == NULL)
        next = end;
    a = stp_algo_from_name(text, (size_t)(slash - text));
    p = stp_proto_from_name(proto, (size_t)(next - proto));
    if (next != end) {
        const char *digit = next + 1;

        for (; digit < end && *digit >= '0' && *digit <= '9' &&
               n_channels <= STP_MAX_CHANNELS;
             digit++)
            n_channels = n_channels * 10 + (unsigned)(*digit - '0');
        if (digit != end || n_channels == 0)
            return false;
    }
    *arm = (struct stp_bandit_arm){(int8_t)a, (int8_t)p, (uint8_t)n_channels};
    return a >= 0 && p >= 0 && n_channels <= STP_MAX_CHANNELS;
}

static enum stp_status read_arms(struct stp_bandit_rules *rules,
                                 struct stp_error *err)
{
    const char *text = setting("STEPTUNE_ARMS");

    if (text == NULL)
        return STP_OK;
    rules->n_arms = 0;
    for (;;) {
        size_t len = strcspn(text, ",");

        /* arm 0 is NCCL's own */
        if (rules->n_arms == STP_BANDIT_ARMS - 1 ||
            !read_arm(text, len, &rules->arms[rules->n_arms]))
            return refuse("STEPTUNE_ARMS", arms_are, err);
        rules->n_arms++;
        if (text[len] == '\0')
            return STP_OK;
        text += len + 1;
    }
}

/* ---- words and paths ---- */

static enum stp_status read_words(struct stp_online_settings *s,
                                  struct stp_error *err)
{
    const char *strategy = setting("STEPTUNE_STRATEGY");
    const char *objective = setting("STEPTUNE_OBJECTIVE");
    int which = STP_STRATEGY_HALVING;
    int what = STP_LEARN_AUTO;

    if (strategy != NULL)
        which = stp_strategy_from_name(strategy, strlen(strategy));
    if (which < 0)
        return refuse("STEPTUNE_STRATEGY", "halving or epsilon", err);
    if (objective != NULL)
        what = stp_learn_objective_from_name(objective, strlen(objective));
    if (what < 0)
        return refuse("STEPTUNE_OBJECTIVE", "auto, step, gpu or file", err);
    if (what == STP_LEARN_AUTO && (which == STP_STRATEGY_EPSILON ||
                                   setting("NCCL_TUNER_REWARD_FILE") != NULL))
        what = STP_LEARN_FILE;
    s->rules.bandit = stp_bandit_rules_default((enum stp_strategy)which);
    s->rules.objective = (enum stp_learn_objective)what;
    return STP_OK;
}

static enum stp_status read_path(const char *name, const char *otherwise,
                                 char path[STP_PATH_SIZE],
                                 struct stp_error *err)
{
    const char *text = setting(name);

    if (text == NULL)
        text = otherwise;
    if (snprintf(path, STP_PATH_SIZE, "%s", text) < STP_PATH_SIZE)
        return STP_OK;
    return stp_fail(err, STP_ERR_LIMIT,
                    "%s has %zu bytes, expected fewer than %d", name,
                    strlen(text), STP_PATH_SIZE);
}

static enum stp_status read_paths(uint64_t comm_id,
                                  struct stp_online_settings *s,
                                  struct stp_error *err)
{
    char rewards[64];
    enum stp_status status;

    snprintf(rewards, sizeof(rewards),
             "/tmp/nccl_tuner_rewards_%" PRIu64 ".log", comm_id);
    status = read_path("NCCL_TUNER_REWARD_FILE", rewards, s->rewards, err);
    if (status == STP_OK)
        status = read_path("STEPTUNE_WARM_START", "", s->warm_start, err);
    if (status == STP_OK)
        status = read_path("STEPTUNE_LEARNED", "steptune.learned.conf",
                           s->learned, err);
    if (status == STP_OK)
        status = read_path("STEPTUNE_JOURNAL", "", s->journal, err);
    return status;
}

enum stp_status stp_online_settings_read(uint64_t comm_id,
                                         struct stp_online_settings *ret,
                                         struct stp_error *err)
{
    enum stp_status status = read_words(ret, err);

    if (status == STP_OK)
        status = read_numbers(ret, err);
    if (status == STP_OK)
        status = read_arms(&ret->rules.bandit, err);
    if (status == STP_OK)
        status = read_flag("STEPTUNE_FREEZE", &ret->is_frozen, err);
    if (status == STP_OK)
        status = read_flag("STEPTUNE_INLINE", &ret->is_inline, err);
    if (status == STP_OK)
        status = read_paths(comm_id, ret, err);
    return status;
}

const char *stp_online_base(const struct stp_online_settings *online,
                            const struct stp_plugin_settings *settings)
{
    if (online->warm_start[0] != '\0')
        return online->warm_start;
    return settings->policy_is_named || access(settings->policy_path, F_OK) == 0
               ? settings->policy_path
               : NULL;
}
