#include "agree/plans.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "store/clock.h"

enum {
    RECONNECT_MS = 100, /* between two tries */
    VALUE_BYTES = 256,
};

_Static_assert(VALUE_BYTES > (int)STP_PLAN_VERDICT &&
                   sizeof(struct stp_plan) <= VALUE_BYTES,
               "all values fit");

/* ---- life ---- */

void stp_plans_open(struct stp_plans *plans)
{
    pthread_mutex_init(&plans->lock, NULL);
    plans->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void stp_plans_close(struct stp_plans *plans)
{
    pthread_mutex_destroy(&plans->lock);
    if (plans->wake_fd >= 0)
        close(plans->wake_fd);
}

void stp_plans_begin(struct stp_plans *plans,
                     const struct stp_agreement_store *store)
{
    plans->store = store;
    plans->line.client.wake_fd = plans->wake_fd;
    stp_planner_begin(&plans->planner, &plans->host);
}

void stp_plans_hush(struct stp_plans *plans)
{
    const uint64_t one = 1;

    __atomic_store_n(&plans->is_hushed, true, __ATOMIC_SEQ_CST);
    if (write(plans->wake_fd, &one, sizeof(one)) != sizeof(one))
        return; /* it can be read already, or there is none */
}

bool stp_plans_are_hushed(const struct stp_plans *plans)
{
    return __atomic_load_n(&plans->is_hushed, __ATOMIC_SEQ_CST);
}

/* ---- the store ---- */

static void plans_nap(const struct stp_plans *p, int ms)
{
    struct pollfd polled = {.fd = p->wake_fd, .events = POLLIN};

    poll(&polled, 1, ms);
}

static bool plans_connect(struct stp_plans *p)
{
    struct stp_client *client = &p->line.client;
    bool is_open;

    stp_client_close(client);
    is_open = stp_hosts_connect(p->store, client,
                                stp_now_ms() + p->store->timeout_ms);
    client->wake_fd = p->wake_fd;
    if (!is_open)
        plans_nap(p, RECONNECT_MS);
    return is_open;
}

static const char *plans_key(const struct stp_plans *p,
                             const struct stp_plan_request *request,
                             char key[2 * STP_HOSTS_KEY])
{
    snprintf(key, 2 * STP_HOSTS_KEY, "%s/plan/%" PRIu64 "/%s",
             p->line.generation, request->plan, request->key);
    return key;
}

static bool plans_ask_store(struct stp_plans *p,
                            const struct stp_plan_request *r, const char *key,
                            unsigned char value[VALUE_BYTES],
                            struct stp_plan_reply *reply)
{
    struct stp_client *client = &p->line.client;
    int64_t sum = 0;
    bool is_there = false, is_ok;

    switch (r->ask) {
    case STP_PLAN_SET:
        return stp_client_set(client, key, r->value, r->size);
    case STP_PLAN_ADD:
        is_ok = stp_client_add(client, key, (int64_t)r->number, &sum);
        reply->number = (uint64_t)sum;
        return is_ok;
    case STP_PLAN_GET:
        return stp_client_get(client, key, value, VALUE_BYTES, &reply->size);
    case STP_PLAN_CHECK:
        is_ok = stp_client_check(client, key, &is_there);
        reply->number = is_there;
        return is_ok;
    case STP_PLAN_COMPARE_SET:
        return stp_client_compare_set(client, key, r->value, r->size, NULL,
                                      value, VALUE_BYTES, &reply->size);
    default:
        return stp_client_delete(client, key);
    }
}

static void plans_ask(struct stp_plans *p, const struct stp_plan_request *r,
                      unsigned char value[VALUE_BYTES],
                      struct stp_plan_reply *reply)
{
    char key[2 * STP_HOSTS_KEY];

    *reply = (struct stp_plan_reply){.is_ok = true, .value = value};
    if (r->ask == STP_PLAN_NAP) {
        plans_nap(p, STP_PLANNER_NAP_MS);
        return;
    }
    if (r->ask == STP_PLAN_CONNECT)
        reply->is_ok = plans_connect(p);
    else {
        p->line.client.deadline_ms =
            r->ask == STP_PLAN_GET && r->wait_ms < 0
                ? INT64_MAX / 2
                : stp_now_ms() + (r->ask == STP_PLAN_GET
                                      ? r->wait_ms
                                      : (int64_t)p->store->timeout_ms);
        reply->is_ok =
            plans_ask_store(p, r, plans_key(p, r, key), value, reply);
    }
    reply->why = p->line.client.why;
}

void stp_plans_run(struct stp_plans *plans, char why_ret[STP_PLANNER_WHY])
{
    struct stp_plans *p = plans;
    unsigned char value[VALUE_BYTES];
    struct stp_plan_request request;
    struct stp_plan_reply reply;

    pthread_mutex_lock(&p->lock);
    stp_planner_ask(&p->planner, stp_now_ms(), &request);
    while (request.ask != STP_PLAN_END) {
        pthread_mutex_unlock(&p->lock);
        plans_ask(p, &request, value, &reply);
        pthread_mutex_lock(&p->lock);
        if (stp_plans_are_hushed(p))
            stp_planner_hush(&p->planner);
        else
            stp_planner_take(&p->planner, &reply);
        stp_planner_ask(&p->planner, stp_now_ms(), &request);
    }
    memcpy(why_ret, p->planner.why, STP_PLANNER_WHY);
    pthread_mutex_unlock(&p->lock);
    stp_client_close(&p->line.client);
}

/* ---- from any thread ---- */

bool stp_plans_propose(struct stp_plans *plans, const uint32_t *proposals,
                       size_t n, unsigned epoch_calls)
{
    bool is_put;

    pthread_mutex_lock(&plans->lock);
    is_put = stp_planner_propose(&plans->planner, proposals, n, epoch_calls);
    pthread_mutex_unlock(&plans->lock);
    return is_put;
}

enum stp_proposed stp_plans_proposed(struct stp_plans *plans)
{
    enum stp_proposed proposed = STP_PROPOSED_TAKEN;

    pthread_mutex_lock(&plans->lock);
    if (stp_planner_is_over(&plans->planner))
        proposed = STP_PROPOSED_OVER;
    else if (plans->planner.has_proposal)
        proposed = STP_PROPOSED_PENDING;
    else if (plans->planner.was_dropped)
        proposed = STP_PROPOSED_DROPPED;
    pthread_mutex_unlock(&plans->lock);
    return proposed;
}

void stp_plans_explain(struct stp_plans *plans, char *text, size_t size)
{
    pthread_mutex_lock(&plans->lock);
    snprintf(text, size, "%s", plans->planner.why);
    pthread_mutex_unlock(&plans->lock);
}
