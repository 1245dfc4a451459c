/* file.h - opening the files that the environment names, so that none of them
 * can hold a job, nor another user decide in it
 *
 * To open, read or write a FIFO, a device or a socket may take for ever.  So
 * the plugins open their files here alone: regular files that core/trust.h
 * lets them use, and /dev/null.
 *
 * Nothing is read without a bound: of a policy at most STP_MAX_FILE bytes, of
 * learned rules STP_MAX_LEARNED, of evidence STP_MAX_EVIDENCE, and a reward
 * file in pieces (online/reward_file.h).  Journals and ledgers are only
 * written. */
#pragma once

#include <stdbool.h>

#include "core/policy/policy.h"
#include "core/status.h"

enum { STP_MAX_LEARNED = 4 << 20 }; /* bytes of learned rules in a file */

/* As open(2), with mode 0644 for O_CREAT, but never waits.  -1 with errno,
 * which stp_file_strerror() explains, for what may not be used, too. */
int stp_file_open(const char *path, int flags);

/* Why a file was not opened: "No such file or directory". */
const char *stp_file_strerror(int error);

/* Creates and opens a file whose name is 'path' with its last six bytes, which
 * are XXXXXX, replaced; for its owner alone.  -1 with errno. */
int stp_file_create(char *path);

/* Takes the exclusive lock of flock(2) within half a second; false: another
 * process keeps it.  *is_kept notes that, false at first: from then on each
 * call tries once, until one gets the lock.  True on a file system without
 * locks. */
bool stp_file_lock(int fd, bool *is_kept);

/* Appends to a file, unless *error, 0 at first, says why that failed before: a
 * full disk must not harm a job, nor leave a file with a gap. */
void stp_file_append(int fd, const char *text, size_t length, int *error);

/* Writes the first line of a file to which several processes append, unless one
 * of them has.  Where somebody keeps the lock, as stp_file_lock() has it, two
 * may write it. */
void stp_file_write_head(int fd, const char *head, bool *is_kept, int *error);

/* Reads a whole file as stp_read_file() does; the caller frees the text. */
enum stp_status stp_file_read(const char *path, size_t max, char **text_ret,
                              size_t *len_ret, struct stp_error *err);

/* Loads a policy as stp_policy_load() does. */
enum stp_status stp_file_load_policy(enum stp_policy_kind kind,
                                     const char *path,
                                     struct stp_policy **policy_ret,
                                     struct stp_error *err);
