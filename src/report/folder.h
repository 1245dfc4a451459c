/* folder.h - output folders that are there whole or not at all
 *
 * Files are written into PATH.tmp, which becomes PATH in the end. */
#pragma once

#include <stdbool.h>

#include "core/status.h"

enum { STP_FOLDER_PATH = 4096 };

/* Writes a path, as printf() does.  STP_ERR_IO if it is too long. */
enum stp_status stp_path_write(char path[STP_FOLDER_PATH],
                               struct stp_error *err, const char *fmt, ...)
    STP_PRINTF(3, 4);

struct stp_folder {
    char path[STP_FOLDER_PATH];
    char temporary[STP_FOLDER_PATH]; /* write here */
    bool replace;
};

/* Makes the temporary folder; files that an interrupted run left in it are
 * removed.  STP_ERR_IO if it cannot be made, or if 'path' exists and is not to
 * be replaced; *folder_ret is untouched then. */
enum stp_status stp_folder_begin(const char *path, bool replace,
                                 struct stp_folder *folder_ret,
                                 struct stp_error *err);

/* The path of a file in the temporary folder.  STP_ERR_IO if it is too long. */
enum stp_status stp_folder_file(const struct stp_folder *folder,
                                const char *name, char path[STP_FOLDER_PATH],
                                struct stp_error *err);

/* Puts the folder under its name. A folder that it replaces loses the files
 * among the NULL-terminated 'ours' and keeps all others. On failure the old
 * folder stays, and the temporary folder is gone. */
enum stp_status stp_folder_commit(const struct stp_folder *folder,
                                  const char *const *ours,
                                  struct stp_error *err);

/* Makes the folder 'path', and those above it, if need be.  STP_ERR_IO. */
enum stp_status stp_folder_make(const char *path, struct stp_error *err);

/* Removes a folder of files and nothing else. */
bool stp_folder_remove(const char *path);

/* Throws away what was written. */
void stp_folder_abandon(const struct stp_folder *folder);
