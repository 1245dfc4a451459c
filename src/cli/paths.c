/* paths.c - inputs that cannot be read, and outputs that have no place */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "report/file.h"

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
    if (kind == STP_PATH_FOLDER && is_there && !is_folder) {
        snprintf(why, STP_PATH_WHY, "is a file, expected a folder");
        return true;
    }
    if (kind != STP_PATH_FOLDER && is_folder) {
        snprintf(why, STP_PATH_WHY, "is a folder, expected a file");
        return true;
    }
    if (kind == STP_PATH_WRITE_BESIDE && stp_file_is_special(path)) {
        snprintf(why, STP_PATH_WHY,
                 "is a device or a pipe, expected a file, which others are "
                 "written beside");
        return true;
    }
    return !is_there && path_has_no_place(path, kind == STP_PATH_FOLDER, why);
}
