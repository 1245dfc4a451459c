/* doctor_nccl.c - which libnccl a job finds here, and which plugin that loads
 *
 * Others' libraries may crash when they are opened, so a child opens them.
 */
#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "device/cuda/nccl_api.h"
#include "mock_nccl.h"

/* ---- in a child ---- */

/* What a child found, small enough to fit into a pipe. */
struct probe {
    int version;     /* of NCCL, or of the tuner; 0: none */
    char path[1024]; /* of the library */
    char text[512];  /* why there is none; else the tuner's name */
};

/* What is opened, and for which NCCL. */
struct probe_question {
    const char *library;
    const char *version;
};

static void doctor_run_probe(void (*body)(const void *question, void *probe),
                             const char *library, const char *version,
                             struct probe *probe)
{
    const struct probe_question question = {library, version};
    char why[STP_SYMPTOM_TEXT];

    if (!stp_doctor_ask_child(body, &question, probe, sizeof(*probe), why))
        snprintf(probe->text, sizeof(probe->text), "%s", why);
}

static void doctor_open_library(const void *question, void *answer)
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

static void doctor_open_tuner(const void *question, void *answer)
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

static void doctor_judge_version(struct stp_doctor *d, const char *path,
                                 const char *from, int version)
{
    char name[16];
    bool known;

    stp_nccl_version_name(version, name);
    known = mock_release_find(name) >= 0 && !mock_release_is_newer(name);
    stp_diagnose(&d->diagnosis,
                 known             ? STP_SYMPTOM_OK
                 : version < 22100 ? STP_SYMPTOM_PROBLEM
                                   : STP_SYMPTOM_NOTE,
                 "NCCL %s: %s (%s)", name, path, from);
    if (known)
        return;
    if (version < 22100) {
        stp_diagnose_why(&d->diagnosis, "it takes no tuner of ours");
        stp_diagnose_todo(&d->diagnosis, "use NCCL 2.21 or later");
        return;
    }
    stp_diagnose_why(&d->diagnosis,
                     "it is newer than what Steptune knows, may take its "
                     "tuner otherwise, and is played as the newest known");
}

static void doctor_add_version(struct stp_doctor *d, int version)
{
    for (size_t i = 0; i < d->n_versions; i++)
        if (d->versions[i] == version)
            return;
    if (d->n_versions < STP_MAX_LIBRARIES)
        d->versions[d->n_versions++] = version;
}

static void doctor_try_library(struct stp_doctor *d, const char *library,
                               const char *from)
{
    struct probe probe;

    doctor_run_probe(doctor_open_library, library, NULL, &probe);
    if (probe.version > 0) {
        doctor_judge_version(d, probe.path, from, probe.version);
        doctor_add_version(d, probe.version);
        return;
    }
    stp_diagnose(&d->diagnosis, STP_SYMPTOM_PROBLEM,
                 "%s (%s) does not open: %s", library, from, probe.text);
    stp_diagnose_why(&d->diagnosis, "a job that uses it fails");
    stp_diagnose_todo(&d->diagnosis, "install NCCL again, or name another");
}

/* As the dynamic linker looks for it, of which tests have only the first part:
 * LD_LIBRARY_PATH. */
static bool doctor_on_library_path(const char *name, char path[STP_CLI_PATH])
{
    const char *folders = getenv("LD_LIBRARY_PATH");

    while (folders != NULL && *folders != '\0') {
        size_t len = strcspn(folders, ":;");

        snprintf(path, STP_CLI_PATH, "%.*s/%s", (int)len, folders, name);
        if (len > 0 && access(path, R_OK) == 0)
            return true;
        folders += len + (folders[len] != '\0');
    }
    return false;
}

static void doctor_try_linker(struct stp_doctor *d)
{
    char path[STP_CLI_PATH];
    struct probe probe;

    if (doctor_on_library_path("libnccl.so.2", path)) {
        doctor_try_library(d, path, "in LD_LIBRARY_PATH");
        return;
    }
    if (d->root[0] != '\0')
        return;
    doctor_run_probe(doctor_open_library, "libnccl.so.2", NULL, &probe);
    if (probe.version > 0) {
        doctor_judge_version(d, probe.path, "the system's", probe.version);
        doctor_add_version(d, probe.version);
    }
}

static void doctor_try_pattern(struct stp_doctor *d, const char *folder,
                               const char *packages)
{
    char pattern[STP_CLI_PATH];
    int n = snprintf(pattern, sizeof(pattern),
                     "%s%s/nvidia/nccl/lib/libnccl.so.2", folder, packages);
    glob_t found;

    if (n < 0 || n >= (int)sizeof(pattern))
        return;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            doctor_try_library(d, found.gl_pathv[i], "PyTorch's");
    globfree(&found);
}

/* Where pip puts the NCCL that PyTorch opens by its own path. */
static void doctor_try_pytorch(struct stp_doctor *d)
{
    static const char site[] = "/lib/python3*/site-packages";
    static const char *const environments[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    static const char *const systems[] = {
        "/usr/lib/python3/dist-packages",
        "/usr/local/lib/python3*/dist-packages",
        "/usr/local/lib/python3*/site-packages",
    };
    char local[STP_CLI_PATH];

    for (size_t i = 0; i < sizeof(environments) / sizeof(*environments); i++)
        if (getenv(environments[i]) != NULL)
            doctor_try_pattern(d, getenv(environments[i]), site);
    if (d->home != NULL) {
        snprintf(local, sizeof(local), "%s/.local", d->home);
        doctor_try_pattern(d, local, site);
    }
    for (size_t i = 0; i < sizeof(systems) / sizeof(*systems); i++)
        doctor_try_pattern(d, d->root, systems[i]);
}

void stp_doctor_libraries(struct stp_doctor *d)
{
    const char *named = getenv("STEPTUNE_NCCL");
    size_t before = d->diagnosis.n;

    if (named != NULL && named[0] != '\0')
        doctor_try_library(d, named, "STEPTUNE_NCCL, for steptune itself");
    doctor_try_linker(d);
    doctor_try_pytorch(d);
    if (d->diagnosis.n != before)
        return;
    stp_diagnose(&d->diagnosis, STP_SYMPTOM_PROBLEM, "no libnccl.so.2 found");
    stp_diagnose_why(&d->diagnosis,
                     "a job finds none either, unless it brings its "
                     "own");
    stp_diagnose_todo(&d->diagnosis,
                      "install NCCL, or add its folder to LD_LIBRARY_PATH");
}

/* ---- the plugin ---- */

static void doctor_tell_loaded(struct stp_doctor *d, const char *value,
                               const char *nccl, const char *ours,
                               const struct probe *probe)
{
    if (probe->version == 0) {
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_PROBLEM,
                     "NCCL %s finds no tuner for NCCL_TUNER_PLUGIN=%s%s%s",
                     nccl, value, probe->text[0] != '\0' ? ": " : "",
                     probe->text);
        stp_diagnose_why(&d->diagnosis, "NCCL tunes alone");
        stp_diagnose_todo(&d->diagnosis,
                          "set NCCL_TUNER_PLUGIN=%s, or add its folder to "
                          "LD_LIBRARY_PATH",
                          ours);
    } else if (strncmp(probe->text, "steptune", strlen("steptune")) != 0) {
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_PROBLEM,
                     "NCCL_TUNER_PLUGIN=%s (%s) is another tuner, '%s'", value,
                     stp_doctor_where(d, "NCCL_TUNER_PLUGIN"), probe->text);
        stp_diagnose_why(&d->diagnosis, "Steptune's policy has no effect");
        stp_diagnose_todo(&d->diagnosis, "set NCCL_TUNER_PLUGIN=%s", ours);
    } else {
        stp_diagnose(
            &d->diagnosis, STP_SYMPTOM_OK,
            "NCCL %s loads tuner '%s' by NCCL_TUNER_PLUGIN=%s, and takes "
            "ncclTunerPlugin_v%d",
            nccl, probe->text, value, probe->version);
    }
}

/* What a version makes of the plugin. */
static void doctor_try_version(struct stp_doctor *d, const char *value,
                               const char *ours, const char *nccl)
{
    struct probe probe;

    if (value != NULL && value[0] != '\0') {
        doctor_run_probe(doctor_open_tuner, value, nccl, &probe);
        doctor_tell_loaded(d, value, nccl, ours, &probe);
        return;
    }
    doctor_run_probe(doctor_open_tuner, ours, nccl, &probe);
    if (probe.version > 0)
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_NOTE,
                     "NCCL_TUNER_PLUGIN is not set; NCCL %s would take "
                     "ncclTunerPlugin_v%d of %s",
                     nccl, probe.version, ours);
    else
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_PROBLEM,
                     "NCCL_TUNER_PLUGIN is not set, and NCCL %s would take no "
                     "tuner of %s",
                     nccl, ours);
    stp_diagnose_why(&d->diagnosis, "NCCL tunes alone");
    stp_diagnose_todo(&d->diagnosis, "set NCCL_TUNER_PLUGIN=%s", ours);
}

void stp_doctor_plugin(struct stp_doctor *d)
{
    const char *value = getenv("NCCL_TUNER_PLUGIN");
    char ours[STP_CLI_PATH];
    struct stp_error err;
    bool any = false;

    if (stp_find_plugin(stp_doctor_learns() ? "steptune-online" : "steptune",
                        ours, &err) != STP_OK) {
        stp_diagnose(&d->diagnosis, STP_SYMPTOM_PROBLEM, "%s", err.text);
        stp_diagnose_why(&d->diagnosis, "there is no plugin for NCCL to load");
        stp_diagnose_todo(&d->diagnosis, "install Steptune again");
        return;
    }
    for (size_t i = 0; i < d->n_versions; i++) {
        char name[16];

        stp_nccl_version_name(d->versions[i], name);
        if (mock_release_find(name) < 0)
            continue;
        any = true;
        doctor_try_version(d, value, ours, name);
    }
    if (!any)
        doctor_try_version(d, value, ours, "2.28");
}
