/* plot_journal.c - plots of journals, and time lost while learning */
#include "report/learning/plot_journal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/names.h"
#include "report/charts/plot_parts.h"
#include "report/learning/plot_journal_parts.h"

enum {
    MAX_POINTS = 1000, /* of a curve */
    FEW_TIMES = 3,     /* of an arm, that its mean says something */
};

/* ---- keys ---- */

struct stp_busiest stp_find_busiest(const struct stp_learning *learning,
                                    size_t max)
{
    struct stp_busiest b = {.n = 0};

    for (size_t i = 0; i < learning->n; i++) {
        const struct stp_learning_key *key = &learning->keys[i];
        size_t at = b.n;

        if (key->n_times == 0)
            continue;
        b.n_all++;
        while (at > 0 && b.keys[at - 1]->n_times < key->n_times)
            at--;
        if (at == max)
            continue;
        b.n += b.n < max;
        memmove(&b.keys[at + 1], &b.keys[at],
                (b.n - at - 1) * sizeof(b.keys[0]));
        b.keys[at] = key;
    }
    return b;
}

void stp_journal_title(const struct stp_journal_plot *plot, const char *what,
                       const struct stp_busiest *shown,
                       char title[STP_LABEL * 2])
{
    char some[80] = "";

    if (shown->n < shown->n_all)
        snprintf(some, sizeof(some), " (the busiest %zu of %zu messages)",
                 shown->n, shown->n_all);
    snprintf(title, STP_LABEL * 2, "%s%s%s%s",
             plot->title != NULL ? plot->title : "",
             plot->title != NULL ? ": " : "", what, some);
}

void stp_journal_key_label(const struct stp_learning_key *key,
                           char text[STP_JOURNAL_LABEL])
{
    char from[32], to[32];

    stp_size_name(key->bytes.min, from);
    stp_size_name(key->bytes.max + 1, to);
    snprintf(text, STP_JOURNAL_LABEL, "%s, %s to %s, %" PRIu64 " ranks",
             stp_coll_name(key->coll), from, to, key->n_ranks);
}

size_t stp_journal_best(const struct stp_learning_key *key)
{
    size_t best = key->n_arms;

    if (key->is_settled)
        best = stp_learning_find_arm(key, &key->with);
    if (best < key->n_arms)
        return best;
    for (size_t i = 0; i < key->n_arms; i++)
        if ((key->arms[i].n >= FEW_TIMES || key->n_arms == 1) &&
            (best == key->n_arms || key->arms[i].mean < key->arms[best].mean))
            best = i;
    return best;
}

/* ---- time lost ---- */

/* A curve as its lines go by. */
struct regret {
    const struct stp_learning_key *key;
    size_t best;
    double lost;
    double next_us; /* no point before it */
};

struct span {
    double first_us;
    double last_us;
};

static struct span find_span(const struct stp_journal_lines *lines)
{
    struct span s = {INFINITY, 0};

    for (size_t i = 0; i < lines->n; i++) {
        s.first_us = fmin(s.first_us, lines->all[i].t_us);
        s.last_us = fmax(s.last_us, lines->all[i].t_us);
    }
    return s;
}

/* What its arm takes on average more than the best one: what single times vary
 * by is neither lost nor won. */
static double lost_by(const struct regret *r,
                      const struct stp_journal_line *line)
{
    size_t arm = stp_learning_find_arm(r->key, &line->arm);

    return arm < r->key->n_arms && r->best < r->key->n_arms
               ? r->key->arms[arm].mean - r->key->arms[r->best].mean
               : 0.0;
}

static void write_point(const struct span *span, double t_us, double lost,
                        FILE *fp)
{
    fprintf(fp, "%.6g %.6g\n", (t_us - span->first_us) / 1e6, lost / 1e3);
}

static void write_curve(const struct stp_journal_plot *plot,
                        const struct span *span, struct regret *r, FILE *fp)
{
    double apart_us = (span->last_us - span->first_us) / MAX_POINTS;

    write_point(span, span->first_us, 0, fp);
    for (size_t i = 0; i < plot->lines->n; i++) {
        const struct stp_journal_line *line = &plot->lines->all[i];

        if (line->kind != STP_LEARN_REWARD ||
            stp_learning_find(plot->learning, line) != r->key)
            continue;
        r->lost += lost_by(r, line);
        if (line->t_us < r->next_us)
            continue;
        write_point(span, line->t_us, r->lost, fp);
        r->next_us = line->t_us + apart_us;
    }
    write_point(span, span->last_us, r->lost, fp);
}

/* Where the key settled first; returns whether it did. */
static bool write_settled(const struct stp_journal_plot *plot,
                          const struct span *span, struct regret *r, FILE *fp)
{
    r->lost = 0;
    for (size_t i = 0; i < plot->lines->n; i++) {
        const struct stp_journal_line *line = &plot->lines->all[i];

        if (stp_learning_find(plot->learning, line) != r->key)
            continue;
        if (line->kind == STP_LEARN_REWARD)
            r->lost += lost_by(r, line);
        if (line->kind != STP_LEARN_SETTLED)
            continue;
        write_point(span, line->t_us, r->lost, fp);
        return true;
    }
    return false;
}

static void write_data(const struct stp_journal_plot *plot,
                       const struct stp_busiest *b,
                       bool has_settled[STP_JOURNAL_CURVES], FILE *fp)
{
    const struct span span = find_span(plot->lines);

    for (size_t i = 0; i < b->n; i++) {
        struct regret r = {.key = b->keys[i],
                           .best = stp_journal_best(b->keys[i])};

        fprintf(fp, "$d%zu << EOD\n", i);
        write_curve(plot, &span, &r, fp);
        fprintf(fp, "EOD\n$s%zu << EOD\n", i);
        has_settled[i] = write_settled(plot, &span, &r, fp);
        fputs("EOD\n", fp);
    }
}

/* ---- scripts ---- */

static void write_title(const struct stp_journal_plot *plot,
                        const struct stp_busiest *shown, FILE *fp)
{
    char title[STP_LABEL * 2];

    stp_journal_title(plot, "Time lost while learning", shown, title);
    fputs("set title ", fp);
    stp_gnuplot_quote(title, fp);
    fputs(" font ',15'\n", fp);
}

enum stp_status stp_write_regret(const struct stp_journal_plot *plot, FILE *fp,
                                 struct stp_error *err)
{
    struct stp_busiest b = stp_find_busiest(plot->learning, STP_JOURNAL_CURVES);
    bool has_settled[STP_JOURNAL_CURVES] = {false};
    bool any_settled = false;

    (void)err;
    write_title(plot, &b, fp);
    stp_plot_write_rules(plot->source, fp);
    fputs("set xrange [0:*]\nset xlabel 'Time since the first line (s)'\n"
          "set ylabel 'Time lost against the best choice (ms)'\n",
          fp);
    write_data(plot, &b, has_settled, fp);
    fputs("plot 0 with lines linecolor rgb '#666666' notitle", fp);
    for (size_t i = 0; i < b.n; i++) {
        char label[STP_JOURNAL_LABEL];

        stp_journal_key_label(b.keys[i], label);
        fprintf(fp,
                ", \\\n     $d%zu with steps linecolor rgb '%s' linewidth 2 "
                "title ",
                i, stp_plot_colour(i + 1));
        stp_gnuplot_quote(label, fp);
        any_settled |= has_settled[i];
        if (has_settled[i])
            fprintf(fp,
                    ", \\\n     $s%zu with points pointtype 7 pointsize 1.5 "
                    "linecolor rgb '%s' notitle",
                    i, stp_plot_colour(i + 1));
    }
    if (any_settled)
        fputs(", \\\n     NaN with points pointtype 7 pointsize 1.5 linecolor "
              "rgb '#666666' title 'settled'",
              fp);
    fputc('\n', fp);
    return STP_OK;
}

static const struct {
    const char *name;
    enum stp_status (*write)(const struct stp_journal_plot *plot, FILE *fp,
                             struct stp_error *err);
} kinds[STP_N_JOURNAL_PLOTS] = {
    [STP_JOURNAL_REGRET] = {"journal_regret", stp_write_regret},
    [STP_JOURNAL_ARMS] = {"journal_arms", stp_write_arms},
};

const char *stp_journal_plot_name(enum stp_journal_plot_kind kind)
{
    return kinds[kind].name;
}

bool stp_journal_plot_has(const struct stp_journal_plot *plot)
{
    return stp_find_busiest(plot->learning, 1).n > 0;
}

enum stp_status stp_journal_plot_write(const struct stp_journal_plot *plot,
                                       enum stp_journal_plot_kind kind,
                                       enum stp_plot_format format, FILE *fp,
                                       struct stp_error *err)
{
    stp_gnuplot_begin(format, STP_PLOT_WIDTH, STP_PLOT_HEIGHT, fp);
    return kinds[kind].write(plot, fp, err);
}

enum stp_status stp_journal_plot_save(const struct stp_journal_plot *plot,
                                      enum stp_journal_plot_kind kind,
                                      enum stp_plot_format format,
                                      const char *gnuplot, const char *path,
                                      struct stp_error *err)
{
    FILE *script = NULL;
    enum stp_status status = stp_gnuplot_script(&script, err);

    if (status != STP_OK)
        return status;
    status = stp_journal_plot_write(plot, kind, format, script, err);
    if (status == STP_OK)
        status = stp_gnuplot_run(gnuplot, script, path, err);
    fclose(script);
    return status;
}
