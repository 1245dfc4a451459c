#include "backend/observer.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "agree/published.h"
#include "backend/decision.h"
#include "core/ring.h"
#include "nccl_tuner_abi.h"

enum { RECENT = 16 }; /* decisions that a launch is compared with */

/* What is known of a key. */
struct seen {
    int coll;
    uint64_t n_bytes; /* of its first call */
    int n_algo;
    int n_proto;
    float cost[NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS];
};

struct stp_observer {
    struct stp_published *published;
    struct stp_learner_rules rules;
    struct stp_learner *learner; /* NULL until it begins */
    struct stp_ring *calls;      /* from the launch path */
    struct stp_ring *gpu;        /* from the profiler */
    _Atomic bool is_exploring;
    _Atomic bool is_stopped; /* nothing will be decided any more */
    _Atomic unsigned
        n_seen;       /* the launch path writes 'seen' before it counts */
    unsigned n_added; /* that the learner knows */
    bool is_settled;  /* epochs are long, as proposed last */
    _Atomic unsigned n_recent;
    _Atomic unsigned first_recent; /* of the group that is asked about */
    _Atomic bool is_launching;     /* the next question is of another group */
    _Atomic uint64_t recent[RECENT];
    struct seen seen[STP_BANDIT_KEYS];

    /* Calls that are counted alone, and how many the learner knows of. */
    _Atomic uint32_t n_calls[STP_BANDIT_KEYS + 1];
    uint32_t n_noted[STP_BANDIT_KEYS + 1];
};

/* ---- on the launch path ---- */

bool stp_observer_wants_time(const struct stp_observer *observer)
{
    return atomic_load_explicit(&observer->is_exploring, memory_order_relaxed);
}

static void see(struct stp_observer *o, unsigned key,
                const struct stp_query *query, const struct stp_cost_view *view)
{
    struct seen *seen = &o->seen[key];

    seen->coll = query->coll;
    seen->n_bytes = query->n_bytes;
    seen->n_algo =
        view->n_algo < NCCL_NUM_ALGORITHMS ? view->n_algo : NCCL_NUM_ALGORITHMS;
    seen->n_proto =
        view->n_proto < NCCL_NUM_PROTOCOLS ? view->n_proto : NCCL_NUM_PROTOCOLS;
    for (int a = 0; a < seen->n_algo; a++)
        for (int p = 0; p < seen->n_proto; p++)
            seen->cost[a * seen->n_proto + p] =
                view->cost[a * view->n_proto + p];
    atomic_store_explicit(&o->n_seen, key + 1, memory_order_release);
}

/* A decision: bytes in 43 bits, 3 of the collective, 7 of the key, 3 and 2 of
 * algorithm and protocol (0: NCCL's own choice), 5 of the arm, and a 1. */
static uint64_t word_of(const struct stp_observed *call,
                        const struct stp_query *query)
{
    return query->n_bytes << 21 | ((uint64_t)query->coll & 7) << 18 |
           (uint64_t)call->key << 11 | (uint64_t)(call->what.algo + 1) << 8 |
           ((uint64_t)call->what.proto & 3) << 6 | (uint64_t)call->arm << 1 | 1;
}

/* NCCL asks about all of a group, then launches it.  What was asked before and
 * is not launched by then never will be: it was simulated, captured, or nobody
 * listened. */
static void remember(struct stp_observer *o, const struct stp_observed *call,
                     const struct stp_query *query)
{
    unsigned at = atomic_load_explicit(&o->n_recent, memory_order_relaxed);

    if (atomic_load_explicit(&o->is_launching, memory_order_relaxed)) {
        atomic_store_explicit(&o->is_launching, false, memory_order_relaxed);
        atomic_store_explicit(&o->first_recent, at, memory_order_relaxed);
    }
    atomic_store_explicit(&o->recent[at % RECENT], word_of(call, query),
                          memory_order_relaxed);
    atomic_store_explicit(&o->n_recent, at + 1, memory_order_release);
}

/* A call of which nobody wants to know more than that it was. */
static void count(struct stp_observer *o, unsigned key)
{
    uint32_t n = atomic_load_explicit(&o->n_calls[key], memory_order_relaxed);

    atomic_store_explicit(&o->n_calls[key], n + 1, memory_order_relaxed);
    if (!atomic_load_explicit(&o->is_launching, memory_order_relaxed))
        atomic_store_explicit(&o->is_launching, true, memory_order_relaxed);
}

void stp_observer_call(struct stp_observer *observer,
                       const struct stp_observed *call,
                       const struct stp_query *query,
                       const struct stp_cost_view *view)
{
    const struct stp_note note = {
        .kind = STP_NOTE_CALL, .key = (uint8_t)call->key, .t_ns = call->t_ns};

    if (call->is_new)
        see(observer, call->key, query, view);
    if (!stp_observer_wants_time(observer)) {
        count(observer, call->key);
        return;
    }
    stp_ring_put(observer->calls, &note);
    if (call->key < STP_BANDIT_KEYS)
        remember(observer, call, query);
}

void stp_observer_began(struct stp_observer *observer, unsigned key,
                        unsigned arm)
{
    const struct stp_note note = {
        .kind = STP_NOTE_BEGAN, .key = (uint8_t)key, .arm = (uint8_t)arm};

    stp_ring_put(observer->calls, &note);
}

void stp_observer_stop(struct stp_observer *observer)
{
    atomic_store(&observer->is_stopped, true);
}

/* ---- what the profiler sees ---- */

/* What took() is told: 8 bits each of the key, the channels and the arm. */
static uint32_t make_token(uint64_t word, const struct stp_launch *launch)
{
    return (uint32_t)(word >> 11 & 0x7f) << 16 |
           (uint32_t)(launch->n_channels & 0xff) << 8 |
           (uint32_t)(word >> 1 & 0x1f);
}

/* How well a decision fits a launch: 0 not at all, for another message or
 * because NCCL need not follow; 2 if what ran is what the arm says. */
static int fit(uint64_t word, const struct stp_launch *launch)
{
    bool is_own = (word >> 8 & 7) == 0;

    if (word == 0 ||
        word >> 18 != (launch->n_bytes << 3 | ((uint64_t)launch->coll & 7)))
        return 0;
    if (is_own)
        return 1;
    return (int)(word >> 8 & 7) - 1 == launch->algo &&
                   (int)(word >> 6 & 3) == launch->proto
               ? 2
               : 0;
}

/* The oldest of those that fit best.  Each is for one launch. */
bool stp_observer_launched(struct stp_observer *observer,
                           const struct stp_launch *launch, uint32_t *token_ret)
{
    unsigned end =
        atomic_load_explicit(&observer->n_recent, memory_order_acquire);
    unsigned i =
        atomic_load_explicit(&observer->first_recent, memory_order_relaxed);
    unsigned at = 0;
    uint64_t found = 0;

    atomic_store_explicit(&observer->is_launching, true, memory_order_relaxed);
    if (end - i > RECENT)
        i = end - RECENT;
    for (; i != end; i++) {
        uint64_t word = atomic_load_explicit(&observer->recent[i % RECENT],
                                             memory_order_relaxed);

        if (fit(word, launch) > fit(found, launch)) {
            found = word;
            at = i % RECENT;
        }
    }
    if (found == 0)
        return false;
    *token_ret = make_token(found, launch);
    return atomic_compare_exchange_strong(&observer->recent[at], &found, 0);
}

void stp_observer_took(struct stp_observer *observer, uint32_t token, double us)
{
    const struct stp_note note = {.kind = STP_NOTE_TOOK,
                                  .key = (uint8_t)(token >> 16),
                                  .n_channels = (uint8_t)(token >> 8),
                                  .arm = (uint8_t)token,
                                  .us = us};

    stp_ring_put(observer->gpu, &note);
}

/* ---- thinking ---- */

enum stp_status stp_observer_begin(struct stp_observer *observer,
                                   stp_learn_sink sink, void *user,
                                   struct stp_error *err)
{
    return stp_learner_open(&observer->rules, sink, user, &observer->learner,
                            err);
}

static void add_keys(struct stp_observer *o)
{
    unsigned n = atomic_load_explicit(&o->n_seen, memory_order_acquire);

    for (; o->n_added < n; o->n_added++) {
        const struct seen *seen = &o->seen[o->n_added];
        const struct stp_cost_view view = {seen->cost, seen->n_algo,
                                           seen->n_proto};

        stp_learner_add_key(o->learner, o->n_added, &view, 0);
    }
}

static void note_calls(struct stp_observer *o)
{
    for (unsigned key = 0; key <= STP_BANDIT_KEYS; key++) {
        const struct stp_note note = {.kind = STP_NOTE_CALL,
                                      .key = (uint8_t)key};
        uint32_t n =
            atomic_load_explicit(&o->n_calls[key], memory_order_relaxed);

        for (; o->n_noted[key] != n; o->n_noted[key]++)
            stp_learner_note(o->learner, &note);
    }
}

static void drain(struct stp_observer *o, struct stp_ring *ring)
{
    struct stp_note note;

    /* Not what comes meanwhile: it may come for ever. */
    for (int i = 0; i < STP_RING_SIZE && stp_ring_take(ring, &note); i++) {
        add_keys(o);
        stp_learner_note(o->learner, &note);
    }
}

/* What cannot be proposed now never can be: some rank was too far behind. */
static void propose(struct stp_observer *o, const struct stp_bandit_want *want,
                    const struct stp_bandit_arm *arm, bool is_settled)
{
    unsigned n_calls =
        want->n_calls < STP_DECISION_CALLS ? want->n_calls : STP_DECISION_CALLS;
    const struct stp_decision d = {.key = want->key,
                                   .arm = want->arm,
                                   .what = *arm,
                                   .n_calls = n_calls,
                                   .is_settled = is_settled};

    o->is_settled = is_settled;
    if (!stp_published_propose(o->published, stp_decision_pack(&d)))
        stp_observer_stop(o);
}

/* Epochs are short while there is something to try, else long.  To change that
 * alone, what is in force is published once more. */
static void lengthen_epochs(struct stp_observer *o)
{
    const struct stp_bandit_key_state key = stp_learner_key(o->learner, 0);
    const struct stp_bandit_want want = {.key = 0, .arm = key.running};
    const struct stp_bandit_arm arm =
        stp_bandit_get_arm(stp_learner_bandit(o->learner), 0, key.running).arm;

    if (!o->is_settled && o->n_added > 0)
        propose(o, &want, &arm, true);
}

static void think_further(struct stp_observer *o)
{
    struct stp_bandit_want want;
    struct stp_bandit_arm arm;

    if (stp_learner_wants(o->learner, &want, &arm))
        propose(o, &want, &arm, false);
    else if (!stp_learner_is_exploring(o->learner))
        lengthen_epochs(o);
}

void stp_observer_think(struct stp_observer *observer)
{
    struct stp_observer *o = observer;

    if (o->learner == NULL)
        return;
    add_keys(o);
    note_calls(o);
    drain(o, o->calls);
    drain(o, o->gpu);
    if (!stp_observer_is_stopped(o) && !stp_published_is_waiting(o->published))
        think_further(o);
    atomic_store(&o->is_exploring, !stp_observer_is_stopped(o) &&
                                       stp_learner_is_exploring(o->learner));
}

bool stp_observer_wants_gpu(const struct stp_observer *observer)
{
    return observer->learner != NULL && stp_observer_is_exploring(observer) &&
           stp_learner_wants_gpu(observer->learner);
}

bool stp_observer_is_exploring(const struct stp_observer *observer)
{
    return atomic_load(&observer->is_exploring);
}

bool stp_observer_is_stopped(const struct stp_observer *observer)
{
    return atomic_load(&observer->is_stopped);
}

static unsigned band_of(const struct stp_observer *o, uint64_t n_bytes)
{
    return stp_bandit_band(o->rules.bandit.strategy, n_bytes);
}

void stp_observer_reward(struct stp_observer *observer,
                         const struct stp_reward *reward)
{
    unsigned band = band_of(observer, reward->n_bytes);

    if (observer->learner == NULL)
        return;
    for (unsigned k = 0; k < observer->n_added; k++)
        if (observer->seen[k].coll == reward->coll &&
            band_of(observer, observer->seen[k].n_bytes) == band)
            stp_learner_reward(observer->learner, k, reward->latency_ms);
}

/* ---- what was learned ---- */

static void describe_key(const struct stp_observer *o, unsigned key,
                         unsigned arm, struct stp_learned *learned_ret)
{
    const struct stp_bandit_key_state state = stp_learner_key(o->learner, key);

    *learned_ret = (struct stp_learned){
        .coll = o->seen[key].coll,
        .bytes = stp_bandit_band_range(o->rules.bandit.strategy,
                                       band_of(o, o->seen[key].n_bytes)),
        .arm = stp_bandit_get_arm(stp_learner_bandit(o->learner), key, arm).arm,
        .gain = state.gain,
        .gain_low = state.gain_low,
        .gain_high = state.gain_high,
        .n_calls = state.n_calls,
    };
}

void stp_observer_explain(const struct stp_observer *observer,
                          const struct stp_learn_event *event,
                          struct stp_learned *learned_ret)
{
    *learned_ret = (struct stp_learned){.coll = -1};
    if (event->key >= 0 && (unsigned)event->key < observer->n_added)
        describe_key(observer, (unsigned)event->key, event->arm, learned_ret);
}

bool stp_observer_learned(const struct stp_observer *observer, size_t i,
                          struct stp_learned *learned_ret)
{
    if (observer->learner == NULL)
        return false;
    for (unsigned k = 0; k < observer->n_added; k++) {
        const struct stp_bandit_key_state state =
            stp_learner_key(observer->learner, k);

        if (!state.is_settled || i-- != 0)
            continue;
        describe_key(observer, k, state.best, learned_ret);
        return true;
    }
    return false;
}

/* ---- life ---- */

struct stp_observer *stp_observer_new(const struct stp_learner_rules *rules,
                                      struct stp_published *published)
{
    struct stp_observer *o = calloc(1, sizeof(*o));

    if (o == NULL)
        return NULL;
    o->published = published;
    o->rules = *rules;
    o->calls = stp_ring_new();
    o->gpu = stp_ring_new();
    atomic_init(&o->is_exploring, true);
    if (o->calls == NULL || o->gpu == NULL) {
        stp_observer_free(o);
        return NULL;
    }
    return o;
}

void stp_observer_free(struct stp_observer *observer)
{
    if (observer == NULL)
        return;
    stp_learner_close(observer->learner);
    stp_ring_free(observer->calls);
    stp_ring_free(observer->gpu);
    free(observer);
}
