/* doctor_settings.c - nccl.conf files, variables and the policy they name */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/explain/variables.h"
#include "cli/doctor/doctor.h"
#include "core/policy/baseline.h"
#include "core/nearest.h"
#include "core/text.h"
#include "device/cuda/nccl_api.h"
#include "mock_nccl.h"
#include "plugin/file.h"
#include "plugin/settings.h"

enum {
    MAX_NAMES = 1 << 14, /* bytes of the names of all variables */
    FIRST_LIMIT = 23100, /* NCCL that takes a rule's channels as a limit */
};

/* ---- nccl.conf ---- */

#define NAME "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"

static void settings_take_conf(void *user, const struct stp_conf_line *line)
{
    struct stp_doctor *d = user;
    struct stp_conf_setting *s = &d->settings[d->n_settings];
    char *value = line->value;

    if (line->name[0] != '\0' && line->name[0] != '\r' &&
        (value == NULL || line->name[strspn(line->name, NAME)] != '\0'))
        STP_PROBLEM(
            d, "NCCL passes over it, or sets a variable that nobody reads",
            "write NAME=VALUE, without blanks or quotation marks",
            "%s:%u begins with no name and '='", line->path, line->number);
    if (value == NULL || d->n_settings == STP_MAX_NAMED_SETTINGS)
        return;
    if (strchr(value, '\r') != NULL) {
        value[strcspn(value, "\r")] = '\0';
        STP_PROBLEM(d, "NCCL up to 2.29 takes it for a part of the value",
                    "write the file with Unix line ends",
                    "%s:%u ends with a carriage return", line->path,
                    line->number);
    }
    if (line->name[0] == '\0' || getenv(line->name) != NULL ||
        setenv(line->name, value, 0) != 0)
        return;
    snprintf(s->name, sizeof(s->name), "%s", line->name);
    snprintf(s->where, sizeof(s->where), "%s:%u", line->path, line->number);
    d->n_settings++;
}

void stp_doctor_read_conf(struct stp_doctor *d)
{
    const char *named = stp_doctor_setting("NCCL_CONF_FILE");
    char path[STP_CONF_TEXT], *text;
    size_t len;

    for (int i = 0; i < STP_CONF_FILES; i++) {
        if (!stp_conf_path(i, d->root, d->home, path))
            continue;
        if (stp_doctor_read(path, STP_CONF_MAX, &text, &len, NULL) == STP_OK) {
            stp_conf_read(path, text, settings_take_conf, d);
            STP_FINE(d, "%s is read by NCCL", path);
            free(text);
        } else if (i == 0 && named[0] != '\0')
            STP_PROBLEM(d,
                        "NCCL ignores it without a word, and ~/.nccl.conf, too",
                        "correct it, or unset it",
                        "NCCL_CONF_FILE=%s cannot be read", named);
    }
}

/* ---- variables ---- */

/* Tells which versions of NCCL here, or the newest known if there is none,
 * refuse the two variables or are left without an algorithm for a collective,
 * and where LL128 is forced. */
static void settings_judge_choice(struct stp_doctor *d)
{
    const char *algo = getenv("NCCL_ALGO"), *proto = getenv("NCCL_PROTO");
    char name[16] = "2.32";
    bool forces_ll128 = false;
    struct stp_variable v;

    d->has_no_nvls |= stp_doctor_off_for("nvls", &v);
    for (size_t i = 0; i == 0 || i < d->n_versions; i++) {
        const char *where = "";
        bool fails;

        if (d->n_versions > 0)
            stp_nccl_version_name(d->versions[i], name);
        if (mock_release_find(name) < 0)
            continue;
        forces_ll128 |= mock_release_forces_ll128(name, algo, proto);
        fails = mock_release_check(name, algo, proto, false) != ncclSuccess;
        if (!fails &&
            mock_release_check(name, algo, proto, true) != ncclSuccess)
            where = d->has_no_nvls ? " without NVLS, as here"
                                   : " where there is no NVLS";
        if (fails || where[0] != '\0')
            stp_diagnose(&d->diagnosis,
                         fails || d->has_no_nvls ? STP_SYMPTOM_PROBLEM
                                                 : STP_SYMPTOM_NOTE,
                         "it is an error of the communicator, or of each such "
                         "collective, and ends the job",
                         "name what each collective may use, or unset it",
                         "NCCL %s fails with %s%s", name, mock_last_error(),
                         where);
    }
    if (forces_ll128)
        stp_diagnose(&d->diagnosis,
                     d->has_no_ll128 ? STP_SYMPTOM_PROBLEM : STP_SYMPTOM_NOTE,
                     d->has_no_ll128
                         ? "NCCL does not trust it on these GPUs or on what "
                           "connects them: results may be wrong, and nothing "
                           "says so"
                         : "NCCL trusts it over NVLink, and between hosts only "
                           "where no CPU lies between GPU and network; "
                           "elsewhere results may be wrong, and nothing says "
                           "so",
                     "leave LL128 to NCCL: unset NCCL_PROTO",
                     "NCCL_PROTO=%s forces LL128, also where NCCL itself would "
                     "not take it",
                     proto);
}

/* Tells of a list of names, as NCCL reads it, that leaves none of the devices
 * here. */
static void settings_judge_devices(struct stp_doctor *d,
                                   const struct stp_variable *v,
                                   const char *value)
{
    const bool is_net = strcmp(stp_variable_words(v), "net") == 0;
    const bool excepts = *value == '^';
    const char *names = value + excepts;
    const bool exactly = *names == '=';
    char text[STP_CLI_PATH], list[STP_VARIABLE_TEXT] = "";
    glob_t found;
    bool any = false;

    names += exactly;
    snprintf(text, sizeof(text), "%s/sys/class/%s/*", d->root,
             stp_variable_words(v));
    if (*names == '\0' || glob(text, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *name = stp_base_name(found.gl_pathv[i]);
        bool has = false;

        for (const char *at = names; *at != '\0';) {
            const size_t n = strcspn(at, ",:");

            has |= n > 0 && strncmp(name, at, n) == 0 &&
                   (!exactly || name[n] == '\0');
            at += strcspn(at, ",");
            at += *at != '\0';
        }
        any |= has != excepts;
        stp_append(list, sizeof(list), "%s%s", i > 0 ? ", " : "", name);
    }
    globfree(&found);
    if (!any)
        STP_PROBLEM(d,
                    is_net ? "NCCL finds no interface, and the job ends"
                           : "NCCL goes on without InfiniBand and RoCE, and "
                             "hosts talk over sockets",
                    "correct it, or unset it",
                    "%s=%s (%s) leaves none of what is here: %s", v->name,
                    value, stp_doctor_where(d, v->name), list);
}

/* Tells which values NCCL reads otherwise than they were meant, and variables
 * that no NCCL here reads. */
static void settings_judge_values(struct stp_doctor *d)
{
    char text[STP_VARIABLE_TEXT];
    struct stp_variable v;

    for (size_t i = 0; stp_variable_at(i, &v); i++) {
        const char *value = stp_doctor_setting(v.name);
        bool is_read = d->n_versions == 0 || value[0] == '\0';

        for (size_t k = 0; k < d->n_versions; k++) {
            const int minor = d->versions[k] / 100 % 100;

            /* the table knows nothing of older versions */
            is_read |= (minor >= v.first || v.first == STP_OLDEST_MINOR) &&
                       (v.last == 0 || minor <= v.last);
        }
        if (stp_variable_is_misread(&v, value, text))
            STP_PROBLEM(d, text, "correct it, or unset it",
                        "%s=%s is set in %s", v.name, value,
                        stp_doctor_where(d, v.name));
        if (stp_variable_is(&v, "names"))
            settings_judge_devices(d, &v, value);
        if (!is_read)
            STP_REMARK(
                d, NULL, "unset it",
                "%s=%s (%s) is not read by the NCCL here; NCCL 2.%d %s it",
                v.name, value, stp_doctor_where(d, v.name),
                v.last != 0 ? v.last : v.first,
                v.last != 0 ? "was the last to read" : "is the first to read");
    }
}

/* Tells which names are no variable of NCCL and one letter from one. */
static void settings_judge_names(struct stp_doctor *d)
{
    const size_t prefix = strlen("NCCL_");
    char words[MAX_NAMES] = "", hint[STP_HINT];
    struct stp_variable v;

    for (size_t i = 0; stp_variable_at(i, &v); i++)
        stp_append(words, sizeof(words), " %s", v.name + prefix);
    for (char **name = environ; *name != NULL; name++) {
        const size_t n = strcspn(*name, "=");

        if (strncmp(*name, "NCCL_", prefix) != 0 || n == prefix)
            continue;
        stp_hint_nearest(*name + prefix, n - prefix, words, hint);
        snprintf(v.name, sizeof(v.name), "; did you mean '%.*s'?",
                 (int)(n - prefix), *name + prefix);
        if (hint[0] != '\0' && strcmp(hint, v.name) != 0)
            STP_REMARK(d, NULL, NULL,
                       "%.*s is no variable of NCCL; did you mean 'NCCL_%s",
                       (int)n, *name, strchr(hint, '\'') + 1);
    }
}

void stp_doctor_variables(struct stp_doctor *d)
{
    bool any = false;
    struct stp_variable v;

    for (size_t i = 0; stp_variable_at(i, &v); i++) {
        const char *name = v.name, *value = getenv(name);
        /* these remove algorithms or protocols from NCCL's table, whatever the
         * policy says */
        const bool excludes = stp_variable_is(&v, "choice");

        if (value == NULL || value[0] == '\0' || v.plays[0] == '\0' ||
            strcmp(v.plays, "graph") == 0 || stp_variable_is_off(&v, value))
            continue;
        any = true;
        stp_diagnose(
            &d->diagnosis, excludes ? STP_SYMPTOM_PROBLEM : STP_SYMPTOM_NOTE,
            excludes ? "NCCL rules out all else before it asks the plugin, and "
                       "rules of the policy with it"
                     : "NCCL's table and channels are others than those that "
                       "the policy was made on",
            "unset it, or see what it comes to by `steptune explain --why "
            "BYTES`",
            "%s=%s is set in %s", name, value, stp_doctor_where(d, name));
    }
    settings_judge_choice(d);
    settings_judge_values(d);
    if (!d->is_logged)
        settings_judge_names(d);
    if (!any)
        STP_FINE(d, "no variable overrides the plugin");
}

/* ---- the policies of a job ---- */

/* Rules for several hosts hang a job if the hosts hold others. */
static void policy_judge_hosts(struct stp_doctor *d, const char *path, size_t n,
                               const struct stp_plugin_settings *settings)
{
    char place[STP_STORE_PLACE];

    if (settings->agree == STP_AGREE_STORE) {
        stp_store_describe(&settings->store.address, place);
        STP_FINE(d, "hosts compare their policies in %s", place);
        return;
    }
    STP_REMARK(
        d,
        settings->agree_is_required
            ? "STEPTUNE_AGREE=required: the plugin steps aside on several hosts"
            : "the job hangs if one host has another policy, and rules that "
              "name a GPU do not apply",
        "start the job with torchrun, or set "
        "STEPTUNE_AGREE=tcpstore://HOST:PORT or file:///FOLDER",
        "%zu %s of policy %s %s for several hosts, and no store is known in "
        "which hosts compare their policies",
        n, n == 1 ? "rule" : "rules", path, n == 1 ? "is" : "are");
}

static void policy_judge(struct stp_doctor *d, const char *kind,
                         const char *path, const struct stp_policy *policy,
                         const struct stp_plugin_settings *settings)
{
    const char *gpu = settings->gpu;
    const size_t n = stp_policy_size(policy);
    bool any_limits = false;
    const bool of_memory = stp_policy_get_kind(policy) != STP_POLICY_OF_ARMS;
    /* rules by what they need and a host may lack: */
    size_t n_foreign = 0;  /* another GPU */
    size_t n_channels = 0; /* more channels than NCCL's own */
    size_t n_hosts = 0;    /* several hosts */
    size_t n_memory = 0;   /* memory that a variable switches off */
    size_t n_waiting = 0;  /* nothing beside staged collectives */
    struct stp_found_tuner lower;
    char why[STP_BASELINE_TEXT];
    struct stp_variable v, off;

    for (size_t i = 0; i < stp_policy_size(policy); i++) {
        const struct stp_rule *rule = stp_policy_rule(policy, i);

        n_foreign += rule->gpu != NULL && strcmp(rule->gpu, gpu) != 0;
        n_channels += !of_memory && rule->n_channels > 0;
        n_hosts += !of_memory && rule->nodes.min > 1;
        n_waiting += stp_policy_get_kind(policy) == STP_POLICY_OF_STAGE &&
                     rule->overlap == 0;
        if (of_memory &&
            stp_doctor_off_for(stp_memory_name(rule->memory), &v)) {
            n_memory++;
            off = v;
        }
    }
    if (n_foreign == 0)
        STP_FINE(d, "%s %s is valid: %zu rule%s, all for %s", kind, path, n,
                 STP_S(n), gpu[0] != '\0' ? gpu : "any GPU");
    else if (d->has_no_gpu && gpu[0] == '\0')
        STP_REMARK(d, "whether they apply depends on the GPUs of the job",
                   "ask where it runs, or set STEPTUNE_GPU to their model",
                   "%zu of the %zu rules of %s %s name a GPU, and none is here",
                   n_foreign, n, kind, path);
    else
        stp_diagnose(
            &d->diagnosis,
            n_foreign == n ? STP_SYMPTOM_PROBLEM : STP_SYMPTOM_NOTE,
            "they never apply",
            "make a policy here with `steptune tune`, or set STEPTUNE_GPU if "
            "the model is named wrongly",
            "%zu of the %zu rules of %s %s are for another GPU than the one "
            "here (%s)",
            n_foreign, n, kind, path, gpu[0] != '\0' ? gpu : "not known");
    for (size_t i = 0; i < d->n_versions; i++)
        any_limits |= d->versions[i] >= FIRST_LIMIT;
    if (n_channels > 0 && any_limits)
        STP_REMARK(d,
                   "NCCL 2.31 and later take them as a limit: a rule can lower "
                   "NCCL's own number, and not raise it",
                   "see what the rules do by `steptune explain --on` a machine "
                   "recorded with that NCCL",
                   "%zu %s of policy %s set%s channels", n_channels,
                   n_channels == 1 ? "rule" : "rules", path,
                   n_channels == 1 ? "s" : "");
    if (n_hosts > 0)
        policy_judge_hosts(d, path, n_hosts, settings);
    stp_find_lower(stp_chain_setting(), STP_NEWEST_TUNER, &lower);
    if (stp_baseline_differs(policy, lower.name, why))
        STP_REMARK(
            d, why, "make a policy with `steptune tune` in this environment",
            "%s %s was derived against another tuner than that of a job here",
            kind, path);
    if (n_memory > 0)
        STP_REMARK(
            d, "these rules do nothing", "unset it",
            "%zu of the %zu rules of %s %s want memory that %s=%s switches off",
            n_memory, n, kind, path, off.name, stp_doctor_setting(off.name));
    if (n_waiting > 0 &&
        strcmp(stp_doctor_setting("NCCL_WORKLOAD_OVERLAP"), "0") != 0)
        STP_REMARK(d, NULL,
                   "set NCCL_WORKLOAD_OVERLAP=0 if yours is such a job",
                   "%zu of the %zu rules of %s %s hold only for jobs in which "
                   "nothing runs beside collectives",
                   n_waiting, n, kind, path);
}

static bool policy_is_named(const char *variable)
{
    return stp_doctor_setting(variable)[0] != '\0';
}

#define STEPS_ASIDE "the plugin steps aside, and no rule applies"

/* Loads and examines a policy; false if it is not there, and not 'named' by an
 * option or a variable either. */
static bool policy_load(struct stp_doctor *d, enum stp_policy_kind kind,
                        const char *path, bool named,
                        const struct stp_plugin_settings *settings)
{
    static const char *const words[STP_N_POLICY_KINDS][2] = {
        {"policy", STEPS_ASIDE},
        {"memory policy", "applications cannot ask it what to register"},
        {"stage policy", "nothing is staged"},
    };
    char text[STP_CLI_PATH + STP_ERROR_TEXT];
    struct stp_policy *policy;
    struct stp_error err;

    if (!named && access(path, F_OK) != 0)
        return false;
    if (stp_file_load_policy(kind, path, &policy, &err) == STP_OK) {
        policy_judge(d, words[kind][0], path, policy, settings);
        stp_policy_free(policy);
        return true;
    }
    stp_error_string(&err, path, text, sizeof(text));
    STP_PROBLEM(d, words[kind][1], "correct the file or its name", "%s %s",
                words[kind][0], text);
    return true;
}

void stp_doctor_policy(struct stp_doctor *d)
{
    static const char *const variables[STP_N_POLICY_KINDS] = {
        [STP_POLICY_OF_MEMORY] = "STEPTUNE_MEMORY_CONFIG_FILE",
        [STP_POLICY_OF_STAGE] = "STEPTUNE_STAGE_FILE",
    };
    const bool learns = stp_doctor_learns("NCCL_TUNER_PLUGIN");
    struct stp_plugin_settings settings;
    char gpus[STP_CLI_PATH], path[STP_PATH_SIZE];
    struct stp_error err;

    if (stp_settings_read(&settings, &err) != STP_OK) {
        STP_PROBLEM(d, STEPS_ASIDE, "correct it, or unset it", "%s", err.text);
        return;
    }
    snprintf(gpus, sizeof(gpus), "%s" STP_DRIVER_GPUS, d->root);
    if (!policy_is_named("STEPTUNE_GPU"))
        stp_read_gpu(gpus, settings.gpu);
    for (int kind = STP_POLICY_OF_MEMORY; kind < STP_N_POLICY_KINDS; kind++)
        if (stp_settings_setups(kind, path, &err) == STP_OK &&
            policy_load(d, kind, path, policy_is_named(variables[kind]),
                        &settings))
            d->stages |= kind == STP_POLICY_OF_STAGE;
    if (policy_is_named("NCCL_WORKLOAD_OVERLAP"))
        STP_REMARK(d, NULL, NULL, "NCCL_WORKLOAD_OVERLAP=%s: the policy is %s",
                   getenv("NCCL_WORKLOAD_OVERLAP"), settings.policy_path);
    if (learns && policy_is_named("STEPTUNE_WARM_START"))
        policy_load(d, STP_POLICY_OF_ARMS, getenv("STEPTUNE_WARM_START"), true,
                    &settings);
    else if (policy_load(d, STP_POLICY_OF_ARMS, settings.policy_path,
                         policy_is_named("NCCL_TUNER_CONFIG_FILE") ||
                             policy_is_named("STEPTUNE_OVERLAP_CONFIG_FILE"),
                         &settings))
        return;
    else if (learns)
        STP_FINE(d,
                 "no policy: learning begins with the choice without Steptune");
    else
        STP_REMARK(d, STEPS_ASIDE,
                   access("steptune.conf", F_OK) == 0
                       ? "start the job by `steptune run`, which takes the "
                         "steptune.conf here, or set NCCL_TUNER_CONFIG_FILE to "
                         "its path"
                       : "make one with `steptune tune`",
                   "no policy: NCCL_TUNER_CONFIG_FILE is not set, and there is "
                   "no %s here",
                   settings.policy_path);
}
