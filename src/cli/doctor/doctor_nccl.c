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

#include "cli/doctor/doctor.h"
#include "device/cuda/nccl_api.h"
#include "mock_nccl.h"

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

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
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
                stp_doctor_package(d, found.gl_pathv[k]);
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
