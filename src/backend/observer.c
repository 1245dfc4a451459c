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
    _Atomic unsigned
        n_seen;       /* the launch path writes 'seen' before it counts */
    unsigned n_added; /* that the learner knows */
    bool is_settled;  /* epochs are long, as proposed last */
    bool is_frozen;   /* nothing can be proposed any more */
    unsigned n_recent;
    _Atomic uint64_t recent[RECENT];
    struct seen seen[STP_BANDIT_KEYS];
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

/* Bytes in 44 bits, 4 of the collective, 8 of the key, a 1, and 5 of the
 * arm. */
static void remember(struct stp_observer *o, const struct stp_query *query,
                     unsigned key, unsigned arm)
{
    uint64_t word = query->n_bytes << 20 | (uint64_t)query->coll << 16 |
                    (uint64_t)key << 8 | 1 << 7 | arm;

    atomic_store_explicit(&o->recent[o->n_recent++ % RECENT], word,
                          memory_order_release);
}

void stp_observer_call(struct stp_observer *observer, unsigned key,
                       unsigned arm, bool is_new, uint64_t t_ns,
                       const struct stp_query *query,
                       const struct stp_cost_view *view)
{
    const struct stp_note note = {
        .kind = STP_NOTE_CALL, .key = (uint8_t)key, .t_ns = t_ns};

    if (is_new)
        see(observer, key, query, view);
    stp_ring_put(observer->calls, &note);
    if (key < STP_BANDIT_KEYS && stp_observer_wants_time(observer))
        remember(observer, query, key, arm);
}

void stp_observer_began(struct stp_observer *observer, unsigned key,
                        unsigned arm)
{
    const struct stp_note note = {
        .kind = STP_NOTE_BEGAN, .key = (uint8_t)key, .arm = (uint8_t)arm};

    stp_ring_put(observer->calls, &note);
}

/* ---- what the profiler sees ---- */

/* What took() is told: 8 bits of the key, 8 of the channels, 8 of the arm, 4
 * each of algorithm and protocol; all ones where they are unknown. */
static uint32_t make_token(uint64_t recent, const struct stp_launch *launch)
{
    return (uint32_t)(recent >> 8 & 0xff) << 24 |
           (uint32_t)(launch->n_channels & 0xff) << 16 |
           (uint32_t)(recent & 0x1f) << 8 |
           (uint32_t)(launch->algo & 0xf) << 4 |
           (uint32_t)(launch->proto & 0xf);
}

bool stp_observer_launched(struct stp_observer *observer,
                           const struct stp_launch *launch, uint32_t *token_ret)
{
    uint64_t wanted = launch->n_bytes << 4 | (uint64_t)launch->coll;

    for (unsigned i = 0; i < RECENT; i++) {
        uint64_t word =
            atomic_load_explicit(&observer->recent[i], memory_order_acquire);

        /* Once: another launch of the same has a decision of its own. */
        if (word == 0 || word >> 16 != wanted ||
            !atomic_compare_exchange_strong(&observer->recent[i], &word, 0))
            continue;
        *token_ret = make_token(word, launch);
        return true;
    }
    return false;
}

void stp_observer_took(struct stp_observer *observer, uint32_t token, double us)
{
    const struct stp_note note = {.kind = STP_NOTE_TOOK,
                                  .key = (uint8_t)(token >> 24),
                                  .n_channels = (uint8_t)(token >> 16),
                                  .arm = (uint8_t)(token >> 8),
                                  .algo = (int8_t)(token >> 4 & 0xf),
                                  .proto = (int8_t)(token & 0xf),
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

/* Whether what ran is what the arm says: NCCL need not have followed. */
static bool ran_as_arm(const struct stp_observer *o,
                       const struct stp_note *note)
{
    struct stp_bandit_arm what;

    if (note->arm == 0)
        return true;
    what =
        stp_bandit_get_arm(stp_learner_bandit(o->learner), note->key, note->arm)
            .arm;
    return what.algo == note->algo && what.proto == note->proto;
}

static void drain(struct stp_observer *o, struct stp_ring *ring)
{
    struct stp_note note;

    /* Not what comes meanwhile: it may come for ever. */
    for (int i = 0; i < STP_RING_SIZE && stp_ring_take(ring, &note); i++) {
        add_keys(o);
        if (note.kind != STP_NOTE_TOOK || ran_as_arm(o, &note))
            stp_learner_note(o->learner, &note);
    }
}

/* What cannot be proposed never will be: some rank was too far behind. */
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
        o->is_frozen = true;
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
    drain(o, o->calls);
    drain(o, o->gpu);
    if (!o->is_frozen && !stp_published_is_waiting(o->published))
        think_further(o);
    atomic_store(&o->is_exploring,
                 !o->is_frozen && stp_learner_is_exploring(o->learner));
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
