#include "agree/planner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum planner_stage {
    LEAD,      /* await a proposal and room for a plan */
    PUBLISH,   /* put the plan into the store */
    FOLLOW,    /* await the leader's plan */
    ROOM,      /* await room for it */
    ACK,       /* add the ranks of this host */
    COMPLETE,  /* say that all ranks acknowledged */
    GATHER,    /* await that */
    COMMIT,    /* ask for it */
    AWAIT,     /* await the verdict */
    RECONNECT, /* after the store was lost */
    REMEMBER,  /* whether it still has the plan */
    REFUSE,    /* ask for "abort" */
    REFUSED,   /* tell the leader, who awaits acknowledgements */
    TELL,      /* those that await the verdict */
    CLEAN,     /* delete what is needed no more */
    OVER,
};

enum {
    RATE_MS = 200, /* over which the rate of epochs is found */
    AHEAD_LEAST = 2,
    AHEAD_MOST = 64,
};

#define COMMITTED "commit"
#define ALL       "all"
#define ABORT     "abort"

static const char *const planner_keys[] = {"plan", "acks", "acked", "verdict",
                                           "known"};

enum { N_KEYS = sizeof(planner_keys) / sizeof(planner_keys[0]) };

/* ---- helpers ---- */

static enum planner_stage planner_end(struct stp_planner *p, const char *why)
{
    snprintf(p->why, sizeof(p->why), "%s", why);
    return OVER;
}

/* What this host asks for; the reason is for the log of the leader. */
static void planner_object(struct stp_planner *p, const char *why)
{
    snprintf(p->verdict, sizeof(p->verdict), ABORT ": %.59s %s", p->host->name,
             why);
}

static struct stp_plan_request planner_say(const struct stp_planner *p,
                                           enum stp_plan_ask ask,
                                           const char *key, const void *value,
                                           size_t size)
{
    return (struct stp_plan_request){.ask = ask,
                                     .plan = p->plan.number,
                                     .key = key,
                                     .value = value,
                                     .size = size};
}

static struct stp_plan_request planner_say_text(const struct stp_planner *p,
                                                enum stp_plan_ask ask,
                                                const char *key,
                                                const char *text)
{
    return planner_say(p, ask, key, text, strlen(text));
}

/* To the next plan, after this one is decided. */
static enum planner_stage planner_go_on(struct stp_planner *p,
                                        enum stp_plan_state state)
{
    p->n_plans[state]++;
    p->is_put = p->is_in_doubt = false;
    if (!p->host->leads)
        return FOLLOW;
    p->has_proposal = false;
    p->was_dropped = state == STP_PLAN_DROPPED;
    p->n_dropped = p->was_dropped ? p->n_dropped + 1 : 0;
    if (p->was_dropped && p->ahead < AHEAD_MOST)
        p->ahead *= 2;
    if (p->n_dropped == STP_PLANNER_TRIES)
        return planner_end(p, p->verdict);
    return LEAD;
}

/* Drops a plan that cannot be committed any more. */
static void planner_drop(struct stp_planner *p)
{
    if (p->is_put)
        stp_plan_decide(p->host->board, p->plan.number, STP_PLAN_DROPPED);
    p->is_put = false;
}

/* The store was lost, or did not answer in time. */
static enum planner_stage planner_lose(struct stp_planner *p,
                                       const struct stp_plan_reply *reply)
{
    snprintf(p->lost, sizeof(p->lost), "%s",
             reply->why != NULL ? reply->why : "no answer");
    return RECONNECT;
}

static enum planner_stage
planner_lose_for_good(struct stp_planner *p, const struct stp_plan_reply *reply)
{
    planner_lose(p, reply);
    return planner_end(p, p->lost);
}

/* The verdict of the store, which is the same for all. */
static enum planner_stage planner_obey(struct stp_planner *p,
                                       const struct stp_plan_reply *reply,
                                       enum planner_stage next)
{
    bool is_committed = reply->size == strlen(COMMITTED) &&
                        memcmp(reply->value, COMMITTED, strlen(COMMITTED)) == 0;
    size_t size =
        reply->size < sizeof(p->verdict) ? reply->size : sizeof(p->verdict) - 1;

    memcpy(p->verdict, reply->value, size);
    p->verdict[size] = '\0';
    if (!is_committed)
        planner_drop(p);
    else if (p->is_put &&
             stp_plan_decide(p->host->board, p->plan.number,
                             STP_PLAN_COMMITTED) != STP_PLAN_COMMITTED)
        return planner_end(p, "ranks of this host gave up waiting");
    return next;
}

static enum stp_plan_state planner_verdict(const struct stp_planner *p)
{
    return strcmp(p->verdict, COMMITTED) == 0 ? STP_PLAN_COMMITTED
                                              : STP_PLAN_DROPPED;
}

/* ---- the leader's plan ---- */

/* The highest, as a job that pauses goes on as fast as before. */
static void planner_measure_rate(struct stp_planner *p, int64_t now_ms)
{
    uint64_t epoch;

    if (p->rate_ms != 0 && now_ms - p->rate_ms < RATE_MS)
        return;
    epoch = stp_plan_epoch(p->host->board, p->host->n_own);
    if (p->rate_ms != 0)
        p->rate = fmax(p->rate, (double)(epoch - p->rate_epoch) /
                                    (double)(now_ms - p->rate_ms));
    p->rate_ms = now_ms;
    p->rate_epoch = epoch;
}

static uint32_t planner_margin(const struct stp_planner *p)
{
    unsigned calls = p->host->margin_calls;
    double by_time = p->rate * p->host->margin_ms;
    uint32_t by_calls = (calls + p->epoch_calls - 1) / p->epoch_calls;

    return by_time > by_calls ? (uint32_t)(by_time < 1e9 ? by_time : 1e9)
                              : by_calls;
}

/* Ranks that have not passed the last plan come to the next one after it. */
static bool planner_make_plan(struct stp_planner *p)
{
    const struct stp_planner_host *h = p->host;
    uint64_t number = p->plan.number + 1;
    uint64_t after = p->n_dropped == 0 ? p->plan.first + p->plan.n : 0;

    if (!p->has_proposal || !stp_plan_has_room(h->board, h->n_own, number))
        return false;
    p->plan = p->proposal;
    p->plan.number = number;
    p->plan.margin = planner_margin(p);
    p->plan.first = stp_plan_epoch(h->board, h->n_own) +
                    (uint64_t)p->ahead * p->plan.margin + 1;
    if (p->plan.first < after)
        p->plan.first = after;
    stp_plan_put(h->board, &p->plan);
    p->is_put = true;
    return true;
}

static void planner_ask_lead(struct stp_planner *p, int64_t now_ms,
                             struct stp_plan_request *request)
{
    planner_measure_rate(p, now_ms);
    if (!planner_make_plan(p))
        return;
    p->stage = PUBLISH;
    *request = planner_say(p, STP_PLAN_SET, "plan", &p->plan, sizeof(p->plan));
}

static enum planner_stage planner_take_nap(struct stp_planner *p,
                                           const struct stp_plan_reply *reply)
{
    (void)reply;
    return p->stage;
}

/* Nobody but the leader could ask for this plan: it is not in doubt. */
static enum planner_stage
planner_take_published(struct stp_planner *p,
                       const struct stp_plan_reply *reply)
{
    if (reply->is_ok)
        return ACK;
    planner_drop(p);
    return planner_lose_for_good(p, reply);
}

static void planner_ask_gather(struct stp_planner *p, int64_t now_ms,
                               struct stp_plan_request *request)
{
    (void)now_ms;
    *request = planner_say(p, STP_PLAN_GET, "acked", NULL, 0);
    request->wait_ms = p->host->timeout_ms;
}

static enum planner_stage
planner_take_gathered(struct stp_planner *p, const struct stp_plan_reply *reply)
{
    if (reply->is_ok && reply->size == strlen(ALL) &&
        memcmp(reply->value, ALL, strlen(ALL)) == 0)
        return COMMIT;
    planner_drop(p);
    planner_object(p, "leads, and not all hosts acknowledged in time");
    return reply->is_ok ? REFUSE : planner_lose(p, reply);
}

/* The plan must be known in time on all hosts. */
static void planner_ask_commit(struct stp_planner *p, int64_t now_ms,
                               struct stp_plan_request *request)
{
    (void)now_ms;
    if (stp_plan_is_ahead(p->host->board, p->host->n_own, &p->plan)) {
        snprintf(p->verdict, sizeof(p->verdict), COMMITTED);
        p->is_in_doubt = true;
    } else {
        planner_drop(p);
        planner_object(p, "leads, and acknowledgements came too late");
    }
    *request = planner_say_text(p, STP_PLAN_COMPARE_SET, "verdict", p->verdict);
}

static enum planner_stage
planner_take_verdict(struct stp_planner *p, const struct stp_plan_reply *reply)
{
    return reply->is_ok ? planner_obey(p, reply, TELL) : planner_lose(p, reply);
}

/* ---- another host ---- */

static void planner_ask_plan(struct stp_planner *p, int64_t now_ms,
                             struct stp_plan_request *request)
{
    (void)now_ms;
    *request = planner_say(p, STP_PLAN_GET, "plan", NULL, 0);
    request->plan++;
    request->wait_ms = -1;
}

static enum planner_stage planner_take_plan(struct stp_planner *p,
                                            const struct stp_plan_reply *reply)
{
    uint64_t number = p->plan.number + 1;

    if (!reply->is_ok)
        return planner_lose_for_good(p, reply);
    if (reply->size != sizeof(p->plan))
        return planner_end(p, "the store holds a plan of another size");
    memcpy(&p->plan, reply->value, sizeof(p->plan));
    if (p->plan.number != number || p->plan.n < 1 || p->plan.n > STP_PLAN_WORDS)
        return planner_end(p, "the store holds a plan that is none");
    return ROOM;
}

static void planner_ask_room(struct stp_planner *p, int64_t now_ms,
                             struct stp_plan_request *request)
{
    const struct stp_planner_host *h = p->host;

    (void)now_ms;
    if (!stp_plan_has_room(h->board, h->n_own, p->plan.number))
        return;
    stp_plan_put(h->board, &p->plan);
    p->is_put = true;
    if (stp_plan_is_ahead(h->board, h->n_own, &p->plan)) {
        p->stage = ACK;
        p->is_in_doubt = true;
    } else {
        planner_drop(p);
        planner_object(p, "got the plan too late");
        p->stage = REFUSE;
    }
    stp_planner_ask(p, now_ms, request);
}

static void planner_ask_await(struct stp_planner *p, int64_t now_ms,
                              struct stp_plan_request *request)
{
    (void)now_ms;
    *request = planner_say(p, STP_PLAN_GET, "known", NULL, 0);
    request->wait_ms = p->host->timeout_ms;
}

static enum planner_stage planner_take_known(struct stp_planner *p,
                                             const struct stp_plan_reply *reply)
{
    enum planner_stage next;

    if (!reply->is_ok) {
        planner_object(p, "acknowledged, and heard no verdict");
        return planner_lose(p, reply);
    }
    next = planner_obey(p, reply, FOLLOW);
    return next == OVER ? OVER : planner_go_on(p, planner_verdict(p));
}

/* ---- acknowledging ---- */

static void planner_ask_ack(struct stp_planner *p, int64_t now_ms,
                            struct stp_plan_request *request)
{
    (void)now_ms;
    *request = planner_say(p, STP_PLAN_ADD, "acks", NULL, 0);
    request->number = p->host->n_own;
}

static enum planner_stage planner_take_ack(struct stp_planner *p,
                                           const struct stp_plan_reply *reply)
{
    bool leads = p->host->leads;

    if (!reply->is_ok && leads) {
        planner_drop(p);
        planner_object(p, "leads, and lost the store");
        return planner_lose(p, reply);
    }
    if (!reply->is_ok) {
        planner_object(p, "acknowledged, and lost the store");
        return planner_lose(p, reply);
    }
    if (reply->number >= p->host->n_ranks)
        return leads ? COMMIT : COMPLETE;
    return leads ? GATHER : AWAIT;
}

static void planner_ask_complete(struct stp_planner *p, int64_t now_ms,
                                 struct stp_plan_request *request)
{
    (void)now_ms;
    *request = planner_say_text(p, STP_PLAN_SET, "acked", ALL);
}

static enum planner_stage
planner_take_complete(struct stp_planner *p, const struct stp_plan_reply *reply)
{
    return reply->is_ok ? AWAIT : planner_take_ack(p, reply);
}

/* ---- refusing, and doubt ---- */

/* A host in doubt tries until its ranks give up. */
static void planner_ask_reconnect(struct stp_planner *p, int64_t now_ms,
                                  struct stp_plan_request *request)
{
    (void)now_ms;
    *request = planner_say(p, STP_PLAN_CONNECT, NULL, NULL, 0);
}

static enum planner_stage
planner_take_reconnected(struct stp_planner *p,
                         const struct stp_plan_reply *reply)
{
    if (reply->is_ok)
        return REMEMBER;
    if (!p->is_in_doubt)
        return planner_end(p, p->lost);
    if (stp_plan_decide(p->host->board, p->plan.number,
                        STP_PLAN_ACKNOWLEDGED) == STP_PLAN_LOST)
        return planner_end(p, p->lost);
    return RECONNECT;
}

static void planner_ask_remember(struct stp_planner *p, int64_t now_ms,
                                 struct stp_plan_request *request)
{
    (void)now_ms;
    *request = planner_say(p, STP_PLAN_CHECK, "plan", NULL, 0);
}

static enum planner_stage
planner_take_remembered(struct stp_planner *p,
                        const struct stp_plan_reply *reply)
{
    if (!reply->is_ok)
        return planner_lose(p, reply);
    if (reply->number != 0)
        return REFUSE;
    if (p->is_in_doubt)
        stp_plan_decide(p->host->board, p->plan.number, STP_PLAN_LOST);
    return planner_end(p, "the store does not have the plan: it was "
                          "restarted, or never got it");
}

static void planner_ask_refuse(struct stp_planner *p, int64_t now_ms,
                               struct stp_plan_request *request)
{
    (void)now_ms;
    if (strncmp(p->verdict, ABORT, strlen(ABORT)) != 0)
        planner_object(p, "lost the store, and asks again");
    *request = planner_say_text(p, STP_PLAN_COMPARE_SET, "verdict", p->verdict);
}

static enum planner_stage
planner_take_refused(struct stp_planner *p, const struct stp_plan_reply *reply)
{
    enum planner_stage next;

    if (!reply->is_ok)
        return planner_lose(p, reply);
    next = planner_obey(p, reply, TELL);
    if (next == TELL && !p->host->leads &&
        planner_verdict(p) != STP_PLAN_COMMITTED)
        return REFUSED;
    return next;
}

static void planner_ask_refused(struct stp_planner *p, int64_t now_ms,
                                struct stp_plan_request *request)
{
    (void)now_ms;
    *request = planner_say_text(p, STP_PLAN_SET, "acked", ABORT);
}

static enum planner_stage
planner_take_told_leader(struct stp_planner *p,
                         const struct stp_plan_reply *reply)
{
    return reply->is_ok ? TELL : planner_lose_for_good(p, reply);
}

static void planner_ask_tell(struct stp_planner *p, int64_t now_ms,
                             struct stp_plan_request *request)
{
    (void)now_ms;
    *request = planner_say_text(p, STP_PLAN_SET, "known", p->verdict);
}

/* All hosts acknowledged a plan that is committed, so they know the verdict of
 * those before. */
static enum planner_stage planner_take_told(struct stp_planner *p,
                                            const struct stp_plan_reply *reply)
{
    if (!reply->is_ok)
        return planner_lose_for_good(p, reply);
    if (p->host->leads && planner_verdict(p) == STP_PLAN_COMMITTED &&
        p->oldest < p->plan.number)
        return CLEAN;
    return planner_go_on(p, planner_verdict(p));
}

static void planner_ask_clean(struct stp_planner *p, int64_t now_ms,
                              struct stp_plan_request *request)
{
    (void)now_ms;
    *request =
        planner_say(p, STP_PLAN_DELETE, planner_keys[p->next_key], NULL, 0);
    request->plan = p->oldest;
}

static enum planner_stage
planner_take_cleaned(struct stp_planner *p, const struct stp_plan_reply *reply)
{
    if (!reply->is_ok)
        return planner_lose_for_good(p, reply);
    p->next_key = (p->next_key + 1) % N_KEYS;
    p->oldest += p->next_key == 0;
    return p->oldest < p->plan.number ? CLEAN
                                      : planner_go_on(p, planner_verdict(p));
}

/* ---- the interface ---- */

static const struct {
    /* The request is a nap before. */
    void (*ask)(struct stp_planner *p, int64_t now_ms,
                struct stp_plan_request *request);
    enum planner_stage (*take)(struct stp_planner *p,
                               const struct stp_plan_reply *reply);
} planner_stages[] = {
    [LEAD] = {planner_ask_lead, planner_take_nap},
    [PUBLISH] = {NULL, planner_take_published},
    [FOLLOW] = {planner_ask_plan, planner_take_plan},
    [ROOM] = {planner_ask_room, planner_take_nap},
    [ACK] = {planner_ask_ack, planner_take_ack},
    [COMPLETE] = {planner_ask_complete, planner_take_complete},
    [GATHER] = {planner_ask_gather, planner_take_gathered},
    [COMMIT] = {planner_ask_commit, planner_take_verdict},
    [AWAIT] = {planner_ask_await, planner_take_known},
    [RECONNECT] = {planner_ask_reconnect, planner_take_reconnected},
    [REMEMBER] = {planner_ask_remember, planner_take_remembered},
    [REFUSE] = {planner_ask_refuse, planner_take_refused},
    [REFUSED] = {planner_ask_refused, planner_take_told_leader},
    [TELL] = {planner_ask_tell, planner_take_told},
    [CLEAN] = {planner_ask_clean, planner_take_cleaned},
};

void stp_planner_begin(struct stp_planner *planner,
                       const struct stp_planner_host *host)
{
    *planner = (struct stp_planner){.host = host,
                                    .stage = host->leads ? LEAD : FOLLOW,
                                    .oldest = 1,
                                    .ahead = AHEAD_LEAST};
    if (!host->acknowledges)
        planner->stage =
            planner_end(planner, "not all ranks of all hosts take part");
}

void stp_planner_ask(struct stp_planner *planner, int64_t now_ms,
                     struct stp_plan_request *request_ret)
{
    *request_ret = (struct stp_plan_request){.ask = STP_PLAN_NAP};
    if (planner->stage == OVER)
        request_ret->ask = STP_PLAN_END;
    else
        planner_stages[planner->stage].ask(planner, now_ms, request_ret);
}

void stp_planner_take(struct stp_planner *planner,
                      const struct stp_plan_reply *reply)
{
    if (planner->stage != OVER) /* it was hushed meanwhile */
        planner->stage = planner_stages[planner->stage].take(planner, reply);
}

bool stp_planner_propose(struct stp_planner *planner, const uint32_t *words,
                         size_t n, unsigned epoch_calls)
{
    if (planner->has_proposal || planner->stage == OVER || n < 1 ||
        n > STP_PLAN_WORDS)
        return false;
    planner->proposal.n = (uint32_t)n;
    memcpy(planner->proposal.words, words, n * sizeof(words[0]));
    planner->epoch_calls = epoch_calls;
    planner->has_proposal = true;
    return true;
}

bool stp_planner_is_over(const struct stp_planner *planner)
{
    return planner->stage == OVER;
}

void stp_planner_hush(struct stp_planner *planner)
{
    planner->stage = OVER;
    planner->why[0] = '\0';
}
