#include "core/learn/period.h"

#include <stdlib.h>
#include <string.h>

enum {
    RING = 4 * STP_PERIOD_MAX, /* calls that are looked back at */
    REPEATS = 3,               /* until a sequence counts as found */
    MIN_CALLS = 16,            /* and as many calls: chance repeats, too */
    LOOK_EVERY = 4,            /* calls, for what is short */
    LOOK_BACK = 8,             /* times that: room for 3 repeats */
    N_WORDS = 4,               /* sequences that are remembered */
    HISTORY = 15,              /* steps that the median is of */
    MEASURES = 3,              /* steps before one can be judged */
    PAUSE = 4,                 /* times the median is no step */
};

/* How far the last calls follow a word. */
struct match {
    unsigned at;        /* the call of the word that should be next */
    unsigned n_repeats; /* whole ones in a row before */
};

/*
 * A sequence that repeats, from the call that makes it the smallest of its
 * rotations.  That is a Lyndon word: none of its ends is a beginning of it, so
 * that a match that fails can restart, and never misses a whole repeat that
 * follows another.
 */
struct word {
    unsigned n_calls; /* 0: none */
    unsigned number;
    unsigned n_needed; /* repeats: more than there are inside other words */
    struct match match;
    uint64_t start_call; /* of the repeat in progress */
    uint64_t start_ns;
    uint64_t last_call; /* that was part of it */
    double us[HISTORY]; /* of its last steps, those left out among them */
    uint64_t n_steps;
    uint32_t kinds[STP_PERIOD_MAX];
};

struct stp_period {
    uint64_t n_calls;
    uint64_t run; /* calls that follow words[current] */
    int current;  /* the word that repeats, or did so last; -1: none yet */
    unsigned n_found;
    struct word words[N_WORDS];
    uint32_t ring[RING]; /* kinds; call i is at i % RING */
    /* [n]: how many of the last n calls are, backwards, also their beginning,
     * at most n - 1 (Knuth, Morris and Pratt's failure function). */
    uint16_t border[RING + 1];
};

enum stp_status stp_period_open(struct stp_period **period_ret,
                                struct stp_error *err)
{
    struct stp_period *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return stp_nomem(err);
    p->current = -1;
    *period_ret = p;
    return STP_OK;
}

void stp_period_close(struct stp_period *period)
{
    free(period);
}

/* ---- following a word ---- */

static void period_follow(const struct word *w, struct match *m, uint32_t kind)
{
    if (w->kinds[m->at] != kind)
        *m = (struct match){0};
    if (w->kinds[m->at] == kind && ++m->at == w->n_calls) {
        m->at = 0;
        m->n_repeats++;
    }
}

static bool period_is_repeating(const struct word *w)
{
    return w->n_calls > 0 && w->match.n_repeats >= w->n_needed;
}

/* Follows the last call.  Returns true, and a step, if the call is the first
 * after one. */
static bool period_take(const struct stp_period *p, struct word *w,
                        uint64_t t_ns, struct stp_step *step)
{
    uint64_t call = p->n_calls - 1;
    uint32_t kind = p->ring[call % RING];
    bool is_first = w->kinds[0] == kind &&
                    (w->match.at == 0 || w->kinds[w->match.at] != kind);
    bool is_step = is_first && w->match.at == 0 && period_is_repeating(w);

    if (is_step)
        *step = (struct stp_step){.first_call = w->start_call,
                                  .n_calls = w->n_calls,
                                  .sequence = w->number,
                                  .us = (double)(t_ns - w->start_ns) / 1e3};
    if (is_first) {
        w->start_call = call;
        w->start_ns = t_ns;
    }
    period_follow(w, &w->match, kind);
    return is_step;
}

/* Looks whether the call is part of any word, when the current one does not
 * repeat. */
static void period_take_all(struct stp_period *p, uint64_t t_ns)
{
    struct stp_step none;

    p->run = 0;
    for (int i = 0; i < N_WORDS; i++) {
        struct word *w = &p->words[i];

        if (w->n_calls == 0)
            continue;
        period_take(p, w, t_ns, &none);
        if (period_is_repeating(w)) {
            p->current = i;
            p->run = (uint64_t)w->match.n_repeats * w->n_calls;
            return;
        }
    }
}

/* The current word repeats no more: all begin again, with this call. */
static void period_lose_word(struct stp_period *p, uint64_t t_ns)
{
    struct stp_step none;

    for (int i = 0; i < N_WORDS; i++) {
        struct word *w = &p->words[i];

        if (i == p->current || w->n_calls == 0)
            continue;
        w->match = (struct match){0};
        period_take(p, w, t_ns, &none);
    }
    p->words[p->current].last_call = p->n_calls;
    p->run = 0;
}

/* ---- finding a word ---- */

static uint32_t period_back(const struct stp_period *p, uint64_t n)
{
    return p->ring[(p->n_calls - 1 - n) % RING];
}

/*
 * The shortest period of the longest run that ends with the last call, is among
 * the last 'n', and came often enough; 0 if none.  Backwards, such runs are the
 * beginnings of the text whose border is long.
 */
static unsigned period_find(struct stp_period *p, unsigned n)
{
    unsigned found = 0;
    unsigned k = 0;

    p->border[0] = p->border[1] = 0;
    for (unsigned i = 1; i < n; i++) {
        unsigned period;

        while (k > 0 && period_back(p, i) != period_back(p, k))
            k = p->border[k];
        k += period_back(p, i) == period_back(p, k);
        p->border[i + 1] = (uint16_t)k;
        period = i + 1 - k;
        if (i + 1 >= MIN_CALLS && i + 1 >= REPEATS * period &&
            period <= STP_PERIOD_MAX)
            found = period;
    }
    return found;
}

/* Where the smallest rotation of the last 'n' calls begins. */
static unsigned period_smallest_rotation(const struct stp_period *p, unsigned n)
{
    unsigned a = 0, b = 1, same = 0;

    while (a < n && b < n && same < n) {
        uint32_t at_a = period_back(p, n - 1 - (a + same) % n);
        uint32_t at_b = period_back(p, n - 1 - (b + same) % n);

        if (at_a == at_b) {
            same++;
            continue;
        }
        if (at_a > at_b)
            a += same + 1;
        else
            b += same + 1;
        b += a == b;
        same = 0;
    }
    return a < b ? a : b;
}

static bool period_is_word(const struct stp_period *p, const struct word *w,
                           unsigned n, unsigned rotation)
{
    if (w->n_calls != n)
        return false;
    for (unsigned i = 0; i < n; i++)
        if (w->kinds[i] != period_back(p, n - 1 - (rotation + i) % n))
            return false;
    return true;
}

static bool period_is_known(const struct stp_period *p, unsigned n,
                            unsigned rotation)
{
    for (int i = 0; i < N_WORDS; i++)
        if (period_is_word(p, &p->words[i], n, rotation))
            return true;
    return false;
}

/* If one repeats inside the other, again and again, it takes more than that to
 * be a step. */
static void period_need_more_than_inside(struct word *inner,
                                         const struct word *outer)
{
    struct match m = {0};

    for (unsigned i = 0; i < outer->n_calls; i++) {
        period_follow(inner, &m, outer->kinds[i]);
        if (m.n_repeats >= inner->n_needed)
            inner->n_needed = m.n_repeats + 1;
    }
}

/* Room for a word: none, or the one that did not repeat for the longest. */
static int period_oldest_word(const struct stp_period *p)
{
    int best = -1;

    for (int i = 0; i < N_WORDS; i++)
        if (i != p->current &&
            (best < 0 || p->words[i].last_call < p->words[best].last_call))
            best = i;
    return best;
}

static void period_add_word(struct stp_period *p, unsigned n, unsigned rotation)
{
    int slot = period_oldest_word(p);
    struct word *w = &p->words[slot];

    *w = (struct word){.n_calls = n,
                       .number = p->n_found++,
                       .n_needed = 1,
                       .last_call = p->n_calls};
    for (unsigned i = 0; i < n; i++)
        w->kinds[i] = period_back(p, n - 1 - (rotation + i) % n);
    for (int i = 0; i < N_WORDS; i++) {
        struct word *other = &p->words[i];

        if (i == slot || other->n_calls == 0)
            continue;
        period_need_more_than_inside(other, w);
        period_need_more_than_inside(w, other);
    }
    if (w->n_needed == 1) {
        p->current = slot;
        p->run = 0;
    }
}

/*
 * Looks for a new word among the last calls: often among few, seldom among
 * many, and not where all follow the current one.
 */
static void period_look(struct stp_period *p)
{
    uint64_t every = p->n_calls & -p->n_calls;
    uint64_t n = LOOK_BACK * every;
    unsigned period;
    unsigned rotation;

    if (every < LOOK_EVERY)
        return;
    n = n < RING ? n : RING;
    n = n < p->n_calls ? n : p->n_calls;
    if (p->run >= n)
        return;
    period = period_find(p, (unsigned)n);
    if (period == 0)
        return;
    rotation = period_smallest_rotation(p, period);
    if (!period_is_known(p, period, rotation))
        period_add_word(p, period, rotation);
}

/* ---- steps ---- */

/* Whether it took PAUSE times the median of the last steps. */
static bool period_is_pause(const struct word *w, unsigned n, double us)
{
    unsigned n_shorter = 0;

    for (unsigned i = 0; i < n; i++)
        n_shorter += PAUSE * w->us[i] < us;
    return n_shorter > n / 2;
}

/* Whether a step is given out.  Even if not, it counts from now on: a job may
 * have become slower for good. */
static bool period_judge_step(struct word *w, double us)
{
    unsigned n = w->n_steps < HISTORY ? (unsigned)w->n_steps : HISTORY;
    bool is_judged = n >= MEASURES;
    bool is_pause = is_judged && period_is_pause(w, n, us);

    w->us[w->n_steps++ % HISTORY] = us;
    return is_judged && !is_pause;
}

bool stp_period_call(struct stp_period *p, uint32_t kind, uint64_t t_ns,
                     struct stp_step *step_ret)
{
    struct word *w = p->current >= 0 ? &p->words[p->current] : NULL;
    struct stp_step step;
    bool is_step = false;

    p->ring[p->n_calls++ % RING] = kind;
    if (w != NULL && period_is_repeating(w)) {
        is_step =
            period_take(p, w, t_ns, &step) && period_judge_step(w, step.us);
        p->run++;
        if (!period_is_repeating(w))
            period_lose_word(p, t_ns);
    } else {
        period_take_all(p, t_ns);
    }
    period_look(p);
    if (is_step)
        *step_ret = step;
    return is_step;
}

unsigned stp_period_calls(const struct stp_period *p)
{
    return p->current >= 0 ? p->words[p->current].n_calls : 0;
}

unsigned stp_period_share(const struct stp_period *p, uint32_t kind)
{
    unsigned n = 0;

    for (unsigned i = 0; i < stp_period_calls(p); i++)
        n += p->words[p->current].kinds[i] == kind;
    return n;
}
