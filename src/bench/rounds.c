#include "bench/rounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Six standard deviations, by the median size of a deviation. */
static const double far_in_spreads = 6 * 1.4826;

static const double same_times = 0.01; /* of their logarithms */

/* ---- lanes: what runs once a round ---- */

static size_t rounds_find_lane(const struct stp_rounds *r,
                               const struct stp_arm *arm, bool in_place,
                               bool graph)
{
    size_t i = 0;

    while (i < r->n_lanes &&
           (r->lanes[i].in_place != in_place || r->lanes[i].graph != graph ||
            !stp_arm_equal(&r->data->rows[r->lanes[i].row].arm, arm)))
        i++;
    return i;
}

static size_t rounds_find_row(const struct stp_rounds *r,
                              const struct stp_measurement *m)
{
    return rounds_find_lane(r, &m->arm, m->in_place, m->graph);
}

/* ---- rounds that were disturbed ---- */

/* Logarithms of times, by lane and round, NaN where there is none; then what is
 * left of them, and below the lanes what those of a round have in common. */
struct grid {
    size_t n_lanes;
    unsigned n_rounds;
    double *left;
    double *scratch; /* room for all */
    double spread;   /* of all lanes */
};

static double *grid_at(const struct grid *g, size_t lane, unsigned round)
{
    return &g->left[lane * g->n_rounds + round];
}

/* The median of the finite ones of 'n' values, or of their sizes, 'step' apart:
 * of an even number the smaller one of the middle, so that half of the rounds
 * may be disturbed.  0 if there are none. */
static double grid_get_median(const struct grid *g, const double *from,
                              size_t n, size_t step, bool of_sizes)
{
    struct stp_summary summary;
    size_t n_found = 0;

    for (size_t i = 0; i < n; i++)
        if (isfinite(from[i * step]))
            g->scratch[n_found++] =
                of_sizes ? fabs(from[i * step]) : from[i * step];
    if (n_found == 0)
        return 0;
    stp_summarise(g->scratch, n_found, &summary); /* sorts */
    return g->scratch[(n_found - 1) / 2];
}

static void grid_center(const struct grid *g, size_t lane)
{
    double *row = grid_at(g, lane, 0);
    const double median = grid_get_median(g, row, g->n_rounds, 1, false);

    for (unsigned k = 0; k < g->n_rounds; k++)
        row[k] -= median;
}

/* Marks rounds in which a lane is far out, unless that is its nature, and
 * rounds that are longer or shorter as a whole. */
static void grid_mark(const struct grid *g, struct stp_rounds *r)
{
    const bool is_pair = g->n_lanes <= 2; /* both are far out, or neither */
    const double *shift = grid_at(g, g->n_lanes, 0);

    for (size_t i = 0; i <= g->n_lanes; i++) {
        const bool is_shift = i == g->n_lanes;
        const double *row = grid_at(g, i, 0);
        const double own = grid_get_median(g, row, g->n_rounds, 1, true);
        const double limit =
            fmin(is_shift ? 2 * STP_ROUNDS_SHIFT : STP_ROUNDS_SURE,
                 fmax(is_shift ? STP_ROUNDS_SHIFT : STP_ROUNDS_FAR,
                      far_in_spreads * fmax(own, g->spread)));
        unsigned n_alone = 0;

        /* what is recorded so will say so again */
        for (unsigned k = 0; k < g->n_rounds && !r->is_recorded; k++)
            n_alone += fabs(row[k]) > limit && fabs(shift[k]) <= STP_ROUNDS_FAR;
        if (is_pair ? n_alone >= 4 && 5 * n_alone >= 2 * g->n_rounds
                    : n_alone >= 3 && 3 * n_alone > g->n_rounds)
            continue;
        for (unsigned k = 0; k < g->n_rounds; k++)
            r->is_disturbed[k] |= fabs(row[k]) > limit;
    }
}

/* Leaves one of each recorded round: one that has its times again was recorded
 * so, and nothing disturbed it. */
static void grid_keep_places(const struct grid *g, struct stp_rounds *r)
{
    for (unsigned k = 0; k < g->n_rounds; k++) {
        bool is_there = false;

        for (unsigned j = 0; j < k && !is_there; j++) {
            double most = 0;

            if (r->at[j] != r->at[k])
                continue;
            for (size_t i = 0; i <= g->n_lanes; i++)
                most = fmax(most, fabs(*grid_at(g, i, j) - *grid_at(g, i, k)));
            r->is_disturbed[j] &= most > same_times;
            is_there = !r->is_disturbed[j];
        }
        r->is_disturbed[k] |= is_there;
    }
}

/* Finds the rounds that were disturbed or are there already, and counts the
 * others, or none while a whole round is shorter; without memory none was. */
static unsigned rounds_count_good(struct stp_rounds *r)
{
    const size_t n = r->n_lanes * r->n_run;
    struct grid g = {.n_lanes = r->n_lanes, .n_rounds = r->n_run};
    unsigned n_good = 0;
    bool is_shorter = false;

    memset(r->is_disturbed, 0, sizeof(r->is_disturbed));
    if (!r->repeats || r->n_run < 3)
        return r->n_run;
    g.left = calloc(2 * n + r->n_run + 1, sizeof(*g.left));
    if (g.left == NULL)
        return r->n_run;
    g.scratch = g.left + n + r->n_run;
    for (size_t i = 0; i < n; i++)
        g.left[i] = NAN;
    for (size_t i = r->first; i < r->data->n_rows; i++) {
        const struct stp_measurement *m = &r->data->rows[i];

        *grid_at(&g, rounds_find_row(r, m), m->round) = log(m->us.median);
    }
    /* Takes the median of each lane off its times, then that of each round. */
    for (size_t i = 0; i < g.n_lanes; i++)
        grid_center(&g, i);
    for (unsigned k = 0; k < g.n_rounds; k++) {
        double *shift = grid_at(&g, g.n_lanes, k);

        *shift = grid_get_median(&g, grid_at(&g, 0, k), g.n_lanes, g.n_rounds,
                                 false);
        for (size_t i = 0; i < g.n_lanes; i++)
            *grid_at(&g, i, k) -= *shift;
    }
    grid_center(&g, g.n_lanes);
    g.spread = grid_get_median(&g, g.left, g.n_lanes * g.n_rounds, 1, true);
    grid_mark(&g, r);
    if (r->is_recorded)
        grid_keep_places(&g, r);
    for (unsigned k = 0; k < r->n_run; k++)
        is_shorter |= *grid_at(&g, g.n_lanes, k) < -STP_ROUNDS_SHIFT;
    free(g.left);
    for (unsigned k = 0; k < r->n_run; k++)
        n_good += !r->is_disturbed[k];
    return is_shorter ? 0 : n_good;
}

/* ---- arms that stop, and arms that go on ---- */

static const struct stp_arm own = {.kind = STP_ARM_AUTO};

/* The gain of a lane over another arm in the rounds of both, but those
 * disturbed.  In a sequential iteration only what it takes beyond its compute
 * is the arm's. */
static struct stp_gain rounds_get_gain(const struct stp_rounds *r, size_t lane,
                                       const struct stp_arm *over)
{
    const size_t base = rounds_find_lane(r, over, r->lanes[lane].in_place,
                                         r->lanes[lane].graph);
    double us[2][STP_ROUNDS_MOST] = {{0}};
    size_t n = 0;

    for (size_t i = r->first; i < r->data->n_rows; i++) {
        const struct stp_measurement *m = &r->data->rows[i];
        const size_t of = rounds_find_row(r, m);

        if (of == lane || of == base)
            us[of == lane][m->round] =
                m->us.median - (m->work.mode == STP_MODE_SEQUENTIAL
                                    ? m->work.layers * m->work.compute_us
                                    : 0);
    }
    for (unsigned k = 0; k < r->n_run; k++)
        if (!r->is_disturbed[k] && us[0][k] > 0 && us[1][k] > 0) {
            us[0][n] = us[0][k];
            us[1][n++] = us[1][k];
        }
    return stp_paired_gain(us[0], us[1], n);
}

/* Whether it is open if a policy does harm or good, or an arm has the gain it
 * promises; with 'is_last', and twice as many rounds like these settle it. */
static bool rounds_is_unsure(const struct stp_rounds *r,
                             const struct stp_rounds_lane *lane,
                             const struct stp_gain *g, bool is_last)
{
    const double share = pow(g->low / g->gain, 1 / sqrt(2));
    const double min_gain = r->terms.min_gain;

    if (r->data->rows[lane->row].arm.kind == STP_ARM_PLUGIN)
        return g->low < 1 && g->high > 1 &&
               (g->low < 1 - min_gain || g->high > 1 + min_gain) &&
               (!is_last || g->gain * share > 1 || g->gain < share);
    return g->gain >= 1 + min_gain && g->low < 1 + min_gain &&
           (!is_last || g->gain * share >= 1 + min_gain);
}

/* Finds the two arms of tuners that gain most, each as much as a rule: true if
 * it is open which is faster; after many rounds only if the second may be so by
 * as much as a rule, or seems to be slower by as much. */
static bool rounds_find_rivals(const struct stp_rounds *r, size_t rivals[2])
{
    const double least = 1 + r->terms.min_gain;
    double most[2] = {least, least};
    struct stp_gain g;

    rivals[1] = rivals[0] = r->n_lanes;
    for (size_t i = 0; i < r->n_lanes; i++) {
        const struct stp_rounds_lane *lane = &r->lanes[i];
        const double gain = rounds_get_gain(r, i, &own).gain;
        const bool is_second = gain < most[0];

        if (r->data->rows[lane->row].arm.kind != STP_ARM_FORCED ||
            lane->is_stopped || lane->in_place || lane->graph ||
            !(gain >= most[1]))
            continue;
        rivals[1] = is_second ? i : rivals[0];
        most[1] = is_second ? gain : most[0];
        rivals[0] = is_second ? rivals[0] : i;
        most[0] = fmax(gain, most[0]);
    }
    if (rivals[1] == r->n_lanes)
        return false;
    g = rounds_get_gain(r, rivals[1],
                        &r->data->rows[r->lanes[rivals[0]].row].arm);
    return g.high > 1 &&
           (r->n_until < r->terms.most || g.high > least || g.gain * least < 1);
}

/* Stops lanes of which enough is known; false if that is all of them. A plugin
 * that ran as AUTO is nothing to measure, but goes on beside others. */
static bool rounds_stop_lanes(struct stp_rounds *r)
{
    const struct stp_measurement *base = &r->data->rows[r->first];
    size_t rivals[2] = {0};
    const bool has_rivals =
        r->n_until >= r->rounds && rounds_find_rivals(r, rivals);
    bool any_goes_on = false;

    for (size_t i = 0; i < r->n_lanes; i++) {
        struct stp_rounds_lane *lane = &r->lanes[i];
        const struct stp_measurement *m = &r->data->rows[lane->row];
        const bool is_policy = m->arm.kind == STP_ARM_PLUGIN;
        const struct stp_gain g = rounds_get_gain(r, i, &own);

        if (m->arm.kind == STP_ARM_AUTO || m->arm.kind == STP_ARM_AUTO_AGAIN ||
            (is_policy && m->ran_algo >= 0 && m->ran_algo == base->ran_algo &&
             m->ran_proto == base->ran_proto &&
             m->ran_channels == base->ran_channels))
            continue;
        if (r->n_until == r->terms.few)
            lane->is_stopped |=
                !is_policy && g.n_pairs > 1 && g.high < 1 + r->terms.min_gain;
        if (r->n_until >= r->rounds)
            lane->is_stopped |=
                !rounds_is_unsure(r, lane, &g, r->n_until == r->terms.most) &&
                !(has_rivals && (i == rivals[0] || i == rivals[1]));
        any_goes_on |= !lane->is_stopped;
    }
    return any_goes_on;
}

/* Has arms that stopped run again if those of their rounds that were not
 * disturbed are too few for what they promise; false if there are none. */
static bool rounds_resume_lanes(struct stp_rounds *r)
{
    bool any = false;

    for (size_t i = 0; i < r->n_lanes; i++) {
        struct stp_rounds_lane *lane = &r->lanes[i];
        struct stp_gain g;

        if (!lane->is_stopped) /* as none where rounds are too many to note */
            continue;
        g = rounds_get_gain(r, i, &own);
        lane->is_resumed =
            g.n_pairs < 2 ||
            (g.n_pairs < r->rounds && rounds_is_unsure(r, lane, &g, false));
        any |= lane->is_resumed;
    }
    return any;
}

/* ---- the rounds of a setting ---- */

unsigned stp_rounds_spare(unsigned rounds)
{
    return rounds / 2 > 3 ? rounds / 2 : 3;
}

void stp_rounds_begin(unsigned rounds, const struct stp_rounds_terms *terms,
                      const struct stp_device_info *info,
                      struct stp_dataset *data, struct stp_rounds *r)
{
    const unsigned n_spare =
        stp_rounds_spare(rounds) + (info->max_rounds > 0 ? rounds : 0);
    const bool is_long =
        (rounds > terms->most ? rounds : 2 * terms->most) + 2 * n_spare >
        STP_ROUNDS_MOST;

    memset(r, 0, sizeof(*r));
    r->terms = *terms;
    r->rounds = rounds;
    r->n_spare = n_spare;
    if (info->max_rounds > 0 || terms->few >= rounds || is_long)
        r->terms.few = 0;
    if (info->max_rounds > 0 || terms->most < rounds || is_long)
        r->terms.most = rounds;
    r->repeats = info->repeats_rounds && !is_long;
    r->is_recorded = info->max_rounds > 0;
    r->data = data;
    r->first = r->n_seen = data->n_rows;
    r->n_until = r->terms.few > 0 ? 1 : rounds;
}

bool stp_rounds_next(struct stp_rounds *r, unsigned *round_ret,
                     unsigned *at_ret)
{
    const struct stp_rounds_terms *t = &r->terms;
    const unsigned most = t->most > r->rounds ? 2 * t->most : t->most;

    for (; r->n_seen < r->data->n_rows; r->n_seen++) { /* lanes that are new */
        const struct stp_measurement *m = &r->data->rows[r->n_seen];

        if (rounds_find_row(r, m) == r->n_lanes &&
            r->n_lanes < STP_ROUNDS_LANES)
            r->lanes[r->n_lanes++] = (struct stp_rounds_lane){
                .row = r->n_seen, .in_place = m->in_place, .graph = m->graph};
    }
    for (;;) {
        const unsigned n_wanted = r->n_until + r->n_more;
        bool goes_on, resumes;

        if (r->n_run < n_wanted || (rounds_count_good(r) < n_wanted &&
                                    r->n_run < n_wanted + r->n_spare)) {
            bool is_there[STP_ROUNDS_MOST] = {false};
            unsigned at = 0;

            *round_ret = *at_ret = r->n_run++;
            if (!r->repeats)
                return true;
            for (unsigned k = 0; k < *round_ret; k++)
                is_there[r->at[k]] |= !r->is_disturbed[k];
            while (is_there[at])
                at++;
            if (r->is_recorded && at >= r->rounds) /* all are */
                at = *round_ret % r->rounds;
            *at_ret = at;
            for (unsigned k = 0; k < *round_ret; k++)
                if (r->at[k] == at)
                    *at_ret = at + r->rounds;
            r->at[*round_ret] = at;
            return true;
        }
        goes_on = r->n_until != most && rounds_stop_lanes(r);
        resumes = rounds_resume_lanes(r) && r->n_more < r->n_spare;
        if (!goes_on && !resumes)
            return false;
        if (goes_on) {
            r->n_until = r->n_until < t->few      ? t->few
                         : r->n_until < r->rounds ? r->rounds
                         : r->n_until < t->most   ? t->most
                                                  : most;
        } else {
            r->n_more++;
        }
    }
}

bool stp_rounds_has(const struct stp_rounds *r, const struct stp_arm *arm,
                    bool in_place, bool graph)
{
    const size_t lane = rounds_find_lane(r, arm, in_place, graph);

    return lane == r->n_lanes || !r->lanes[lane].is_stopped ||
           r->lanes[lane].is_resumed;
}

void stp_rounds_end(struct stp_rounds *r, double *samples, size_t *n_samples)
{
    unsigned number[STP_ROUNDS_MOST], n = 0;
    size_t n_rows = r->first, n_kept = 0, at = 0;

    if (!r->repeats)
        return;
    for (unsigned k = 0; k < r->n_run; k++)
        n += !r->is_disturbed[k];
    r->data->n_again += r->n_run > r->n_until ? r->n_run - r->n_until : 0;
    for (unsigned k = 0; k < r->n_run && r->terms.is_exact && n < r->n_until;
         k++) {
        r->data->n_disturbed += r->is_disturbed[k];
        n += r->is_disturbed[k];
        r->is_disturbed[k] = false;
    }
    if (n < 2 || 2 * n < r->rounds) {
        r->data->n_disturbed += r->n_run - n;
        return;
    }
    n = 0;
    for (unsigned k = 0; k < r->n_run; k++) {
        r->is_disturbed[k] |= n == r->n_until + r->n_more; /* not needed */
        number[k] = n;
        n += !r->is_disturbed[k];
    }
    for (size_t i = r->first; i < r->data->n_rows; i++) {
        struct stp_measurement m = r->data->rows[i];

        if (!r->is_disturbed[m.round]) {
            if (samples != NULL)
                memmove(samples + n_kept, samples + at,
                        m.iters * sizeof(*samples));
            n_kept += m.iters;
            m.round = number[m.round];
            r->data->rows[n_rows++] = m;
        }
        at += m.iters;
    }
    r->data->n_rows = n_rows;
    if (n_samples != NULL)
        *n_samples -= at - n_kept;
}
