#include "memory/steptune_memory.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/names.h"
#include "core/policy/memory_policy.h"
#include "plugin/file.h"
#include "plugin/settings.h"

static_assert((int)STEPTUNE_MEMORY_PLAIN == (int)STP_MEMORY_PLAIN &&
                  (int)STEPTUNE_MEMORY_REG == (int)STP_MEMORY_REG &&
                  (int)STEPTUNE_MEMORY_SYM == (int)STP_MEMORY_SYM &&
                  (int)STEPTUNE_MEMORY_CE == (int)STP_MEMORY_CE,
              "answers are passed on");

struct steptune_memory_policy {
    struct stp_policy *rules; /* NULL: there is no file */
    char gpu[STP_GPU_SIZE];
};

static enum steptune_memory_result memory_load(const char *path,
                                               struct stp_policy **rules,
                                               char *text, size_t size)
{
    struct stp_error err;
    enum stp_status status;

    if (access(path, F_OK) != 0 && errno == ENOENT) {
        snprintf(text, size, "there is no memory policy %s: buffers stay plain",
                 path);
        return STEPTUNE_MEMORY_NO_FILE;
    }
    status = stp_file_load_policy(STP_POLICY_OF_MEMORY, path, rules, &err);
    if (status == STP_OK)
        return STEPTUNE_MEMORY_OK;
    if (size > 0)
        stp_error_string(&err, path, text, size);
    return status == STP_ERR_SYNTAX ? STEPTUNE_MEMORY_REFUSED
                                    : STEPTUNE_MEMORY_FAILED;
}

int steptune_memory_open(const char *path,
                         struct steptune_memory_policy **policy_ret, char *text,
                         size_t size)
{
    struct steptune_memory_policy *policy = calloc(1, sizeof(*policy));
    enum steptune_memory_result result;
    char found[STP_PATH_SIZE];
    struct stp_error err;

    if (policy == NULL)
        stp_nomem(&err);
    if (policy == NULL ||
        (path == NULL &&
         stp_settings_setups(STP_POLICY_OF_MEMORY, found, &err) != STP_OK)) {
        snprintf(text, size, "%s", err.text);
        free(policy);
        return STEPTUNE_MEMORY_FAILED;
    }
    result =
        memory_load(path != NULL ? path : found, &policy->rules, text, size);
    if (result < 0) {
        free(policy);
        return result;
    }
    stp_settings_gpu(policy->gpu);
    *policy_ret = policy;
    return result;
}

/* The first rule that matches, NULL if none does; false if the call is none. */
static bool memory_match(const struct steptune_memory_policy *policy,
                         const struct steptune_memory_call *call,
                         const struct stp_rule **rule_ret)
{
    const struct stp_memory_query query = {
        .coll = stp_coll_from_name(call->collective, strlen(call->collective)),
        .n_bytes = call->n_bytes,
        .n_ranks = call->n_ranks,
        .n_nodes = call->n_nodes,
        .overlaps = call->overlaps != 0,
        .gpu = policy->gpu,
    };

    if (query.coll < 0 || query.n_ranks == 0 || query.n_nodes == 0)
        return false;
    *rule_ret = policy->rules != NULL
                    ? stp_memory_policy_match(policy->rules, &query)
                    : NULL;
    return true;
}

int steptune_memory_ask(const struct steptune_memory_policy *policy,
                        const struct steptune_memory_call *call)
{
    const struct stp_rule *rule;

    if (!memory_match(policy, call, &rule))
        return -1;
    return rule != NULL ? rule->memory : STEPTUNE_MEMORY_PLAIN;
}

int steptune_memory_min_ctas(const struct steptune_memory_policy *policy,
                             const struct steptune_memory_call *call)
{
    const struct stp_rule *rule;

    if (!memory_match(policy, call, &rule))
        return -1;
    return rule != NULL ? rule->min_ctas : 0;
}

void steptune_memory_close(struct steptune_memory_policy *policy)
{
    if (policy == NULL)
        return;
    stp_policy_free(policy->rules);
    free(policy);
}
