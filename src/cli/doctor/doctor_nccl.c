/* doctor_nccl.c - the libnccl that a job finds, and the plugin that loads
 *
 * Others' libraries may crash when they are opened, so a child opens them. */
#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "child/job.h"
#include "cli/doctor/doctor.h"
#include "core/room.h"
#include "device/cuda/nccl_api.h"
#include "mock_nccl.h"
#include "plugin/online/online_settings.h"

/* ---- staging: how programs come to NCCL ---- */

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

/* Tells how the packages beside PyTorch's NCCL, the file 'nccl', come to it. */
static void stage_tell_packages(struct stp_doctor *d, const char *nccl)
{
    static const char *const packages[][2] = {
        {"PyTorch", "torch/lib/libtorch_cuda.so"},
        {"vLLM", "vllm/__init__.py"},
        {"JAX", "jax_plugins/xla_cuda12/xla_cuda_plugin.so"},
        {"JAX", "jax_plugins/xla_cuda13/xla_cuda_plugin.so"},
    };
    const int len = (int)(strstr(nccl, "nvidia/nccl/lib/") - nccl);
    char path[STP_CLI_PATH];

    for (size_t i = 0; i < STP_N_OF(packages); i++) {
        snprintf(path, sizeof(path), "%.*s%s", len, nccl, packages[i][1]);
        if (access(path, R_OK) == 0)
            stage_tell(d, packages[i][0], path, nccl);
    }
}

/* ---- in a child ---- */

/* A child's findings, small enough to fit into a pipe. */
struct probe {
    int version;     /* of NCCL, or of the tuner; 0: none */
    char path[1024]; /* of the library */
    char text[512];  /* why there is none; else the tuner's name */
};

/* The library that the child opens, and the NCCL version it is for. */
struct probe_question {
    const char *library;
    const char *version;
};

static void nccl_probe(void (*body)(const void *question, void *probe),
                       const char *library, const char *version,
                       struct probe *probe)
{
    const struct probe_question question = {library, version};
    char why[STP_SYMPTOM_TEXT];

    if (!stp_doctor_ask_child(body, &question, probe, sizeof(*probe), why))
        snprintf(probe->text, sizeof(probe->text), "%s", why);
}

static void nccl_open_library(const void *question, void *answer)
{
    const struct probe_question *q = question;
    struct probe *probe = answer;
    void *library = dlopen(q->library, RTLD_NOW | RTLD_LOCAL);
    struct link_map *map = NULL;
    int (*get_version)(int *version) = NULL;
    void *symbol;

    if (library == NULL) {
        snprintf(probe->text, sizeof(probe->text), "%s", dlerror());
        return;
    }
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0)
        snprintf(probe->path, sizeof(probe->path), "%s", map->l_name);
    symbol = dlsym(library, "ncclGetVersion");
    memcpy(&get_version, &symbol, sizeof(symbol));
    if (get_version == NULL || get_version(&probe->version) != 0)
        snprintf(probe->text, sizeof(probe->text), "it has no version");
}

static void nccl_open_tuner(const void *question, void *answer)
{
    const struct probe_question *q = question;
    struct probe *probe = answer;
    const struct mock_nccl_options options = {
        .version = q->version,
        .tuner_plugin = q->library,
        .net_plugin = getenv("NCCL_NET_PLUGIN"),
    };
    struct mock_nccl *nccl;

    if (mock_nccl_create(&options, &nccl) != ncclSuccess) {
        snprintf(probe->text, sizeof(probe->text), "%s", mock_last_error());
        return;
    }
    probe->version =
        mock_nccl_find_tuner(nccl, probe->text, sizeof(probe->text));
    mock_nccl_destroy(nccl);
}

/* ---- libnccl ---- */

static void nccl_judge_version(struct stp_doctor *d, const char *path,
                               const char *from, int version)
{
    enum stp_symptom_level level = STP_SYMPTOM_OK;
    const char *why = NULL, *todo = NULL;
    char name[16];
    size_t i = 0;

    stp_nccl_version_name(version, name);
    if (version < 22100) {
        level = STP_SYMPTOM_PROBLEM;
        why = "it takes no tuner of ours";
        todo = "use NCCL 2.21 or later";
    } else if (mock_release_find(name) < 0 || mock_release_is_newer(name)) {
        level = STP_SYMPTOM_NOTE;
        why = "it is newer than what Steptune knows, may take its tuner "
              "otherwise, and is played as the newest known";
    }
    stp_diagnose(&d->diagnosis, level, why, todo, "NCCL %s: %s (%s)", name,
                 path, from);
    if (d->library[0] == '\0') {
        snprintf(d->library, sizeof(d->library), "%s", path);
        snprintf(d->library_version, sizeof(d->library_version), "%s", name);
    }
    while (i < d->n_versions && d->versions[i] != version)
        i++;
    if (i == d->n_versions && i < STP_MAX_LIBRARIES)
        d->versions[d->n_versions++] = version;
}

static void nccl_try_library(struct stp_doctor *d, const char *library,
                             const char *from)
{
    struct probe probe;

    nccl_probe(nccl_open_library, library, NULL, &probe);
    if (probe.version > 0)
        nccl_judge_version(d, probe.path, from, probe.version);
    else
        STP_PROBLEM(d, "a job that uses it fails",
                    "install NCCL again, or name another",
                    "%s (%s) does not open: %s", library, from, probe.text);
}

/* As the dynamic linker looks for it; tests have LD_LIBRARY_PATH alone. */
static void nccl_try_linker(struct stp_doctor *d)
{
    static const char name[] = "libnccl.so.2";
    const char *folders = stp_doctor_setting("LD_LIBRARY_PATH");
    char path[STP_CLI_PATH];
    struct probe probe;

    while (*folders != '\0') {
        const size_t len = strcspn(folders, ":;");

        snprintf(path, sizeof(path), "%.*s/%s", (int)len, folders, name);
        if (len > 0 && access(path, R_OK) == 0) {
            nccl_try_library(d, path, "in LD_LIBRARY_PATH");
            return;
        }
        folders += len + (folders[len] != '\0');
    }
    if (d->root[0] != '\0')
        return;
    nccl_probe(nccl_open_library, name, NULL, &probe);
    if (probe.version > 0)
        nccl_judge_version(d, probe.path, "the system's", probe.version);
}

/* Where pip puts the NCCL that PyTorch opens by its own path. */
static void nccl_try_pytorch(struct stp_doctor *d)
{
    static const char site[] = "/lib/python3*/site-packages";
    const struct {
        const char *folder; /* NULL: none */
        const char *inside;
        const char *packages;
    } places[] = {
        {getenv("VIRTUAL_ENV"), "", site},
        {getenv("CONDA_PREFIX"), "", site},
        {d->home, "/.local", site},
        {d->root, "", "/usr/lib/python3/dist-packages"},
        {d->root, "", "/usr/local/lib/python3*/dist-packages"},
        {d->root, "", "/usr/local/lib/python3*/site-packages"},
    };

    for (size_t i = 0; i < STP_N_OF(places); i++) {
        char pattern[STP_CLI_PATH];
        glob_t found;

        if (places[i].folder == NULL ||
            snprintf(pattern, sizeof(pattern),
                     "%s%s%s/nvidia/nccl/lib/libnccl.so.2", places[i].folder,
                     places[i].inside,
                     places[i].packages) >= (int)sizeof(pattern))
            continue;
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t k = 0; k < found.gl_pathc; k++) {
                nccl_try_library(d, found.gl_pathv[k], "PyTorch's");
                stage_tell_packages(d, found.gl_pathv[k]);
            }
        globfree(&found);
    }
}

void stp_doctor_libraries(struct stp_doctor *d)
{
    const char *named = stp_doctor_setting("STEPTUNE_NCCL");
    const size_t before = d->diagnosis.n;

    if (named[0] != '\0')
        nccl_try_library(d, named, "STEPTUNE_NCCL, for steptune itself");
    nccl_try_linker(d);
    nccl_try_pytorch(d);
    if (d->diagnosis.n == before)
        STP_PROBLEM(d, "a job finds none either, unless it brings its own",
                    "install NCCL, or add its folder to LD_LIBRARY_PATH",
                    "no libnccl.so.2 found");
}

/* ---- the plugin ---- */

/* Tells what a version makes of NCCL_TUNER_PLUGIN=value; "": of ours. */
static void nccl_try_plugin(struct stp_doctor *d, const char *value,
                            const char *ours, const char *nccl)
{
    const bool is_set = value[0] != '\0';
    const int newest = mock_release_newest_tuner(nccl);
    struct stp_found_tuner lower, today = {.version = 0};
    struct probe probe;

    nccl_probe(nccl_open_tuner, is_set ? value : ours, nccl, &probe);
    stp_find_lower(stp_chain_setting(), newest, &lower);
    if (lower.why[0] != '\0' && stp_doctor_setting("STEPTUNE_CHAIN")[0] != '\0')
        STP_PROBLEM(d, "the plugin asks no tuner below it",
                    "correct it, or unset it", "%s", lower.why);
    if (!is_set)
        stp_find_lower("auto", newest, &today);
    if (today.version > 0 && probe.version > 0)
        STP_REMARK(
            d,
            strcmp(today.path, lower.path) == 0
                ? "ours would ask it first, and keep its answer where no rule "
                  "applies"
                : "ours would take its place: STEPTUNE_CHAIN does not name it",
            NULL,
            "a job with NCCL %s has tuner '%s' today, by %s: "
            "ncclTunerPlugin_v%d of %s",
            nccl, today.name, today.by, today.version, today.path);
    else if (!is_set && probe.version > 0)
        STP_REMARK(d, "NCCL tunes alone", NULL,
                   "NCCL_TUNER_PLUGIN is not set; NCCL %s would take "
                   "ncclTunerPlugin_v%d of %s",
                   nccl, probe.version, ours);
    else if (!is_set)
        STP_PROBLEM(d, "NCCL tunes alone", NULL,
                    "NCCL_TUNER_PLUGIN is not set, and NCCL %s would take no "
                    "tuner of %s",
                    nccl, ours);
    else if (probe.version == 0)
        stp_diagnose(
            &d->diagnosis, STP_SYMPTOM_PROBLEM, "NCCL tunes alone", NULL,
            "NCCL %s finds no tuner for NCCL_TUNER_PLUGIN=%s%s%s", nccl, value,
            probe.text[0] != '\0' ? ": " : "", probe.text);
    else if (strncmp(probe.text, "steptune", strlen("steptune")) != 0)
        STP_PROBLEM(d, "Steptune's policy has no effect", NULL,
                    "NCCL_TUNER_PLUGIN=%s (%s) is another tuner, '%s'", value,
                    stp_doctor_where(d, "NCCL_TUNER_PLUGIN"), probe.text);
    else {
        STP_FINE(d,
                 "NCCL %s loads tuner '%s' by NCCL_TUNER_PLUGIN=%s, and takes "
                 "ncclTunerPlugin_v%d",
                 nccl, probe.text, value, probe.version);
        if (lower.version > 0)
            STP_FINE(d,
                     "that asks tuner '%s' first, which a job has without it, "
                     "by %s: ncclTunerPlugin_v%d of %s",
                     lower.name, lower.by, lower.version, lower.path);
        return;
    }
    if (strcasecmp(value, "none") == 0)
        stp_diagnose_todo(&d->diagnosis,
                          "set NCCL_TUNER_PLUGIN=%s and STEPTUNE_CHAIN=none",
                          ours);
    else if (is_set && probe.version > 0)
        stp_diagnose_todo(&d->diagnosis,
                          "set NCCL_TUNER_PLUGIN=%s and STEPTUNE_CHAIN=%s, "
                          "which ours then asks first",
                          ours, value);
    else
        stp_diagnose_todo(&d->diagnosis, "set NCCL_TUNER_PLUGIN=%s%s", ours,
                          is_set ? ", or add its folder to LD_LIBRARY_PATH"
                                 : "");
}

void stp_doctor_plugin(struct stp_doctor *d)
{
    const char *value = stp_doctor_setting("NCCL_TUNER_PLUGIN");
    char ours[STP_CLI_PATH];
    struct stp_error err;
    bool any = false;

    if (stp_find_plugin(stp_doctor_learns("NCCL_TUNER_PLUGIN")
                            ? "steptune-online"
                            : "steptune",
                        ours, &err) != STP_OK) {
        STP_PROBLEM(d, "there is no plugin for NCCL to load",
                    "install Steptune again", "%s", err.text);
        return;
    }
    for (size_t i = 0; i < d->n_versions; i++) {
        char name[16];

        stp_nccl_version_name(d->versions[i], name);
        if (mock_release_find(name) < 0)
            continue;
        any = true;
        nccl_try_plugin(d, value, ours, name);
    }
    if (!any)
        nccl_try_plugin(d, value, ours, "2.28");
}

/* ---- the plugin that learns ---- */

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

/* ---- whether the staging library can stand in front of NCCL ---- */

void stp_doctor_stage(struct stp_doctor *d)
{
    static const struct {
        const char *name, *value;
    } aside[] = {{"NCCL_COMM_BLOCKING", "0"},
                 {"NCCL_GRAPH_MIXING_SUPPORT", "0"}};
    const char *preloaded = stp_doctor_setting("LD_PRELOAD");
    const char *own = strstr(preloaded, "libsteptune-stage.so");
    const bool is_first =
        own != NULL && own < preloaded + strcspn(preloaded, ": ");

    for (size_t i = 0; i < STP_N_OF(aside) && d->stages; i++)
        if (strcmp(stp_doctor_setting(aside[i].name), aside[i].value) == 0)
            STP_REMARK(d, "the staging library steps aside", "unset it",
                       "%s=%s is set in %s", aside[i].name, aside[i].value,
                       stp_doctor_where(d, aside[i].name));
    if (d->program != NULL && !stp_has_program(d->program) &&
        access(d->program, R_OK) != 0)
        STP_PROBLEM(d, NULL, "name another one, or its path",
                    "there is no program %s", d->program);
    else if (d->program != NULL)
        stage_tell(d, d->program, d->program,
                   d->library[0] != '\0' ? d->library : "PATH/libnccl.so.2");
    for (size_t i = 0; i < d->n_versions && d->stages; i++)
        if (d->versions[i] < FIRST_WINDOWS)
            STP_REMARK(
                d,
                "it has no symmetric memory, so that the staging library "
                "steps aside",
                "use NCCL 2.27 or later", "NCCL %d.%d stages nothing",
                d->versions[i] / 10000, d->versions[i] / 100 % 100);
    if (d->stages && preloaded[0] != '\0' && !is_first)
        STP_REMARK(
            d,
            "the staging library steps aside for another one in front of NCCL",
            "leave out libraries that have NCCL's functions",
            "LD_PRELOAD=%s is set in %s", preloaded,
            stp_doctor_where(d, "LD_PRELOAD"));
}
