// A host of plan_scale.cc: plugin code from shm.c's speak() down, in C because
// its headers have C's atomics.
#ifndef STP_TESTS_PLAN_SCALE_HOST_H
#define STP_TESTS_PLAN_SCALE_HOST_H

#include "agree/agreement.h"
#include "agree/identity.h"
#include "agree/plan_board.h"

struct scale_host;

// 'identities' are 'n_ranks' rows, of which the first 'n_own' are filled; the
// host has 'n_own' ranks on its board.  Aborts without memory.
struct scale_host *scale_host_new(const struct stp_agreement_store *store,
                                  const struct stp_identity *identities,
                                  size_t n_own, size_t n_ranks);
void scale_host_free(struct scale_host *host);

// Compares; then plans until nothing can be agreed on any more.
void scale_host_speak(struct scale_host *host);

// Whether it is comparing (0), agreed (1), or takes part no more (-1): 'why'.
int scale_host_state(const struct scale_host *host);
const char *scale_host_why(const struct scale_host *host);

struct stp_plan_board *scale_host_board(struct scale_host *host);

// The host that leads.
bool scale_host_leads(const struct scale_host *host);
bool scale_host_propose(struct scale_host *host, size_t n,
                        unsigned epoch_calls);
bool scale_host_is_pending(struct scale_host *host);
uint64_t scale_host_last_plan(const struct scale_host *host);

#endif // STP_TESTS_PLAN_SCALE_HOST_H
