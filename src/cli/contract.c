/* contract.c - `steptune replay --contract SO` */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "analyse/contract/contract.h"
#include "cli/cli.h"
#include "report/results/contract.h"

static enum stp_status report(const struct stp_contract_command *o,
                              const struct stp_contract *contract,
                              struct stp_error *err)
{
    if (o->json)
        return stp_print_contract_json(contract, stdout, err);
    printf("%s%s%s%s in mock NCCL %s on %s\n\n", o->plugin,
           contract->name[0] != '\0' ? " ('" : "", contract->name,
           contract->name[0] != '\0' ? "')" : "", contract->nccl,
           contract->machine);
    stp_print_contract(contract, stdout);
    return STP_OK;
}

static int judge(const char *command, const struct stp_contract_command *o,
                 const char *machine)
{
    const struct stp_contract_options options = {.plugin = o->plugin,
                                                 .machine_path = machine,
                                                 .nccl = o->nccl,
                                                 .policy = o->policy,
                                                 .n_seeds = o->n_seeds,
                                                 .time_limit_s =
                                                     o->time_limit_s};
    struct stp_contract contract;
    struct stp_error err;
    size_t n_failed;

    if (stp_contract_run(&options, &contract, &err) != STP_OK)
        return stp_complain_error(command, NULL, &err);
    n_failed = stp_contract_count(&contract, STP_CONTRACT_FAIL);
    if (report(o, &contract, &err) != STP_OK) {
        stp_contract_free(&contract);
        return stp_complain_error(command, NULL, &err);
    }
    stp_contract_free(&contract);
    return n_failed == 0 ? STP_EXIT_OK : STP_EXIT_FAILED;
}

/* Another vendor's policy may not be one that we can read. */
static bool can_open(const char *command, const char *path)
{
    FILE *fp = path != NULL ? fopen(path, "r") : NULL;

    if (fp != NULL)
        fclose(fp);
    else if (path != NULL)
        stp_complain(command, "%s: cannot be opened: %s", path,
                     strerror(errno));
    return fp != NULL || path == NULL;
}

int stp_run_contract(const char *command, const struct stp_contract_command *o)
{
    char machine[STP_CLI_PATH];
    struct stp_error err;

    if (stp_find_machine(o->on != NULL ? o->on : STP_DEFAULT_MACHINE, machine,
                         &err) != STP_OK) {
        stp_complain_error(command, NULL, &err);
        return STP_EXIT_NOTHING;
    }
    if (!can_open(command, o->policy))
        return STP_EXIT_FAILED;
    if (stp_set_plugin_environment(machine, NULL, &err) != STP_OK)
        return stp_complain_error(command, NULL, &err);
    return judge(command, o, machine);
}
