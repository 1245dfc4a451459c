#include "device/arm.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/names.h"
#include "core/nearest.h"
#include "core/policy/baseline.h"
#include "core/text.h"
#include "nccl_tuner_abi.h"

static const struct stp_arm any_arm = {
    .kind = STP_ARM_FORCED, .algo = STP_ANY, .proto = STP_ANY};

/* The names of kinds; of others the members say more. */
static const char *const kind_words[] = {
    [STP_ARM_AUTO] = "auto", [STP_ARM_AUTO_AGAIN] = "auto2",
    [STP_ARM_FORCED] = NULL, [STP_ARM_PLUGIN] = "plugin",
    [STP_ARM_SETUP] = NULL,  [STP_ARM_NCCL] = "nccl",
};

enum { N_KINDS = sizeof(kind_words) / sizeof(kind_words[0]), MAX_CGA = 8 };

const struct stp_setup stp_setups[STP_N_SETUPS] = {
    {.memory = STP_MEMORY_PLAIN},
    {.memory = STP_MEMORY_REG},
    {.memory = STP_MEMORY_SYM},
    {.memory = STP_MEMORY_CE},
    {.memory = STP_MEMORY_STAGE},
    {.memory = STP_MEMORY_SYM, .min_ctas = 16, .max_ctas = STP_MAX_CHANNELS},
    {.memory = STP_MEMORY_SYM, .min_ctas = 32, .max_ctas = STP_MAX_CHANNELS},
    {.memory = STP_MEMORY_STAGE, .min_ctas = 16, .max_ctas = STP_MAX_CHANNELS},
    {.memory = STP_MEMORY_STAGE, .min_ctas = 32, .max_ctas = STP_MAX_CHANNELS},
};

struct stp_setup stp_setup_of(enum stp_memory memory, int min_ctas)
{
    return (struct stp_setup){.memory = memory,
                              .min_ctas = min_ctas,
                              .max_ctas = min_ctas > 0 ? STP_MAX_CHANNELS : 0};
}

bool stp_setup_equal(const struct stp_setup *a, const struct stp_setup *b)
{
    return a->memory == b->memory && a->min_ctas == b->min_ctas &&
           a->max_ctas == b->max_ctas && a->cga == b->cga;
}

bool stp_arm_equal(const struct stp_arm *a, const struct stp_arm *b)
{
    return a->kind == b->kind && a->algo == b->algo && a->proto == b->proto &&
           a->n_channels == b->n_channels && a->chunk_bytes == b->chunk_bytes &&
           stp_setup_equal(&a->setup, &b->setup);
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

/* ---- names ---- */

/* Adds a word, behind a slash unless it is the first. */
#define ADD(text, fmt, ...)                                                    \
    stp_append(text, STP_ARM_NAME, "%s" fmt, (text)[0] != '\0' ? "/" : "",     \
               __VA_ARGS__)

const char *stp_arm_name(const struct stp_arm *arm, char text[STP_ARM_NAME])
{
    const struct stp_setup *setup = &arm->setup;
    const uint32_t chunk = arm->chunk_bytes;

    text[0] = '\0';
    if (arm->kind != STP_ARM_FORCED && arm->kind != STP_ARM_SETUP)
        ADD(text, "%s", kind_words[arm->kind]);
    if (arm->kind == STP_ARM_FORCED) {
        if (arm->algo == STP_ANY && arm->proto == STP_ANY)
            ADD(text, "%s", "auto");
        if (arm->algo != STP_ANY)
            ADD(text, "%s", stp_algo_name(arm->algo));
        if (arm->proto != STP_ANY)
            ADD(text, "%s", stp_proto_name(arm->proto));
        if (arm->n_channels != 0)
            ADD(text, "%d", arm->n_channels);
        if (chunk != 0 && chunk % 1048576 == 0)
            ADD(text, "chunk=%" PRIu32 "M", chunk / 1048576);
        else if (chunk != 0 && chunk % 1024 == 0)
            ADD(text, "chunk=%" PRIu32 "K", chunk / 1024);
        else if (chunk != 0)
            ADD(text, "chunk=%" PRIu32, chunk);
    }
    if (arm->kind == STP_ARM_SETUP) {
        if (setup->memory != STP_MEMORY_PLAIN)
            ADD(text, "%s", stp_memory_name(setup->memory));
        if (setup->min_ctas != 0)
            ADD(text, "ctas=%d-%d", setup->min_ctas, setup->max_ctas);
        else if (setup->max_ctas != 0)
            ADD(text, "ctas=%d", setup->max_ctas);
        if (setup->cga != 0)
            ADD(text, "cga=%d", setup->cga - 1);
    }
    return text;
}

void stp_arm_columns(const struct stp_arm *arm, char algo[STP_ARM_NAME],
                     char proto[STP_ARM_NAME])
{
    if (arm->kind != STP_ARM_FORCED) {
        stp_arm_name(arm, algo);
        stp_arm_name(arm, proto);
        return;
    }
    snprintf(algo, STP_ARM_NAME, "%s",
             arm->algo == STP_ANY ? "auto" : stp_algo_name(arm->algo));
    snprintf(proto, STP_ARM_NAME, "%s",
             arm->proto == STP_ANY ? "auto" : stp_proto_name(arm->proto));
}

/* ---- lists ---- */

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

const char *stp_auto_words(const char *tuner, char text[STP_AUTO_TEXT])
{
    snprintf(text, STP_AUTO_TEXT,
             tuner[0] != '\0' ? STP_BASELINE_TUNER : STP_BASELINE_NCCL, tuner);
    return text;
}

void stp_arms_add_nccl(struct stp_arms *arms, const char *tuner)
{
    if (tuner[0] != '\0' && arms->n < STP_MAX_ARMS)
        arms->arm[arms->n++] = (struct stp_arm){.kind = STP_ARM_NCCL};
}

enum stp_status stp_arms_add_setup(struct stp_arms *arms,
                                   const struct stp_setup *setup,
                                   struct stp_error *err)
{
    const struct stp_arm arm = {.kind = STP_ARM_SETUP, .setup = *setup};

    return arms_add(arms, &arm, err);
}

enum stp_status stp_arms_add_setups(struct stp_arms *arms, unsigned setups,
                                    struct stp_error *err)
{
    for (int i = STP_MEMORY_PLAIN + 1; i < STP_N_SETUPS; i++)
        if ((setups >> i & 1) != 0)
            STP_TRY(stp_arms_add_setup(arms, &stp_setups[i], err));
    return STP_OK;
}

enum stp_status stp_arms_add_staged(struct stp_arms *arms, unsigned setups,
                                    struct stp_error *err)
{
    for (int i = 0; i < STP_N_SETUPS; i++)
        if (stp_setups[i].memory != STP_MEMORY_STAGE)
            setups &= ~(1u << i);
    return stp_arms_add_setups(arms, setups, err);
}

/* Channels, or the CTAs that each of them is. */
static bool arm_parse_channels(const char *s, size_t len, int *n_channels_ret)
{
    uint64_t n;

    if (!stp_parse_u64(s, len, &n) || n < 1 || n > STP_MAX_CHANNELS)
        return false;
    *n_channels_ret = (int)n;
    return true;
}

/* The bytes of a word behind 'key'; NULL if it begins otherwise. */
static const char *arm_value(const char *key, const char *s, size_t *len)
{
    const size_t n = strlen(key);

    if (*len < n || memcmp(s, key, n) != 0)
        return NULL;
    *len -= n;
    return s + n;
}

/* A word of a forced arm's name: the algorithm, the protocol, the channels and
 * the chunk, in this order, as far as they are there. */
static bool arm_parse_word(const char *s, size_t len, struct stp_arm *arm)
{
    int algo = stp_algo_from_name(s, len);
    int proto = stp_proto_from_name(s, len);
    bool is_first = arm->algo == STP_ANY && arm->proto == STP_ANY;
    size_t n_chunk = len;
    const char *chunk = arm_value("chunk=", s, &n_chunk);
    uint64_t n;

    if (chunk != NULL && arm->chunk_bytes == 0 &&
        stp_parse_size(chunk, n_chunk, &n) && n >= 1 && n <= UINT32_MAX) {
        arm->chunk_bytes = (uint32_t)n;
        return true;
    }
    if (arm->n_channels != 0 || arm->chunk_bytes != 0)
        return false;
    if (algo >= 0 && is_first)
        arm->algo = algo;
    else if (proto >= 0 && arm->proto == STP_ANY)
        arm->proto = proto;
    else
        return arm_parse_channels(s, len, &arm->n_channels);
    return true;
}

/* A word of a setup's name. */
static bool arm_parse_setup_word(const char *s, size_t len, struct stp_arm *arm)
{
    static const struct stp_setup none = {.memory = STP_MEMORY_PLAIN};
    struct stp_setup *setup = &arm->setup;
    const int memory = stp_memory_from_name(s, len);
    const char *value;
    uint64_t n;

    if (memory > STP_MEMORY_PLAIN && stp_setup_equal(setup, &none)) {
        setup->memory = (enum stp_memory)memory;
        return true;
    }
    value = arm_value("ctas=", s, &len);
    if (value != NULL) { /* "8" or "4-16" */
        const char *dash = memchr(value, '-', len);
        const size_t n_first = dash != NULL ? (size_t)(dash - value) : 0;
        int most;

        if (setup->max_ctas != 0 ||
            (dash != NULL &&
             !arm_parse_channels(value, n_first, &setup->min_ctas)) ||
            !arm_parse_channels(dash != NULL ? dash + 1 : value,
                                dash != NULL ? len - n_first - 1 : len, &most))
            return false;
        setup->max_ctas = most;
        return setup->min_ctas <= most;
    }
    value = arm_value("cga=", s, &len);
    if (value == NULL || setup->cga != 0 || !stp_parse_u64(value, len, &n) ||
        n > MAX_CGA)
        return false;
    setup->cga = (int)n + 1;
    return true;
}

/* Whether 'read' takes all words from 's' on. */
static bool arm_parse_words(const char *s, const char *end,
                            bool (*read)(const char *s, size_t len,
                                         struct stp_arm *arm),
                            struct stp_arm *arm)
{
    for (;;) {
        const char *slash = memchr(s, '/', (size_t)(end - s));

        if (!read(s, (size_t)((slash ? slash : end) - s), arm))
            return false;
        if (slash == NULL)
            return true;
        s = slash + 1;
    }
}

bool stp_arm_from_name(const char *name, size_t len, struct stp_arm *arm_ret)
{
    const struct stp_field word = {.s = name, .len = len};
    const bool is_auto = len > 5 && memcmp(name, "auto/", 5) == 0;
    struct stp_arm forced = any_arm, setup = {.kind = STP_ARM_SETUP};

    for (int i = 0; i < N_KINDS; i++)
        if (kind_words[i] != NULL && stp_field_is(&word, kind_words[i])) {
            *arm_ret = (struct stp_arm){.kind = (enum stp_arm_kind)i};
            return true;
        }
    /* "ALGORITHM/PROTOCOL/CHANNELS/chunk=BYTES" or a part of it, "auto"
     * standing for neither of the first two; a number alone is none. */
    if (arm_parse_words(name + (is_auto ? 5 : 0), name + len, arm_parse_word,
                        &forced) &&
        (forced.algo != STP_ANY || forced.proto != STP_ANY || is_auto ||
         forced.n_channels == 0)) {
        *arm_ret = forced;
        return true;
    }
    if (!arm_parse_words(name, name + len, arm_parse_setup_word, &setup))
        return false;
    *arm_ret = setup;
    return true;
}

/* Suggests a word for the first part of the name that is none. */
static const char *arm_hint(const struct stp_field *name, char hint[STP_HINT])
{
    const char *end = name->s + name->len;
    char words[160];

    snprintf(words, sizeof(words), "auto, auto2, all, memory, %s, %s, %s",
             stp_algo_names(), stp_proto_names(), stp_memory_names());
    for (const char *s = name->s; s < end; s++) {
        const char *slash = memchr(s, '/', (size_t)(end - s));
        const size_t len = (size_t)((slash ? slash : end) - s);
        struct stp_arm forced = any_arm;
        struct stp_arm setup = {.kind = STP_ARM_SETUP};

        if (!arm_parse_word(s, len, &forced) &&
            !arm_parse_setup_word(s, len, &setup))
            return stp_hint_nearest(s, len, words, hint);
        s += len;
    }
    hint[0] = '\0';
    return hint;
}

enum stp_status stp_arms_parse(const char *list, struct stp_arms *arms_ret,
                               struct stp_error *err)
{
    struct stp_field words[STP_MAX_ARMS];
    size_t n = stp_split(list, strlen(list), words, STP_MAX_ARMS);

    if (n > STP_MAX_ARMS)
        return stp_fail(err, STP_ERR_LIMIT, "more than %d arms", STP_MAX_ARMS);
    arms_ret->n = 1;
    arms_ret->arm[0] = (struct stp_arm){.kind = STP_ARM_AUTO};
    for (size_t i = 0; i < n; i++) {
        const struct stp_field *word = &words[i];
        char hint[STP_HINT];
        struct stp_arm arm;

        if (stp_field_is(word, "all")) {
            /* All-reduce and all-gather have all kernels; arms that another
             * collective lacks, the sweep finds out. */
            for (int k = 0; k < NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS; k++) {
                arm = (struct stp_arm){.kind = STP_ARM_FORCED,
                                       .algo = k / NCCL_NUM_PROTOCOLS,
                                       .proto = k % NCCL_NUM_PROTOCOLS};
                if (stp_pair_exists(ncclFuncAllReduce, arm.algo, arm.proto) ||
                    stp_pair_exists(ncclFuncAllGather, arm.algo, arm.proto))
                    STP_TRY(arms_add(arms_ret, &arm, err));
            }
        } else if (stp_field_is(word, "memory")) {
            STP_TRY(stp_arms_add_setups(arms_ret, UINT_MAX, err));
        } else if (!stp_arm_from_name(word->s, word->len, &arm) ||
                   arm.kind == STP_ARM_PLUGIN || arm.kind == STP_ARM_NCCL) {
            return stp_fail_at(
                err, STP_ERR_SYNTAX, 0, word->column,
                "arm '%.*s', expected auto, auto2, all, memory, "
                "ALGORITHM/PROTOCOL/CHANNELS/chunk=BYTES, "
                "MEMORY/ctas=MIN-MAX/cga=SIZE or a part of one%s",
                (int)word->len, word->s, arm_hint(word, hint));
        } else {
            STP_TRY(arms_add(arms_ret, &arm, err));
        }
    }
    return STP_OK;
}

enum stp_status stp_arms_add_channels(struct stp_arms *arms, const char *list,
                                      struct stp_error *err)
{
    struct stp_field words[STP_MAX_CHANNELS];
    bool is_seen[STP_MAX_CHANNELS + 1] = {false};
    size_t n_arms = arms->n;
    size_t n = stp_split(list, strlen(list), words, STP_MAX_CHANNELS);

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
        for (size_t a = 0; a < n_arms; a++) {
            struct stp_arm arm = arms->arm[a];

            if (arm.kind != STP_ARM_FORCED || arm.n_channels != 0)
                continue;
            arm.n_channels = channels;
            STP_TRY(arms_add(arms, &arm, err));
        }
    }
    return STP_OK;
}
