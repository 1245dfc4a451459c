/* doctor_stage.c - how programs come to NCCL, and so whether the staging
 * library can stand in front of it */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "child/job.h"
#include "cli/doctor/doctor.h"

enum { FIRST_WINDOWS = 22700 }; /* NCCL that has symmetric memory */

/* Asks the dynamic linker whether it would load a program with libnccl.so.2,
 * which runs nothing of the program. */
static bool stage_is_linked(const char *program)
{
    static const char ask[] =
        "p=$STEPTUNE_PROGRAM; "
        "case $p in */*) ;; *) p=$(command -v -- \"$p\");; esac; "
        "LD_PRELOAD= exec \"$STEPTUNE_LINKER\" --list \"$p\" 2>/dev/null";
    struct link_map *map = NULL;
    bool is_linked = false;
    char line[STP_CLI_PATH];
    FILE *fp;

    dlinfo(dlopen(NULL, RTLD_LAZY), RTLD_DI_LINKMAP, &map);
    while (map->l_next != NULL && strstr(map->l_name, "/ld-") == NULL)
        map = map->l_next;
    stp_set_variable("STEPTUNE_PROGRAM", program);
    stp_set_variable("STEPTUNE_LINKER", map->l_name);
    fp = popen(ask, "r");
    if (fp == NULL)
        return false;
    while (fgets(line, sizeof(line), fp) != NULL)
        is_linked |= strstr(line, "libnccl.so.2 =>") != NULL;
    pclose(fp);
    return is_linked;
}

/* Tells how to stage collectives of the program 'name', the file 'path', by
 * 'nccl', its libnccl.so.2. */
static void stage_tell(struct stp_doctor *d, const char *name, const char *path,
                       const char *nccl)
{
    if (stage_is_linked(path))
        STP_FINE(d,
                 "%s is linked with libnccl.so.2: `steptune run --stage -- "
                 "COMMAND` can stage its collectives",
                 name);
    else {
        STP_REMARK(
            d,
            "a library that is only preloaded does not see an NCCL that "
            "is opened by name, as by vLLM and JAX, and none sees an NCCL "
            "that is in the program itself",
            NULL, "%s is not linked with libnccl.so.2", name);
        stp_diagnose_todo(&d->diagnosis,
                          "if it opens that, `steptune run --stage --nccl %s "
                          "-- COMMAND` can stage its collectives",
                          STP_JOB_WORD(nccl));
    }
}

void stp_doctor_package(struct stp_doctor *d, const char *nccl)
{
    static const char *const packages[][2] = {
        {"PyTorch", "torch/lib/libtorch_cuda.so"},
        {"vLLM", "vllm/__init__.py"},
        {"JAX", "jax_plugins/xla_cuda12/xla_cuda_plugin.so"},
        {"JAX", "jax_plugins/xla_cuda13/xla_cuda_plugin.so"},
    };
    const int len = (int)(strstr(nccl, "nvidia/nccl/lib/") - nccl);
    char path[STP_CLI_PATH];

    for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++) {
        snprintf(path, sizeof(path), "%.*s%s", len, nccl, packages[i][1]);
        if (access(path, R_OK) == 0)
            stage_tell(d, packages[i][0], path, nccl);
    }
}

void stp_doctor_stage(struct stp_doctor *d)
{
    const char *preloaded = stp_doctor_setting("LD_PRELOAD");

    if (d->program != NULL && !stp_has_program(d->program) &&
        access(d->program, R_OK) != 0)
        STP_PROBLEM(d, NULL, "name another one, or its path",
                    "there is no program %s", d->program);
    else if (d->program != NULL)
        stage_tell(d, d->program, d->program, "libnccl.so.2");
    for (size_t i = 0; i < d->n_versions && d->stages; i++)
        if (d->versions[i] < FIRST_WINDOWS)
            STP_REMARK(
                d,
                "it has no symmetric memory, so that the staging library "
                "steps aside",
                "use NCCL 2.27 or later", "NCCL %d.%d stages nothing",
                d->versions[i] / 10000, d->versions[i] / 100 % 100);
    if (d->stages && preloaded[0] != '\0')
        STP_REMARK(
            d,
            "the staging library steps aside for another one in front of NCCL",
            "leave out libraries that have NCCL's functions",
            "LD_PRELOAD=%s is set in %s", preloaded,
            stp_doctor_where(d, "LD_PRELOAD"));
}
