/* locate.c - recorded machines and our plugins, wherever Steptune is installed
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

static bool locate_is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The folder of this program; "." if /proc cannot tell. */
static void locate_program(char path[STP_CLI_PATH])
{
    ssize_t n = readlink("/proc/self/exe", path, STP_CLI_PATH - 1);

    path[n > 0 ? n : 0] = '\0';
    if (strrchr(path, '/') != NULL)
        *strrchr(path, '/') = '\0';
    else
        strcpy(path, ".");
}

bool stp_make_temporary(const char *name, char path[STP_CLI_PATH])
{
    const char *top = getenv("TMPDIR");
    int n = snprintf(path, STP_CLI_PATH, "%s/%s-XXXXXX",
                     top != NULL && *top != '\0' ? top : "/tmp", name);

    return n > 0 && n < STP_CLI_PATH && mkdtemp(path) != NULL;
}

/* The absolute path of FOLDER/RELATIVE/NAME; false if there is no such file. */
static bool locate_file(char path[STP_CLI_PATH], const char *folder,
                        const char *relative, const char *name)
{
    char joined[STP_CLI_PATH + 512];

    snprintf(joined, sizeof(joined), "%s/%s%s%s", folder, relative,
             *relative ? "/" : "", name);
    return stp_absolute_path(joined, path);
}

bool stp_absolute_path(const char *path, char absolute[STP_CLI_PATH])
{
    char *real = realpath(path, NULL);
    bool fits = real != NULL && strlen(real) < STP_CLI_PATH;

    if (fits)
        strcpy(absolute, real);
    free(real);
    return fits;
}

const char *stp_machines_folder(char path[STP_CLI_PATH])
{
    const char *set = getenv("STEPTUNE_MACHINES");
    char here[STP_CLI_PATH];

    locate_program(here);
    if (set != NULL)
        return set;
    return locate_file(path, here, "..", STP_MACHINES_DIR) ? path
                                                           : STP_MACHINES_DIR;
}

enum stp_status stp_find_machine(const char *on, char path[STP_CLI_PATH],
                                 struct stp_error *err)
{
    const char *set = getenv("STEPTUNE_MACHINES");
    char here[STP_CLI_PATH];

    locate_program(here);
    if (strchr(on, '/') != NULL) {
        if (stp_absolute_path(on, path) && locate_is_folder(path))
            return STP_OK;
    } else if (*on != '\0') {
        if (set != NULL && locate_file(path, set, "", on) &&
            locate_is_folder(path))
            return STP_OK;
        if (locate_file(path, here, "../" STP_MACHINES_DIR, on) &&
            locate_is_folder(path))
            return STP_OK;
    }
    return stp_fail(err, STP_ERR_IO,
                    "no recorded machine '%.80s', expected a folder with a "
                    "machine.csv or the name of one in %.80s",
                    on, set != NULL ? set : STP_MACHINES_DIR);
}

int stp_choose_machine(const char *on, char path[STP_CLI_PATH])
{
    struct stp_error err;

    if (stp_find_machine(on != NULL ? on : STP_DEFAULT_MACHINE, path, &err) ==
        STP_OK)
        return STP_EXIT_OK;
    stp_complain_error(NULL, &err);
    return STP_EXIT_NOTHING;
}

const char *stp_machine_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* A library of ours: ../lib/FOLDER/NAME, or where the system has libraries. */
static enum stp_status locate_library(const char *folder, const char *name,
                                      char path[STP_CLI_PATH],
                                      struct stp_error *err)
{
    static const char *const places[] = {"../lib", "../" STP_LIBDIR};
    bool one = strcmp(places[0], places[1]) == 0;
    char here[STP_CLI_PATH];
    char file[128];

    snprintf(file, sizeof(file), "%s%s", folder, name);
    locate_program(here);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (locate_file(path, here, places[i], file))
            return STP_OK;
    return stp_fail(err, STP_ERR_IO, "no %s in %s%s%s beside this program",
                    file, places[0], one ? "" : " or ", one ? "" : places[1]);
}

enum stp_status stp_find_plugin(const char *name, char path[STP_CLI_PATH],
                                struct stp_error *err)
{
    char file[64];

    snprintf(file, sizeof(file), "libnccl-tuner-%s.so", name);
    return locate_library("", file, path, err);
}

enum stp_status stp_find_module(const char *name, char path[STP_CLI_PATH],
                                struct stp_error *err)
{
    static const struct {
        const char *name;
        const char *needs; /* to be built */
    } modules[] = {
        {"cuda", "the CUDA toolkit"},
        {"gloo", "Gloo and OpenBLAS (Debian: libgloo-dev libopenblas-dev)"},
        {"mpi", "Open MPI (Debian: libopenmpi-dev openmpi-bin)"},
    };
    const char *needs = "";
    char file[64];

    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
        if (strcmp(name, modules[i].name) == 0)
            needs = modules[i].needs;
    snprintf(file, sizeof(file), "steptune-%s.so", name);
    if (locate_library("steptune/", file, path, NULL) == STP_OK)
        return STP_OK;
    return stp_fail(err, STP_ERR_NOTHING,
                    "no %s in lib/steptune beside this program: install %s, "
                    "and build Steptune again",
                    file, needs);
}
