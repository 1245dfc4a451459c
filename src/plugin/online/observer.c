#include "plugin/online/observer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "agree/published.h"
#include "agree/times.h"
#include "core/learn/ring.h"
#include "nccl_tuner_abi.h"
#include "plugin/online/decision.h"
#include "plugin/online/recent.h"

/* Collectives of which this rank has noted its times, and others have not. */
enum { AWAITED = 256 };

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
    const struct stp_times *times; /* or NULL */
    struct stp_learner_rules rules;
    struct stp_learner *learner; /* NULL until it begins */
    struct stp_ring *calls;      /* from the launch path */
    struct stp_ring *gpu;        /* from the profiler */
    _Atomic bool is_exploring;
    _Atomic bool is_stopped; /* nothing will be decided any more */
    _Atomic bool is_blind;   /* not all ranks note times */
    _Atomic unsigned
        n_seen;       /* the launch path writes 'seen' before it counts */
    unsigned n_added; /* that the learner knows */
    bool is_settled;  /* epochs are long, as proposed last */
    struct stp_recent recent;
    struct seen seen[STP_BANDIT_KEYS];
    unsigned n_awaited;
    struct stp_note awaited[AWAITED]; /* the oldest first */

    /* Calls that are counted alone, and how many the learner knows of. */
    _Atomic uint32_t n_calls[STP_BANDIT_KEYS + 1];
    uint32_t n_noted[STP_BANDIT_KEYS + 1];
};

/* ---- on the launch path ---- */

bool stp_observer_wants_time(const struct stp_observer *observer)
{
    return atomic_load_explicit(&observer->is_exploring, memory_order_relaxed);
}

/* What a policy takes is the cheapest, as it is to NCCL when the plugin has
 * answered: what runs anyway is no arm. */
static void prefer(struct seen *seen, const struct stp_bandit_arm *arm)
{
    int n = seen->n_algo * seen->n_proto;
    float least = -1.0f;

    if (arm->algo < 0 || arm->algo >= seen->n_algo ||
        arm->proto >= seen->n_proto)
        return;
    for (int i = 0; i < n; i++)
        if (seen->cost[i] >= 0.0f && (least < 0.0f || seen->cost[i] < least))
            least = seen->cost[i];
    seen->cost[arm->algo * seen->n_proto + arm->proto] = 0.999f * least;
}

static void see(struct stp_observer *o, const struct stp_observed *call,
                const struct stp_query *query, const struct stp_cost_view *view)
{
    struct seen *seen = &o->seen[call->key];

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
    prefer(seen, &call->before);
    atomic_store_explicit(&o->n_seen, call->key + 1, memory_order_release);
}

/* A call of which nobody wants to know more than that it was. */
static void count(struct stp_observer *o, unsigned key)
{
    uint32_t n = atomic_load_explicit(&o->n_calls[key], memory_order_relaxed);

    atomic_store_explicit(&o->n_calls[key], n + 1, memory_order_relaxed);
    stp_recent_skip(&o->recent);
}

void stp_observer_call(struct stp_observer *observer,
                       const struct stp_observed *call,
                       const struct stp_query *query,
                       const struct stp_cost_view *view)
{
    const struct stp_note note = {
        .kind = STP_NOTE_CALL, .key = (uint8_t)call->key, .t_ns = call->t_ns};

    if (call->is_new)
        see(observer, call, query, view);
    if (!stp_observer_wants_time(observer)) {
        count(observer, call->key);
        return;
    }
    stp_ring_put(observer->calls, &note);
    if (call->key < STP_BANDIT_KEYS)
        stp_recent_ask(&observer->recent, call, query);
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

void stp_observer_blind(struct stp_observer *observer)
{
    atomic_store(&observer->is_blind, true);
}

/* ---- what the profiler sees ---- */

bool stp_observer_launched(struct stp_observer *observer,
                           const struct stp_launch *launch, uint32_t *token_ret)
{
    return stp_recent_launched(&observer->recent, launch, token_ret);
}

void stp_observer_took(struct stp_observer *observer, uint32_t token,
                       uint64_t number, uint64_t end_ns)
{
    const struct stp_note run = {.kind = STP_NOTE_RAN,
                                 .key = (uint8_t)(token >> 16),
                                 .arm = (uint8_t)token,
                                 .t_ns = end_ns};
    const struct stp_note note = {.kind = STP_NOTE_TOOK,
                                  .key = (uint8_t)(token >> 16),
                                  .n_channels = (uint8_t)(token >> 8),
                                  .arm = (uint8_t)token,
                                  .algo = (int8_t)(token >> 24),
                                  .number = number};

    stp_ring_put(observer->gpu, &run);
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

/* If it is one too many, the oldest will never be complete: a rank has lost an
 * event of it. */
static void await(struct stp_observer *o, const struct stp_note *note)
{
    if (o->times == NULL)
        return;
    if (o->n_awaited == AWAITED)
        memmove(o->awaited, o->awaited + 1,
                --o->n_awaited * sizeof(o->awaited[0]));
    o->awaited[o->n_awaited++] = *note;
}

static void drain(struct stp_observer *o, struct stp_ring *ring)
{
    struct stp_note note;

    /* Not what comes meanwhile: it may come for ever. */
    for (int i = 0; i < STP_RING_SIZE && stp_ring_take(ring, &note); i++) {
        add_keys(o);
        if (note.kind == STP_NOTE_TOOK)
            await(o, &note);
        else
            stp_learner_note(o->learner, &note);
    }
}

/* The time of all ranks.  Of a tree it is known between two bounds alone:
 * NCCL's own choice gets the one, others the other, so that neither wins by
 * what was not seen. */
static bool find_time(const struct stp_observer *o, struct stp_note *note)
{
    const struct stp_times_id id = {(unsigned)o->seen[note->key].coll,
                                    note->number};
    struct stp_rank_times all;

    if (!stp_times_get(o->times, id, &all))
        return false;
    note->us =
        stp_rank_times_us(&all, note->algo == NCCL_ALGO_TREE && note->arm != 0);
    return true;
}

static void hear_times(struct stp_observer *o)
{
    unsigned n = o->n_awaited;

    o->n_awaited = 0;
    for (unsigned i = 0; i < n; i++) {
        struct stp_note note = o->awaited[i];

        if (find_time(o, &note))
            stp_learner_note(o->learner, &note);
        else
            o->awaited[o->n_awaited++] = note;
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

/* Epochs are short, and all ranks note their times, while there is something to
 * try.  To change that alone, what is in force is published once more. */
static void publish_again(struct stp_observer *o, bool is_settled)
{
    const struct stp_bandit_key_state key = stp_learner_key(o->learner, 0);
    const struct stp_bandit_want want = {.key = 0, .arm = key.running};
    const struct stp_bandit_arm arm =
        stp_bandit_get_arm(stp_learner_bandit(o->learner), 0, key.running).arm;

    if (o->is_settled != is_settled && o->n_added > 0)
        propose(o, &want, &arm, is_settled);
}

static void think_further(struct stp_observer *o)
{
    struct stp_bandit_want want;
    struct stp_bandit_arm arm;

    if (stp_learner_wants(o->learner, &want, &arm))
        propose(o, &want, &arm, false);
    else
        publish_again(o, !stp_learner_is_exploring(o->learner));
}

void stp_observer_think(struct stp_observer *observer)
{
    struct stp_observer *o = observer;

    if (o->learner == NULL)
        return;
    if (stp_observer_is_blind(o))
        stp_learner_do_without_gpu(o->learner);
    add_keys(o);
    note_calls(o);
    drain(o, o->calls);
    drain(o, o->gpu);
    hear_times(o);
    if (!stp_observer_is_stopped(o) && !stp_published_is_waiting(o->published))
        think_further(o);
    atomic_store(&o->is_exploring, !stp_observer_is_stopped(o) &&
                                       stp_learner_is_exploring(o->learner));
}

bool stp_observer_is_exploring(const struct stp_observer *observer)
{
    return atomic_load(&observer->is_exploring);
}

bool stp_observer_is_stopped(const struct stp_observer *observer)
{
    return atomic_load(&observer->is_stopped);
}

bool stp_observer_is_blind(const struct stp_observer *observer)
{
    return atomic_load(&observer->is_blind);
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
                                      struct stp_published *published,
                                      const struct stp_times *times)
{
    struct stp_observer *o = calloc(1, sizeof(*o));

    if (o == NULL)
        return NULL;
    o->published = published;
    o->times = times;
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
