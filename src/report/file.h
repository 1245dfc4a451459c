/* file.h - output files that are there whole or not at all
 *
 * A signal that ends the process removes what was begun: see launch/stop.h. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "core/status.h"

struct stp_file {
    FILE *fp;        /* write here */
    char *path;      /* NULL: standard output */
    char *temporary; /* beside 'path'; NULL: a device or pipe is written to */
};

/* Begins to write the file 'path', under another name in the same folder, or if
 * that is NULL to standard output, of which nothing can be taken back.
 * STP_ERR_IO or STP_ERR_NOMEM; *file_ret is untouched then. */
enum stp_status stp_file_begin(const char *path, struct stp_file *file_ret,
                               struct stp_error *err);

/* Puts what was written under its name, in one step.  On failure (a full disk,
 * say) what stood there before still does.  The file is closed either way. */
enum stp_status stp_file_commit(struct stp_file *file, struct stp_error *err);

/* Whether 'path' is a device or a pipe, also /dev/stdout that is redirected
 * into a file: it must stay what it is, and is written in place. */
bool stp_file_is_special(const char *path);

/* Commits the file if 'status', of what was to write it, is STP_OK; otherwise
 * throws away what was written, and returns 'status'. */
enum stp_status stp_file_end(struct stp_file *file, enum stp_status status,
                             struct stp_error *err);

/* STP_ERR_IO for 'errno': "cannot VERB 'PATH': No space left on device". */
enum stp_status stp_cannot(struct stp_error *err, const char *verb,
                           const char *path);

/* Writes the 'len' bytes at 'text' as the file 'path'. */
enum stp_status stp_file_save(const char *path, const char *text, size_t len,
                              struct stp_error *err);

/* link(), or a copy where that is refused: by file systems without hard links,
 * or of a file of another user.  -1 and errno, EEXIST if 'kept' is there. */
int stp_file_keep(const char *path, const char *kept);

/* Flushes a file or standard output, which messages call 'name'.  STP_ERR_IO if
 * any part of all that was ever printed to it is lost. */
enum stp_status stp_file_flush(FILE *fp, const char *name,
                               struct stp_error *err);
