/* plugin.c - running tuner plugins, ours and others' */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child/child.h"
#include "cli/cli.h"
#include "cli/doctor/doctor.h"
#include "core/utf8.h"
#include "launch/take.h"
#include "mock_nccl.h"
#include "plugin/file.h"
#include "plugin/lower.h"
#include "plugin/settings.h"
#include "report/file.h"
#include "tune/trial.h"

#define FOR_OVERLAP ", because NCCL_WORKLOAD_OVERLAP is 1"

/* Prints the first warning, which ranks repeat, as a job's log has it: a plugin
 * that steps aside tells only NCCL, and all that is printed then is NCCL's own
 * choice. */
static void plugin_warn(void *unused, ncclDebugLogLevel level,
                        unsigned long flags, const char *line)
{
    static atomic_flag has_warned = ATOMIC_FLAG_INIT;

    if (level == NCCL_LOG_WARN && !atomic_flag_test_and_set(&has_warned))
        stp_complain("NCCL WARN %s", line);
}

void stp_print_plugin_warnings(void)
{
    mock_set_log(plugin_warn, NULL);
    mock_set_log_level(NCCL_LOG_WARN);
}

void stp_set_variable(const char *name, const char *value)
{
    if (value != NULL ? setenv(name, value, 1) != 0 : unsetenv(name) != 0)
        stp_end_without_memory();
}

enum stp_status stp_set_plugin_environment(const char *machine_path,
                                           const char *policy,
                                           struct stp_error *err)
{
    struct mock_machine *machine;

    if (machine_path != NULL) {
        if (mock_machine_load(machine_path, &machine) != ncclSuccess)
            return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
        stp_print_plugin_warnings();
        stp_set_variable("STEPTUNE_GPU", mock_machine_get_info(machine)->gpu);
        /* One rank often stands for all, and a plugin would miss the others. */
        stp_set_variable("STEPTUNE_AGREE", "assume");
        /* A recorded machine is not this one, which may have another tuner. */
        if (stp_setting("STEPTUNE_CHAIN") == NULL)
            stp_set_variable("STEPTUNE_CHAIN", "none");
        mock_machine_free(machine);
    }
    if (policy != NULL) {
        stp_set_variable("NCCL_TUNER_CONFIG_FILE", policy);
        stp_set_variable("NCCL_WORKLOAD_OVERLAP", NULL);
    }
    return STP_OK;
}

/* Prints why a policy is used, before any result. */
static void policy_print_choice(bool is_json, const char *path, const char *why,
                                const char *other)
{
    if (is_json)
        stp_complain("policy %s, %s%s", path, why, other);
    else
        printf("policy %s, %s%s\n", path, why, other);
    fflush(stdout); /* before ranks are forked */
}

/* Whether the settings have a policy: the default may be missing. */
static bool policy_is_set(const struct stp_plugin_settings *settings)
{
    return settings->policy_is_named ||
           access(settings->policy_path, F_OK) == 0;
}

/* The variables that chose the policy of the settings. */
static const char *
policy_find_variables(const struct stp_plugin_settings *settings)
{
    const char *file = stp_setting("NCCL_TUNER_CONFIG_FILE");

    if (file != NULL && strcmp(file, settings->policy_path) == 0)
        return "from NCCL_TUNER_CONFIG_FILE";
    if (!settings->policy_is_named)
        return "the default of the plugin";
    if (stp_setting("STEPTUNE_OVERLAP_CONFIG_FILE") != NULL)
        return "from STEPTUNE_OVERLAP_CONFIG_FILE" FOR_OVERLAP;
    return file == NULL ? "from NCCL_TUNER_CONFIG_FILE's default" FOR_OVERLAP
                        : "from NCCL_TUNER_CONFIG_FILE" FOR_OVERLAP;
}

int stp_choose_policy(const char *named, bool ours, bool is_json,
                      char path_ret[STP_CLI_PATH])
{
    struct stp_plugin_settings settings;
    struct stp_error err;
    enum stp_status status = stp_settings_read(&settings, &err);
    const char *path = named;

    if (named == NULL && ours && status != STP_OK)
        return stp_complain_error("no policy", &err);
    if (named != NULL && status == STP_OK) {
        /* the command line wins over the environment, which may differ */
        if (settings.policy_is_named &&
            strcmp(settings.policy_path, named) != 0)
            policy_print_choice(is_json, named,
                                "as named; a job with this environment takes ",
                                settings.policy_path);
    } else if (status == STP_OK && policy_is_set(&settings) &&
               (ours || access(settings.policy_path, R_OK) == 0)) {
        path = settings.policy_path;
        policy_print_choice(is_json, path, policy_find_variables(&settings),
                            "");
    } else if (named == NULL && !ours)
        path = stp_setting("NCCL_TUNER_CONFIG_FILE");
    snprintf(path_ret, STP_CLI_PATH, "%s", path != NULL ? path : "");
    return STP_EXIT_OK;
}

int stp_check_policy(char path_ret[STP_CLI_PATH])
{
    const char *named = getenv("NCCL_TUNER_CONFIG_FILE");
    char why[STP_CLI_PATH + STP_ERROR_TEXT];
    struct stp_plugin_settings settings;
    struct stp_policy *policy = NULL;
    struct stp_error err;

    if (stp_settings_read(&settings, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    snprintf(path_ret, STP_CLI_PATH, "%s", settings.policy_path);
    if (strcmp(path_ret, named) == 0 ||
        stp_file_load_policy(STP_POLICY_OF_ARMS, path_ret, &policy, &err) ==
            STP_OK) {
        stp_policy_free(policy);
        return STP_EXIT_OK;
    }
    stp_error_string(&err, path_ret, why, sizeof(why));
    return stp_complain("%s; the plugin takes this file for %s" FOR_OVERLAP
                        ": unset that, or let `steptune tune` without a "
                        "command write the file",
                        why, named);
}

bool stp_has_policy(void)
{
    struct stp_plugin_settings settings;

    return stp_settings_read(&settings, NULL) != STP_OK ||
           policy_is_set(&settings);
}

int stp_load_plugin_policy(const char *path, bool ours,
                           struct stp_policy **policy_ret)
{
    char why[STP_CLI_PATH + STP_ERROR_TEXT];
    struct stp_error err;

    if (path == NULL || *path == '\0') {
        if (!ours)
            return STP_EXIT_OK;
        return stp_complain("no policy for the plugin, expected "
                            "--policy or NCCL_TUNER_CONFIG_FILE");
    }
    if (stp_file_load_policy(STP_POLICY_OF_ARMS, path, policy_ret, &err) ==
        STP_OK)
        return STP_EXIT_OK;
    if (ours)
        return stp_complain_error(path, &err);
    stp_error_string(&err, path, why, sizeof(why));
    stp_complain("%s; the lines that decide are not known", why);
    return STP_EXIT_OK;
}

enum stp_status stp_require_rules(const char *path, const char *machine_path,
                                  int n_ranks, struct stp_error *err)
{
    struct mock_machine *machine = NULL, *resized = NULL;
    const struct mock_machine_info *known;
    struct stp_device_info info = {0};
    enum stp_status status;

    if (mock_machine_load(machine_path, &machine) != ncclSuccess ||
        (n_ranks > 0 &&
         mock_machine_resize(machine, n_ranks, &resized) != ncclSuccess))
        status = stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    else {
        known = mock_machine_get_info(resized != NULL ? resized : machine);
        info.n_ranks = (unsigned)known->n_ranks;
        info.n_nodes = (unsigned)known->n_nodes;
        memcpy(info.gpu, known->gpu, sizeof(info.gpu));
        status = stp_trial_require_rules(path, &info, err);
    }
    mock_machine_free(resized);
    mock_machine_free(machine);
    return status;
}

int stp_run_plugin(const char *plugin, int (*run)(void *user), void *user)
{
    pid_t child = plugin != NULL ? stp_child_start(false) : -1;
    const char *crash;
    struct stp_error err;
    int status;

    if (child < 0)
        return run(user);
    if (child == 0) {
        status = run(user);
        if (stp_file_flush(stdout, "to standard output", &err) != STP_OK)
            status = stp_complain_error(NULL, &err);
        _exit(status);
    }
    status = stp_child_await(child);
    crash = stp_child_crash(status);
    if (crash != NULL)
        return stp_complain(
            "tuner plugin '%s' crashed (%s) when mock NCCL called it", plugin,
            crash);
    return status < 0 ? stp_complain("lost its child process")
                      : WEXITSTATUS(status);
}

/* ---- the tuner that a job would have without ours: others' libraries may
 * crash when they are opened, so a child opens them ---- */

static void lower_ask(const void *question, void *answer)
{
    struct stp_found_tuner *found = answer;
    struct stp_lower lower;
    struct stp_error err;

    if (stp_lower_find(question, &lower, &err) != STP_OK)
        snprintf(found->why, sizeof(found->why), "%s", err.text);
    if (lower.symbol == NULL)
        return;
    found->version = lower.version;
    stp_printable(stp_lower_name(&lower), strlen(stp_lower_name(&lower)),
                  found->name, sizeof(found->name));
    snprintf(found->path, sizeof(found->path), "%s", lower.path);
    snprintf(found->by, sizeof(found->by), "%s", lower.found_by);
}

bool stp_find_conf(const char *name, struct stp_conf_value *value_ret)
{
    return stp_conf_find(stp_doctor_setting("STEPTUNE_ROOT"), STP_NEWEST_TUNER,
                         name, value_ret);
}

const char *stp_chain_setting(void)
{
    static struct stp_conf_value conf;
    const char *chain = stp_setting("STEPTUNE_CHAIN");

    if (chain == NULL && stp_find_conf("STEPTUNE_CHAIN", &conf))
        chain = conf.value;
    return stp_lower_setting(chain, getenv("NCCL_TUNER_PLUGIN"));
}

void stp_find_lower(const char *chain, int newest,
                    struct stp_found_tuner *found_ret)
{
    const struct stp_lower_question question = {
        .chain = chain,
        .net = getenv("NCCL_NET_PLUGIN"),
        .root = stp_doctor_setting("STEPTUNE_ROOT"),
        .newest = newest,
    };
    char why[STP_SYMPTOM_TEXT];

    if (!stp_doctor_ask_child(lower_ask, &question, found_ret,
                              sizeof(*found_ret), why))
        snprintf(found_ret->why, sizeof(found_ret->why),
                 "the tuner below ours: %.400s", why);
}

int stp_set_over(const char *over)
{
    static const char variable[] = "STEPTUNE_CHAIN";
    struct stp_found_tuner found;

    stp_set_variable(variable, over);
    stp_find_lower(over, STP_NEWEST_TUNER, &found);
    if (found.version > 0 && strcasecmp(over, "auto") != 0 &&
        strcmp(found.by, variable) != 0)
        return stp_complain("--over: '%s' does not open or is Steptune's, "
                            "expected the library of another tuner",
                            over);
    if (found.why[0] == '\0')
        return STP_EXIT_OK;
    return strncmp(found.why, variable, strlen(variable)) == 0
               ? stp_complain("--over%s", found.why + strlen(variable))
               : stp_complain("--over: %s", found.why);
}
