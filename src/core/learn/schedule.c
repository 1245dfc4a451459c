#include "core/learn/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/learn/history.h"
#include "core/rng.h"
#include "nccl_tuner_abi.h"

enum {
    N_CALLS = 2048,  /* that are remembered */
    FIND_CALLS = 64, /* before the first search, and to repeat in */
    FIND_MAX = 1 << 30,
    LEAST_WINDOW = 32,
    ROUND_WINDOW = 120,  /* that many rhythms divide, where the sequence does */
    SHORT_SEQUENCE = 12, /* calls: the job's rhythm may be longer */
    LATE_CALLS = 1024,   /* by which times of samples may be late */
    SPOILT_MATES = 2,    /* keys of a round, after one that was spoilt */
    MOST_SPOILT = 4,     /* rounds that make windows shorter */
    MOST_MISSED = 8,     /* looks at whether the sequence holds now, in a row */
    SURE_BLOCKS = 8,     /* of evidence, before it rules an arm out */
    /* LL sends a flag with each 4 bytes, and LL128 with each 120. */
    LL_MAX_BYTES = 8 << 20,
};

enum phase {
    FIND,  /* the sequence, at call 'at' */
    WAIT,  /* for call 'at', which lays out a round */
    ROUND, /* call 'at' begins the next window */
};

/* An arm that gains nothing, as earlier runs found. */
struct out {
    int coll;
    struct stp_range bytes;
    struct stp_bandit_arm arm;
};

struct stp_schedule {
    struct stp_schedule_rules rules;
    struct out *outs; /* owned */
    size_t n_outs;

    enum phase phase;
    uint64_t n_calls;
    uint64_t at;
    uint64_t find_wait; /* calls to the next search */
    unsigned window;    /* the next one's number in the round, from 0 */
    unsigned n_broken;  /* blocks of the round */
    unsigned n_spoilt;  /* rounds that calls between broke; at most 4 */
    unsigned n_missed;  /* looks in a row at which it did not hold */
    bool is_broken;     /* the block under way */
    struct stp_schedule_round round;

    unsigned n_keys;
    unsigned next_key; /* whose turn it is */
    struct {
        int coll;
        uint64_t n_bytes;
        uint32_t allowed; /* arms */
        unsigned n_tried; /* arms, over all passes */
    } keys[STP_BANDIT_KEYS];
    uint8_t calls[N_CALLS]; /* keys of the last ones; a ring */
};

static const struct stp_bandit_arm all_arms[] = {
    {NCCL_ALGO_TREE, NCCL_PROTO_LL, 0},
    {NCCL_ALGO_TREE, NCCL_PROTO_LL128, 0},
    {NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
    {NCCL_ALGO_RING, NCCL_PROTO_LL, 0},
    {NCCL_ALGO_RING, NCCL_PROTO_LL128, 0},
    {NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0},
};

/* ---- opening ---- */

/* Whether an arm gains less than what counts beyond doubt: by
 * two standard errors, in operations that are exact on all hosts or whose
 * outcome is compared. */
static bool schedule_is_hopeless(const struct stp_schedule_rules *rules,
                                 const struct stp_evidence *e)
{
    const double n = (double)e->n_blocks;
    const double behind = rules->bandit.min_gain - e->log_gain;

    return e->n_nodes == rules->of.n_nodes && e->n_ranks == rules->of.n_ranks &&
           e->n_blocks >= SURE_BLOCKS && behind > 0 &&
           behind * behind * n * (n - 1) >= 4 * e->log_ss;
}

enum stp_status stp_schedule_open(const struct stp_schedule_rules *rules,
                                  struct stp_schedule **schedule_ret,
                                  struct stp_error *err)
{
    struct stp_schedule *s = calloc(1, sizeof(*s));
    const struct stp_evidence *e = rules->evidence.all;

    if (s != NULL)
        s->outs = calloc(rules->evidence.n + 1, sizeof(*s->outs));
    if (s == NULL || s->outs == NULL) {
        free(s);
        return stp_nomem(err);
    }
    s->rules = *rules;
    if (rules->bandit.n_arms == 0) {
        memcpy(s->rules.bandit.arms, all_arms, sizeof(all_arms));
        s->rules.bandit.n_arms = sizeof(all_arms) / sizeof(all_arms[0]);
    }
    for (; e != NULL && e < rules->evidence.all + rules->evidence.n; e++)
        if (schedule_is_hopeless(rules, e))
            s->outs[s->n_outs++] = (struct out){e->coll, e->bytes, e->arm};
    s->rules.evidence = (struct stp_evidence_list){0};
    s->at = s->find_wait = FIND_CALLS;
    *schedule_ret = s;
    return STP_OK;
}

void stp_schedule_close(struct stp_schedule *schedule)
{
    if (schedule != NULL)
        free(schedule->outs);
    free(schedule);
}

static uint64_t schedule_hash_arm(uint64_t hash,
                                  const struct stp_bandit_arm *arm)
{
    return stp_hash(hash, (uint64_t)(uint8_t)arm->algo << 16 |
                              (uint64_t)(uint8_t)arm->proto << 8 |
                              arm->n_channels);
}

uint64_t stp_schedule_hash(const struct stp_schedule *schedule)
{
    const struct stp_bandit_rules *r = &schedule->rules.bandit;
    uint64_t hash = stp_hash(r->seed, r->n_passes);

    hash = stp_hash(hash, r->n_arms << 1 | schedule->rules.same_bits);
    for (size_t i = 0; i < r->n_arms; i++)
        hash = schedule_hash_arm(hash, &r->arms[i]);
    for (size_t i = 0; i < schedule->n_outs; i++) {
        const struct out *out = &schedule->outs[i];

        hash = stp_hash(stp_hash(hash, (uint64_t)out->coll), out->bytes.min);
        hash = schedule_hash_arm(stp_hash(hash, out->bytes.max), &out->arm);
    }
    return hash;
}

/* ---- arms ---- */

const struct stp_bandit_rules *
stp_schedule_get_rules(const struct stp_schedule *schedule)
{
    return &schedule->rules.bandit;
}

bool stp_schedule_tries(const struct stp_schedule *schedule, int coll,
                        uint64_t n_bytes, unsigned arm)
{
    const struct stp_bandit_arm *a = &schedule->rules.bandit.arms[arm - 1];

    if ((schedule->rules.same_bits && stp_coll_reduces(coll)) ||
        (a->algo == NCCL_ALGO_TREE && coll != ncclFuncAllReduce) ||
        (a->proto == NCCL_PROTO_LL && n_bytes > LL_MAX_BYTES))
        return false;
    for (size_t i = 0; i < schedule->n_outs; i++) {
        const struct out *out = &schedule->outs[i];

        if (out->coll == coll && stp_range_has(&out->bytes, n_bytes) &&
            out->arm.algo == a->algo && out->arm.proto == a->proto &&
            out->arm.n_channels == a->n_channels)
            return false;
    }
    return true;
}

/* The arm that a key tries next; 0: it has tried all, or the calls lack it. */
static unsigned schedule_next_arm(struct stp_schedule *s, unsigned key,
                                  const uint8_t *calls, size_t n_calls)
{
    const unsigned n_arms = (unsigned)s->rules.bandit.n_arms;
    unsigned *n = &s->keys[key].n_tried;

    if (memchr(calls, (int)key, n_calls) == NULL)
        return 0;
    for (; *n < n_arms * s->rules.bandit.n_passes; ++*n)
        if ((s->keys[key].allowed >> *n % n_arms & 1) != 0 &&
            stp_schedule_tries(s, s->keys[key].coll, s->keys[key].n_bytes,
                               *n % n_arms + 1))
            return *n % n_arms + 1;
    return 0;
}

/* ---- the sequence ---- */

/* The last calls, the latest last. */
static size_t schedule_copy(const struct stp_schedule *s,
                            uint8_t calls[N_CALLS])
{
    const size_t n = s->n_calls < N_CALLS ? (size_t)s->n_calls : N_CALLS;

    for (size_t i = 0; i < n; i++)
        calls[i] = s->calls[(s->n_calls - n + i) % N_CALLS];
    return n;
}

/* Searches on in as many calls as there were, or twice as many as last time. */
static void schedule_find_later(struct stp_schedule *s)
{
    s->phase = FIND;
    s->at = s->n_calls + s->find_wait;
    if (s->find_wait < FIND_MAX)
        s->find_wait *= 2;
}

/* Where the keys of a sequence have nothing to try, one that more calls repeat
 * is looked for, as it may be a part of that.  The first is taken in any case:
 * what it lays out says that there is nothing. */
static enum stp_note_kind schedule_find(struct stp_schedule *s)
{
    uint8_t calls[N_CALLS];
    const size_t n = schedule_copy(s, calls);
    size_t p, least = FIND_CALLS;
    unsigned key;

    do {
        p = stp_sequence_find(calls, n, least);
        least *= 2;
        for (key = 0; key < s->n_keys &&
                      schedule_next_arm(s, key, calls + n - p, p) == 0;)
            key++;
    } while (p > 0 && key == s->n_keys && s->round.sequence > 0);
    if (p == 0) {
        schedule_find_later(s);
        return STP_NOTE_NONE;
    }
    /* A shorter one has fewer calls between. */
    least = LEAST_WINDOW >> (s->n_spoilt > 1 ? s->n_spoilt - 1 : 0);
    s->round = (struct stp_schedule_round){
        .n_calls =
            s->n_spoilt == 0 && p <= SHORT_SEQUENCE && ROUND_WINDOW % p == 0
                ? ROUND_WINDOW
                : (unsigned)((least + p - 1) / p * p),
        .sequence = (unsigned)p};
    s->n_missed = 0;
    s->phase = WAIT;
    s->at = s->n_calls + LATE_CALLS +
            (10 * p < STP_SCHEDULE_SAMPLES ? STP_SCHEDULE_SAMPLES : 10 * p);
    return STP_NOTE_WINDOW;
}

/* ---- rounds ---- */

static enum stp_note_kind schedule_lay_out(struct stp_schedule *s)
{
    struct stp_schedule_round *r = &s->round;
    const unsigned first = s->next_key;
    const unsigned most = s->n_spoilt > 0 ? SPOILT_MATES : STP_SCHEDULE_MATES;
    uint8_t calls[N_CALLS];
    const size_t n = schedule_copy(s, calls);
    const uint8_t *last = calls + n - r->sequence;

    if (!stp_sequence_holds(last - r->sequence, 2 * r->sequence, r->sequence)) {
        s->at = s->n_calls + 2 * r->sequence;
        if (++s->n_missed == MOST_MISSED)
            schedule_find_later(s);
        return STP_NOTE_NONE;
    }
    r->n = s->n_missed = 0;
    for (unsigned i = 0; i < s->n_keys && r->n < most; i++) {
        const unsigned key = (first + i) % s->n_keys;
        const unsigned arm = schedule_next_arm(s, key, last, r->sequence);

        if (arm == 0)
            continue;
        r->mates[r->n].key = key;
        r->mates[r->n].arm = arm;
        r->mates[r->n].pattern =
            (stp_trial_pattern(r->n) ^ (unsigned)s->rules.bandit.seed) %
            STP_TRIAL_BLOCKS;
        r->n++;
        s->next_key = key + 1;
    }
    if (r->n == 0) {
        schedule_find_later(s);
        return STP_NOTE_ENDED;
    }
    r->first_call = s->n_calls + STP_TRIAL_LEAD;
    s->phase = ROUND;
    s->at = r->first_call;
    s->window = s->n_broken = 0;
    s->is_broken = false;
    return STP_NOTE_TRIAL;
}

/* Goes to the next window, or ends the round. */
static void schedule_turn_window(struct stp_schedule *s)
{
    if (s->window % STP_BLOCK_WINDOWS == 0) {
        s->n_broken += s->is_broken;
        s->is_broken = false;
    }
    s->at = s->n_calls + s->round.n_calls;
    if (s->window++ < STP_TRIAL_BLOCKS * STP_BLOCK_WINDOWS)
        return;
    /* One key takes 4 whole blocks, and several take 2 more than there are
     * keys, but two take 5: in 4 they may have taken the same turns
     * (windows.c). */
    if (s->n_broken + (s->round.n < 3 ? 3 + s->round.n : 2 + s->round.n) >
        STP_TRIAL_BLOCKS) {
        s->n_spoilt += s->n_spoilt < MOST_SPOILT;
        schedule_find_later(s);
        return;
    }
    for (unsigned i = 0; i < s->round.n; i++)
        s->keys[s->round.mates[i].key].n_tried++;
    s->find_wait = FIND_CALLS;
    s->phase = WAIT;
    s->at = s->n_calls + 1;
}

static unsigned schedule_find_arm(const struct stp_schedule *s, unsigned key)
{
    const struct stp_schedule_round *r = &s->round;

    for (unsigned i = 0; i < r->n && s->window > 0; i++)
        if (r->mates[i].key == key &&
            stp_trial_is_arm(r->first_call, r->mates[i].pattern, s->window - 1))
            return r->mates[i].arm;
    return 0;
}

/* ---- calls ---- */

struct stp_schedule_turn stp_schedule_call(struct stp_schedule *s, unsigned key,
                                           int coll, uint64_t n_bytes,
                                           uint32_t allowed)
{
    struct stp_schedule_turn turn = {0};
    const uint64_t before = s->n_calls - s->round.sequence;

    if (key < STP_BANDIT_KEYS && key == s->n_keys) {
        s->keys[key].coll = coll;
        s->keys[key].n_bytes = n_bytes;
        s->keys[key].allowed = allowed;
        s->n_keys++;
    }
    if (s->n_calls == s->at) {
        turn.is_timed = s->phase == ROUND;
        if (s->phase == FIND)
            turn.news = schedule_find(s);
        else if (s->phase == WAIT)
            turn.news = schedule_lay_out(s);
        else
            schedule_turn_window(s);
    }
    if (s->phase == ROUND) {
        turn.arm = schedule_find_arm(s, key);
        if (!s->is_broken && s->window > 0 &&
            s->calls[before % N_CALLS] != key) {
            s->is_broken = true;
            turn.news = STP_NOTE_BROKE;
        }
    }
    s->calls[s->n_calls++ % N_CALLS] = (uint8_t)key;
    return turn;
}

uint32_t stp_schedule_next_timed(const struct stp_schedule *schedule)
{
    return schedule->phase == ROUND
               ? (uint32_t)(schedule->at - schedule->n_calls)
               : UINT32_MAX;
}

const struct stp_schedule_round *
stp_schedule_get_round(const struct stp_schedule *schedule)
{
    return &schedule->round;
}
