/*
 * plans.h - a host's part in plans (planner.h): its thread at the store, and
 * what its other threads ask
 */
#ifndef STP_PLANS_H
#define STP_PLANS_H

#include <pthread.h>
#include <stdbool.h>

#include "agree/hosts.h"
#include "agree/planner.h"

struct stp_plans {
    pthread_mutex_t lock; /* of the planner */
    struct stp_planner planner;
    struct stp_planner_host host;
    struct stp_hosts_line line;
    const struct stp_agreement_store *store;
    bool is_hushed; /* by __atomic builtins: tests in C++ include this */
    int wake_fd;    /* can be read then; -1: there is none to be had */
};

/* 'plans' is all zero. */
void stp_plans_open(struct stp_plans *plans);
void stp_plans_close(struct stp_plans *plans);

/* Before stp_plans_run(), and before another thread asks: 'line' and 'host' are
 * filled in.  'store' lives as long. */
void stp_plans_begin(struct stp_plans *plans,
                     const struct stp_agreement_store *store);

/* Returns when nothing can be agreed on any more, or soon after
 * stp_plans_hush(); closes the client of 'line'.  why_ret tells the reason; ""
 * if it was hushed. */
void stp_plans_run(struct stp_plans *plans, char why_ret[STP_PLANNER_WHY]);

/* ---- from any thread ---- */

void stp_plans_hush(struct stp_plans *plans);
bool stp_plans_are_hushed(const struct stp_plans *plans);

/* As those of struct stp_agreement_ops. */
bool stp_plans_propose(struct stp_plans *plans, const uint32_t *proposals,
                       size_t n, unsigned epoch_calls);
enum stp_proposed stp_plans_proposed(struct stp_plans *plans);

/* Why nothing can be agreed on any more; "" if it can. */
void stp_plans_explain(struct stp_plans *plans, char *text, size_t size);

#endif /* STP_PLANS_H */
