#include "plugin/online/observer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/learn/ring.h"
#include "nccl_tuner_abi.h"
#include "plugin/online/proposal.h"

/* Collectives whose time this rank has noted, and others have not. */
enum { AWAITED = 256 };

enum { N_QUESTIONS = 16 }; /* that a launch is compared with */

/*
 * The last questions, to which launches are matched; all 0 at first.  Questions
 * are not launches: some are simulated or captured, and several of a group come
 * before the first launch.  The launch path notes questions, NCCL's profiler
 * looks them up for launches, perhaps in another thread.
 */
struct recent {
    _Atomic unsigned n;
    _Atomic unsigned first;    /* of the group that is asked about */
    _Atomic bool is_launching; /* the next question is of another group */
    _Atomic uint64_t words[N_QUESTIONS];
};

/* A key's first call. */
struct first_call {
    int coll;
    uint64_t n_bytes;
    int n_algo;
    int n_proto;
    float cost[NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS];
};

struct stp_observer {
    struct stp_agreement *agreement;
    struct stp_learner_rules rules;
    struct stp_learner *learner; /* NULL until it begins */
    struct stp_ring *calls;      /* from the launch path */
    struct stp_ring *gpu;        /* from the profiler; NULL: without it */
    _Atomic bool is_exploring;
    _Atomic bool is_stopped; /* nothing is proposed any more */
    _Atomic bool is_blind;   /* not all ranks note times */
    _Atomic unsigned n_keys; /* counted after 'first' is written */
    unsigned n_added;        /* keys that the learner knows */
    bool is_settled;         /* epochs are long, as proposed last */
    struct recent recent;
    struct first_call first[STP_BANDIT_KEYS];
    unsigned n_awaited;
    struct stp_note awaited[AWAITED]; /* the oldest first */

    /* Calls that are only counted, and how many the learner knows of. */
    _Atomic uint32_t n_calls[STP_BANDIT_KEYS + 1];
    uint32_t n_noted[STP_BANDIT_KEYS + 1];
};

/* ---- launches and their questions ---- */

/* A decision: bytes in 43 bits, 3 of the collective, 7 of the key, 3 and 2 of
 * algorithm and protocol (0: NCCL's own choice), 5 of the arm, and a 1. */
static uint64_t recent_word(const struct stp_observed_call *call,
                            const struct stp_query *query)
{
    return query->n_bytes << 21 | ((uint64_t)query->coll & 7) << 18 |
           (uint64_t)call->key << 11 | (uint64_t)(call->arm.algo + 1) << 8 |
           ((uint64_t)call->arm.proto & 3) << 6 | (uint64_t)call->index << 1 |
           1;
}

/* NCCL asks about all of a group, then launches it.  A question from before
 * that is not launched by then never will be: it was simulated or captured, or
 * the profiler was off. */
static void recent_ask(struct recent *recent,
                       const struct stp_observed_call *call,
                       const struct stp_query *query)
{
    unsigned at = atomic_load_explicit(&recent->n, memory_order_relaxed);

    if (atomic_load_explicit(&recent->is_launching, memory_order_relaxed)) {
        atomic_store_explicit(&recent->is_launching, false,
                              memory_order_relaxed);
        atomic_store_explicit(&recent->first, at, memory_order_relaxed);
    }
    atomic_store_explicit(&recent->words[at % N_QUESTIONS],
                          recent_word(call, query), memory_order_relaxed);
    atomic_store_explicit(&recent->n, at + 1, memory_order_release);
}

static void recent_skip(struct recent *recent)
{
    if (!atomic_load_explicit(&recent->is_launching, memory_order_relaxed))
        atomic_store_explicit(&recent->is_launching, true,
                              memory_order_relaxed);
}

/* 8 bits each of the algorithm that runs, the key, the channels and the arm. */
static uint32_t recent_token(uint64_t word, const struct stp_launch *launch)
{
    return (uint32_t)(launch->algo & 0xff) << 24 |
           (uint32_t)(word >> 11 & 0x7f) << 16 |
           (uint32_t)(launch->n_channels & 0xff) << 8 |
           (uint32_t)(word >> 1 & 0x1f);
}

/* How well a decision fits a launch: 0 not at all, for another message or
 * because NCCL need not follow; 2 if the arm's pair is launched. */
static int recent_fit(uint64_t word, const struct stp_launch *launch)
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

/* Takes the oldest of the best fits.  Each is for one launch. */
static bool recent_launched(struct recent *recent,
                            const struct stp_launch *launch,
                            uint32_t *token_ret)
{
    unsigned end = atomic_load_explicit(&recent->n, memory_order_acquire);
    unsigned i = atomic_load_explicit(&recent->first, memory_order_relaxed);
    unsigned at = 0;
    uint64_t found = 0;

    atomic_store_explicit(&recent->is_launching, true, memory_order_relaxed);
    if (end - i > N_QUESTIONS)
        i = end - N_QUESTIONS;
    for (; i != end; i++) {
        uint64_t word = atomic_load_explicit(&recent->words[i % N_QUESTIONS],
                                             memory_order_relaxed);

        if (recent_fit(word, launch) > recent_fit(found, launch)) {
            found = word;
            at = i % N_QUESTIONS;
        }
    }
    if (found == 0)
        return false;
    *token_ret = recent_token(found, launch);
    return atomic_compare_exchange_strong(&recent->words[at], &found, 0);
}

/* ---- on the launch path ---- */

bool stp_observer_wants_time(const struct stp_observer *observer)
{
    return atomic_load_explicit(&observer->is_exploring, memory_order_relaxed);
}

/* The policy's answer is the cheapest, as it is to NCCL after the plugin has
 * answered: the arm that runs anyway is not tried. */
static void observer_prefer_policy(struct first_call *first,
                                   const struct stp_bandit_arm *arm)
{
    int n = first->n_algo * first->n_proto;
    float least = -1.0f;

    if (arm->algo < 0 || arm->algo >= first->n_algo ||
        arm->proto >= first->n_proto)
        return;
    for (int i = 0; i < n; i++)
        if (first->cost[i] >= 0.0f && (least < 0.0f || first->cost[i] < least))
            least = first->cost[i];
    first->cost[arm->algo * first->n_proto + arm->proto] = 0.999f * least;
}

static void observer_note_first_call(struct stp_observer *o,
                                     const struct stp_observed_call *call,
                                     const struct stp_query *query,
                                     const struct stp_cost_view *view)
{
    struct first_call *first = &o->first[call->key];

    first->coll = query->coll;
    first->n_bytes = query->n_bytes;
    first->n_algo =
        view->n_algo < NCCL_NUM_ALGORITHMS ? view->n_algo : NCCL_NUM_ALGORITHMS;
    first->n_proto =
        view->n_proto < NCCL_NUM_PROTOCOLS ? view->n_proto : NCCL_NUM_PROTOCOLS;
    for (int a = 0; a < first->n_algo; a++)
        for (int p = 0; p < first->n_proto; p++)
            first->cost[a * first->n_proto + p] =
                view->cost[a * view->n_proto + p];
    observer_prefer_policy(first, &call->policy_arm);
    atomic_store_explicit(&o->n_keys, call->key + 1, memory_order_release);
}

/* A call whose time is of no use. */
static void observer_count_call(struct stp_observer *o, unsigned key)
{
    uint32_t n = atomic_load_explicit(&o->n_calls[key], memory_order_relaxed);

    atomic_store_explicit(&o->n_calls[key], n + 1, memory_order_relaxed);
    recent_skip(&o->recent);
}

void stp_observer_call(struct stp_observer *observer,
                       const struct stp_observed_call *call,
                       const struct stp_query *query,
                       const struct stp_cost_view *view)
{
    const struct stp_note note = {
        .kind = STP_NOTE_CALL, .key = (uint8_t)call->key, .t_ns = call->t_ns};

    if (call->is_new)
        observer_note_first_call(observer, call, query, view);
    if (!stp_observer_wants_time(observer)) {
        observer_count_call(observer, call->key);
        return;
    }
    stp_ring_put(observer->calls, &note);
    if (call->key < STP_BANDIT_KEYS)
        recent_ask(&observer->recent, call, query);
}

void stp_observer_began(struct stp_observer *observer, unsigned key,
                        unsigned index)
{
    const struct stp_note note = {
        .kind = STP_NOTE_BEGAN, .key = (uint8_t)key, .arm = (uint8_t)index};

    stp_ring_put(observer->calls, &note);
}

void stp_observer_stop(struct stp_observer *observer)
{
    atomic_store(&observer->is_stopped, true);
}

bool stp_observer_is_stopped(const struct stp_observer *observer)
{
    return atomic_load(&observer->is_stopped);
}

void stp_observer_go_blind(struct stp_observer *observer)
{
    atomic_store(&observer->is_blind, true);
}

bool stp_observer_is_blind(const struct stp_observer *observer)
{
    return atomic_load(&observer->is_blind);
}

/* ---- from the profiler ---- */

bool stp_observer_launched(struct stp_observer *observer,
                           const struct stp_launch *launch, uint32_t *token_ret)
{
    return recent_launched(&observer->recent, launch, token_ret);
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

static void observer_add_keys(struct stp_observer *o)
{
    unsigned n = atomic_load_explicit(&o->n_keys, memory_order_acquire);

    for (; o->n_added < n; o->n_added++) {
        const struct first_call *first = &o->first[o->n_added];
        const struct stp_cost_view view = {first->cost, first->n_algo,
                                           first->n_proto};

        stp_learner_add_key(o->learner, o->n_added, &view, 0);
    }
}

static void observer_note_calls(struct stp_observer *o)
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

/* Where there are too many, the oldest will never be complete: a rank has lost
 * an event of it. */
static void observer_await_times(struct stp_observer *o,
                                 const struct stp_note *note)
{
    if ((o->agreement->parts & STP_AGREE_TIMES) == 0)
        return;
    if (o->n_awaited == AWAITED)
        memmove(o->awaited, o->awaited + 1,
                --o->n_awaited * sizeof(o->awaited[0]));
    o->awaited[o->n_awaited++] = *note;
}

static void observer_drain(struct stp_observer *o, struct stp_ring *ring)
{
    struct stp_note note;

    /* Not notes that come meanwhile: they may come for ever. */
    for (int i = 0; i < STP_RING_SIZE && stp_ring_take(ring, &note); i++) {
        observer_add_keys(o);
        if (note.kind == STP_NOTE_TOOK)
            observer_await_times(o, &note);
        else
            stp_learner_note(o->learner, &note);
    }
}

/* The time of all ranks.  A tree's time has a lower and an upper bound only:
 * NCCL's own choice gets the lower, arms get the upper, so that no arm wins by
 * time that was not seen. */
static bool observer_find_time(const struct stp_observer *o,
                               struct stp_note *note)
{
    const struct stp_collective id = {(unsigned)o->first[note->key].coll,
                                      note->number};
    struct stp_rank_times all;

    if (!o->agreement->ops->get_times(o->agreement, id, &all))
        return false;
    note->us =
        stp_rank_times_us(&all, note->algo == NCCL_ALGO_TREE && note->arm != 0);
    return true;
}

static void observer_read_times(struct stp_observer *o)
{
    unsigned n = o->n_awaited;

    o->n_awaited = 0;
    for (unsigned i = 0; i < n; i++) {
        struct stp_note note = o->awaited[i];

        if (observer_find_time(o, &note))
            stp_learner_note(o->learner, &note);
        else
            o->awaited[o->n_awaited++] = note;
    }
}

/* A proposal that fails now always will: a rank was too far behind. */
static void observer_propose(struct stp_observer *o,
                             const struct stp_bandit_want *want,
                             const struct stp_bandit_arm *arm, bool is_settled)
{
    unsigned n_calls =
        want->n_calls < STP_PROPOSAL_CALLS ? want->n_calls : STP_PROPOSAL_CALLS;
    const struct stp_proposal p = {.key = want->key,
                                   .index = want->arm,
                                   .arm = *arm,
                                   .n_calls = n_calls,
                                   .is_settled = is_settled};

    o->is_settled = is_settled;
    if (!o->agreement->ops->propose(o->agreement, stp_proposal_pack(&p)))
        stp_observer_stop(o);
}

/* Epochs are short, and all ranks note their times, while arms are tried.  To
 * change that alone, the arm in force is proposed once more. */
static void observer_propose_again(struct stp_observer *o, bool is_settled)
{
    const struct stp_bandit_key_state key = stp_learner_key(o->learner, 0);
    const struct stp_bandit_want want = {.key = 0, .arm = key.running};
    const struct stp_bandit_arm arm =
        stp_bandit_get_arm(stp_learner_bandit(o->learner), 0, key.running).arm;

    if (o->is_settled != is_settled && o->n_added > 0)
        observer_propose(o, &want, &arm, is_settled);
}

static void observer_propose_next(struct stp_observer *o)
{
    struct stp_bandit_want want;
    struct stp_bandit_arm arm;

    if (stp_learner_wants(o->learner, &want, &arm))
        observer_propose(o, &want, &arm, false);
    else
        observer_propose_again(o, !stp_learner_is_exploring(o->learner));
}

void stp_observer_think(struct stp_observer *observer)
{
    struct stp_observer *o = observer;

    if (o->learner == NULL)
        return;
    if (stp_observer_is_blind(o))
        stp_learner_do_without_gpu(o->learner);
    observer_add_keys(o);
    observer_note_calls(o);
    observer_drain(o, o->calls);
    if (o->gpu != NULL)
        observer_drain(o, o->gpu);
    observer_read_times(o);
    if (!stp_observer_is_stopped(o) &&
        !o->agreement->ops->is_pending(o->agreement))
        observer_propose_next(o);
    atomic_store(&o->is_exploring, !stp_observer_is_stopped(o) &&
                                       stp_learner_is_exploring(o->learner));
}

static unsigned observer_band(const struct stp_observer *o, uint64_t n_bytes)
{
    return stp_bandit_band(o->rules.bandit.strategy, n_bytes);
}

void stp_observer_reward(struct stp_observer *observer,
                         const struct stp_reward *reward)
{
    unsigned band = observer_band(observer, reward->n_bytes);

    if (observer->learner == NULL)
        return;
    for (unsigned k = 0; k < observer->n_added; k++)
        if (observer->first[k].coll == reward->coll &&
            observer_band(observer, observer->first[k].n_bytes) == band)
            stp_learner_reward(observer->learner, k, reward->latency_ms);
}

/* ---- results ---- */

static void observer_describe_key(const struct stp_observer *o, unsigned key,
                                  unsigned arm, struct stp_learned *learned_ret)
{
    const struct stp_bandit_key_state state = stp_learner_key(o->learner, key);

    *learned_ret = (struct stp_learned){
        .coll = o->first[key].coll,
        .bytes = stp_bandit_band_range(o->rules.bandit.strategy,
                                       observer_band(o, o->first[key].n_bytes)),
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
        observer_describe_key(observer, (unsigned)event->key, event->arm,
                              learned_ret);
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
        observer_describe_key(observer, k, state.best, learned_ret);
        return true;
    }
    return false;
}

/* ---- life ---- */

struct stp_observer *stp_observer_new(const struct stp_learner_rules *rules,
                                      struct stp_agreement *agreement)
{
    struct stp_observer *o = calloc(1, sizeof(*o));
    bool is_timed = (agreement->parts & STP_AGREE_TIMES) != 0;

    if (o == NULL)
        return NULL;
    o->agreement = agreement;
    o->rules = *rules;
    o->calls = stp_ring_new();
    if (is_timed)
        o->gpu = stp_ring_new();
    atomic_init(&o->is_exploring, true);
    if (o->calls == NULL || (is_timed && o->gpu == NULL)) {
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
