/* doctor_settings.c - nccl.conf files, variables and the policy they name */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/explain/why.h"
#include "cli/doctor/doctor.h"
#include "core/policy/memory_policy.h"
#include "core/text.h"
#include "plugin/file.h"
#include "plugin/settings.h"

enum { MAX_CONF = 1 << 20 };

/* ---- nccl.conf ---- */

/* A line "NAME=VALUE"; NCCL takes the rest of the line as it is. */
static void doctor_read_setting(struct stp_doctor *d, const char *path,
                                unsigned line, char *text)
{
    char *value = strchr(text, '=');
    struct stp_conf_setting *s = &d->settings[d->n_settings];

    if (text[0] == '#' || value == NULL || d->n_settings == STP_MAX_SETTINGS)
        return;
    *value++ = '\0';
    if (text[0] == '\0' || getenv(text) != NULL || setenv(text, value, 0) != 0)
        return;
    snprintf(s->name, sizeof(s->name), "%s", text);
    snprintf(s->where, sizeof(s->where), "%s:%u", path, line);
    d->n_settings++;
}

static bool doctor_read_conf(struct stp_doctor *d, const char *path)
{
    char *text, *line, *end;
    unsigned number = 1;
    size_t len;

    if (stp_read_file(path, MAX_CONF, &text, &len, NULL) != STP_OK)
        return false;
    for (line = text; *line != '\0'; line = end, number++) {
        end = line + strcspn(line, "\n");
        if (*end == '\n')
            *end++ = '\0';
        doctor_read_setting(d, path, number, line);
    }
    stp_diagnose(&d->diagnosis, STP_SYMPTOM_OK, "%s is read by NCCL", path);
    free(text);
    return true;
}

void stp_doctor_read_conf(struct stp_doctor *d)
{
    const char *named = getenv("NCCL_CONF_FILE");
    char path[STP_CLI_PATH];

    if (named != NULL && named[0] != '\0') {
        if (!doctor_read_conf(d, named)) {
            stp_diagnose(&d->diagnosis, STP_SYMPTOM_PROBLEM,
                         "NCCL_CONF_FILE=%s cannot be read", named);
            stp_diagnose_why(&d->diagnosis,
                             "NCCL ignores it without a word, and "
                             "~/.nccl.conf, too");
            stp_diagnose_todo(&d->diagnosis, "correct it, or unset it");
        }
    } else if (d->home != NULL) {
        snprintf(path, sizeof(path), "%s/.nccl.conf", d->home);
        doctor_read_conf(d, path);
    }
    snprintf(path, sizeof(path), "%s/etc/nccl.conf", d->root);
    doctor_read_conf(d, path);
}

const char *stp_doctor_where(const struct stp_doctor *d, const char *name)
{
    for (size_t i = 0; i < d->n_settings; i++)
        if (strcmp(d->settings[i].name, name) == 0)
            return d->settings[i].where;
    return "the environment";
}

bool stp_doctor_learns(void)
{
    const char *tuner = getenv("NCCL_TUNER_PLUGIN");

    return tuner != NULL && strstr(tuner, "steptune-online") != NULL;
}

/* ---- variables ---- */

/* Whether the variable removes algorithms or protocols from NCCL's table,
 * whatever the policy says. */
static bool doctor_excludes(const char *name)
{
    return strcmp(name, "NCCL_ALGO") == 0 || strcmp(name, "NCCL_PROTO") == 0;
}

void stp_doctor_variables(struct stp_doctor *d)
{
    bool any = false;
    const char *name;

    for (size_t i = 0; (name = stp_override_name(i)) != NULL; i++) {
        const char *value = getenv(name);

        if (value == NULL || stp_doctor_is_off(name))
            continue;
        any = true;
        stp_diagnose(
            &d->diagnosis,
            doctor_excludes(name) ? STP_SYMPTOM_PROBLEM : STP_SYMPTOM_NOTE,
            "%s=%s is set in %s", name, value, stp_doctor_where(d, name));
        stp_diagnose_why(
            &d->diagnosis, "%s",
            doctor_excludes(name)
                ? "NCCL rules out all else before it asks the plugin, "
                  "and rules of the policy with it"
                : "NCCL's table and channels are others than those "
                  "that the policy was made on");
        stp_diagnose_todo(
            &d->diagnosis,
            "unset it, or see what it comes to by `steptune explain "
            "--why BYTES`");
    }
    if (!any)
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_OK,
                     "no variable overrides the plugin");
}

/* ---- the policy ---- */

/* Rules that name another GPU than this host's. */
static size_t doctor_count_foreign(const struct stp_policy *policy,
                                   const char *gpu)
{
    size_t n = 0;

    for (size_t i = 0; i < stp_policy_size(policy); i++) {
        const char *wanted = stp_policy_rule(policy, i)->gpu;

        n += wanted != NULL && strcmp(wanted, gpu) != 0;
    }
    return n;
}

/* NCCL that takes a rule's channels as a limit. */
enum { FIRST_LIMIT = 23100 };

static bool doctor_any_limits(const struct stp_doctor *d)
{
    for (size_t i = 0; i < d->n_versions; i++)
        if (d->versions[i] >= FIRST_LIMIT)
            return true;
    return false;
}

static void doctor_judge_channels(struct stp_doctor *d, const char *path,
                                  const struct stp_policy *policy)
{
    size_t n = 0;

    for (size_t i = 0; i < stp_policy_size(policy); i++)
        n += stp_policy_rule(policy, i)->n_channels > 0;
    if (n == 0 || !doctor_any_limits(d))
        return;
    stp_diagnose(&d->diagnosis, STP_SYMPTOM_NOTE,
                 "%zu %s of policy %s set%s channels", n,
                 n == 1 ? "rule" : "rules", path, n == 1 ? "s" : "");
    stp_diagnose_why(&d->diagnosis,
                     "NCCL 2.31 and later take them as a limit: a rule can "
                     "lower NCCL's own number, and not raise it");
    stp_diagnose_todo(&d->diagnosis,
                      "see which rules that concerns by `steptune check "
                      "--on` a machine recorded with that NCCL");
}

static void doctor_judge_policy(struct stp_doctor *d, const char *path,
                                const struct stp_policy *policy,
                                const char *gpu)
{
    size_t n = stp_policy_size(policy);
    size_t foreign = doctor_count_foreign(policy, gpu);
    const char *kind = stp_policy_get_kind(policy) == STP_POLICY_OF_MEMORY
                           ? "memory policy"
                           : "policy";
    const char *here = gpu[0] != '\0' ? gpu : "not known";

    if (foreign == 0) {
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_OK,
                     "%s %s is valid: %zu %s, all for the GPU here (%s)", kind,
                     path, n, n == 1 ? "rule" : "rules", here);
        return;
    }
    stp_diagnose(
        &d->diagnosis, foreign == n ? STP_SYMPTOM_PROBLEM : STP_SYMPTOM_NOTE,
        "%zu of the %zu rules of %s %s are for another GPU than the one here "
        "(%s)",
        foreign, n, kind, path, here);
    stp_diagnose_why(&d->diagnosis, "they never apply");
    stp_diagnose_todo(&d->diagnosis,
                      "make a policy here with `steptune tune`, or set "
                      "STEPTUNE_GPU if the model is named wrongly");
}

/* Rules for several hosts, which hang a job if the hosts hold others. */
static void doctor_judge_hosts(struct stp_doctor *d, const char *path,
                               const struct stp_policy *policy)
{
    struct stp_plugin_settings settings;
    char place[STP_STORE_PLACE];
    struct stp_error err;
    size_t n = 0;

    for (size_t i = 0; i < stp_policy_size(policy); i++)
        n += stp_policy_rule(policy, i)->nodes.min > 1;
    if (n == 0 || stp_settings_read(&settings, &err) != STP_OK)
        return;
    if (settings.agree == STP_AGREE_STORE) {
        stp_store_describe(&settings.store.address, place);
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_OK,
                     "hosts compare their policies in %s", place);
        return;
    }
    stp_diagnose(&d->diagnosis, STP_SYMPTOM_NOTE,
                 "%zu %s of policy %s %s for several hosts, and no store is "
                 "known in which hosts compare their policies",
                 n, n == 1 ? "rule" : "rules", path, n == 1 ? "is" : "are");
    stp_diagnose_why(&d->diagnosis, "%s",
                     settings.agree_is_required
                         ? "STEPTUNE_AGREE=required: the plugin steps aside "
                           "on several hosts"
                         : "the job hangs if one host has another policy, and "
                           "rules that name a GPU do not apply");
    stp_diagnose_todo(&d->diagnosis, "start the job with torchrun, or set "
                                     "STEPTUNE_AGREE=tcpstore://HOST:PORT "
                                     "or file:///FOLDER");
}

static void doctor_load_policy(struct stp_doctor *d, const char *path,
                               const char *gpu)
{
    char text[STP_CLI_PATH + STP_ERROR_TEXT];
    struct stp_policy *policy;
    struct stp_error err;

    if (stp_file_load_policy(path, &policy, &err) == STP_OK) {
        doctor_judge_policy(d, path, policy, gpu);
        doctor_judge_channels(d, path, policy);
        doctor_judge_hosts(d, path, policy);
        stp_policy_free(policy);
        return;
    }
    stp_error_string(&err, path, text, sizeof(text));
    if (!d->named && access(path, F_OK) != 0 && stp_doctor_learns()) {
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_OK,
                     "no policy: learning begins with NCCL's own choice");
        return;
    }
    if (d->named || access(path, F_OK) == 0)
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_PROBLEM, "policy %s", text);
    else
        stp_diagnose(
            &d->diagnosis, STP_SYMPTOM_NOTE,
            "no policy: NCCL_TUNER_CONFIG_FILE is not set, and there is "
            "no %s here",
            path);
    stp_diagnose_why(&d->diagnosis,
                     "the plugin steps aside, and NCCL tunes alone");
    stp_diagnose_todo(&d->diagnosis, "%s",
                      d->named ? "correct the file or its name"
                               : "make one with `steptune tune`");
}

static bool doctor_is_set(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0';
}

/* ---- the memory policy ---- */

/* Rules for memory that a variable switches off, which is told. */
static void doctor_judge_memory(struct stp_doctor *d, const char *path,
                                const struct stp_policy *policy)
{
    const char *off = NULL;
    size_t n = 0;

    for (size_t i = 0; i < stp_policy_size(policy); i++) {
        const int memory = stp_policy_rule(policy, i)->memory;
        const char *by = stp_doctor_off_for(stp_memory_name(memory));

        n += by != NULL;
        off = by != NULL ? by : off;
    }
    if (n == 0)
        return;
    stp_diagnose(&d->diagnosis, STP_SYMPTOM_NOTE,
                 "%zu of the %zu rules of memory policy %s want memory that "
                 "%s=%s switches off",
                 n, stp_policy_size(policy), path, off, getenv(off));
    stp_diagnose_why(&d->diagnosis, "applications register buffers in vain");
    stp_diagnose_todo(&d->diagnosis, "unset it");
}

/* Most jobs have none. */
static void doctor_load_memory(struct stp_doctor *d, const char *gpu)
{
    char text[STP_CLI_PATH + STP_ERROR_TEXT];
    char path[STP_PATH_SIZE];
    struct stp_policy *policy;
    struct stp_error err;

    if (stp_settings_memory(path, &err) != STP_OK ||
        (access(path, F_OK) != 0 &&
         !doctor_is_set("STEPTUNE_MEMORY_CONFIG_FILE")))
        return;
    if (stp_file_load_memory_policy(path, &policy, &err) == STP_OK) {
        doctor_judge_policy(d, path, policy, gpu);
        doctor_judge_memory(d, path, policy);
        stp_policy_free(policy);
        return;
    }
    stp_error_string(&err, path, text, sizeof(text));
    stp_diagnose(&d->diagnosis, STP_SYMPTOM_PROBLEM, "memory policy %s", text);
    stp_diagnose_why(&d->diagnosis,
                     "applications cannot ask it what to register");
    stp_diagnose_todo(&d->diagnosis, "correct the file or its name");
}

void stp_doctor_policy(struct stp_doctor *d)
{
    struct stp_plugin_settings settings;
    char gpus[STP_CLI_PATH];
    struct stp_error err;

    d->named = doctor_is_set("NCCL_TUNER_CONFIG_FILE") ||
               doctor_is_set("STEPTUNE_OVERLAP_CONFIG_FILE");
    if (stp_settings_read(&settings, &err) != STP_OK) {
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_PROBLEM, "%s", err.text);
        stp_diagnose_why(&d->diagnosis,
                         "the plugin steps aside, and NCCL tunes alone");
        stp_diagnose_todo(&d->diagnosis, "correct it, or unset it");
        return;
    }
    snprintf(gpus, sizeof(gpus), "%s" STP_DRIVER_GPUS, d->root);
    if (!doctor_is_set("STEPTUNE_GPU"))
        stp_read_gpu(gpus, settings.gpu);
    doctor_load_memory(d, settings.gpu);
    if (doctor_is_set("NCCL_WORKLOAD_OVERLAP"))
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_NOTE,
                     "NCCL_WORKLOAD_OVERLAP=%s: the policy is %s",
                     getenv("NCCL_WORKLOAD_OVERLAP"), settings.policy_path);
    if (stp_doctor_learns() && doctor_is_set("STEPTUNE_WARM_START")) {
        d->named = true;
        doctor_load_policy(d, getenv("STEPTUNE_WARM_START"), settings.gpu);
        return;
    }
    doctor_load_policy(d, settings.policy_path, settings.gpu);
}
