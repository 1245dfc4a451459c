/* locate.c - machines and plugins, wherever they are installed, and paths that
 * are refused */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child/job.h"
#include "cli/cli.h"
#include "core/looks.h"
#include "core/nearest.h"
#include "core/text.h"
#include "launch/take.h"
#include "report/file.h"

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
    const char *top = stp_job_has("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    char file[STP_CLI_PATH + 8] = ""; /* zeros behind its name */
    /* a job may change its working directory */
    const bool is_there = stp_absolute_path(top, file);
    const int n = snprintf(path, STP_CLI_PATH, "%s/%s-XXXXXX",
                           is_there ? file : top, name);
    struct stp_error err;

    stp_job_hold_signals();
    errno = ENAMETOOLONG;
    if (n > 0 && n < STP_CLI_PATH && mkdtemp(path) != NULL) {
        snprintf(file, sizeof(file), "%s/room", path);
        if (stp_file_save(file, file, STP_CLI_PATH, &err) == STP_OK &&
            unlink(file) == 0)
            return true;
        rmdir(path);
        stp_complain_error("TMPDIR, or /tmp", &err);
    } else
        stp_complain("no folder can be made in '%s' (TMPDIR, or /tmp): %s", top,
                     strerror(errno));
    return false;
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

static bool locate_bundled(char path[STP_CLI_PATH], const char *name)
{
    char here[STP_CLI_PATH];

    locate_program(here);
    return locate_file(path, here, "..", name);
}

const char *stp_machines_folder(char path[STP_CLI_PATH])
{
    const char *set = getenv("STEPTUNE_MACHINES");

    if (set != NULL)
        return set;
    return locate_bundled(path, STP_MACHINES_DIR) ? path : STP_MACHINES_DIR;
}

/* ---- recorded machines ---- */

/* Adds the machines of a folder, by name, but those that the list has. */
static void locate_add_machines(const char *folder,
                                struct stp_machine_list *list)
{
    struct dirent **entries = NULL;
    const int n = scandir(folder, &entries, NULL, alphasort);
    const size_t n_before = list->n;
    void *all = realloc(list->paths, (n_before + (n > 0 ? (size_t)n : 0) + 1) *
                                         sizeof(*list->paths));

    if (all == NULL)
        stp_end_without_memory();
    list->paths = all;
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        char inside[STP_CLI_PATH + 512];
        bool is_new;

        snprintf(inside, sizeof(inside), "%s/%s/machine.csv", folder, name);
        is_new = name[0] != '.' && access(inside, F_OK) == 0;
        for (size_t k = 0; k < n_before && is_new; k++)
            is_new = strcmp(stp_base_name(list->paths[k]), name) != 0;
        if (is_new && locate_file(list->paths[list->n], folder, "", name))
            list->n++;
        free(entries[i]);
    }
    free(entries);
}

struct stp_machine_list stp_list_machines(void)
{
    const char *set = getenv("STEPTUNE_MACHINES");
    struct stp_machine_list list = {NULL, 0};
    char bundled[STP_CLI_PATH];

    if (set != NULL)
        locate_add_machines(set, &list);
    if (locate_bundled(bundled, STP_MACHINES_DIR))
        locate_add_machines(bundled, &list);
    return list;
}

enum stp_status stp_find_machine(const char *on, char path[STP_CLI_PATH],
                                 struct stp_error *err)
{
    const char *set = getenv("STEPTUNE_MACHINES");
    struct stp_machine_list list = {NULL, 0};
    char here[STP_CLI_PATH];
    char hint[STP_HINT];
    char names[2048] = "";

    locate_program(here);
    if (strchr(on, '/') != NULL || strcmp(on, ".") == 0 ||
        strcmp(on, "..") == 0) {
        if (stp_absolute_path(on, path) && locate_is_folder(path))
            return STP_OK;
    } else if (*on != '\0') {
        if ((set != NULL && locate_file(path, set, "", on) &&
             locate_is_folder(path)) ||
            (locate_file(path, here, "../" STP_MACHINES_DIR, on) &&
             locate_is_folder(path)) ||
            (locate_file(path, on, "", "machine.csv") &&
             stp_absolute_path(on, path)))
            return STP_OK;
    }
    /* the error names the machine that it nearly is */
    list = stp_list_machines();
    for (size_t i = 0; i < list.n; i++)
        stp_append(names, sizeof(names), "%s ", stp_base_name(list.paths[i]));
    free(list.paths);
    return stp_fail(err, STP_ERR_IO,
                    "no recorded machine '%.80s', expected a folder with a "
                    "machine.csv or one that `steptune machines` lists%s",
                    on, stp_hint_nearest(on, strlen(on), names, hint));
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

/* A library of ours: ../lib/FILE, or where the system has libraries. */
static enum stp_status locate_library(const char *file, char path[STP_CLI_PATH],
                                      struct stp_error *err)
{
    static const char *const places[] = {"../lib", "../" STP_LIBDIR};
    bool one = strcmp(places[0], places[1]) == 0;
    char here[STP_CLI_PATH];

    locate_program(here);
    for (size_t i = 0; i < STP_N_OF(places); i++)
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
    return locate_library(file, path, err);
}

int stp_find_staging(const char *rules, char absolute[STP_CLI_PATH],
                     char library[STP_CLI_PATH])
{
    struct stp_policy *policy;
    struct stp_error err;

    if (strcmp(rules, "all") == 0 ? !locate_bundled(absolute, STP_STAGE_ALL)
                                  : !stp_absolute_path(rules, absolute))
        return stp_complain("there is no stage policy '%s', expected all, or a "
                            "file as `steptune tune` writes it beside its "
                            "policy",
                            rules);
    if (stp_policy_load(STP_POLICY_OF_STAGE, absolute, &policy, &err) != STP_OK)
        return stp_complain_error(rules, &err);
    stp_policy_free(policy);
    if (locate_library("libsteptune-stage.so", library, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    return stp_check_preload(library);
}

bool stp_is_library(const char *path)
{
    static const char elf[] = "\177ELF";
    FILE *fp = stp_file_is_special(path) ? NULL : fopen(path, "r");
    char magic[sizeof(elf) - 1] = "";
    const size_t n = fp != NULL ? fread(magic, 1, sizeof(magic), fp) : 0;

    if (fp != NULL)
        fclose(fp);
    return n == sizeof(magic) && memcmp(magic, elf, n) == 0;
}

int stp_check_preload(const char *path)
{
    if (strpbrk(path, " :") != NULL)
        return stp_complain("'%s' has a space or a colon, which LD_PRELOAD "
                            "takes for the end of a path",
                            path);
    return stp_is_library(path)
               ? STP_EXIT_OK
               : stp_complain("'%s' is no shared library", path);
}

/* ---- transports ---- */

const struct stp_transport stp_transports[] = {
    {"nccl", "cuda", "cuda", "the CUDA toolkit (NVIDIA: cuda-toolkit)"},
    {"gloo", "gloo", "cpu",
     "Gloo and OpenBLAS (Debian: libgloo-dev libopenblas-dev)"},
    {0},
};

bool stp_has_program(const char *name)
{
    const char *at = getenv("PATH");
    char path[STP_CLI_PATH];

    if (strchr(name, '/') != NULL)
        return access(name, X_OK) == 0;
    while (at != NULL && *at != '\0') {
        const size_t len = strcspn(at, ":");

        snprintf(path, sizeof(path), "%.*s/%s", (int)len, at, name);
        if (access(path, X_OK) == 0)
            return true;
        at += len + (at[len] == ':');
    }
    return false;
}

enum stp_status stp_find_module(const char *name, char path[STP_CLI_PATH],
                                struct stp_error *err)
{
    const struct stp_transport *t = stp_transports;
    char file[64];

    while (strcmp(name, t->module) != 0)
        t++;
    snprintf(file, sizeof(file), "steptune/steptune-%s.so", name);
    if (locate_library(file, path, NULL) == STP_OK)
        return STP_OK;
    return stp_fail(err, STP_ERR_NOTHING,
                    "no %s in lib/steptune beside this program: install %s, "
                    "and build Steptune again",
                    stp_base_name(file), t->needs);
}

/* ---- inputs that cannot be read, and outputs that have no place ---- */

bool stp_path_is_same(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) &&
           x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Whether no file can be made in the folder of 'path'. The folder must exist
 * unless it 'may_lack' and is made, too. */
static bool path_has_no_place(const char *path, bool may_lack,
                              char why[STP_PATH_WHY])
{
    char folder[STP_CLI_PATH];
    struct stat st;

    snprintf(folder, sizeof(folder), "%s", path);
    do {
        size_t len = strlen(folder);
        char *slash;

        while (len > 1 && folder[len - 1] == '/')
            folder[--len] = '\0';
        slash = strrchr(folder, '/');
        if (slash == NULL)
            strcpy(folder, ".");
        else
            slash[slash == folder] = '\0';
    } while (may_lack && stat(folder, &st) != 0 && errno == ENOENT);
    if (stat(folder, &st) != 0 || !S_ISDIR(st.st_mode))
        snprintf(why, STP_PATH_WHY, "has no place: there is no folder '%.120s'",
                 folder);
    else if (access(folder, W_OK) != 0)
        snprintf(why, STP_PATH_WHY, "cannot be made in '%.120s': %s", folder,
                 strerror(errno));
    else
        return false;
    return true;
}

bool stp_path_is_refused(enum stp_path kind, const char *path,
                         char why[STP_PATH_WHY])
{
    struct stat st;
    const bool is_there = stat(path, &st) == 0;
    const bool is_folder = is_there && S_ISDIR(st.st_mode);

    if (kind == STP_PATH_READ) {
        snprintf(why, STP_PATH_WHY,
                 "is a pipe, which can be read only once, expected a file");
        return is_there && S_ISFIFO(st.st_mode);
    }
    if (*path == '\0' || (!is_there && path[strlen(path) - 1] == '/' &&
                          kind != STP_PATH_FOLDER)) {
        snprintf(why, STP_PATH_WHY, "names no %s",
                 kind == STP_PATH_FOLDER ? "folder" : "file");
        return true;
    }
    if (is_there && is_folder != (kind == STP_PATH_FOLDER)) {
        snprintf(why, STP_PATH_WHY,
                 is_folder ? "is a folder, expected a file"
                           : "is a file, expected a folder");
        return true;
    }
    if (kind == STP_PATH_WRITE_BESIDE && stp_file_is_special(path)) {
        snprintf(why, STP_PATH_WHY,
                 "is a device or a pipe, expected a file, which others are "
                 "written beside");
        return true;
    }
    if (is_folder && access(path, W_OK | X_OK) != 0) {
        snprintf(why, STP_PATH_WHY, "cannot be written into: %s",
                 strerror(errno));
        return true;
    }
    return (!is_there || kind == STP_PATH_WRITE_BESIDE) &&
           path_has_no_place(path, kind == STP_PATH_FOLDER, why);
}

bool stp_path_is_other(const char *path, const char *kind)
{
    char text[1 << 16];
    FILE *fp = stp_file_is_special(path) ? NULL : fopen(path, "re");
    const size_t len = fp != NULL ? fread(text, 1, sizeof(text), fp) : 0;
    const char *found = stp_looks_like(text, len);

    if (fp != NULL)
        fclose(fp);
    return len > 0 &&
           (found == NULL || strncmp(found, kind, strlen(kind)) != 0);
}
