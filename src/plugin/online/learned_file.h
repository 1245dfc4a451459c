/* learned_file.h - learned rules, as a policy that the static plugin reads
 *
 * Several communicators, of several processes, add to one file.  A rule takes
 * the place of the file's rule for the same messages on communicators of the
 * same shape; the other rules stay, as many as STP_MAX_LEARNED bytes hold. */
#pragma once

#include "plugin/online/observer.h"

/* The first line of such a file. */
#define STP_LEARNED_MAGIC "# steptune-online: learned while jobs ran"

/* All settled keys, also those where NCCL's own choice stays: arm.algo is -1
 * then, and no rule is written. */
struct stp_learned_rules {
    const struct stp_learned *rules;
    size_t n;
    bool same_bits; /* these change no bits of sums.  The file says so unless it
                       has rules of a job that did not */
};

/* Adds to the file at 'path', under a lock of its folder and in one step: it is
 * complete or unchanged.  A file that is not of learned rules, or none at all
 * but a FIFO, is left alone: STP_ERR_IO, as for all other failures and where
 * another process keeps the lock.  On a device, such as /dev/null,
 * nothing is saved. */
enum stp_status stp_learned_save(const char *path,
                                 const struct stp_learned_rules *learned,
                                 const struct stp_shape *shape,
                                 struct stp_error *err);

/* Whether stp_learned_save() could add to the file, which stays as it is. */
enum stp_status stp_learned_check(const char *path, struct stp_error *err);

/* Writes what was settled, and whether learning has stopped, for
 * node_exporter's textfile collector: a file of the folder for each shape of
 * communicator, in one step.  STP_ERR_IO. */
enum stp_status stp_learned_save_metrics(
    const char *folder, const struct stp_learned_rules *learned,
    const struct stp_shape *shape, bool has_stopped, struct stp_error *err);
