/* doctor.c - `steptune doctor` */
#include <gnu/libc-version.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"

struct doctor_options {
    const char *policy;
    const char *backend;
    const char *measurements;
    bool json;
};

#define AT(member) offsetof(struct doctor_options, member)

static const struct stp_option doctor_table[] = {
    {"policy", 0, "FILE", stp_option_text, AT(policy),
     .help = "Policy to examine (default: the one in "
             "NCCL_TUNER_CONFIG_FILE)"},
    {"backend", 0, "NAME", stp_option_text, AT(backend), .words = stp_backends,
     .help = "Try this transport alone: two ranks reduce and check a few "
             "messages; nccl on GPUs, gloo or mpi on CPUs"},
    {"measurements", 0, "FILE", stp_option_text, AT(measurements),
     .help = "Measurements of `steptune sweep` by which to say what costs that "
             "a fast path is switched off (default: those of `steptune tune` "
             "beside the policy)"},
    {"json", 0, NULL, stp_option_flag, AT(json),
     .help = "Print JSON instead of text"},
    {0},
};

static const struct stp_command_line doctor_line = {
    .groups = (const struct stp_option_group[]){{.options = doctor_table}, {0}},
    .doc = "Says what is here and what would happen to a job: which GPUs, "
           "which NCCL it finds, which plugin that loads, which policy the "
           "plugin reads, which settings override it, and which switch fast "
           "paths of NCCL off. Exit status 1 if there is a problem.",
};

/* ---- children ---- */

bool stp_doctor_ask_child(void (*body)(const void *question, void *answer),
                          const void *question, void *answer, size_t size,
                          char why[STP_SYMPTOM_TEXT])
{
    int ends[2], status = 0;
    ssize_t got = -1;
    pid_t child;

    memset(answer, 0, size);
    snprintf(why, STP_SYMPTOM_TEXT, "no process to ask");
    if (pipe(ends) != 0)
        return false;
    child = fork();
    if (child == 0) {
        body(question, answer);
        got = write(ends[1], answer, size);
        _exit(got != (ssize_t)size);
    }
    close(ends[1]);
    if (child > 0) {
        got = read(ends[0], answer, size);
        waitpid(child, &status, 0);
    }
    close(ends[0]);
    if (got == (ssize_t)size)
        return true;
    memset(answer, 0, size);
    snprintf(why, STP_SYMPTOM_TEXT, "it crashed (%s)",
             WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "it ended");
    return false;
}

/* ---- small checks ---- */

void stp_doctor_glibc(struct stp_doctor *d)
{
    const char *version = gnu_get_libc_version();
    int major = 0, minor = 0;
    bool fits = sscanf(version, "%d.%d", &major, &minor) == 2 &&
                (major > 2 || (major == 2 && minor >= 28));

    stp_diagnose(&d->diagnosis, fits ? STP_SYMPTOM_OK : STP_SYMPTOM_PROBLEM,
                 "glibc %s", version);
    if (!fits) {
        stp_diagnose_why(&d->diagnosis,
                         "the plugin needs glibc 2.28 or later, and "
                         "does not load");
        stp_diagnose_todo(&d->diagnosis,
                          "run in a container with a newer system, or build "
                          "Steptune here");
    }
}

/* What NCCL and our plugin need of it is little; data loaders take more. */
#define SHM_LITTLE ((double)(64 << 20))

static void doctor_judge_shm(struct stp_doctor *d, const char *path,
                             double n_bytes)
{
    bool enough = n_bytes >= SHM_LITTLE;

    stp_diagnose(&d->diagnosis, enough ? STP_SYMPTOM_OK : STP_SYMPTOM_PROBLEM,
                 "%s has %.0f MiB free", path, n_bytes / (1 << 20));
    if (enough)
        return;
    stp_diagnose_why(&d->diagnosis,
                     "NCCL moves data between processes through it, and fails "
                     "without room");
    stp_diagnose_todo(&d->diagnosis,
                      "remove what is left there, or give a "
                      "container more (docker run --shm-size=1g)");
}

void stp_doctor_shm(struct stp_doctor *d)
{
    char path[STP_CLI_PATH];
    struct statvfs fs;

    snprintf(path, sizeof(path), "%s/dev/shm", d->root);
    if (statvfs(path, &fs) == 0 && access(path, R_OK | W_OK | X_OK) == 0) {
        doctor_judge_shm(d, path, (double)fs.f_bavail * (double)fs.f_frsize);
        return;
    }
    stp_diagnose(&d->diagnosis, STP_SYMPTOM_PROBLEM, "%s cannot be written",
                 path);
    stp_diagnose_why(
        &d->diagnosis,
        "NCCL fails between processes, and the ranks of a host cannot "
        "compare their policies");
    stp_diagnose_todo(&d->diagnosis,
                      "mount it (mount -t tmpfs -o mode=1777 tmpfs /dev/shm)");
}

/* ---- all of them ---- */

static enum stp_status doctor_examine(struct stp_doctor *d, const char *policy,
                                      struct stp_error *err)
{
    if (policy != NULL && setenv("NCCL_TUNER_CONFIG_FILE", policy, 1) != 0)
        return stp_nomem(err);
    stp_doctor_read_conf(d);
    stp_doctor_gpus(d);
    stp_doctor_libraries(d);
    stp_doctor_plugin(d);
    stp_doctor_online(d);
    stp_doctor_glibc(d);
    stp_doctor_variables(d);
    stp_doctor_paths(d);
    stp_doctor_policy(d);
    stp_doctor_shm(d);
    return STP_OK;
}

/* NCCL asks the user database; tests have a home of their own. */
static char *doctor_find_home(const char *root)
{
    const struct passwd *user = root[0] == '\0' ? getpwuid(getuid()) : NULL;

    return user != NULL ? user->pw_dir : getenv("HOME");
}

int stp_cmd_doctor(int argc, char **argv)
{
    static struct stp_doctor d;
    struct doctor_options o = {0};
    struct stp_error err;
    enum stp_status status;

    stp_options_read(&doctor_line, argc, argv, &o);
    if (o.backend != NULL)
        return stp_doctor_backend(o.backend, o.json);
    if (!stp_does_alone("doctor"))
        return STP_EXIT_OK;
    d.root = getenv("STEPTUNE_ROOT"); /* tests' own: a folder for / */
    if (d.root == NULL)
        d.root = "";
    d.home = doctor_find_home(d.root);
    d.measurements = o.measurements;
    status = doctor_examine(&d, o.policy, &err);
    STP_THEN(status, stp_print_diagnosis(&d.diagnosis, o.json, stdout, &err));
    if (status != STP_OK)
        return stp_complain_error(NULL, &err);
    return stp_count_symptoms(&d.diagnosis, STP_SYMPTOM_PROBLEM) == 0
               ? STP_EXIT_OK
               : STP_EXIT_FAILED;
}
