/* trial.c - a policy through the real plugin, against NCCL's own choice */
#include "tune/trial.h"

#include <stdio.h>
#include <stdlib.h>

#include "analyse/derive.h"
#include "analyse/verify.h"
#include "core/names.h"
#include "core/policy/memory_policy.h"
#include "core/text.h"
#include "launch/take.h"
#include "nccl_tuner_abi.h"
#include "report/file.h"
#include "report/folder.h"
#include "report/policy_file.h"
#include "report/results/results.h"
#include "report/terminal.h"

const struct stp_arms stp_trial_arms = {
    .arm = {{.kind = STP_ARM_AUTO}, {.kind = STP_ARM_PLUGIN}}, .n = 2};

enum stp_status stp_trial_environment(const char *path, const char *gpu,
                                      struct stp_error *err)
{
    /* All processes have this policy and this GPU, and their launcher may have
     * no store. */
    if (setenv("NCCL_TUNER_CONFIG_FILE", path, 1) == 0 &&
        setenv("STEPTUNE_GPU", gpu, 1) == 0 &&
        setenv("STEPTUNE_AGREE", "assume", 0) == 0 &&
        unsetenv("NCCL_WORKLOAD_OVERLAP") == 0)
        return STP_OK;
    return stp_fail(err, STP_ERR_NOMEM, "cannot set the environment");
}

/* Compiles the policy for the machine, to be freed, and counts its rules. */
static enum stp_status trial_compile(const struct stp_device_info *info,
                                     const char *path,
                                     struct stp_compiled **compiled_ret,
                                     size_t *n_rules_ret, struct stp_error *err)
{
    struct stp_shape shape;
    struct stp_policy *policy;
    enum stp_status status;

    STP_TRY(stp_policy_load(STP_POLICY_OF_ARMS, path, &policy, err));
    shape = (struct stp_shape){info->n_ranks, info->n_nodes, info->gpu};
    status = stp_policy_compile(policy, &shape, compiled_ret, err);
    if (status == STP_OK)
        *n_rules_ret = stp_policy_size(policy);
    stp_policy_free(policy);
    return status;
}

enum stp_status stp_trial_require_rules(const char *path,
                                        const struct stp_device_info *info,
                                        struct stp_error *err)
{
    struct stp_compiled *compiled;
    size_t n_rules, n_apply;

    STP_TRY(trial_compile(info, path, &compiled, &n_rules, err));
    n_apply = stp_compiled_size(compiled);
    stp_compiled_free(compiled);
    if (n_apply > 0)
        return STP_OK;
    return stp_fail(
        err, n_rules > 0 ? STP_ERR_RANGE : STP_ERR_SYNTAX,
        "%.100s: 0 of %zu rules apply; none is for %u ranks on %u node%s of %s",
        path, n_rules, info->n_ranks, info->n_nodes, STP_S(info->n_nodes),
        info->gpu[0] != '\0' ? info->gpu : "an unknown GPU");
}

/* Whether a rule matches the collective, with buffers that are registered or
 * not, where NCCL rules out no pair. */
static bool trial_has_rule(const struct stp_compiled *compiled, int coll,
                           uint64_t n_bytes)
{
    static const float cost[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
    const struct stp_cost_view view = {&cost[0][0], NCCL_NUM_ALGORITHMS,
                                       NCCL_NUM_PROTOCOLS};
    struct stp_choice choice;

    for (int reg_buff = 0; reg_buff <= 1; reg_buff++) {
        const struct stp_query query = {coll, n_bytes, 1, reg_buff};

        if (stp_compiled_lookup(compiled, &query, &view, &choice))
            return true;
    }
    return false;
}

enum stp_status stp_trial_require_decisions(
    const char *path, const struct stp_device_info *info,
    const struct stp_comparisons *comparisons, struct stp_error *err)
{
    struct stp_compiled *compiled;
    size_t n_rules;
    bool is_decided = false;

    STP_TRY(trial_compile(info, path, &compiled, &n_rules, err));
    for (size_t i = 0; i < comparisons->n_points && !is_decided; i++) {
        const struct stp_point *p = &comparisons->points[i];

        /* The collective of a point of fsdp is the all-gather. */
        is_decided =
            stp_verify_point(p) != STP_VERDICT_SAME ||
            trial_has_rule(compiled, p->coll, p->n_bytes) ||
            (p->work.mode == STP_MODE_FSDP &&
             trial_has_rule(compiled, ncclFuncReduceScatter, p->n_bytes));
    }
    stp_compiled_free(compiled);
    if (is_decided)
        return STP_OK;
    return STP_REFUSE(err,
                      "%.120s: no rule decides a message that was measured, so "
                      "nothing is verified",
                      path);
}

enum stp_status stp_trial_require_bits(const struct stp_dataset *tried,
                                       struct stp_error *err)
{
    const struct stp_measurement *first = NULL;
    size_t n = 0, n_compared = 0;

    for (size_t i = 0; i < tried->n_rows; i++) {
        const struct stp_measurement *m = &tried->rows[i];

        if (m->arm.kind != STP_ARM_PLUGIN)
            continue;
        n_compared += m->bits != STP_BITS_UNKNOWN;
        n += m->bits == STP_BITS_OTHER;
        first = n == 1 && m->bits == STP_BITS_OTHER ? m : first;
    }
    if (first == NULL)
        return STP_OK;
    return stp_fail(err, STP_ERR_DEVICE,
                    "results of the policy have other bits than those of %s in "
                    "%zu of %zu measurements, such as %s of %llu bytes, "
                    "expected the same in all",
                    STP_AUTO_WORDS(tried->tuner), n, n_compared,
                    stp_coll_name(first->coll),
                    (unsigned long long)first->n_bytes);
}

/* Prints how many rules apply with each number of ranks that was measured, such
 * as those of earlier passes. */
static enum stp_status trial_print_rules(const char *path,
                                         const struct stp_device_info *info,
                                         const struct stp_comparisons *all,
                                         FILE *fp, struct stp_error *err)
{
    struct stp_device_info shape = *info;
    bool has_others = false;

    for (size_t i = 0; i < all->n_points; i++)
        has_others |= all->points[i].n_ranks != info->n_ranks;
    for (size_t i = 0; i < all->n_points; i++) {
        struct stp_compiled *compiled;
        size_t n_rules, j = 0;

        shape.n_ranks = all->points[i].n_ranks;
        while (all->points[j].n_ranks != shape.n_ranks)
            j++;
        if (j < i)
            continue; /* told already */
        STP_TRY(trial_compile(&shape, path, &compiled, &n_rules, err));
        fprintf(fp, "%zu of %zu rules apply to ", stp_compiled_size(compiled),
                n_rules);
        if (has_others)
            fprintf(fp, "%u ranks\n", shape.n_ranks);
        else
            fprintf(fp, "it\n");
        stp_compiled_free(compiled);
    }
    return STP_OK;
}

enum stp_status stp_trial_print(const char *path,
                                const struct stp_device_info *info,
                                const struct stp_comparisons *comparisons,
                                bool has_table, FILE *fp, struct stp_error *err)
{
    enum stp_status status = STP_OK;

    stp_print_paragraph(info->what, fp);
    stp_print_steadiness(comparisons, fp);
    if (stp_policy_kind_of_file(path) == STP_POLICY_OF_ARMS)
        status = trial_print_rules(path, info, comparisons, fp, err);
    fputc('\n', fp);
    if (has_table && status == STP_OK)
        stp_print_verdicts(info, comparisons, STP_VERDICTS_ALL, fp);
    else
        STP_THEN(status,
                 stp_print_gains(info, comparisons, path, NULL, fp, err));
    if (status == STP_OK)
        stp_print_unfollowed(comparisons, fp);
    return status;
}

enum stp_status stp_trial_prove(const char *path,
                                const struct stp_device_info *info,
                                const struct stp_dataset *measured,
                                const struct stp_comparisons *comparisons,
                                struct stp_error *err)
{
    char proof[STP_FOLDER_PATH];
    struct stp_file file;
    enum stp_status status;

    STP_TRY(stp_path_write(proof, err, "%s" STP_POLICY_PROOF_TEXT, path));
    STP_TRY(stp_file_begin(proof, &file, err));
    fprintf(file.fp, "%s against %s\npolicy hash %s%s%s\n", path,
            STP_AUTO_WORDS(info->tuner), measured->policy_hash,
            measured->run[0] != '\0' ? ", run " : "", measured->run);
    status = stp_trial_print(path, info, comparisons, true, file.fp, err);
    return stp_file_end(&file, status, err);
}

static struct stp_setup trial_setup(const struct stp_rule *rule)
{
    return stp_setup_of((enum stp_memory)rule->memory, rule->min_ctas);
}

enum stp_status stp_trial_add_setups(const struct stp_policy *memory,
                                     struct stp_arms *arms,
                                     struct stp_error *err)
{
    for (size_t i = 0; i < stp_policy_size(memory); i++) {
        const struct stp_rule *rule = stp_policy_rule(memory, i);
        const struct stp_setup setup = trial_setup(rule);

        if (rule->memory != STP_MEMORY_PLAIN)
            STP_TRY(stp_arms_add_setup(arms, &setup, err));
    }
    return STP_OK;
}

enum stp_status stp_trial_take_memory(const struct stp_policy *memory,
                                      const struct stp_device_info *info,
                                      struct stp_dataset *data,
                                      struct stp_error *err)
{
    size_t n_kept = 0, n_auto = 0;

    for (size_t i = 0; i < data->n_rows; i++) {
        struct stp_measurement row = data->rows[i];
        const struct stp_memory_query query = {.coll = row.coll,
                                               .n_bytes = row.n_bytes,
                                               .n_ranks = row.n_ranks,
                                               .n_nodes = row.n_nodes,
                                               .overlaps = row.work.mode !=
                                                           STP_MODE_ALONE,
                                               .gpu = info->gpu,
                                               .captured = row.graph};
        const struct stp_rule *rule = stp_memory_policy_match(memory, &query);

        if (row.arm.kind == STP_ARM_AUTO) {
            n_auto++;
        } else {
            struct stp_setup wanted;

            if (rule == NULL || !stp_arm_registers(&row.arm))
                continue;
            wanted = trial_setup(rule);
            if (!stp_setup_equal(&row.arm.setup, &wanted))
                continue;
            if (row.ran_kernel[0] == '\0')
                snprintf(row.ran_kernel, sizeof(row.ran_kernel), "%s",
                         stp_memory_name(row.arm.setup.memory));
            row.arm = stp_trial_arms.arm[1];
            row.ran_algo = row.ran_proto = -1; /* not as plain buffers ran */
        }
        data->rows[n_kept++] = row;
    }
    data->n_rows = n_kept;
    return n_kept > n_auto
               ? STP_OK
               : STP_REFUSE(err, "no rule of the policy names a message that "
                                 "was measured, so nothing is verified");
}

enum stp_status stp_trial_add_unseen(const struct stp_device_info *info,
                                     const char *path,
                                     struct stp_measure_plan *plan,
                                     struct stp_error *err)
{
    struct stp_policy *policy;
    uint64_t *ends;
    enum stp_status status = STP_OK;

    STP_TRY(stp_policy_load_any(path, &policy, err));
    STP_TAKE(ends, 2 * stp_policy_size(policy));
    for (size_t c = 0; c < plan->plan.n_colls && status == STP_OK; c++) {
        const int coll = plan->colls[c];
        uint64_t grain = stp_size_grain(info, coll, plan->plan.type);
        struct stp_sizes unseen;
        size_t n = 0;

        /* Each of the policy's ranges of this collective ends with its last
         * size. */
        for (size_t i = 0; i < stp_policy_size(policy); i++) {
            const struct stp_rule *rule = stp_policy_rule(policy, i);

            if (rule->coll != coll)
                continue;
            if (stp_memory_rule_takes_rounds(rule)) {
                const uint64_t round =
                    stp_memory_round(coll, info->n_ranks, rule->min_ctas);

                grain = round > grain ? round : grain;
            }
            if (rule->bytes.min > 0)
                ends[n++] = rule->bytes.min - 1;
            ends[n++] = rule->bytes.max;
        }
        status =
            stp_verify_sizes(&plan->sizes[c], ends, n, grain, &unseen, err);
        for (size_t i = 0; status == STP_OK && i < unseen.n; i++)
            status = stp_sizes_add(&plan->sizes[c], unseen.size[i], grain, err);
    }
    free(ends);
    stp_policy_free(policy);
    return status;
}
