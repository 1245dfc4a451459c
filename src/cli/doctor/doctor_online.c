/* doctor_online.c - the learning plugin, and its settings */
#include <stdlib.h>
#include <string.h>

#include "cli/doctor/doctor.h"
#include "plugin/online/online_settings.h"

static const char tuner[] = "NCCL_TUNER_PLUGIN";
static const char profiler[] = "NCCL_PROFILER_PLUGIN";

/* "" if it is not set. */
static const char *doctor_setting(const char *name)
{
    const char *value = getenv(name);

    return value != NULL ? value : "";
}

static bool doctor_is_online(const char *variable)
{
    return strstr(doctor_setting(variable), "steptune-online") != NULL;
}

/* ---- the profiler half ---- */

static void doctor_judge_profiler(struct stp_doctor *d)
{
    const char *value = doctor_setting(profiler);

    if (doctor_is_online(profiler)) {
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_OK,
                     "the plugin that learns is NCCL's profiler, too");
        return;
    }
    if (value[0] == '\0')
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_NOTE,
                     "%s names the plugin that learns, and %s nothing", tuner,
                     profiler);
    else
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_NOTE,
                     "%s=%s (%s) is another one than %s", profiler, value,
                     stp_doctor_where(d, profiler), tuner);
    stp_diagnose_why(
        &d->diagnosis,
        "the plugin sees no times on the GPU, and learns only from "
        "times that the application writes");
    stp_diagnose_todo(&d->diagnosis, "set %s=%s", profiler,
                      doctor_setting(tuner));
}

static void doctor_judge_tuner(struct stp_doctor *d)
{
    stp_diagnose(&d->diagnosis, STP_SYMPTOM_PROBLEM,
                 "%s names the plugin that learns, but %s does not", profiler,
                 tuner);
    stp_diagnose_why(&d->diagnosis, "nothing is learned");
    stp_diagnose_todo(&d->diagnosis, "set %s=%s, or unset %s", tuner,
                      doctor_setting(profiler), profiler);
}

/* ---- its settings ---- */

static void doctor_judge_settings(struct stp_doctor *d)
{
    struct stp_online_settings s;
    struct stp_error err;

    if (stp_online_settings_read(0, &s, &err) != STP_OK) {
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_PROBLEM, "%s", err.text);
        stp_diagnose_why(&d->diagnosis,
                         "the plugin steps aside, and NCCL tunes alone");
        stp_diagnose_todo(&d->diagnosis, "correct it, or unset it");
        return;
    }
    if (s.is_frozen) {
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_NOTE,
                     "STEPTUNE_FREEZE is set (%s)",
                     stp_doctor_where(d, "STEPTUNE_FREEZE"));
        stp_diagnose_why(&d->diagnosis, "nothing is learned");
        stp_diagnose_todo(&d->diagnosis, "unset it if jobs are to learn");
        return;
    }
    stp_diagnose(&d->diagnosis, STP_SYMPTOM_OK,
                 "it learns by strategy %s, objective %s, and writes %s",
                 stp_strategy_name(s.rules.bandit.strategy),
                 stp_learn_objective_name(s.rules.objective), s.learned);
}

void stp_doctor_online(struct stp_doctor *d)
{
    if (doctor_is_online(tuner)) {
        doctor_judge_profiler(d);
        doctor_judge_settings(d);
    } else if (doctor_is_online(profiler)) {
        doctor_judge_tuner(d);
    }
}
