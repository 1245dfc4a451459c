#include "plugin/settings.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/policy/memory_policy.h"
#include "core/rng.h"
#include "core/text.h"
#include "store/store_address.h"

#define DEFAULT_POLICY "nccl_tuner.conf"

const char *stp_setting(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && *value != '\0' ? value : NULL;
}

/* Reads a variable that is a number. */
static bool settings_count(const char *name, uint64_t *value_ret)
{
    const char *text = stp_setting(name);

    return text != NULL && stp_parse_u64(text, strlen(text), value_ret);
}

static enum stp_status settings_set_path(char *path, const char *first,
                                         const char *second,
                                         struct stp_error *err)
{
    const unsigned n =
        (unsigned)snprintf(path, STP_PATH_SIZE, "%s%s", first, second);

    if (n >= STP_PATH_SIZE)
        return stp_fail(err, STP_ERR_LIMIT,
                        "a policy path of %u bytes, expected fewer than %d", n,
                        STP_PATH_SIZE);
    return STP_OK;
}

static enum stp_status
settings_read_policy(struct stp_plugin_settings *settings,
                     struct stp_error *err)
{
    char *path = settings->policy_path;
    const char *file = stp_setting("NCCL_TUNER_CONFIG_FILE");
    const char *overlap_file = stp_setting("STEPTUNE_OVERLAP_CONFIG_FILE");
    const char *value = stp_setting("NCCL_WORKLOAD_OVERLAP");
    const bool overlap = value != NULL && strcmp(value, "1") == 0;

    if (value != NULL && !overlap && strcmp(value, "0") != 0)
        return stp_fail(err, STP_ERR_SYNTAX,
                        "NCCL_WORKLOAD_OVERLAP is '%.60s', expected 0 or 1",
                        value);
    settings->policy_is_named = file != NULL || overlap;
    if (file == NULL)
        file = DEFAULT_POLICY;
    if (overlap && overlap_file != NULL)
        return settings_set_path(path, overlap_file, "", err);
    return settings_set_path(path, file, overlap ? ".overlap" : "", err);
}

/* ---- how ranks are compared ---- */

enum {
    AGREE_TIMEOUT_MS = 5000,
    AGREE_TIMEOUT_MAX_S = 600,
};

/* Finds the store of a job by torchrun's variables, whichever launcher set
 * them: torchrun's own store (TORCHELASTIC_USE_AGENT_STORE), or that of rank
 * 0's PyTorch. */
static bool settings_find_store(struct stp_store_address *address)
{
    const char *host = stp_setting("MASTER_ADDR");
    uint64_t port;

    if (stp_setting("RANK") == NULL || stp_setting("WORLD_SIZE") == NULL ||
        host == NULL || !settings_count("MASTER_PORT", &port) ||
        port > UINT16_MAX)
        return false;
    *address = stp_store_at(host, (unsigned)port);
    return address->engine != STP_STORE_NOWHERE;
}

static const struct {
    const char *word;
    enum stp_agree agree;
    bool finds_store, is_required;
} agreements[] = {
    {"auto", STP_AGREE_HOST, true, false},
    {"required", STP_AGREE_HOST, true, true},
    {"shm", STP_AGREE_HOST, false, false},
    {"compare", STP_AGREE_HOST, false, false}, /* its first name */
    {"assume", STP_AGREE_ASSUME, false, false},
};

static enum stp_status
settings_read_agreement(struct stp_plugin_settings *settings,
                        struct stp_error *err)
{
    const char *value = stp_setting("STEPTUNE_AGREE");
    char shown[61];

    if (value == NULL)
        value = "auto";
    for (size_t i = 0; i < sizeof(agreements) / sizeof(agreements[0]); i++) {
        if (strcmp(value, agreements[i].word) != 0)
            continue;
        settings->agree = agreements[i].agree;
        settings->agree_is_required = agreements[i].is_required;
        if (agreements[i].finds_store &&
            settings_find_store(&settings->store.address))
            settings->agree = STP_AGREE_STORE;
        return STP_OK;
    }
    if (stp_store_parse(value, &settings->store.address)) {
        settings->agree = STP_AGREE_STORE;
        return STP_OK;
    }
    stp_store_redact(value, shown, sizeof(shown));
    return stp_fail(err, STP_ERR_SYNTAX,
                    "STEPTUNE_AGREE is '%s', expected auto, shm, assume, "
                    "required, " STP_STORE_EXPECTED,
                    shown);
}

enum stp_status stp_settings_setups(enum stp_policy_kind kind,
                                    char path[STP_PATH_SIZE],
                                    struct stp_error *err)
{
    const bool stages = kind == STP_POLICY_OF_STAGE;
    const char *named = stp_setting(stages ? "STEPTUNE_STAGE_FILE"
                                           : "STEPTUNE_MEMORY_CONFIG_FILE");
    const char *policy = stp_setting("NCCL_TUNER_CONFIG_FILE");

    if (named != NULL)
        return settings_set_path(path, named, "", err);
    return settings_set_path(path, policy != NULL ? policy : DEFAULT_POLICY,
                             stages ? STP_STAGE_SUFFIX : STP_MEMORY_SUFFIX,
                             err);
}

void stp_settings_gpu(char gpu[STP_GPU_SIZE])
{
    const char *named = stp_setting("STEPTUNE_GPU");

    if (named != NULL)
        snprintf(gpu, STP_GPU_SIZE, "%s", named);
    else
        stp_read_gpu(STP_DRIVER_GPUS, gpu);
}

enum stp_status stp_settings_read(struct stp_plugin_settings *settings_ret,
                                  struct stp_error *err)
{
    struct stp_agreement_store *store = &settings_ret->store;
    const char *ledger = stp_setting("STEPTUNE_LEDGER");
    const char *host = stp_setting("NCCL_HOSTID");
    const char *run = stp_setting("TORCHELASTIC_RUN_ID");
    const char *timeout = stp_setting("STEPTUNE_AGREE_TIMEOUT");
    double seconds;

    stp_settings_gpu(settings_ret->gpu);
    snprintf(settings_ret->ledger, STP_PATH_SIZE, "%s",
             ledger != NULL ? ledger : "");
    settings_ret->agree = STP_AGREE_HOST;
    settings_ret->agree_is_required = false;
    *store = (struct stp_agreement_store){.timeout_ms = AGREE_TIMEOUT_MS};
    settings_ret->host_id = 0;
    if (host != NULL)
        snprintf(store->host, sizeof(store->host), "%s", host);
    else if (gethostname(store->host, sizeof(store->host)) != 0)
        snprintf(store->host, sizeof(store->host), "?");
    store->host[sizeof(store->host) - 1] = '\0';
    for (; host != NULL && *host != '\0'; host++)
        settings_ret->host_id =
            stp_hash(settings_ret->host_id, (unsigned char)*host);
    snprintf(store->run, sizeof(store->run), "%s", run != NULL ? run : "none");
    if (timeout != NULL) {
        if (!stp_parse_double(timeout, strlen(timeout), &seconds) ||
            seconds < 0 || seconds > AGREE_TIMEOUT_MAX_S)
            return stp_fail(err, STP_ERR_SYNTAX,
                            "STEPTUNE_AGREE_TIMEOUT is '%.60s', expected "
                            "seconds from 0 to %d",
                            timeout, AGREE_TIMEOUT_MAX_S);
        store->timeout_ms = (unsigned)(seconds * 1000);
    }
    STP_TRY(settings_read_agreement(settings_ret, err));
    return settings_read_policy(settings_ret, err);
}

int stp_launcher_rank(size_t n_ranks)
{
    static const struct {
        const char *rank, *size;
    } launchers[] = {
        {"RANK", "WORLD_SIZE"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"PMI_RANK", "PMI_SIZE"},
        {"SLURM_PROCID", "SLURM_NTASKS"},
    };
    uint64_t rank, size;

    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
        if (settings_count(launchers[i].rank, &rank) &&
            settings_count(launchers[i].size, &size))
            return size == n_ranks && rank < size && size <= INT_MAX ? (int)rank
                                                                     : -1;
    return -1;
}
