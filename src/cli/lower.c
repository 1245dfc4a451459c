/* lower.c - the tuner that a job would have without ours
 *
 * Others' libraries may crash when they are opened, so a child opens them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/doctor/doctor.h"
#include "core/utf8.h"
#include "plugin/lower.h"
#include "plugin/settings.h"

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
