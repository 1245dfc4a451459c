/* journal.h - every decision and reward of a learning plugin, as CSV
 *
 * All processes of a job append to one file, a line at a time. */
#pragma once

#include "plugin/backend.h"
#include "plugin/online/observer.h"

/* The columns.  t_us is of the host's clock, bytes of the first message of its
 * key; value is the event's (core/learn/learner.h), in units of 'unit': us, ms
 * (of a reward file), calls or steps; empty where there is none. */
#define STP_JOURNAL_HEAD                                                       \
    "t_us,comm,nNodes,nRanks,event,call,collective,min_bytes,max_bytes,"       \
    "algorithm,protocol,channels,value,gain,gain_low,gain_high,unit\n"

struct stp_journal; /* opaque */

enum stp_status stp_journal_open(const char *path,
                                 const struct stp_comm_info *info,
                                 struct stp_journal **journal_ret,
                                 struct stp_error *err);

/* Flushes and closes.  NULL is allowed; in a child of the process that opened
 * it, it only closes. */
void stp_journal_close(struct stp_journal *journal);

/* Adds a line, which may stay in memory until the flush. */
void stp_journal_write(struct stp_journal *journal, uint64_t t_ns,
                       const struct stp_learn_event *event,
                       const struct stp_learned *learned);
void stp_journal_flush(struct stp_journal *journal);

/* The errno of the first write that failed, after which none follows; or 0. */
int stp_journal_error(const struct stp_journal *journal);
