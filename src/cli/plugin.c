/* plugin.c - running tuner plugins, ours and others' */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "mock_nccl.h"
#include "report/file.h"

enum stp_status stp_set_plugin_environment(const char *machine_path,
                                           const char *policy,
                                           struct stp_error *err)
{
    struct mock_machine *machine;
    int failed = unsetenv("NCCL_WORKLOAD_OVERLAP");

    if (machine_path != NULL) {
        if (mock_machine_load(machine_path, &machine) != ncclSuccess)
            return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
        failed |=
            setenv("STEPTUNE_GPU", mock_machine_get_info(machine)->gpu, 1);
        /* Often one rank stands for all, which a plugin would miss. */
        failed |= setenv("STEPTUNE_AGREE", "assume", 1);
        mock_machine_free(machine);
    }
    if (policy != NULL)
        failed |= setenv("NCCL_TUNER_CONFIG_FILE", policy, 1);
    return failed ? stp_nomem(err) : STP_OK;
}

int stp_load_plugin_policy(const char *path, bool ours,
                           struct stp_policy **policy_ret)
{
    struct stp_error err;

    if (path == NULL) {
        if (!ours)
            return STP_EXIT_OK;
        return stp_complain("no policy for the plugin, expected "
                            "--policy or NCCL_TUNER_CONFIG_FILE");
    }
    if (stp_policy_load(path, policy_ret, &err) == STP_OK)
        return STP_EXIT_OK;
    stp_complain_error(path, &err);
    if (ours)
        return STP_EXIT_FAILED;
    stp_complain("so the lines that decide are not known");
    return STP_EXIT_OK;
}

static int plugin_run_child(int (*run)(void *), void *user)
{
    int exit_status = run(user);
    struct stp_error err;

    if (stp_file_flush(stdout, "to standard output", &err) != STP_OK)
        exit_status = stp_complain_error(NULL, &err);
    return exit_status;
}

int stp_run_plugin(const char *plugin, int (*run)(void *user), void *user)
{
    pid_t child = plugin != NULL ? fork() : -1;
    int status;

    if (child < 0)
        return run(user);
    if (child == 0)
        _exit(plugin_run_child(run, user));
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return stp_complain("lost its child process");
    if (WIFSIGNALED(status))
        return stp_complain(
            "tuner plugin '%s' crashed (%s) when mock NCCL called it", plugin,
            strsignal(WTERMSIG(status)));
    return WEXITSTATUS(status);
}
