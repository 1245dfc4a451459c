/* reward_file.h - the file with rewards that an application appends to
 *
 * Only a regular file that this user owns, and that is no link, is read: never
 * a FIFO, which could block.  A file that is not there yet may come later.
 * One that became shorter, or was replaced by another, is read from its start;
 * of the one replaced, what is left is read first.
 *
 * One thread at a time. */
#pragma once

#include "core/learn/reward_log.h"
#include "core/status.h"

struct stp_reward_file; /* opaque */

enum {
    STP_REWARD_PIECE = 256 << 10, /* bytes read in one go */
    STP_REWARD_BACKLOG = 1 << 20, /* of what is there at the first look */
};

/* Does not open the file yet.  STP_ERR_NOMEM. */
enum stp_status stp_reward_file_open(const char *path,
                                     struct stp_reward_file **file_ret,
                                     struct stp_error *err);
void stp_reward_file_close(struct stp_reward_file *file); /* NULL is allowed */

/* Reads the bytes that were appended since the last call, at most
 * STP_REWARD_PIECE. A backlog at the first call is cut to the lines that begin
 * in its last STP_REWARD_BACKLOG bytes. STP_ERR_IO with a sentence once for
 * each reason why the file is not read (STP_USE_OWN of core/trust.h, or
 * unreadable), then STP_OK; each call tries again. A file that such a thing
 * replaced is read to its end all the same. */
enum stp_status stp_reward_file_read(struct stp_reward_file *file,
                                     stp_reward_sink sink, void *user,
                                     struct stp_error *err);

/* The lines that were read so far. */
const struct stp_reward_log *
stp_reward_file_log(const struct stp_reward_file *file);

/* Bytes of backlog that were left out. */
uint64_t stp_reward_file_skipped(const struct stp_reward_file *file);
