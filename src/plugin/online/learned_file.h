/*
 * learned_file.h - what was learned, as a policy that the static plugin reads
 *
 * Several communicators, of several processes, add to one file.  What one
 * settled takes the place of what the file says of the same messages on
 * communicators of the same shape; the rest of it stays.
 */
#ifndef STP_LEARNED_FILE_H
#define STP_LEARNED_FILE_H

#include "plugin/backend.h"
#include "plugin/online/observer.h"

/* The first line of such a file. */
#define STP_LEARNED_MAGIC "# steptune-online: learned while jobs ran"

/* All messages that are settled, also those where NCCL's own choice stays:
 * arm.algo is -1 then, and no rule is written. */
struct stp_learned_rules {
    const struct stp_learned *rules;
    size_t n;
};

/*
 * Adds to the file at 'path', under a lock of its folder and in one step: it is
 * there whole or as it was.  A file there that is none of ours is left alone:
 * STP_ERR_IO, as for all else that fails.  On a device, such as /dev/null,
 * nothing is saved.
 */
enum stp_status stp_learned_save(const char *path,
                                 const struct stp_learned_rules *learned,
                                 const struct stp_shape *shape,
                                 struct stp_error *err);

#endif /* STP_LEARNED_FILE_H */
