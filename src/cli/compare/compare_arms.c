/* compare_arms.c - the arms of `steptune compare`, out of lists of values */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/compare/compare.h"
#include "core/text.h"

#define DEFAULT_POLICY "steptune.conf"

enum list_kind { LIST_POLICY, LIST_PLUGIN, LIST_NCCL, LIST_STAGE, LIST_ENV };

static const struct {
    const char *option;
    const char *noun;
    const char *none; /* the value of doing nothing */
} lists[] = {
    [LIST_POLICY] = {"--policy", "policy", "none"},
    [LIST_PLUGIN] = {"--plugin", "plugin", "none"},
    [LIST_NCCL] = {"--nccl", "NCCL", "own"},
    [LIST_STAGE] = {"--stage", "stage", "none"},
    [LIST_ENV] = {"--env", NULL, "unset"},
};

/* The variables that a kind of list sets in runs; LIST_ENV: those of the trace
 * of their steps. */
static const char *const list_sets[][5] = {
    [LIST_POLICY] = {"NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE",
                     "STEPTUNE_CHAIN", "STEPTUNE_LEDGER"},
    [LIST_PLUGIN] = {"NCCL_TUNER_PLUGIN"},
    [LIST_NCCL] = {"LD_PRELOAD"},
    [LIST_STAGE] = {"LD_PRELOAD", "STEPTUNE_STAGE_FILE",
                    "STEPTUNE_STAGE_REPORT"},
    [LIST_ENV] = {"NCCL_PROFILER_PLUGIN", "STEPTUNE_TRACE",
                  "STEPTUNE_TRACE_CALLS"},
};

/* A policy of the list: no tuner at all, where "none" is the tuner that was
 * there before ours. */
#define NO_TUNER "nccl"

struct list {
    enum list_kind kind;
    const char *name; /* of the variable */
    const char *values[STP_JOB_ARMS];
    unsigned n;
};

/* Keeps a text with the arms; "" if they are full. */
STP_PRINTF(2, 3)
static const char *arms_keep(struct stp_compare_arms *arms, const char *fmt,
                             ...)
{
    char *text = arms->text + arms->used;
    const size_t room = sizeof(arms->text) - arms->used;
    va_list va;
    int n;

    va_start(va, fmt);
    n = vsnprintf(text, room, fmt, va);
    va_end(va);
    arms->is_full |= n < 0 || (size_t)n >= room;
    if (arms->is_full)
        return "";
    arms->used += (size_t)n + 1;
    return text;
}

/* ---- lists ---- */

/* One value is compared with doing nothing. */
static int list_read(struct stp_compare_arms *arms, struct list *list,
                     const char *text)
{
    struct stp_found_tuner lower;
    const char *end;

    list->n = 0;
    if (strchr(text, ',') == NULL)
        list->values[list->n++] = lists[list->kind].none;
    if (strchr(text, ',') == NULL && list->kind == LIST_POLICY) {
        stp_find_lower(stp_chain_setting(), STP_NEWEST_TUNER, &lower);
        if (lower.version > 0)
            list->values[list->n++] = NO_TUNER;
    }
    for (;; text = end + 1) {
        end = text + strcspn(text, ",");
        if (end == text && list->kind != LIST_ENV)
            return stp_complain("%s has an empty value, expected '%s' or "
                                "something to compare with it",
                                lists[list->kind].option,
                                lists[list->kind].none);
        if (list->n == STP_JOB_ARMS)
            return stp_complain("%s has more than %d values",
                                lists[list->kind].option, STP_JOB_ARMS);
        list->values[list->n++] =
            arms_keep(arms, "%.*s", (int)(end - text), text);
        if (*end == '\0')
            return STP_EXIT_OK;
    }
}

/* Refuses an --env of a variable that a list of a kind that is 'given', or an
 * --env before it, sets: an arm would have one of both values. */
static int list_check_env(const struct list *all, const struct list *list,
                          const char *const *given)
{
    const char *other = NULL;

    for (int kind = LIST_POLICY; kind <= LIST_ENV; kind++)
        for (const char *const *name = list_sets[kind]; *name != NULL; name++)
            if (given[kind] != NULL && strcmp(*name, list->name) == 0)
                other = kind == LIST_ENV ? "compare without --step-time"
                                         : lists[kind].option;
    for (const struct list *before = all; before < list; before++)
        if (before->kind == LIST_ENV && strcmp(before->name, list->name) == 0)
            other = "another --env";
    return other == NULL
               ? STP_EXIT_OK
               : stp_complain("--env %s: %s sets that variable, too, expected "
                              "one that nothing else here sets",
                              list->name, other);
}

/* Reads all lists; without any, nothing with the policy that is here. */
static int arms_read_lists(const struct stp_compare_options *o,
                           struct stp_compare_arms *arms, struct list *all,
                           unsigned *n_ret)
{
    const char *const given[] = {[LIST_POLICY] = o->policies,
                                 [LIST_PLUGIN] = o->plugins,
                                 [LIST_NCCL] = o->nccls,
                                 [LIST_STAGE] = o->stages,
                                 [LIST_ENV] = o->step_time == NULL ? "" : NULL};
    unsigned n = 0;
    int status = STP_EXIT_OK;

    for (int kind = LIST_POLICY; kind < LIST_ENV; kind++)
        if (status == STP_EXIT_OK && given[kind] != NULL) {
            all[n].kind = (enum list_kind)kind;
            status = list_read(arms, &all[n++], given[kind]);
        }
    for (unsigned i = 0; i < o->n_envs && status == STP_EXIT_OK; i++) {
        struct list *list = &all[n++];
        const char *text = o->envs[i];
        const size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"
                                        "abcdefghijklmnopqrstuvwxyz0123456789");

        list->kind = LIST_ENV;
        if (len == 0 || text[len] != '=' || (text[0] >= '0' && text[0] <= '9'))
            return stp_complain("--env '%s', expected NAME=VALUE or "
                                "NAME=VALUE,VALUE",
                                text);
        list->name = arms_keep(arms, "%.*s", (int)len, text);
        status = list_check_env(all, list, given);
        STP_THEN(status, list_read(arms, list, text + len + 1));
    }
    if (n == 0) {
        if (access(DEFAULT_POLICY, F_OK) != 0)
            return stp_complain("nothing to compare, expected --policy, "
                                "--plugin, --nccl, --stage, --env or "
                                "a " DEFAULT_POLICY " here");
        all[n].kind = LIST_POLICY;
        status = list_read(arms, &all[n++], DEFAULT_POLICY);
    }
    *n_ret = n;
    return status;
}

/* ---- values ---- */

static int arm_set(struct stp_compare_arm *arm, const char *name,
                   const char *value)
{
    arm->variables[arm->n_variables++] = (struct stp_job_variable){name, value};
    return STP_EXIT_OK;
}

static int arm_set_text(struct stp_compare_arms *arms,
                        struct stp_compare_arm *arm, const char *name,
                        const char *value)
{
    return arm_set(arm, name, arms_keep(arms, "%s", value));
}

static int arm_set_policy(struct stp_compare_arms *arms,
                          struct stp_compare_arm *arm, const char *value)
{
    char path[STP_CLI_PATH];
    struct stp_policy *policy;
    struct stp_error err;

    if (stp_policy_load(STP_POLICY_OF_ARMS, value, &policy, &err) != STP_OK)
        return stp_complain_error(value, &err);
    stp_policy_free(policy);
    if (!stp_absolute_path(value, path))
        return stp_complain("%s: no such file", value);
    arm->has_policy = true;
    arm_set_text(arms, arm, "NCCL_TUNER_CONFIG_FILE", path);
    if (stp_find_plugin("steptune", path, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    arm_set(arm, "STEPTUNE_CHAIN", stp_chain_setting());
    return arm_set_text(arms, arm, "NCCL_TUNER_PLUGIN", path);
}

/* In a child, which gets the arm's variables: whether ours can use its policy.
 */
static int arm_check_policy(void *user)
{
    const struct stp_compare_arm *arm = user;
    char path[STP_CLI_PATH];

    for (size_t i = 0; i < arm->n_variables; i++)
        stp_set_variable(arm->variables[i].name, arm->variables[i].value);
    return stp_check_policy(path);
}

/* Without a policy of ours a job has the tuner that it would have without ours,
 * which the label names; one that is not found here may be in the job. */
static int arm_set_lower(struct stp_compare_arms *arms,
                         struct stp_compare_arm *arm)
{
    const char *chain = stp_chain_setting();
    struct stp_found_tuner lower;

    stp_find_lower(chain, STP_NEWEST_TUNER, &lower);
    if (lower.version == 0)
        return arm_set(
            arm, "NCCL_TUNER_PLUGIN",
            chain != NULL && strcasecmp(chain, "auto") != 0 ? chain : "none");
    arm->lower = arms_keep(arms, " with tuner %s", lower.name);
    return arm_set_text(arms, arm, "NCCL_TUNER_PLUGIN", lower.path);
}

/* Puts a library in front of those that are preloaded. */
static int arm_preload(struct stp_compare_arms *arms,
                       struct stp_compare_arm *arm, const char *path)
{
    const char *before = getenv("LD_PRELOAD");

    if (stp_check_preload(path) != STP_EXIT_OK)
        return STP_EXIT_FAILED;
    for (size_t i = 0; i < arm->n_variables; i++)
        if (strcmp(arm->variables[i].name, "LD_PRELOAD") == 0)
            before = arm->variables[i].value;
    before = before != NULL && before[0] != '\0' ? before : NULL;
    return arm_set(arm, "LD_PRELOAD",
                   arms_keep(arms, "%s%s%s", path, before != NULL ? ":" : "",
                             before != NULL ? before : ""));
}

static int arm_set_value(struct stp_compare_arms *arms,
                         struct stp_compare_arm *arm, const struct list *list,
                         const char *value)
{
    char path[STP_CLI_PATH], file[STP_CLI_PATH + 16], rules[STP_CLI_PATH];
    struct stat st;
    // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker)
    const bool is_none = strcmp(value, lists[list->kind].none) == 0;

    switch (list->kind) {
    case LIST_POLICY:
        if (strcmp(value, NO_TUNER) == 0)
            return arm_set(arm, "NCCL_TUNER_PLUGIN", "none");
        return is_none ? arm_set_lower(arms, arm)
                       : arm_set_policy(arms, arm, value);
    case LIST_PLUGIN:
        /* a path, or a word that NCCL makes a path of */
        if (is_none || (strchr(value, '/') == NULL && access(value, F_OK) != 0))
            return arm_set(arm, "NCCL_TUNER_PLUGIN", value);
        if (!stp_absolute_path(value, path))
            return stp_complain("%s: no such plugin", value);
        return arm_set_text(arms, arm, "NCCL_TUNER_PLUGIN", path);
    case LIST_NCCL:
        /* which NCCL it is, it says itself */
        if (!stp_job_has("NCCL_DEBUG"))
            arm_set(arm, "NCCL_DEBUG", "VERSION");
        if (is_none)
            return STP_EXIT_OK;
        snprintf(file, sizeof(file), "%s%s", value,
                 stat(value, &st) == 0 && S_ISDIR(st.st_mode) ? "/libnccl.so.2"
                                                              : "");
        if (!stp_absolute_path(file, path))
            return stp_complain("--nccl: no file '%s', expected a libnccl.so.2 "
                                "or its folder",
                                file);
        /* Whatever finds libraries for the job, a preloaded one of the same
         * name comes first: PyTorch's own NCCL is found by a path that
         * LD_LIBRARY_PATH does not change. */
        return arm_preload(arms, arm, path);
    case LIST_STAGE:
        if (is_none)
            return arm_set(arm, "STEPTUNE_STAGE_FILE", NULL);
        if (stp_find_staging(value, rules, path) != STP_EXIT_OK)
            return STP_EXIT_FAILED;
        arm->stage = arms_keep(arms, "%s", rules);
        arm_set(arm, "STEPTUNE_STAGE_FILE", arm->stage);
        return arm_preload(arms, arm, path);
    case LIST_ENV:
        return arm_set(arm, list->name, is_none ? NULL : value);
    }
    return STP_EXIT_OK;
}

/* ---- arms ---- */

/* Adds the arm that has value 'i' of list 'varied' (NULL: the baseline), and
 * the first one of all others.  Arms that are alike have a number. */
static int arms_add(struct stp_compare_arms *arms, const struct list *all,
                    unsigned n, const struct list *varied, unsigned i)
{
    struct stp_compare_arm *arm = &arms->all[arms->n];
    char label[STP_JOB_LABEL] = "";
    size_t len;
    unsigned n_alike = 1;
    int status = STP_EXIT_OK;

    if (arms->n == STP_JOB_ARMS)
        return stp_complain("more than %d arms to compare", STP_JOB_ARMS);
    for (const struct list *list = all; list < all + n; list++) {
        const char *value = list->values[list == varied ? i : 0];
        const bool is_unset =
            list->kind == LIST_ENV && strcmp(value, lists[LIST_ENV].none) == 0;

        STP_THEN(status, arm_set_value(arms, arm, list, value));
        if (varied == NULL || list == varied)
            stp_append(
                label, sizeof(label), "%s%s%s%s%s",
                label[0] != '\0' ? ", " : "",
                list->kind == LIST_ENV ? list->name : lists[list->kind].noun,
                list->kind == LIST_ENV && !is_unset ? "=" : " ", value,
                list->kind == LIST_POLICY && arm->lower != NULL ? arm->lower
                                                                : "");
    }
    if (arm->has_policy)
        STP_THEN(status, stp_run_plugin("steptune", arm_check_policy, arm));
    len = strlen(label);
    for (const struct stp_compare_arm *a = arms->all;
         a < arm && status == STP_EXIT_OK; a++)
        n_alike +=
            strncmp(a->label, label, len) == 0 &&
            (a->label[len] == '\0' || strncmp(a->label + len, " (", 2) == 0);
    if (status == STP_EXIT_OK)
        arm->label = n_alike == 1 ? arms_keep(arms, "%s", label)
                                  : arms_keep(arms, "%s (%u)", label, n_alike);
    arms->n++;
    return status;
}

int stp_compare_make_arms(const struct stp_compare_options *o,
                          struct stp_compare_arms *arms)
{
    struct list all[LIST_ENV + STP_COMPARE_ENVS] = {0};
    unsigned n = 0;
    int status = arms_read_lists(o, arms, all, &n);

    if (status == STP_EXIT_OK && !arms->is_full)
        status = arms_add(arms, all, n, NULL, 0);
    for (unsigned k = 0; k < n && !arms->is_full; k++)
        for (unsigned i = 1; i < all[k].n && status == STP_EXIT_OK; i++)
            status = arms_add(arms, all, n, &all[k], i);
    if (status == STP_EXIT_OK && arms->is_full)
        status = stp_complain("the lists of arms are too long, expected less "
                              "than 64 KiB in all");
    return status;
}
