/* iteration_folder.c - the folder of iteration_files.h */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/folder.h"
#include "report/iterations/iteration_files.h"

/* All that is ever written into it, as fnmatch() has it. */
static const char *const iteration_ours[] = {
    "iteration_times_*.txt",
    "iteration_times_*.png",
    "iteration_times_*.svg",
    "iteration_times_*.gp",
    "iteration_times_*.tsv",
    "gain_vs_size*.png",
    "gain_vs_size*.svg",
    "gain_vs_size*.gp",
    "gain_vs_size*.tsv",
    "rounds.csv",
    "summary.csv",
    "summary.md",
    "summary.json",
    "regimes.csv",
    "regimes.md",
};

static enum stp_status iteration_cannot(struct stp_error *err,
                                        const char *action, const char *path)
{
    return stp_fail(err, STP_ERR_IO, "cannot %s '%.160s': %s", action, path,
                    strerror(errno));
}

/* Makes it with those above it.  Fails as mkdir() does. */
static bool iteration_make_folders(const char *path)
{
    char part[STP_FOLDER_PATH];
    struct stat st;

    snprintf(part, sizeof(part), "%s", path);
    for (char *s = strchr(part + 1, '/'); s != NULL; s = strchr(s + 1, '/')) {
        *s = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return false;
        *s = '/';
    }
    if (mkdir(path, 0777) == 0)
        return true;
    if (errno != EEXIST || stat(path, &st) != 0)
        return false;
    errno = ENOTDIR;
    return S_ISDIR(st.st_mode);
}

static bool iteration_is_ours(const char *name)
{
    for (size_t i = 0; i < sizeof(iteration_ours) / sizeof(iteration_ours[0]);
         i++)
        if (fnmatch(iteration_ours[i], name, 0) == 0)
            return true;
    return false;
}

/* Removes one of our files, or says that it is there. */
static enum stp_status iteration_meet(const char *folder, const char *name,
                                      bool replace, struct stp_error *err)
{
    char path[STP_FOLDER_PATH + 256];

    if (!replace)
        return stp_fail(err, STP_ERR_IO,
                        "'%.120s' holds %.60s of an earlier run, expected a "
                        "folder without, or --force, which replaces it",
                        folder, name);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return unlink(path) == 0 ? STP_OK : iteration_cannot(err, "remove", path);
}

enum stp_status stp_iteration_folder(const char *path, bool replace,
                                     struct stp_error *err)
{
    enum stp_status status = STP_OK;
    const struct dirent *entry;
    DIR *dir;

    if (strlen(path) >= STP_FOLDER_PATH)
        return stp_fail(err, STP_ERR_IO, "the path '%.60s...' is too long",
                        path);
    if (!iteration_make_folders(path))
        return iteration_cannot(err, "make the folder", path);
    if (access(path, W_OK | X_OK) != 0)
        return iteration_cannot(err, "write into the folder", path);
    dir = opendir(path);
    if (dir == NULL)
        return iteration_cannot(err, "read the folder", path);
    while (status == STP_OK && (entry = readdir(dir)) != NULL)
        if (iteration_is_ours(entry->d_name))
            status = iteration_meet(path, entry->d_name, replace, err);
    closedir(dir);
    return status;
}
