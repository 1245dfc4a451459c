/* doctor_gpus.c - the GPUs of this host, and what connects them */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/doctor/doctor.h"
#include "core/text.h"
#include "device/module.h"

enum {
    MOST_BYTES = 4096,
    LL128_CAPABILITY = 70,
    BF16_CAPABILITY = 80,
    NVLS_CAPABILITY = 90,
};

/* The version in /proc/driver/nvidia/version: the first word that begins with a
 * digit and has a point, as in "Kernel Module  580.65.06  Sun". */
static bool gpus_read_driver(const struct stp_doctor *d, char version[32])
{
    char path[STP_CLI_PATH];
    char *text;
    size_t len;

    snprintf(path, sizeof(path), "%s/proc/driver/nvidia/version", d->root);
    version[0] = '\0';
    if (stp_read_file(path, MOST_BYTES, &text, &len, NULL) != STP_OK)
        return false;
    for (char *word = strtok(text, " \t\n"); word != NULL && !version[0];
         word = strtok(NULL, " \t\n"))
        if (word[0] >= '0' && word[0] <= '9' && strchr(word, '.') != NULL)
            snprintf(version, 32, "%s", word);
    free(text);
    return version[0] != '\0';
}

/* ---- in a child: CUDA does not survive a fork ---- */

struct gpus_answer {
    enum stp_status status;
    struct stp_survey survey;
    char text[STP_ERROR_TEXT]; /* why not */
};

static void gpus_survey(const void *question, void *answer)
{
    const char *path = question;
    struct gpus_answer *a = answer;
    const struct stp_module *module;
    struct stp_error err = {0};

    a->status = stp_module_open(path, &module, &err);
    STP_THEN(a->status, module->survey(&a->survey, &err));
    snprintf(a->text, sizeof(a->text), "%s", err.text);
}

void stp_doctor_judge_gpus(struct stp_doctor *d, const struct stp_survey *s)
{
    const unsigned n = s->n_nvlink + s->n_pcie + s->n_none;
    const char *links = n == 0             ? "one GPU"
                        : s->n_nvlink == n ? "NVLink between all of them"
                        : s->n_nvlink > 0 ? "NVLink between some of them, PCIe "
                                            "between others"
                        : s->n_none == 0
                            ? "PCIe between them"
                            : "no direct path between some of them";
    bool has_bf16;
    int least = INT_MAX, most = 0; /* compute capabilities */
    char names[STP_SYMPTOM_TEXT] = "";
    char driver[32];
    unsigned same = 0; /* GPUs of a model in a row */

    for (unsigned i = 0; i < s->n_gpus && i < STP_MAX_HOST_GPUS; i++) {
        const char *name = s->gpus[i].name;
        const int capability = s->gpus[i].compute_capability;

        least = capability < least ? capability : least;
        most = capability > most ? capability : most;
        same++;
        if (i + 1 < s->n_gpus && i + 1 < STP_MAX_HOST_GPUS &&
            strcmp(name, s->gpus[i + 1].name) == 0)
            continue;
        stp_append(names, sizeof(names), "%s%u x %s with %.1f GiB",
                   names[0] != '\0' ? ", " : "", same, name,
                   (double)s->gpus[i + 1 - same].memory / (1 << 30));
        same = 0;
    }
    has_bf16 = least >= BF16_CAPABILITY;
    d->has_no_nvls = least < NVLS_CAPABILITY || (n > 0 && s->n_nvlink == 0);
    d->has_no_ll128 = least < LL128_CAPABILITY || s->n_nvlink < n ||
                      (least != most && least < NVLS_CAPABILITY);
    STP_FINE(d, "%.300s; %s; %s", names, links, has_bf16 ? "bf16" : "no bf16");
    if (gpus_read_driver(d, driver))
        stp_diagnose(&d->diagnosis,
                     s->driver_cuda >= s->built_cuda / 1000 * 1000
                         ? STP_SYMPTOM_OK
                         : STP_SYMPTOM_PROBLEM,
                     NULL, NULL,
                     "driver %s runs CUDA up to %d.%d; Steptune was built with "
                     "%d.%d",
                     driver, s->driver_cuda / 1000, s->driver_cuda % 1000 / 10,
                     s->built_cuda / 1000, s->built_cuda % 1000 / 10);
}

void stp_doctor_gpus(struct stp_doctor *d)
{
    const char *blind = NULL; /* why Steptune sees no GPU */
    char path[STP_CLI_PATH];
    char why[STP_SYMPTOM_TEXT];
    char driver[32];
    struct gpus_answer a;
    struct stp_error err;

    if (stp_find_module("cuda", path, &err) != STP_OK)
        blind = "there is no steptune-cuda.so beside this program: it is built "
                "where CUDA is installed";
    else if (!stp_doctor_ask_child(gpus_survey, path, &a, sizeof(a), why))
        blind = why;
    else if (a.status != STP_OK)
        blind = a.text;
    if (blind == NULL)
        stp_doctor_judge_gpus(d, &a.survey);
    else if (gpus_read_driver(d, driver))
        STP_PROBLEM(d, blind, "look at CUDA_VISIBLE_DEVICES and nvidia-smi",
                    "driver %s is loaded, but Steptune sees no GPU", driver);
    else {
        d->has_no_gpu = true;
        STP_FINE(d, "no GPU here: `steptune tune --on` and the like play "
                    "recorded machines, which `steptune machines` lists");
    }
}
