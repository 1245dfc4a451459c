/* doctor.c - `steptune doctor` */
#include <gnu/libc-version.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "core/text.h"

struct doctor_options {
    const char *policy;
    const char *backend;
    const char *measurements;
    const char *log;
    const char *headers;
    bool json;
    struct stp_arguments program;
};

#define AT(member) offsetof(struct doctor_options, member)

static const struct stp_option doctor_table[] = {
    {"policy", 0, "FILE", stp_option_text, AT(policy),
     .needs.without = {"backend"}},
    {"backend", 0, "NAME", stp_option_backend, AT(backend),
     .words = stp_backends},
    {"measurements", 0, "FILE", stp_option_text, .at = AT(measurements)},
    {"log", 0, "FILE", stp_option_text, AT(log), .path = STP_PATH_READ,
     .needs.without = {"policy", "backend"}},
    {"headers", 0, "FOLDER", stp_option_text, AT(headers),
     .needs.without = {"policy", "backend"}},
    {"json", 0, NULL, stp_option_flag, AT(json), .needs.without = {"headers"}},
    {0},
};

static const struct stp_command_line doctor_line = {
    .groups = (const struct stp_option_group[]){{.options = doctor_table}, {0}},
    .args_doc = "[PROGRAM]",
    .arguments = AT(program),
    .one = "program",
};

/* Tells how this program came here, by where it lies and what beside it. */
static void doctor_installed(struct stp_doctor *d)
{
    static const struct {
        const char *beside, *from;
    } kinds[] = {
        {"../__main__.py", "a Python wheel"},
        {"../CMakeCache.txt", "a build folder"},
        {"../../var/lib/dpkg/info/steptune.list", "a Debian package"},
    };
    char path[STP_CLI_PATH], beside[STP_CLI_PATH + 64];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    const char *from = "another installation";

    path[n > 0 ? n : 0] = '\0';
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        snprintf(beside, sizeof(beside), "%.*s%s",
                 (int)(stp_base_name(path) - path), path, kinds[i].beside);
        if (access(beside, F_OK) == 0)
            from = kinds[i].from;
    }
    STP_FINE(d, "steptune " STP_VERSION " from %s: %s", from, path);
}

static void doctor_glibc(struct stp_doctor *d)
{
    const char *version = gnu_get_libc_version();
    int major = 0, minor = 0;

    if (sscanf(version, "%d.%d", &major, &minor) == 2 &&
        (major > 2 || (major == 2 && minor >= 28)))
        STP_FINE(d, "glibc %s", version);
    else
        STP_PROBLEM(
            d, "the plugin needs glibc 2.28 or later, and does not load",
            "run in a container with a newer system, or build Steptune here",
            "glibc %s", version);
}

static void doctor_shm(struct stp_doctor *d)
{
    /* NCCL and our plugin need little of it; data loaders take more */
    const double little = 64 << 20;
    char path[STP_CLI_PATH];
    struct statvfs fs;
    double n_bytes;

    snprintf(path, sizeof(path), "%s/dev/shm", d->root);
    if (statvfs(path, &fs) != 0 || access(path, R_OK | W_OK | X_OK) != 0) {
        STP_PROBLEM(d,
                    "NCCL fails between processes, and the ranks of a host "
                    "cannot compare their policies",
                    "mount it (mount -t tmpfs -o mode=1777 tmpfs /dev/shm)",
                    "%s cannot be written", path);
        return;
    }
    n_bytes = (double)fs.f_bavail * (double)fs.f_frsize;
    if (n_bytes >= little)
        STP_FINE(d, "%s has %.0f MiB free", path, n_bytes / (1 << 20));
    else
        STP_PROBLEM(d,
                    "NCCL moves data between processes through it, and fails "
                    "without room",
                    "remove what is left there, or give a container more "
                    "(docker run --shm-size=1g)",
                    "%s has %.0f MiB free", path, n_bytes / (1 << 20));
}

/* In the order of the output; later ones use what earlier ones found. */
static void (*const checks[])(struct stp_doctor *d) = {
    doctor_installed,  stp_doctor_read_conf, stp_doctor_libraries,
    stp_doctor_plugin, stp_doctor_online,    stp_doctor_gpus,
    doctor_glibc,      stp_doctor_variables, stp_doctor_files,
    stp_doctor_paths,  stp_doctor_policy,    stp_doctor_stage,
    doctor_shm,
};

int stp_cmd_doctor(int argc, char **argv)
{
    static struct stp_doctor d;
    const struct passwd *user;
    struct doctor_options o = {0};

    stp_options_read(&doctor_line, argc, argv, &o);
    if (o.backend != NULL)
        return stp_doctor_backend(o.backend, o.json);
    if (!stp_runs_command("doctor"))
        return STP_EXIT_OK;
    d.measurements = o.measurements;
    if (o.log != NULL)
        return stp_doctor_log(&d, o.log, false, o.json);
    d.root = stp_doctor_setting("STEPTUNE_ROOT"); /* tests' own: for / */
    /* NCCL asks the user database; tests have a home of their own */
    user = d.root[0] == '\0' ? getpwuid(getuid()) : NULL;
    d.home = user != NULL ? user->pw_dir : getenv("HOME");
    d.program = o.program.n > 0 ? o.program.v[0] : NULL;
    if (o.policy != NULL)
        stp_set_variable("NCCL_TUNER_CONFIG_FILE", o.policy);
    if (o.headers != NULL) {
        stp_doctor_read_conf(&d);
        stp_doctor_libraries(&d);
        return stp_doctor_headers(&d, o.headers);
    }
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        checks[i](&d);
    return stp_doctor_print(&d.diagnosis, o.json);
}
