/* doctor_online.c - the learning plugin, tuner and profiler: settings */
#include "cli/doctor/doctor.h"
#include "plugin/online/online_settings.h"

static const char tuner[] = "NCCL_TUNER_PLUGIN";
static const char profiler[] = "NCCL_PROFILER_PLUGIN";

void stp_doctor_online(struct stp_doctor *d)
{
    static const char blind[] =
        "the plugin sees no times on the GPU, and learns only from times that "
        "the application writes";
    const char *value = stp_doctor_setting(profiler);
    struct stp_online_settings s;
    struct stp_error err;

    if (!stp_doctor_learns(tuner)) {
        if (!stp_doctor_learns(profiler))
            return;
        STP_PROBLEM(d, "nothing is learned", NULL,
                    "%s names the plugin that learns, but %s does not",
                    profiler, tuner);
        stp_diagnose_todo(&d->diagnosis, "set %s=%s, or unset %s", tuner, value,
                          profiler);
        return;
    }
    if (stp_doctor_learns(profiler))
        STP_FINE(d, "the plugin that learns is NCCL's profiler, too");
    else if (value[0] == '\0')
        STP_REMARK(d, blind, NULL,
                   "%s names the plugin that learns, and %s nothing", tuner,
                   profiler);
    else
        STP_REMARK(d, blind, NULL, "%s=%s (%s) is another one than %s",
                   profiler, value, stp_doctor_where(d, profiler), tuner);
    if (!stp_doctor_learns(profiler))
        stp_diagnose_todo(&d->diagnosis, "set %s=%s", profiler,
                          stp_doctor_setting(tuner));
    if (stp_online_settings_read(0, &s, &err) != STP_OK)
        STP_PROBLEM(d, "the plugin steps aside, and no rule applies",
                    "correct it, or unset it", "%s", err.text);
    else if (s.is_frozen)
        STP_REMARK(d, "nothing is learned", "unset it if jobs are to learn",
                   "STEPTUNE_FREEZE is set (%s)",
                   stp_doctor_where(d, "STEPTUNE_FREEZE"));
    else
        STP_FINE(d, "it learns by strategy %s, objective %s, and writes %s",
                 stp_strategy_name(s.rules.bandit.strategy),
                 stp_learn_objective_name(s.rules.objective), s.learned);
}
