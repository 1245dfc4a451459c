#include "plugin/settings.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/policy/memory_policy.h"

#define DEFAULT_POLICY "nccl_tuner.conf"

const char *stp_setting(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && *value != '\0' ? value : NULL;
}

static enum stp_status settings_read_switch(const char *name, bool *on_ret,
                                            struct stp_error *err)
{
    const char *value = stp_setting(name);

    if (value == NULL || strcmp(value, "0") == 0)
        *on_ret = false;
    else if (strcmp(value, "1") == 0)
        *on_ret = true;
    else
        return stp_fail(err, STP_ERR_SYNTAX, "%s is '%.60s', expected 0 or 1",
                        name, value);
    return STP_OK;
}

static enum stp_status settings_set_path(char *path, const char *first,
                                         const char *second,
                                         struct stp_error *err)
{
    int n = snprintf(path, STP_PATH_SIZE, "%s%s", first, second);

    if (n < 0 || n >= STP_PATH_SIZE)
        return stp_fail(err, STP_ERR_LIMIT,
                        "a policy path of %d bytes, expected fewer than %d", n,
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
    bool overlap = false;
    enum stp_status status =
        settings_read_switch("NCCL_WORKLOAD_OVERLAP", &overlap, err);

    if (status != STP_OK)
        return status;
    settings->policy_is_named = file != NULL || overlap;
    if (file == NULL)
        file = DEFAULT_POLICY;
    if (!overlap)
        return settings_set_path(path, file, "", err);
    if (overlap_file != NULL)
        return settings_set_path(path, overlap_file, "", err);
    return settings_set_path(path, file, ".overlap", err);
}

static enum stp_status settings_read_agreement(bool *assumes_ret,
                                               struct stp_error *err)
{
    const char *value = stp_setting("STEPTUNE_AGREE");

    *assumes_ret = value != NULL && strcmp(value, "assume") == 0;
    if (*assumes_ret || value == NULL || strcmp(value, "compare") == 0)
        return STP_OK;
    return stp_fail(err, STP_ERR_SYNTAX,
                    "STEPTUNE_AGREE is '%.60s', expected compare or assume",
                    value);
}

enum stp_status stp_settings_memory(char path[STP_PATH_SIZE],
                                    struct stp_error *err)
{
    const char *named = stp_setting("STEPTUNE_MEMORY_CONFIG_FILE");
    const char *policy = stp_setting("NCCL_TUNER_CONFIG_FILE");

    if (named != NULL)
        return settings_set_path(path, named, "", err);
    return settings_set_path(path, policy != NULL ? policy : DEFAULT_POLICY,
                             STP_MEMORY_SUFFIX, err);
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
    const char *constants = stp_setting("STEPTUNE_CONSTANTS_FILE");
    const char *ledger = stp_setting("STEPTUNE_LEDGER");
    enum stp_status status;

    stp_settings_gpu(settings_ret->gpu);
    snprintf(settings_ret->constants, STP_PATH_SIZE, "%s",
             constants != NULL ? constants : "");
    snprintf(settings_ret->ledger, STP_PATH_SIZE, "%s",
             ledger != NULL ? ledger : "");
    status = settings_read_agreement(&settings_ret->assumes_agreement, err);
    return status == STP_OK ? settings_read_policy(settings_ret, err) : status;
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

    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const char *rank = stp_setting(launchers[i].rank);
        const char *size = stp_setting(launchers[i].size);

        if (rank == NULL || size == NULL)
            continue;
        if (strtoull(size, NULL, 10) != n_ranks ||
            strtoull(rank, NULL, 10) >= n_ranks || n_ranks > INT_MAX)
            return -1;
        return (int)strtoull(rank, NULL, 10);
    }
    return -1;
}
