/* train_arms.c - what takes turns with NCCL's own choice in training */
#include "cli/train_arms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/text.h"
#include "nccl_tuner_abi.h"

enum { FILE_MAX = 1 << 28 /* bytes of a policy or plugin */ };

bool stp_train_takes_turns(const struct stp_train_turns *turns)
{
    return turns->arms != NULL || turns->policy != NULL ||
           turns->plugin != NULL;
}

/* ---- arms ---- */

/* Of the collectives that the modes have. */
int stp_train_check_arms(const struct stp_train_turns *turns,
                         const struct stp_train_matrix *matrix)
{
    int colls[2 * STP_TRAIN_LIST];
    size_t n = 0;

    if (turns->arms == NULL)
        return STP_EXIT_OK;
    for (unsigned i = 0; i < matrix->n_modes; i++)
        if (matrix->modes[i] == STP_TRAIN_SHARDED) {
            colls[n++] = ncclFuncReduceScatter;
            colls[n++] = ncclFuncAllGather;
        } else {
            colls[n++] = ncclFuncAllReduce;
        }
    return stp_check_arms(turns->arms, NULL, colls, n);
}

enum stp_status stp_train_list_arms(const struct stp_train_turns *turns,
                                    const struct stp_device_info *info,
                                    struct stp_arms *arms_ret,
                                    struct stp_error *err)
{
    const char *list = turns->arms != NULL ? turns->arms : "auto";
    enum stp_status status = stp_parse_arms(info, list, NULL, arms_ret, err);

    if (status != STP_OK || (turns->policy == NULL && turns->plugin == NULL))
        return status;
    if (arms_ret->n == STP_MAX_ARMS)
        return stp_fail(err, STP_ERR_LIMIT, "more than %d arms", STP_MAX_ARMS);
    arms_ret->arm[arms_ret->n++] = (struct stp_arm){.kind = STP_ARM_PLUGIN};
    return STP_OK;
}

/* ---- hashes ---- */

/* FNV-1a, from 'hash' on. */
static uint64_t train_hash(uint64_t hash, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

/* Adds the bytes of a file. */
static enum stp_status train_hash_file(const char *path, uint64_t *hash,
                                       struct stp_error *err)
{
    char *text;
    size_t len;
    enum stp_status status = stp_read_file(path, FILE_MAX, &text, &len, err);

    if (status != STP_OK)
        return status;
    *hash = train_hash(*hash, text, len);
    free(text);
    return STP_OK;
}

void stp_train_name_pair(const struct stp_train_turns *turns,
                         const struct stp_train_tuner *tuner,
                         const struct stp_arms *arms, char pair[STP_TRAIN_PAIR])
{
    uint64_t hash = tuner->hash;
    char name[STP_ARM_NAME];

    for (size_t i = 0; turns->arms != NULL && i < arms->n; i++) {
        stp_arm_name(&arms->arm[i], name);
        hash = train_hash(hash, name, strlen(name) + 1);
    }
    snprintf(pair, STP_TRAIN_PAIR, "%016jx", (uintmax_t)hash);
}

/* ---- the tuner ---- */

int stp_train_find_tuner(const struct stp_train_turns *turns,
                         const char *recorded,
                         struct stp_train_tuner *tuner_ret)
{
    struct stp_train_tuner *t = tuner_ret;
    const char *policy_file = turns->policy;
    const char *plugin = turns->plugin;
    struct stp_policy *policy = NULL;
    char machine[STP_CLI_PATH];
    struct stp_error err;
    int exit_status;

    t->hash = 0xcbf29ce484222325u;
    if (policy_file == NULL && plugin == NULL)
        return STP_EXIT_OK;
    t->plugin = plugin != NULL ? plugin : t->path;
    exit_status = stp_load_plugin_policy(policy_file, plugin == NULL, &policy);
    stp_policy_free(policy);
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    if ((plugin == NULL &&
         stp_find_plugin("steptune", t->path, &err) != STP_OK) ||
        (recorded != NULL &&
         stp_find_machine(recorded, machine, &err) != STP_OK) ||
        stp_set_plugin_environment(recorded != NULL ? machine : NULL,
                                   policy_file, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    if (policy_file != NULL &&
        train_hash_file(policy_file, &t->hash, &err) != STP_OK)
        return stp_complain_error(policy_file, &err);
    /* A name without a path is NCCL's to find. */
    if (plugin != NULL && access(plugin, F_OK) == 0 &&
        train_hash_file(plugin, &t->hash, &err) != STP_OK)
        return stp_complain_error(plugin, &err);
    snprintf(t->name, sizeof(t->name), "%s",
             stp_base_name(policy_file != NULL ? policy_file : plugin));
    return STP_EXIT_OK;
}
