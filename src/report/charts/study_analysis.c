/* study_analysis.c - the study's sentences */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/bandwidth.h"
#include "report/charts/plot_parts.h"
#include "report/charts/study.h"

/* Of its peak, bandwidth is said to be saturated from there on. */
#define SATURATED 0.9

/* 'digits' digits, as people write numbers: 1200 and not 1.2e+03. */
static int digits_behind(double value, int digits)
{
    double size = fabs(value);

    while (size >= 10 && digits > 1) {
        size /= 10;
        digits--;
    }
    return digits - 1;
}

struct stp_bandwidth_peak stp_bandwidth_peak(const struct stp_curve *curve)
{
    struct stp_bandwidth_peak peak = {0};

    for (size_t i = 0; i < curve->n_points; i++) {
        const struct stp_curve_point *p = &curve->points[i];
        double gbps = stp_busbw(curve->like.coll, curve->like.n_ranks,
                                p->n_bytes, p->us.mean);

        if (gbps > peak.gbps || i == 0) {
            peak.gbps = gbps;
            peak.n_bytes = p->n_bytes;
        }
    }
    for (size_t i = 0; i < curve->n_points; i++) {
        const struct stp_curve_point *p = &curve->points[i];

        if (peak.saturated == 0 &&
            stp_busbw(curve->like.coll, curve->like.n_ranks, p->n_bytes,
                      p->us.mean) >= SATURATED * peak.gbps)
            peak.saturated = p->n_bytes;
    }
    return peak;
}

/* ---- the fastest backend ---- */

/* How one series compares with another where both were measured. */
struct match {
    double log_ratio; /* sum of log(other's time / its time) */
    size_t n;
    size_t n_faster;
};

static void match_points(const struct stp_curve *a, const struct stp_curve *b,
                         struct match *m)
{
    for (size_t i = 0; i < a->n_points; i++) {
        const struct stp_curve_point *p = &a->points[i];
        const struct stp_curve_point *q = stp_curve_at(b, p->n_bytes);

        if (q == NULL)
            continue;
        m->log_ratio += log(q->us.mean / p->us.mean);
        m->n_faster += q->us.mean > p->us.mean;
        m->n++;
    }
}

static struct match match_series(const struct stp_labelled_set *set,
                                 const char *series, const char *other)
{
    struct match m = {0};

    for (size_t i = 0; i < set->n; i++)
        for (size_t j = 0; j < set->n; j++) {
            const struct stp_labelled *a = &set->all[i];
            const struct stp_labelled *b = &set->all[j];

            if (strcmp(a->series, series) == 0 &&
                strcmp(b->series, other) == 0 &&
                a->curve->like.n_ranks == b->curve->like.n_ranks)
                match_points(a->curve, b->curve, &m);
        }
    return m;
}

/* Whether another series of the same name stands before the i-th curve. */
static bool is_repeated(const struct stp_labelled_set *set, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(set->all[k].series, set->all[i].series) == 0)
            return true;
    return false;
}

/* The curve whose series no other beats; the first of them. */
static size_t find_fastest(const struct stp_labelled_set *set)
{
    size_t best = 0;

    for (size_t i = 1; i < set->n; i++)
        if (match_series(set, set->all[i].series, set->all[best].series)
                .log_ratio > 0)
            best = i;
    return best;
}

static void say_fastest(const struct stp_labelled_set *set, FILE *fp)
{
    size_t best = find_fastest(set);
    const char *name = set->all[best].series;
    bool any = false;

    for (size_t i = 0; i < set->n; i++) {
        struct match m = match_series(set, name, set->all[i].series);

        if (is_repeated(set, i) || strcmp(set->all[i].series, name) == 0 ||
            m.n == 0)
            continue;
        if (any)
            fputs(", and ", fp);
        else
            fprintf(fp, "%s is the fastest: ", name);
        fprintf(
            fp,
            "%.*f times as fast as %s (geometric mean; faster at %zu of %zu "
            "common points)",
            digits_behind(exp(m.log_ratio / (double)m.n), 3),
            exp(m.log_ratio / (double)m.n), set->all[i].series, m.n_faster,
            m.n);
        any = true;
    }
    if (any)
        fputs(".\n", fp);
}

/* ---- size ---- */

/* The widest curve of the most processes, which has the most to say. */
static const struct stp_labelled *
find_widest(const struct stp_labelled_set *set)
{
    const struct stp_labelled *best = &set->all[0];
    double best_span = 0;

    for (size_t i = 0; i < set->n; i++) {
        const struct stp_curve *c = set->all[i].curve;
        double span = log((double)c->points[c->n_points - 1].n_bytes /
                          (double)c->points[0].n_bytes);

        if (span > best_span) {
            best_span = span;
            best = &set->all[i];
        }
    }
    return best;
}

/* Three digits, in a unit that suits them. */
static void time_text(double us, char text[32])
{
    if (us < 1e3)
        snprintf(text, 32, "%.3g us", us);
    else if (us < 1e6)
        snprintf(text, 32, "%.3g ms", us / 1e3);
    else
        snprintf(text, 32, "%.3g s", us / 1e6);
}

static void say_size(const struct stp_labelled_set *set, FILE *fp)
{
    const struct stp_labelled *l = find_widest(set);
    const struct stp_curve_point *first = &l->curve->points[0];
    const struct stp_curve_point *last =
        &l->curve->points[l->curve->n_points - 1];
    char from[32], to[32], from_us[32], to_us[32];

    stp_size_text(first->n_bytes, from);
    stp_size_text(last->n_bytes, to);
    time_text(first->us.mean, from_us);
    time_text(last->us.mean, to_us);
    if (first == last)
        fprintf(fp, "%s with %u processes takes %s for %s.\n", l->series,
                l->curve->like.n_ranks, to_us, to);
    else
        fprintf(fp,
                "From %s to %s the time of %s with %u processes grows from %s "
                "to %s, %.*f times for %.0f times the data.\n",
                from, to, l->series, l->curve->like.n_ranks, from_us, to_us,
                digits_behind(last->us.mean / first->us.mean, 3),
                last->us.mean / first->us.mean,
                (double)last->n_bytes / (double)first->n_bytes);
}

/* ---- processes ---- */

/* The largest size that both have. */
static uint64_t common_size(const struct stp_curve *a,
                            const struct stp_curve *b)
{
    for (size_t i = a->n_points; i-- > 0;)
        if (stp_curve_at(b, a->points[i].n_bytes) != NULL)
            return a->points[i].n_bytes;
    return 0;
}

/* The curve of that series with the fewest or the most processes. */
static const struct stp_curve *extreme(const struct stp_labelled_set *set,
                                       const char *series, bool most)
{
    const struct stp_curve *best = NULL;

    for (size_t i = 0; i < set->n; i++) {
        const struct stp_curve *c = set->all[i].curve;

        if (strcmp(set->all[i].series, series) == 0 &&
            (best == NULL || (most ? c->like.n_ranks > best->like.n_ranks
                                   : c->like.n_ranks < best->like.n_ranks)))
            best = c;
    }
    return best;
}

static void say_processes(const struct stp_labelled_set *set, FILE *fp)
{
    bool any = false;

    for (size_t i = 0; i < set->n; i++) {
        const char *series = set->all[i].series;
        const struct stp_curve *few = extreme(set, series, false);
        const struct stp_curve *many = extreme(set, series, true);
        uint64_t size = common_size(few, many);
        double ratio;
        char name[32];

        if (is_repeated(set, i) || few->like.n_ranks == many->like.n_ranks ||
            size == 0)
            continue;
        stp_size_text(size, name);
        ratio = stp_curve_at(many, size)->us.mean /
                stp_curve_at(few, size)->us.mean;
        fprintf(fp, "%s%u to %u processes, %s takes %.*f times as long for %s",
                any ? "; from " : "From ", few->like.n_ranks,
                many->like.n_ranks, series, digits_behind(ratio, 3), ratio,
                name);
        any = true;
    }
    if (any)
        fputs(".\n", fp);
}

/* ---- saturation and noise ---- */

static void say_saturation(const struct stp_labelled_set *set, FILE *fp)
{
    bool any = false;

    for (size_t i = 0; i < set->n; i++) {
        const struct stp_curve *c = extreme(set, set->all[i].series, true);
        struct stp_bandwidth_peak peak = stp_bandwidth_peak(c);
        char from[32], at[32];

        if (is_repeated(set, i))
            continue;
        stp_size_text(peak.saturated, from);
        stp_size_text(peak.n_bytes, at);
        fprintf(fp,
                "%s%s with %u processes peaks at %.4g GB/s (%s) and is within "
                "%.0f percent of that from %s on",
                any ? "; " : "Bus bandwidth: ", set->all[i].series,
                c->like.n_ranks, peak.gbps, at, (1 - SATURATED) * 100, from);
        any = true;
    }
    fputs(".\n", fp);
}

/* The noise of every point that has several rounds. */
struct noise {
    double *values;
    size_t n;
    const struct stp_labelled *noisiest;
    const struct stp_curve_point *where;
};

static void add_noise(struct noise *noise, const struct stp_labelled *l)
{
    for (size_t i = 0; i < l->curve->n_points; i++) {
        const struct stp_curve_point *p = &l->curve->points[i];

        if (p->n_rounds < 2)
            continue;
        noise->values[noise->n++] = p->noise;
        if (noise->where == NULL || p->noise > noise->where->noise) {
            noise->where = p;
            noise->noisiest = l;
        }
    }
}

static enum stp_status say_noise(const struct stp_labelled_set *set, FILE *fp,
                                 struct stp_error *err)
{
    struct noise noise = {0};
    struct stp_summary s;
    char size[32];
    size_t n = 0;

    for (size_t i = 0; i < set->n; i++)
        n += set->all[i].curve->n_points;
    noise.values = calloc(n + 1, sizeof(*noise.values));
    if (noise.values == NULL)
        return stp_nomem(err);
    for (size_t i = 0; i < set->n; i++)
        add_noise(&noise, &set->all[i]);
    if (noise.n > 0) {
        stp_summarise(noise.values, noise.n, &s);
        stp_size_text(noise.where->n_bytes, size);
        fprintf(fp,
                "Rounds scatter by %.*f percent of their mean (standard "
                "deviation, median over all points), at worst by %.*f percent "
                "(%s with %u processes, %s).\n",
                digits_behind(s.median * 100, 2), s.median * 100,
                digits_behind(noise.where->noise * 100, 2),
                noise.where->noise * 100, noise.noisiest->series,
                noise.noisiest->curve->like.n_ranks, size);
    }
    free(noise.values);
    return STP_OK;
}

enum stp_status stp_study_write_analysis(const struct stp_curves *curves,
                                         FILE *fp, struct stp_error *err)
{
    struct stp_labelled_set set;
    enum stp_status status = stp_pick_study(curves, &set, err);

    if (status != STP_OK)
        return status;
    if (set.n > 0) {
        say_fastest(&set, fp);
        say_size(&set, fp);
        say_processes(&set, fp);
        say_saturation(&set, fp);
        status = say_noise(&set, fp, err);
    }
    stp_labelled_free(&set);
    return status;
}
