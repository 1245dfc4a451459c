#include "plugin/online/observer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/learn/ring.h"
#include "core/rng.h"
#include "nccl_tuner_abi.h"

enum {
    N_QUESTIONS = 16,       /* that a launch is compared with */
    NUMBER = (1 << 17) - 1, /* bits of a call's number that are remembered */
    NO_ARM = STP_BANDIT_ARMS - 1, /* of a call without a key */
    LEAD_LOST = 8, /* timed calls in a row without a launch, after which the
                      profiler is switched on earlier */
};

/* The last timed calls, to which launches are matched; all 0 at first.  NCCL
 * asks the tuner about all collectives of a group, then launches them; some
 * calls are simulated or captured, and never launched.  The launch path notes
 * calls, NCCL's profiler looks them up, perhaps in another thread. */
struct recent {
    _Atomic unsigned n;
    _Atomic unsigned first;    /* of the group that is asked about */
    _Atomic bool is_launching; /* the next call is of another group */
    _Atomic unsigned n_lost;   /* timed calls since the last launch */
    _Atomic unsigned lead;
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
    struct stp_agreement *agreement;     /* NULL: there is a schedule */
    const struct stp_schedule *schedule; /* NULL: there is an agreement */
    struct stp_learner_rules rules;
    struct stp_learner *learner; /* NULL until it begins */
    struct stp_history *history;
    struct stp_ring *began; /* from the launch path */
    struct stp_ring *times; /* from the profiler */
    _Atomic bool is_sampling;
    _Atomic bool is_stopped;   /* nothing is proposed any more */
    _Atomic(const char *) why; /* then */
    _Atomic unsigned n_keys;   /* counted after 'first' is written */
    unsigned n_added;          /* keys that the learner knows */
    const struct stp_evidence_list *evidence; /* of earlier runs; or NULL */
    size_t n_nodes;                           /* of the communicator, for it */
    size_t n_ranks;
    struct recent recent;
    struct first_call first[STP_BANDIT_KEYS];
};

/* ---- launches and their calls ---- */

/* A timed call is a word: a hash of its message in 32 bits, its number in 17,
 * its key in 7, its arm in 5, and a 1. */
static uint64_t recent_message(int coll, uint64_t n_bytes)
{
    return stp_hash((uint64_t)coll, n_bytes) >> 32;
}

static void recent_ask(struct recent *recent, uint64_t word, bool is_sample)
{
    unsigned at = atomic_load_explicit(&recent->n, memory_order_relaxed);
    unsigned lead = atomic_load_explicit(&recent->lead, memory_order_relaxed);
    unsigned n_lost =
        1 + atomic_fetch_add_explicit(&recent->n_lost, 1, memory_order_relaxed);

    if (atomic_load_explicit(&recent->is_launching, memory_order_relaxed)) {
        atomic_store_explicit(&recent->is_launching, false,
                              memory_order_relaxed);
        atomic_store_explicit(&recent->first, at, memory_order_relaxed);
    }
    /* NCCL asks its profiler about all calls of a group before it asks the
     * tuner about the first: samples, which are of all calls, tell how large
     * groups are.  Many timed calls without a launch mean that the profiler was
     * switched on too late for larger ones. */
    if (is_sample) {
        lead = n_lost > lead ? n_lost : lead;
    } else if (n_lost > LEAD_LOST) {
        atomic_store_explicit(&recent->n_lost, 0, memory_order_relaxed);
        lead *= 2;
    }
    if (lead <= 2 * STP_WINDOW_MAX)
        atomic_store_explicit(&recent->lead, lead, memory_order_relaxed);
    atomic_store_explicit(&recent->words[at % N_QUESTIONS], word,
                          memory_order_relaxed);
    atomic_store_explicit(&recent->n, at + 1, memory_order_release);
}

/* ---- on the launch path ---- */

static void observer_note_first_call(struct stp_observer *o,
                                     const struct stp_observed_call *call,
                                     const struct stp_query *query,
                                     const struct stp_cost_view *view)
{
    struct first_call *first = &o->first[call->key];
    const struct stp_bandit_arm *arm = &call->policy_arm;
    float least = -1.0f;

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

    /* The policy's answer becomes the cheapest entry of the noted table, as it
     * is for NCCL after the plugin's answer, so that the arm that runs anyway
     * is not tried. */
    if (arm->algo >= 0 && arm->algo < first->n_algo &&
        arm->proto < first->n_proto) {
        for (int i = 0; i < first->n_algo * first->n_proto; i++)
            if (first->cost[i] >= 0.0f &&
                (least < 0.0f || first->cost[i] < least))
                least = first->cost[i];
        first->cost[arm->algo * first->n_proto + arm->proto] = 0.999f * least;
    }
    atomic_store_explicit(&o->n_keys, call->key + 1, memory_order_release);
}

void stp_observer_call(struct stp_observer *observer,
                       const struct stp_observed_call *call,
                       const struct stp_query *query,
                       const struct stp_cost_view *view)
{
    uint64_t number = stp_history_add(observer->history, (uint8_t)call->key);
    uint64_t index = call->key < STP_BANDIT_KEYS ? call->index : NO_ARM;

    if (call->is_new)
        observer_note_first_call(observer, call, query, view);
    if (call->is_timed || stp_observer_is_sampling(observer))
        recent_ask(&observer->recent,
                   recent_message(query->coll, query->n_bytes) << 32 |
                       (number & NUMBER) << 14 |
                       (uint64_t)(call->key & 0x7f) << 7 | index << 1 | 1,
                   !call->is_timed);
}

void stp_observer_began(struct stp_observer *observer,
                        const struct stp_proposal *proposal, unsigned pattern,
                        uint64_t call, unsigned window_calls)
{
    static const enum stp_note_kind kinds[] = {
        [STP_PROPOSE_ARM] = STP_NOTE_SET,
        [STP_PROPOSE_TRIAL] = STP_NOTE_TRIAL,
        [STP_PROPOSE_WINDOW] = STP_NOTE_WINDOW,
        [STP_PROPOSE_CONFIRM] = STP_NOTE_TRIAL,
        [STP_PROPOSE_ROUND] = STP_NOTE_TRIAL,
    };
    struct stp_note note = {.kind = (uint8_t)kinds[proposal->kind],
                            .key = (uint8_t)proposal->key,
                            .arm = (uint8_t)proposal->index,
                            .pattern = (uint8_t)pattern,
                            .n_calls = window_calls,
                            .call = call};

    if (proposal->kind == STP_PROPOSE_CONFIRM)
        note.key = STP_BANDIT_SET;
    if (note.kind == STP_NOTE_TRIAL)
        note.n_blocks = (uint8_t)proposal->n_blocks;
    stp_ring_put(observer->began, &note);
}

void stp_observer_heard(struct stp_observer *observer, enum stp_note_kind kind,
                        uint64_t call)
{
    const struct stp_schedule_round *round =
        stp_schedule_get_round(observer->schedule);
    const bool is_round = kind == STP_NOTE_TRIAL;
    struct stp_note note = {.kind = (uint8_t)kind,
                            .n_blocks = STP_TRIAL_BLOCKS,
                            .sequence = (uint16_t)round->sequence,
                            .n_calls = round->n_calls,
                            .call = is_round ? round->first_call : call};

    for (unsigned i = 0; i < (is_round ? round->n : 1); i++) {
        note.key = (uint8_t)round->mates[i].key;
        note.arm = (uint8_t)round->mates[i].arm;
        note.pattern = (uint8_t)round->mates[i].pattern;
        stp_ring_put(observer->began, &note);
    }
}

bool stp_observer_is_sampling(const struct stp_observer *observer)
{
    return atomic_load_explicit(&observer->is_sampling, memory_order_relaxed);
}

unsigned stp_observer_lead(const struct stp_observer *observer)
{
    return atomic_load_explicit(&observer->recent.lead, memory_order_relaxed);
}

void stp_observer_stop(struct stp_observer *observer, const char *why)
{
    const char *none = NULL;

    atomic_compare_exchange_strong(&observer->why, &none, why);
    atomic_store(&observer->is_stopped, true);
    atomic_store(&observer->is_sampling, false);
}

const char *stp_observer_why_stopped(const struct stp_observer *observer)
{
    return atomic_load(&observer->why);
}

/* ---- from the profiler ---- */

/* Takes the oldest call of the message: each is for one launch. */
bool stp_observer_launched(struct stp_observer *observer,
                           const struct stp_launch *launch, uint32_t *token_ret)
{
    struct recent *recent = &observer->recent;
    uint64_t message = recent_message(launch->coll, launch->n_bytes);
    unsigned end = atomic_load_explicit(&recent->n, memory_order_acquire);
    unsigned i = atomic_load_explicit(&recent->first, memory_order_relaxed);

    atomic_store_explicit(&recent->is_launching, true, memory_order_relaxed);
    if (end - i > N_QUESTIONS)
        i = end - N_QUESTIONS;
    for (; i != end; i++) {
        uint64_t word = atomic_load_explicit(&recent->words[i % N_QUESTIONS],
                                             memory_order_relaxed);

        if (word == 0 || word >> 32 != message)
            continue;
        *token_ret = (uint32_t)word;
        atomic_store_explicit(&recent->n_lost, 0, memory_order_relaxed);
        return atomic_compare_exchange_strong(&recent->words[i % N_QUESTIONS],
                                              &word, 0);
    }
    return false;
}

static void observer_put_time(struct stp_observer *o, uint32_t token,
                              struct stp_note note)
{
    const uint64_t last = stp_history_calls(o->history) - 1;

    note.key = token >> 7 & 0x7f;
    note.arm = token >> 1 & 0x1f;
    note.call = last - ((last - (token >> 14)) & NUMBER);
    stp_ring_put(o->times, &note);
}

void stp_observer_took(struct stp_observer *observer, uint32_t token,
                       unsigned n_channels, uint64_t host_ns, uint64_t begin_ns)
{
    observer_put_time(observer, token,
                      (struct stp_note){.kind = STP_NOTE_TIME,
                                        .n_channels = (uint8_t)n_channels,
                                        .t_ns = begin_ns,
                                        .host_ns = host_ns});
}

void stp_observer_ended(struct stp_observer *observer, uint32_t token,
                        uint64_t end_ns)
{
    observer_put_time(observer, token,
                      (struct stp_note){.kind = STP_NOTE_END, .t_ns = end_ns});
}

/* ---- digesting notes ---- */

enum stp_status stp_observer_begin(struct stp_observer *observer,
                                   stp_learn_sink sink, void *user,
                                   struct stp_error *err)
{
    return stp_learner_open(&observer->rules, observer->history, sink, user,
                            &observer->learner, err);
}

void stp_observer_recall(struct stp_observer *observer,
                         const struct stp_evidence_list *list,
                         const struct stp_shape *shape)
{
    observer->evidence = list;
    observer->n_nodes = shape->n_nodes;
    observer->n_ranks = shape->n_ranks;
}

static void observer_add_keys(struct stp_observer *o)
{
    struct stp_bandit *bandit = stp_learner_bandit(o->learner);
    unsigned n = atomic_load_explicit(&o->n_keys, memory_order_acquire);

    while (o->n_added < n) {
        unsigned key = o->n_added++;
        const struct first_call *first = &o->first[key];
        /* A sum whose bits stay looks as if NCCL had no other choice. */
        const bool is_kept =
            o->rules.same_bits && stp_coll_reduces(first->coll);
        const struct stp_cost_view view = {
            first->cost, is_kept ? 0 : first->n_algo, first->n_proto};

        stp_learner_add_key(o->learner, key, &view, 0);
        for (unsigned a = 1; o->schedule != NULL && a < STP_BANDIT_ARMS; a++)
            if (a > o->rules.bandit.n_arms ||
                !stp_schedule_tries(o->schedule, first->coll, first->n_bytes,
                                    a))
                stp_bandit_rule_out(bandit, key, a);
        for (size_t i = 0; o->evidence != NULL && i < o->evidence->n; i++) {
            const struct stp_evidence *e = &o->evidence->all[i];

            if (e->coll == first->coll && e->n_nodes == o->n_nodes &&
                e->n_ranks == o->n_ranks && e->bytes.min <= first->n_bytes &&
                first->n_bytes <= e->bytes.max)
                stp_bandit_recall(bandit, key, &e->arm, e->n_blocks,
                                  e->log_gain, e->log_ss);
        }
    }
}

/* Takes only the notes that are there: new ones may come without end. */
static void observer_drain(struct stp_observer *o, struct stp_ring *ring,
                           uint32_t n)
{
    struct stp_note note;

    for (; n > 0 && stp_ring_take(ring, &note); n--)
        stp_learner_note(o->learner, &note);
}

void stp_observer_run_pass(struct stp_observer *observer)
{
    struct stp_observer *o = observer;
    struct stp_agreement *a = o->agreement;
    struct stp_proposal proposal;
    uint32_t n_times;

    if (o->learner == NULL)
        return;
    observer_add_keys(o);
    /* Times of a trial arrive after the note that it began. */
    n_times = stp_ring_count(o->times);
    observer_drain(o, o->began, stp_ring_count(o->began));
    observer_drain(o, o->times, n_times);
    if (!atomic_load(&o->is_stopped) &&
        stp_learner_wants(o->learner, a != NULL && !a->ops->is_pending(a),
                          &proposal) &&
        !a->ops->propose(a, stp_proposal_pack(&proposal)))
        stp_learner_refuse(o->learner);
    atomic_store(&o->is_sampling, !atomic_load(&o->is_stopped) &&
                                      stp_learner_is_sampling(o->learner));
}

void stp_observer_conclude(struct stp_observer *observer)
{
    if (observer->schedule != NULL && observer->learner != NULL)
        stp_learner_conclude(observer->learner);
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
    const struct stp_bandit_key_state state =
        stp_bandit_get_key(stp_learner_bandit(o->learner), key);

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
            stp_bandit_get_key(stp_learner_bandit(observer->learner), k);

        if (!state.is_settled || i-- != 0)
            continue;
        observer_describe_key(observer, k, state.best, learned_ret);
        return true;
    }
    return false;
}

/* ---- life ---- */

struct stp_observer *stp_observer_new(const struct stp_learner_rules *rules,
                                      struct stp_agreement *agreement,
                                      const struct stp_schedule *schedule)
{
    struct stp_observer *o = calloc(1, sizeof(*o));

    if (o == NULL)
        return NULL;
    o->agreement = agreement;
    o->schedule = schedule;
    o->rules = *rules;
    if (schedule != NULL)
        o->rules.bandit = *stp_schedule_get_rules(schedule);
    o->history = stp_history_new();
    o->began = stp_ring_new();
    o->times = stp_ring_new();
    atomic_init(&o->recent.lead, 1);
    atomic_init(&o->is_sampling, rules->objective != STP_LEARN_FILE);
    if (o->history != NULL && o->began != NULL && o->times != NULL)
        return o;
    stp_observer_free(o);
    return NULL;
}

void stp_observer_free(struct stp_observer *observer)
{
    if (observer == NULL)
        return;
    stp_learner_close(observer->learner);
    stp_history_free(observer->history);
    stp_ring_free(observer->began);
    stp_ring_free(observer->times);
    free(observer);
}
