/* doctor_ask.c - what all checks ask: variables, and libraries in a child */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child/child.h"
#include "cli/doctor/doctor.h"

const char *stp_doctor_setting(const char *name)
{
    const char *value = getenv(name);

    return value != NULL ? value : "";
}

const char *stp_doctor_where(const struct stp_doctor *d, const char *name)
{
    for (size_t i = 0; i < d->n_settings; i++)
        if (strcmp(d->settings[i].name, name) == 0)
            return d->settings[i].where;
    return "the environment";
}

bool stp_doctor_learns(const char *name)
{
    return strstr(stp_doctor_setting(name), "steptune-online") != NULL;
}

bool stp_doctor_ask_child(void (*body)(const void *question, void *answer),
                          const void *question, void *answer, size_t size,
                          char why[STP_SYMPTOM_TEXT])
{
    const char *crash = NULL;
    ssize_t got = -1;
    int ends[2];
    pid_t child;

    memset(answer, 0, size);
    snprintf(why, STP_SYMPTOM_TEXT, "no process to ask");
    if (pipe(ends) != 0)
        return false;
    child = stp_child_start(false);
    if (child == 0) {
        body(question, answer);
        got = write(ends[1], answer, size);
        _exit(got != (ssize_t)size);
    }
    close(ends[1]);
    if (child > 0) {
        got = read(ends[0], answer, size);
        crash = stp_child_crash(stp_child_await(child));
    }
    close(ends[0]);
    if (got == (ssize_t)size)
        return true;
    memset(answer, 0, size);
    snprintf(why, STP_SYMPTOM_TEXT, "it crashed (%s)",
             crash != NULL ? crash : "it ended");
    return false;
}

int stp_doctor_print(const struct stp_diagnosis *diagnosis, bool is_json)
{
    stp_print_diagnosis(diagnosis, is_json, stdout);
    return stp_count_symptoms(diagnosis, STP_SYMPTOM_PROBLEM) == 0
               ? STP_EXIT_OK
               : STP_EXIT_FAILED;
}
