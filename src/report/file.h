/*
 * file.h - output files that are there whole or not at all
 */
#ifndef STP_FILE_H
#define STP_FILE_H

#include <stdio.h>

#include "core/status.h"

struct stp_file {
    FILE *fp; /* write here */
    char *path;
    char *temporary; /* beside 'path'; NULL: a device or pipe is written to */
};

/* Begins to write the file 'path', under another name in the same folder.
 * STP_ERR_IO or STP_ERR_NOMEM; *file_ret is untouched then. */
enum stp_status stp_file_begin(const char *path, struct stp_file *file_ret,
                               struct stp_error *err);

/*
 * Puts what was written under its name, in one step.  On failure (a full disk,
 * say) what stood there before still does.  The file is closed either way.
 */
enum stp_status stp_file_commit(struct stp_file *file, struct stp_error *err);

/* Throws away what was written. */
void stp_file_abandon(struct stp_file *file);

/* Commits what was written, or abandons it if 'status', that of writing it, is
 * not STP_OK.  Returns the first failure. */
enum stp_status stp_file_end(struct stp_file *file, enum stp_status status,
                             struct stp_error *err);

/* From here on SIGHUP, SIGINT and SIGTERM, unless they are ignored, remove the
 * temporary files of this process before they end it.  For the main thread of a
 * command that handles no signals of its own. */
void stp_file_clean_on_signals(void);

#endif /* STP_FILE_H */
