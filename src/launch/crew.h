/*
 * crew.h - threads that do the same job at the same time, again and again
 */
#ifndef STP_CREW_H
#define STP_CREW_H

#include "core/status.h"
#include "launch/world.h"

struct stp_crew; /* opaque */

/* What thread 'thread' of the crew does.  One that fails says why in *err. */
typedef enum stp_status (*stp_crew_job)(void *user, unsigned thread,
                                        struct stp_error *err);

/* Starts 'n' >= 1 threads, which wait for jobs.  STP_ERR_NOMEM. */
enum stp_status stp_crew_create(unsigned n, struct stp_crew **crew_ret,
                                struct stp_error *err);

/*
 * Has every thread do the job, and waits for all.  The first failure is
 * returned.  Meanwhile 'world' is watched: if one of its processes dies, or
 * after 'time_limit_s' seconds unless that is 0, it returns without the
 * threads, which may be stuck in a library: the crew is then lost.
 */
enum stp_status stp_crew_run(struct stp_crew *crew, stp_crew_job job,
                             void *user, const struct stp_world *world,
                             unsigned time_limit_s, struct stp_error *err);

/* For a job: waits until all threads of the crew are here.  They spin, so that
 * all go on within a microsecond.  False if the crew is lost or another thread
 * has failed: this one is to fail, too. */
bool stp_crew_meet(struct stp_crew *crew);

/* For a job that waits for others: whether one of them has failed. */
bool stp_crew_failed(const struct stp_crew *crew);

/* Whether threads were left behind. */
bool stp_crew_is_lost(const struct stp_crew *crew);

/* Ends the threads, unless the crew is lost: those stay until the process
 * ends. */
void stp_crew_destroy(struct stp_crew *crew);

#endif /* STP_CREW_H */
