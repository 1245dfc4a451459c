#include "report/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/file.h"

enum stp_status stp_path_write(char path[STP_FOLDER_PATH],
                               struct stp_error *err, const char *fmt, ...)
{
    va_list va;
    int n;

    va_start(va, fmt);
    n = vsnprintf(path, STP_FOLDER_PATH, fmt, va);
    va_end(va);
    if (n >= 0 && n < STP_FOLDER_PATH)
        return STP_OK;
    return stp_fail(err, STP_ERR_IO, "the path '%.60s...' is too long", path);
}

/* Calls 'visit' for every file until it returns false; whether it never did. */
static bool folder_for_each(const char *folder,
                            bool (*visit)(void *user, const char *folder,
                                          const char *name),
                            void *user)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    bool ok = dir != NULL;

    while (ok && (entry = readdir(dir)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            ok = visit(user, folder, entry->d_name);
    if (dir != NULL)
        closedir(dir);
    return ok;
}

static bool folder_remove_file(void *user, const char *folder, const char *name)
{
    char path[STP_FOLDER_PATH];

    return stp_path_write(path, NULL, "%s/%s", folder, name) == STP_OK &&
           unlink(path) == 0;
}

bool stp_folder_remove(const char *path)
{
    return folder_for_each(path, folder_remove_file, NULL) && rmdir(path) == 0;
}

enum stp_status stp_folder_begin(const char *path, bool replace,
                                 struct stp_folder *folder_ret,
                                 struct stp_error *err)
{
    struct stp_folder f = {.replace = replace};
    struct stat st;

    STP_TRY(stp_path_write(f.path, err, "%s", path));
    STP_TRY(stp_path_write(f.temporary, err, "%s.tmp", path));
    if (!replace && lstat(path, &st) == 0)
        return stp_fail(err, STP_ERR_IO, "'%.160s' exists; --force replaces it",
                        path);
    if (lstat(f.temporary, &st) == 0 && !stp_folder_remove(f.temporary))
        return stp_cannot(err, "remove", f.temporary);
    if (mkdir(f.temporary, 0777) != 0)
        return stp_cannot(err, "make the folder", f.temporary);
    *folder_ret = f;
    return STP_OK;
}

enum stp_status stp_folder_file(const struct stp_folder *folder,
                                const char *name, char path[STP_FOLDER_PATH],
                                struct stp_error *err)
{
    return stp_path_write(path, err, "%s/%s", folder->temporary, name);
}

/* The old files of a folder that is replaced, until the new ones are whole. */
struct kept {
    const struct stp_folder *folder;
    const char *const *ours;
};

static bool folder_keep_file(void *user, const char *folder, const char *name)
{
    const struct kept *kept = user;
    char from[STP_FOLDER_PATH];
    char to[STP_FOLDER_PATH];

    for (const char *const *our = kept->ours; *our != NULL; our++)
        if (strcmp(*our, name) == 0)
            return true;
    return stp_path_write(from, NULL, "%s/%s", folder, name) == STP_OK &&
           stp_folder_file(kept->folder, name, to, NULL) == STP_OK &&
           stp_file_keep(from, to) == 0;
}

/* Two renames: in between there is neither, but both are on the disk. */
static enum stp_status folder_replace(const struct stp_folder *folder,
                                      const char *const *ours,
                                      struct stp_error *err)
{
    struct kept kept = {folder, ours};
    char old[STP_FOLDER_PATH];

    if (!folder_for_each(folder->path, folder_keep_file, &kept))
        return stp_cannot(err, "keep the files of", folder->path);
    if (stp_path_write(old, NULL, "%s.old", folder->path) != STP_OK ||
        rename(folder->path, old) != 0)
        return stp_cannot(err, "replace", folder->path);
    if (rename(folder->temporary, folder->path) != 0) {
        enum stp_status status = stp_cannot(err, "write", folder->path);

        rename(old, folder->path);
        return status;
    }
    return stp_folder_remove(old) ? STP_OK : stp_cannot(err, "remove", old);
}

enum stp_status stp_folder_commit(const struct stp_folder *folder,
                                  const char *const *ours,
                                  struct stp_error *err)
{
    enum stp_status status = STP_OK;
    struct stat st;

    if (folder->replace && lstat(folder->path, &st) == 0)
        status = folder_replace(folder, ours, err);
    else if (rename(folder->temporary, folder->path) != 0)
        status = stp_cannot(err, "write", folder->path);
    if (status != STP_OK)
        stp_folder_abandon(folder);
    return status;
}

void stp_folder_abandon(const struct stp_folder *folder)
{
    stp_folder_remove(folder->temporary);
}

enum stp_status stp_folder_make(const char *path, struct stp_error *err)
{
    char part[STP_FOLDER_PATH];
    bool is_made = true;
    struct stat st;

    snprintf(part, sizeof(part), "%s", path);
    for (char *s = strchr(part, '/'); is_made && s != NULL;
         s = strchr(s + 1, '/')) {
        *s = '\0';
        is_made = s == part || mkdir(part, 0777) == 0 || errno == EEXIST;
        *s = '/';
    }
    if (is_made && mkdir(path, 0777) == 0)
        return STP_OK;
    if (is_made && errno == EEXIST && stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return STP_OK;
        errno = ENOTDIR;
    }
    return stp_cannot(err, "make the folder", path);
}
