#include "device/arm.h"

#include <stdio.h>
#include <string.h>

#include "core/names.h"
#include "core/nearest.h"
#include "core/policy/policy.h"
#include "core/text.h"
#include "nccl_tuner_abi.h"

static const struct stp_arm auto_arm = {.kind = STP_ARM_AUTO};

/* The names of kinds; a forced arm has more to say. */
static const char *const kind_words[] = {
    [STP_ARM_AUTO] = "auto",
    [STP_ARM_AUTO_AGAIN] = "auto2",
    [STP_ARM_FORCED] = NULL,
    [STP_ARM_PLUGIN] = "plugin",
};

enum { N_KINDS = sizeof(kind_words) / sizeof(kind_words[0]) };

bool stp_arm_equal(const struct stp_arm *a, const struct stp_arm *b)
{
    return a->kind == b->kind && a->algo == b->algo && a->proto == b->proto &&
           a->n_channels == b->n_channels;
}

static bool arm_fits(int forced, int ran)
{
    return forced == STP_ANY || forced == ran;
}

bool stp_arm_ran(const struct stp_arm *arm, int algo, int proto)
{
    return arm->kind != STP_ARM_FORCED ||
           (arm_fits(arm->algo, algo) && arm_fits(arm->proto, proto));
}

/* "ring/ll128", or the forced part of it. */
static void arm_name_pair(const struct stp_arm *arm, char name[STP_ARM_NAME])
{
    if (arm->algo == STP_ANY)
        snprintf(name, STP_ARM_NAME, "%s",
                 arm->proto == STP_ANY ? "auto" : stp_proto_name(arm->proto));
    else if (arm->proto == STP_ANY)
        snprintf(name, STP_ARM_NAME, "%s", stp_algo_name(arm->algo));
    else
        snprintf(name, STP_ARM_NAME, "%s/%s", stp_algo_name(arm->algo),
                 stp_proto_name(arm->proto));
}

void stp_arm_name(const struct stp_arm *arm, char name[STP_ARM_NAME])
{
    size_t len;

    if (arm->kind != STP_ARM_FORCED) {
        snprintf(name, STP_ARM_NAME, "%s", kind_words[arm->kind]);
        return;
    }
    arm_name_pair(arm, name);
    len = strlen(name);
    if (arm->n_channels != 0)
        snprintf(name + len, STP_ARM_NAME - len, "/%d", arm->n_channels);
}

void stp_arm_columns(const struct stp_arm *arm, const char **algo_ret,
                     const char **proto_ret)
{
    if (arm->kind != STP_ARM_FORCED) {
        *algo_ret = *proto_ret = kind_words[arm->kind];
        return;
    }
    *algo_ret = arm->algo == STP_ANY ? "auto" : stp_algo_name(arm->algo);
    *proto_ret = arm->proto == STP_ANY ? "auto" : stp_proto_name(arm->proto);
}

static enum stp_status arms_add(struct stp_arms *arms,
                                const struct stp_arm *arm,
                                struct stp_error *err)
{
    for (size_t i = 0; i < arms->n; i++)
        if (stp_arm_equal(&arms->arm[i], arm))
            return STP_OK;
    if (arms->n == STP_MAX_ARMS)
        return stp_fail(err, STP_ERR_LIMIT, "more than %d arms", STP_MAX_ARMS);
    arms->arm[arms->n++] = *arm;
    return STP_OK;
}

/* All-reduce has the most kernels; arms that another collective lacks, the
 * sweep finds out. */
static enum stp_status arms_add_all(struct stp_arms *arms,
                                    struct stp_error *err)
{
    enum stp_status status = STP_OK;

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            const struct stp_arm arm = {STP_ARM_FORCED, a, p, 0};

            if (status == STP_OK && (stp_pair_exists(ncclFuncAllReduce, a, p) ||
                                     stp_pair_exists(ncclFuncAllGather, a, p)))
                status = arms_add(arms, &arm, err);
        }
    return status;
}

static bool arm_parse_channels(const char *s, size_t len, int *n_channels_ret)
{
    uint64_t n;

    if (!stp_parse_u64(s, len, &n) || n < 1 || n > STP_MAX_CHANNELS)
        return false;
    *n_channels_ret = (int)n;
    return true;
}

/* A word of a forced arm's name: the algorithm, the protocol or the channels,
 * in this order, as far as they are there. */
static bool arm_parse_word(const char *s, size_t len, struct stp_arm *arm)
{
    int algo = stp_algo_from_name(s, len);
    int proto = stp_proto_from_name(s, len);
    bool is_first = arm->algo == STP_ANY && arm->proto == STP_ANY;

    if (arm->n_channels != 0)
        return false;
    if (algo >= 0 && is_first)
        arm->algo = algo;
    else if (proto >= 0 && arm->proto == STP_ANY)
        arm->proto = proto;
    else
        return arm_parse_channels(s, len, &arm->n_channels);
    return true;
}

/* "ALGORITHM/PROTOCOL/CHANNELS" or a part of it, "auto" standing for neither of
 * the first two. */
static bool arm_parse_forced(const struct stp_field *word,
                             struct stp_arm *arm_ret)
{
    const char *at = word->s;
    const char *end = word->s + word->len;
    struct stp_arm arm = {STP_ARM_FORCED, STP_ANY, STP_ANY, 0};

    if (word->len > 5 && memcmp(at, "auto/", 5) == 0)
        at += 5;
    for (;;) {
        const char *slash = memchr(at, '/', (size_t)(end - at));

        if (!arm_parse_word(at, (size_t)((slash ? slash : end) - at), &arm))
            return false;
        if (slash == NULL)
            break;
        at = slash + 1;
    }
    if (arm.algo == STP_ANY && arm.proto == STP_ANY && at == word->s)
        return false; /* a number alone */
    *arm_ret = arm;
    return true;
}

bool stp_arm_from_name(const char *name, size_t len, struct stp_arm *arm_ret)
{
    const struct stp_field word = {.s = name, .len = len};

    for (int i = 0; i < N_KINDS; i++)
        if (kind_words[i] != NULL && stp_field_is(&word, kind_words[i])) {
            *arm_ret = (struct stp_arm){.kind = (enum stp_arm_kind)i};
            return true;
        }
    return arm_parse_forced(&word, arm_ret);
}

/* What was meant by the first part of the name that is no word of one. */
static const char *arm_hint(const struct stp_field *name, char hint[STP_HINT])
{
    const char *end = name->s + name->len;
    char words[128];

    snprintf(words, sizeof(words), "auto, auto2, all, %s, %s", stp_algo_names(),
             stp_proto_names());
    for (const char *s = name->s; s < end; s++) {
        const char *slash = memchr(s, '/', (size_t)(end - s));
        const size_t len = (size_t)((slash ? slash : end) - s);
        struct stp_arm arm = {STP_ARM_FORCED, STP_ANY, STP_ANY, 0};

        if (!arm_parse_word(s, len, &arm))
            return stp_hint_nearest(s, len, words, hint);
        s += len;
    }
    hint[0] = '\0';
    return hint;
}

static enum stp_status arms_add_word(struct stp_arms *arms,
                                     const struct stp_field *word,
                                     struct stp_error *err)
{
    char hint[STP_HINT];
    struct stp_arm arm;

    if (stp_field_is(word, "all"))
        return arms_add_all(arms, err);
    if (!stp_arm_from_name(word->s, word->len, &arm) ||
        arm.kind == STP_ARM_PLUGIN)
        return stp_fail_at(err, STP_ERR_SYNTAX, 0, word->column,
                           "arm '%.*s', expected auto, auto2, all or "
                           "ALGORITHM/PROTOCOL/CHANNELS or a part of it, with "
                           "one of %s, one of %s, and 1 to %d%s",
                           (int)word->len, word->s, stp_algo_names(),
                           stp_proto_names(), STP_MAX_CHANNELS,
                           arm_hint(word, hint));
    return arms_add(arms, &arm, err);
}

enum stp_status stp_arms_parse(const char *list, struct stp_arms *arms_ret,
                               struct stp_error *err)
{
    struct stp_field words[STP_MAX_ARMS];
    size_t n = stp_split(list, strlen(list), words, STP_MAX_ARMS);
    enum stp_status status = STP_OK;

    if (n > STP_MAX_ARMS)
        return stp_fail(err, STP_ERR_LIMIT, "more than %d arms", STP_MAX_ARMS);
    arms_ret->n = 1;
    arms_ret->arm[0] = auto_arm;
    for (size_t i = 0; i < n && status == STP_OK; i++)
        status = arms_add_word(arms_ret, &words[i], err);
    return status;
}

enum stp_status stp_arms_add_channels(struct stp_arms *arms, const char *list,
                                      struct stp_error *err)
{
    struct stp_field words[STP_MAX_CHANNELS];
    bool is_seen[STP_MAX_CHANNELS + 1] = {false};
    size_t n_arms = arms->n;
    size_t n = stp_split(list, strlen(list), words, STP_MAX_CHANNELS);
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < n && i < STP_MAX_CHANNELS; i++) {
        int channels;

        if (!arm_parse_channels(words[i].s, words[i].len, &channels))
            return stp_fail_at(err, STP_ERR_SYNTAX, 0, words[i].column,
                               "channels '%.*s', expected 1 to %d",
                               (int)words[i].len, words[i].s, STP_MAX_CHANNELS);
        if (is_seen[channels])
            return stp_fail_at(err, STP_ERR_SYNTAX, 0, words[i].column,
                               "channels '%d' twice, expected each once",
                               channels);
        is_seen[channels] = true;
        for (size_t a = 0; a < n_arms && status == STP_OK; a++) {
            struct stp_arm arm = arms->arm[a];

            if (arm.kind != STP_ARM_FORCED || arm.n_channels != 0)
                continue;
            arm.n_channels = channels;
            status = arms_add(arms, &arm, err);
        }
    }
    return status;
}
