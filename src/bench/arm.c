#include "bench/arm.h"

#include <stdio.h>
#include <string.h>

#include "core/names.h"
#include "core/policy.h"
#include "core/text.h"
#include "nccl_tuner_abi.h"

static const struct stp_arm auto_arm = {.kind = STP_ARM_AUTO};

bool stp_arm_equal(const struct stp_arm *a, const struct stp_arm *b)
{
    return a->kind == b->kind && a->algo == b->algo && a->proto == b->proto &&
           a->n_channels == b->n_channels;
}

bool stp_arm_ran(const struct stp_arm *arm, int algo, int proto)
{
    return arm->kind != STP_ARM_FORCED ||
           (arm->algo == algo && arm->proto == proto);
}

void stp_arm_name(const struct stp_arm *arm, char name[STP_ARM_NAME])
{
    if (arm->kind == STP_ARM_AUTO)
        snprintf(name, STP_ARM_NAME, "auto");
    else if (arm->kind == STP_ARM_PLUGIN)
        snprintf(name, STP_ARM_NAME, "plugin");
    else if (arm->n_channels == 0)
        snprintf(name, STP_ARM_NAME, "%s/%s", stp_algo_name(arm->algo),
                 stp_proto_name(arm->proto));
    else
        snprintf(name, STP_ARM_NAME, "%s/%s/%d", stp_algo_name(arm->algo),
                 stp_proto_name(arm->proto), arm->n_channels);
}

static enum stp_status add(struct stp_arms *arms, const struct stp_arm *arm,
                           struct stp_error *err)
{
    for (size_t i = 0; i < arms->n; i++)
        if (stp_arm_equal(&arms->arm[i], arm))
            return STP_OK;
    if (arms->n == STP_MAX_ARMS)
        return stp_fail(err, STP_ERR_LIMIT, 0, 0, "more than %d arms",
                        STP_MAX_ARMS);
    arms->arm[arms->n++] = *arm;
    return STP_OK;
}

/* All-reduce has the most kernels; what another collective lacks, the sweep
 * finds out. */
static enum stp_status add_all(struct stp_arms *arms, struct stp_error *err)
{
    enum stp_status status = STP_OK;

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            const struct stp_arm arm = {STP_ARM_FORCED, a, p, 0};

            if (status == STP_OK && (stp_pair_exists(ncclFuncAllReduce, a, p) ||
                                     stp_pair_exists(ncclFuncAllGather, a, p)))
                status = add(arms, &arm, err);
        }
    return status;
}

static bool parse_channels(const char *s, size_t len, int *n_channels_ret)
{
    uint64_t n;

    if (!stp_parse_u64(s, len, &n) || n < 1 || n > STP_MAX_CHANNELS)
        return false;
    *n_channels_ret = (int)n;
    return true;
}

/* "ALGORITHM/PROTOCOL[/CHANNELS]" */
static bool parse_forced(const struct stp_field *word, struct stp_arm *arm_ret)
{
    const char *end = word->s + word->len;
    const char *slash = memchr(word->s, '/', word->len);
    const char *second;
    struct stp_arm arm = {.kind = STP_ARM_FORCED};

    if (slash == NULL)
        return false;
    arm.algo = stp_algo_from_name(word->s, (size_t)(slash - word->s));
    second = memchr(slash + 1, '/', (size_t)(end - slash - 1));
    arm.proto = stp_proto_from_name(
        slash + 1, (size_t)((second ? second : end) - slash - 1));
    if (arm.algo < 0 || arm.proto < 0)
        return false;
    if (second != NULL &&
        !parse_channels(second + 1, (size_t)(end - second - 1),
                        &arm.n_channels))
        return false;
    *arm_ret = arm;
    return true;
}

bool stp_arm_from_name(const char *name, size_t len, struct stp_arm *arm_ret)
{
    const struct stp_field word = {.s = name, .len = len};

    if (stp_field_is(&word, "auto"))
        *arm_ret = auto_arm;
    else if (stp_field_is(&word, "plugin"))
        *arm_ret = (struct stp_arm){.kind = STP_ARM_PLUGIN};
    else
        return parse_forced(&word, arm_ret);
    return true;
}

static enum stp_status add_word(struct stp_arms *arms,
                                const struct stp_field *word,
                                struct stp_error *err)
{
    struct stp_arm arm;

    if (stp_field_is(word, "auto"))
        return STP_OK;
    if (stp_field_is(word, "all"))
        return add_all(arms, err);
    if (!parse_forced(word, &arm))
        return stp_fail(err, STP_ERR_SYNTAX, 0, word->column,
                        "arm '%.*s', expected auto, all, ALGORITHM/PROTOCOL or "
                        "ALGORITHM/PROTOCOL/CHANNELS with one of %s, one of "
                        "%s, and 1 to %d",
                        (int)word->len, word->s, stp_algo_names(),
                        stp_proto_names(), STP_MAX_CHANNELS);
    return add(arms, &arm, err);
}

enum stp_status stp_arms_parse(const char *list, struct stp_arms *arms_ret,
                               struct stp_error *err)
{
    struct stp_field words[STP_MAX_ARMS];
    size_t n = stp_split(list, strlen(list), words, STP_MAX_ARMS);
    enum stp_status status = STP_OK;

    if (n > STP_MAX_ARMS)
        return stp_fail(err, STP_ERR_LIMIT, 0, 0, "more than %d arms",
                        STP_MAX_ARMS);
    arms_ret->n = 1;
    arms_ret->arm[0] = auto_arm;
    for (size_t i = 0; i < n && status == STP_OK; i++)
        status = add_word(arms_ret, &words[i], err);
    return status;
}

enum stp_status stp_arms_add_channels(struct stp_arms *arms, const char *list,
                                      struct stp_error *err)
{
    struct stp_field words[STP_MAX_CHANNELS];
    size_t n_arms = arms->n;
    size_t n = stp_split(list, strlen(list), words, STP_MAX_CHANNELS);
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < n && i < STP_MAX_CHANNELS; i++) {
        int channels;

        if (!parse_channels(words[i].s, words[i].len, &channels))
            return stp_fail(err, STP_ERR_SYNTAX, 0, words[i].column,
                            "channels '%.*s', expected 1 to %d",
                            (int)words[i].len, words[i].s, STP_MAX_CHANNELS);
        for (size_t a = 0; a < n_arms && status == STP_OK; a++) {
            struct stp_arm arm = arms->arm[a];

            if (arm.kind != STP_ARM_FORCED || arm.n_channels != 0)
                continue;
            arm.n_channels = channels;
            status = add(arms, &arm, err);
        }
    }
    return status;
}
