#include "agree/plan_scale_host.h"

#include <stdlib.h>
#include <string.h>

#include "agree/plans.h"

struct scale_host {
    struct stp_agreement_store store;
    struct stp_hosts hosts;
    struct stp_plans plans;
    struct stp_plan_board *board;
    size_t n_own;
    int state;
    char why[512];
};

static bool scale_host_is_hushed(void *user)
{
    return stp_plans_are_hushed(&((struct scale_host *)user)->plans);
}

static bool scale_host_commit(void *user)
{
    (void)user;
    return true;
}

static size_t scale_host_count_learning(void *user)
{
    return ((const struct scale_host *)user)->n_own;
}

struct scale_host *scale_host_new(const struct stp_agreement_store *store,
                                  const struct stp_identity *identities,
                                  size_t n_own, size_t n_ranks)
{
    struct scale_host *host = calloc(1, sizeof(*host));
    struct stp_plan_board *board = calloc(1, stp_plan_board_bytes(n_own));

    if (host == NULL || board == NULL)
        abort();
    host->store = *store;
    host->n_own = n_own;
    host->board = board;
    host->hosts =
        (struct stp_hosts){.store = &host->store,
                           .comm_id = 0x5ca1e,
                           .n_ranks = n_ranks,
                           .identities = identities,
                           .is_hushed = scale_host_is_hushed,
                           .commit = scale_host_commit,
                           .count_learning = scale_host_count_learning,
                           .user = host};
    pthread_mutex_init(&host->plans.lock, NULL);
    host->plans.wake_fd = -1;
    return host;
}

void scale_host_free(struct scale_host *host)
{
    stp_plans_close(&host->plans);
    free(host->board);
    free(host);
}

/* As shm.c does. */
static void scale_host_plan(struct scale_host *host)
{
    struct stp_plans *plans = &host->plans;
    char why[STP_PLANNER_WHY];

    plans->host = (struct stp_planner_host){
        .board = host->board,
        .n_own = host->n_own,
        .n_ranks = host->hosts.n_ranks,
        .leads = plans->line.leads,
        .acknowledges = plans->line.all_learn,
        .timeout_ms = host->store.timeout_ms,
        .margin_ms = host->store.lead,
        .margin_calls = host->store.lead,
    };
    strcpy(plans->host.name, host->store.host);
    stp_plans_begin(plans, &host->store);
    host->state = 1;
    stp_plans_run(plans, why);
    strcpy(host->why, why);
}

void scale_host_speak(struct scale_host *host)
{
    if (stp_hosts_compare(&host->hosts, &host->plans.line, host->why,
                          sizeof(host->why)))
        scale_host_plan(host);
    host->state = -1;
}

int scale_host_state(const struct scale_host *host)
{
    return host->state;
}

const char *scale_host_why(const struct scale_host *host)
{
    return host->why;
}

struct stp_plan_board *scale_host_board(struct scale_host *host)
{
    return host->board;
}

bool scale_host_leads(const struct scale_host *host)
{
    return host->plans.host.leads;
}

bool scale_host_propose(struct scale_host *host, size_t n, unsigned epoch_calls)
{
    uint32_t words[STP_PLAN_WORDS];

    for (size_t i = 0; i < n; i++)
        words[i] = (uint32_t)i + 1;
    return stp_plans_propose(&host->plans, words, n, epoch_calls);
}

bool scale_host_is_pending(struct scale_host *host)
{
    return stp_plans_proposed(&host->plans) == STP_PROPOSED_PENDING;
}

uint64_t scale_host_last_plan(const struct scale_host *host)
{
    return host->plans.planner.plan.number;
}
