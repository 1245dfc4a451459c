/* trial.c - a policy through the real plugin, against NCCL's own choice */
#include "tune/trial.h"

#include <stdio.h>
#include <stdlib.h>

#include "analyse/verify.h"
#include "core/policy/policy.h"
#include "report/file.h"
#include "report/results/results.h"

const struct stp_arms stp_trial_arms = {
    .arm = {{.kind = STP_ARM_AUTO}, {.kind = STP_ARM_PLUGIN}}, .n = 2};

enum stp_status stp_trial_environment(const char *path, const char *gpu,
                                      struct stp_error *err)
{
    if (setenv("NCCL_TUNER_CONFIG_FILE", path, 1) == 0 &&
        setenv("STEPTUNE_GPU", gpu, 1) == 0 &&
        unsetenv("NCCL_WORKLOAD_OVERLAP") == 0)
        return STP_OK;
    return stp_fail(err, STP_ERR_NOMEM, "cannot set the environment");
}

static enum stp_status trial_count_rules(const struct stp_device_info *info,
                                         const char *path, size_t *n_apply_ret,
                                         size_t *n_rules_ret,
                                         struct stp_error *err)
{
    struct stp_shape shape;
    struct stp_policy *policy;
    struct stp_compiled *compiled;
    enum stp_status status = stp_policy_load(path, &policy, err);

    if (status != STP_OK)
        return status;
    shape = (struct stp_shape){info->n_ranks, info->n_nodes, info->gpu};
    status = stp_policy_compile(policy, &shape, &compiled, err);
    if (status == STP_OK) {
        *n_apply_ret = stp_compiled_size(compiled);
        *n_rules_ret = stp_policy_size(policy);
        stp_compiled_free(compiled);
    }
    stp_policy_free(policy);
    return status;
}

enum stp_status stp_trial_print(const char *path,
                                const struct stp_device_info *info,
                                const struct stp_comparisons *comparisons,
                                FILE *fp, struct stp_error *err)
{
    size_t n_apply, n_rules;
    enum stp_status status =
        trial_count_rules(info, path, &n_apply, &n_rules, err);

    if (status != STP_OK)
        return status;
    fprintf(fp, "%s\n%zu of %zu rules apply to it\n\n", info->what, n_apply,
            n_rules);
    status = stp_print_verdicts(comparisons, fp, err);
    return status == STP_OK ? stp_print_steadiness(comparisons, fp, err)
                            : status;
}

enum stp_status stp_trial_prove(const char *path,
                                const struct stp_device_info *info,
                                const struct stp_comparisons *comparisons,
                                struct stp_error *err)
{
    char proof[STP_TRIAL_PATH];
    int n = snprintf(proof, sizeof(proof), "%s.verified.txt", path);
    struct stp_file file;
    enum stp_status status;

    if (n < 0 || n >= (int)sizeof(proof))
        return stp_fail(err, STP_ERR_IO, "the path '%.60s...' is too long",
                        path);
    status = stp_file_begin(proof, &file, err);
    if (status != STP_OK)
        return status;
    fprintf(file.fp, "%s against NCCL's own choice\n", path);
    status = stp_trial_print(path, info, comparisons, file.fp, err);
    return stp_file_end(&file, status, err);
}

/* The last size of each of the policy's ranges of this collective. */
static size_t trial_find_range_ends(const struct stp_policy *policy, int coll,
                                    uint64_t *ends)
{
    size_t n = 0;

    for (size_t i = 0; i < stp_policy_size(policy); i++) {
        const struct stp_rule *rule = stp_policy_rule(policy, i);

        if (rule->coll != coll)
            continue;
        if (rule->bytes.min > 0)
            ends[n++] = rule->bytes.min - 1;
        ends[n++] = rule->bytes.max;
    }
    return n;
}

static enum stp_status trial_add_unseen_of(const struct stp_policy *policy,
                                           int coll, uint64_t grain,
                                           uint64_t *ends,
                                           struct stp_sizes *sizes,
                                           struct stp_error *err)
{
    struct stp_sizes unseen;
    enum stp_status status =
        stp_verify_sizes(sizes, ends, trial_find_range_ends(policy, coll, ends),
                         grain, &unseen, err);

    for (size_t i = 0; i < unseen.n && status == STP_OK; i++)
        status = stp_sizes_add(sizes, unseen.size[i], grain, err);
    return status;
}

enum stp_status stp_trial_add_unseen(const struct stp_device *device,
                                     const char *path,
                                     struct stp_measure_plan *plan,
                                     struct stp_error *err)
{
    struct stp_policy *policy;
    uint64_t *ends;
    enum stp_status status = stp_policy_load(path, &policy, err);

    if (status != STP_OK)
        return status;
    ends = calloc(2 * stp_policy_size(policy) + 1, sizeof(*ends));
    if (ends == NULL)
        status = stp_nomem(err);
    for (size_t c = 0; c < plan->plan.n_colls && status == STP_OK; c++)
        status = trial_add_unseen_of(
            policy, plan->colls[c],
            stp_size_grain(device, plan->colls[c], plan->plan.type), ends,
            &plan->sizes[c], err);
    free(ends);
    stp_policy_free(policy);
    return status;
}
