/*
 * ledgers.h - what tuners decided during a job, from their ledgers
 */
#ifndef STP_LEDGERS_H
#define STP_LEDGERS_H

#include <stdio.h>

#include "core/policy/ledger.h"
#include "core/status.h"
#include "report/learning/learning.h"

/* Of all communicators of a job, on all ranks of this host. */
struct stp_ledgers {
    struct stp_ledger *all;
    size_t n;
};

/*
 * Reads all ledgers of the folder 'dir'; what is none is passed over.
 * STP_ERR_IO or STP_ERR_NOMEM; *ledgers_ret is untouched then.  Free with
 * stp_ledgers_free().
 */
enum stp_status stp_ledgers_load(const char *dir,
                                 struct stp_ledgers *ledgers_ret,
                                 struct stp_error *err);

void stp_ledgers_free(struct stp_ledgers *ledgers);

/*
 * Prints what became of the plugin, and a row for every collective and power of
 * two of bytes with what was decided, by which line of 'policy' (NULL for
 * none), and how often NCCL asked on all ranks together.  Lines of text for
 * people, or one JSON object, to which what was learned belongs ('learning' is
 * NULL where nothing learns).
 */
enum stp_status stp_print_ledgers(const struct stp_ledgers *ledgers,
                                  const char *policy, FILE *fp,
                                  struct stp_error *err);
enum stp_status
stp_print_ledgers_json(const struct stp_ledgers *ledgers, const char *policy,
                       const struct stp_learning *learning,
                       const struct stp_learning_setting *setting, FILE *fp,
                       struct stp_error *err);

#endif /* STP_LEDGERS_H */
