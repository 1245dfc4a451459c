/* ledgers.h - the decisions of tuners during a job, from their ledgers */
#pragma once

#include <stdio.h>

#include "core/policy/ledger.h"
#include "core/status.h"
#include "report/learning/learning.h"
#include "report/learning/staged.h"

/* The ledgers of all communicators of a job, on all ranks of this host. */
struct stp_ledgers {
    struct stp_ledger *all;
    size_t n, capacity;
};

/* Reads all ledgers of the folder 'dir'; other files are skipped.
 * STP_ERR_IO; *ledgers_ret is untouched then.  Free with
 * stp_ledgers_free(). */
enum stp_status stp_ledgers_load(const char *dir,
                                 struct stp_ledgers *ledgers_ret,
                                 struct stp_error *err);

void stp_ledgers_free(struct stp_ledgers *ledgers);

/* Prints whether the plugin was loaded, and a row a collective and power of two
 * of bytes: the decision, the line of 'policy' (NULL: none) that made it, and
 * the getCollInfo calls of all ranks.  Text, or one JSON object, which has the
 * learned arms and staged collectives as well (NULL where nothing learns, or is
 * staged). */
void stp_print_ledgers(const struct stp_ledgers *ledgers, const char *policy,
                       const struct stp_learning *learning,
                       const struct stp_learning_setting *setting,
                       const struct stp_staged *staged, bool is_json, FILE *fp);

/* Prints counters of these decisions, of communicators left alone and of staged
 * collectives (NULL: none), as Prometheus reads them. */
void stp_print_ledgers_metrics(const struct stp_ledgers *ledgers,
                               const struct stp_staged *staged, FILE *fp);
