#include "report/learning/plot_journal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "report/charts/labels.h"
#include "report/words.h"

extern const char stp_regret_gp[];
extern const char stp_arms_gp[];

enum {
    CURVES = 7,
    PANELS = 4,
    MAX_POINTS = 1000, /* of a curve */
    FEW_TIMES = 3,     /* of an arm, from which its mean counts */
    WINDOWS = 100,
    LAYERS = 8, /* the last one is of all other arms */
    KEY_LABEL = 96,
};

/* The messages with the most times, most first. */
struct journal_busiest {
    const struct stp_learning_key *keys[CURVES];
    size_t n;
    size_t n_all; /* that have times */
};

/* ---- messages ---- */

static struct journal_busiest
journal_find_busiest(const struct stp_learning *learning, size_t max)
{
    struct journal_busiest b = {.n = 0};

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

/* "allgather, 4M to 5M, 4 ranks". */
static void journal_key_label(const struct stp_learning_key *key,
                              char text[KEY_LABEL])
{
    char from[32], to[32];

    stp_size_name(key->bytes.min, from);
    stp_size_name(key->bytes.max + 1, to);
    snprintf(text, KEY_LABEL, "%s, %s to %s, %" PRIu64 " ranks",
             stp_coll_name(key->coll), from, to, key->n_ranks);
}

/* The best arm as known at the end: the arm that the message settled with, else
 * the arm with the lowest mean among those with a few times; n_arms if there is
 * none. */
static size_t journal_best(const struct stp_learning_key *key)
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

/* Begins the chart of these messages, with their labels as titles. */
static enum stp_status
journal_begin_chart(const struct stp_journal_plot *plot,
                    const struct journal_busiest *b, const char *heading,
                    const char *template, const char *columns,
                    struct stp_chart *chart_ret, struct stp_error *err)
{
    enum stp_status status =
        stp_chart_begin(&template, 1, columns, chart_ret, err);
    char title[STP_LABEL * 2];
    char some[80] = "";

    if (status != STP_OK)
        return status;
    if (b->n < b->n_all)
        snprintf(some, sizeof(some), " (the busiest %zu of %zu messages)", b->n,
                 b->n_all);
    snprintf(title, sizeof(title), "%s%s%s%s",
             plot->title != NULL ? plot->title : "",
             plot->title != NULL ? ": " : "", heading, some);
    stp_chart_text(chart_ret, "title", title);
    stp_chart_text(chart_ret, "source", plot->source);
    stp_chart_set(chart_ret, "n = %zu", b->n);
    stp_chart_arrays(chart_ret, b->n, "titles");
    for (size_t i = 0; i < b->n; i++) {
        char label[KEY_LABEL];

        journal_key_label(b->keys[i], label);
        stp_chart_text_at(chart_ret, "titles", i, label);
    }
    return STP_OK;
}

/* ---- time lost ---- */

/* The time lost on a message, line by line of the journal. */
struct journal_regret {
    const struct stp_learning_key *key;
    size_t best;
    double lost;
    double next_us; /* no point before it */
};

struct journal_span {
    double first_us;
    double last_us;
};

static struct journal_span
journal_find_span(const struct stp_journal_lines *lines)
{
    struct journal_span s = {INFINITY, 0};

    for (size_t i = 0; i < lines->n; i++) {
        s.first_us = fmin(s.first_us, lines->all[i].t_us);
        s.last_us = fmax(s.last_us, lines->all[i].t_us);
    }
    return s;
}

/* The difference of the means of the line's arm and of the best arm: noise of
 * single times is neither lost nor won. */
static double journal_lost_by(const struct journal_regret *r,
                              const struct stp_journal_line *line)
{
    size_t arm = stp_learning_find_arm(r->key, &line->arm);
    double n = line->kind == STP_LEARN_BLOCK ? STP_BLOCK_WINDOWS / 2.0 : 1.0;

    return arm < r->key->n_arms && r->best < r->key->n_arms
               ? n * (r->key->arms[arm].mean - r->key->arms[r->best].mean)
               : 0.0;
}

static bool journal_is_time(const struct stp_journal_line *line)
{
    return line->kind == STP_LEARN_REWARD || line->kind == STP_LEARN_BLOCK;
}

static void journal_write_point(const struct journal_span *span,
                                const struct journal_regret *r, double t_us,
                                bool settled, struct stp_chart *chart)
{
    char label[KEY_LABEL];

    journal_key_label(r->key, label);
    fprintf(chart->data, "%s\t%.6g\t%.6g\t%d\n", label,
            (t_us - span->first_us) / 1e6, r->lost / 1e3, settled);
}

/* The time lost over time, with the point at which the message first settled;
 * returns whether it did. */
static bool journal_write_curve(const struct stp_journal_plot *plot,
                                struct journal_regret *r,
                                struct stp_chart *chart)
{
    const struct journal_span span = journal_find_span(plot->lines);
    const double apart_us = (span.last_us - span.first_us) / MAX_POINTS;
    bool settled = false;

    journal_write_point(&span, r, span.first_us, false, chart);
    for (size_t i = 0; i < plot->lines->n; i++) {
        const struct stp_journal_line *line = &plot->lines->all[i];
        const bool settles = line->kind == STP_LEARN_SETTLED && !settled;

        if (stp_learning_find(plot->learning, line) != r->key)
            continue;
        if (journal_is_time(line))
            r->lost += journal_lost_by(r, line);
        if (!settles && (!journal_is_time(line) || line->t_us < r->next_us))
            continue;
        journal_write_point(&span, r, line->t_us, settles, chart);
        settled |= settles;
        r->next_us = line->t_us + apart_us;
    }
    journal_write_point(&span, r, span.last_us, false, chart);
    return settled;
}

static enum stp_status journal_make_regret(const struct stp_journal_plot *plot,
                                           struct stp_chart *chart_ret,
                                           struct stp_error *err)
{
    const struct journal_busiest b =
        journal_find_busiest(plot->learning, CURVES);
    enum stp_status status = journal_begin_chart(
        plot, &b, "Time lost while learning", stp_regret_gp,
        "message\tseconds\tlost_ms\tsettled", chart_ret, err);
    size_t n_settled = 0;

    if (status != STP_OK)
        return status;
    stp_chart_arrays(chart_ret, b.n, "settled");
    stp_chart_set(chart_ret, "settled[1] = 1");
    for (size_t i = 0; i < b.n; i++) {
        struct journal_regret r = {.key = b.keys[i],
                                   .best = journal_best(b.keys[i])};

        stp_chart_block(chart_ret);
        if (journal_write_curve(plot, &r, chart_ret))
            stp_chart_set(chart_ret, "settled[%zu] = %zu", ++n_settled, i + 1);
    }
    stp_chart_set(chart_ret, "n_settled = %zu", n_settled);
    return STP_OK;
}

/* ---- shares of arms ---- */

/* Arms by their number of times in all panels: an arm has the same colour in
 * each.  NCCL's own choice is the first. */
struct journal_layers {
    struct stp_learning_arm arms[PANELS * STP_BANDIT_ARMS];
    size_t n_arms;
    size_t n; /* arms that have a layer of their own */
};

/* The number of each layer's times in each window of calls of the communicator.
 */
struct journal_panel {
    uint64_t counts[WINDOWS][LAYERS];
};

static size_t journal_find_arm(const struct journal_layers *l,
                               const struct stp_bandit_arm *arm)
{
    size_t i = 0;

    while (i < l->n_arms && (l->arms[i].arm.algo != arm->algo ||
                             l->arms[i].arm.proto != arm->proto ||
                             l->arms[i].arm.n_channels != arm->n_channels))
        i++;
    return i;
}

static size_t journal_layer_of(const struct journal_layers *l,
                               const struct stp_bandit_arm *arm)
{
    size_t i = journal_find_arm(l, arm);

    return i < l->n ? i : LAYERS - 1;
}

static int journal_order_arms(const void *pa, const void *pb)
{
    const struct stp_learning_arm *a = pa;
    const struct stp_learning_arm *b = pb;

    return (a->n < b->n) - (a->n > b->n);
}

static void journal_make_layers(const struct journal_busiest *b,
                                struct journal_layers *l)
{
    l->arms[0] = (struct stp_learning_arm){.arm = {.algo = -1, .proto = -1}};
    l->n_arms = 1;
    for (size_t k = 0; k < b->n; k++)
        for (size_t i = 0; i < b->keys[k]->n_arms; i++) {
            const struct stp_learning_arm *arm = &b->keys[k]->arms[i];
            size_t at = journal_find_arm(l, &arm->arm);

            if (at == l->n_arms)
                l->arms[l->n_arms++] =
                    (struct stp_learning_arm){.arm = arm->arm};
            l->arms[at].n += arm->n;
        }
    qsort(l->arms + 1, l->n_arms - 1, sizeof(l->arms[0]), journal_order_arms);
    l->n = l->n_arms <= LAYERS ? l->n_arms : LAYERS - 1;
}

static uint64_t journal_last_call(const struct stp_journal_lines *lines)
{
    uint64_t last = 0;

    for (size_t i = 0; i < lines->n; i++)
        if (lines->all[i].call > last)
            last = lines->all[i].call;
    return last;
}

/* Counts the arm in force in windows without times, as after all settled. */
static void journal_fill_gaps(const size_t in_force[WINDOWS],
                              struct journal_panel *panel)
{
    size_t now = 0; /* NCCL's own */

    for (size_t w = 0; w < WINDOWS; w++) {
        uint64_t n = 0;

        for (size_t i = 0; i < LAYERS; i++)
            n += panel->counts[w][i];
        if (in_force[w] < LAYERS)
            now = in_force[w];
        if (n == 0)
            panel->counts[w][now] = 1;
    }
}

static void journal_count_calls(const struct stp_journal_plot *plot,
                                const struct stp_learning_key *key,
                                const struct journal_layers *l, uint64_t width,
                                struct journal_panel *panel)
{
    size_t in_force[WINDOWS]; /* at the end of each; LAYERS: as before */

    memset(panel, 0, sizeof(*panel));
    for (size_t w = 0; w < WINDOWS; w++)
        in_force[w] = LAYERS;
    for (size_t i = 0; i < plot->lines->n; i++) {
        const struct stp_journal_line *line = &plot->lines->all[i];
        size_t w = (size_t)(line->call / width);

        if (stp_learning_find(plot->learning, line) != key)
            continue;
        if (journal_is_time(line))
            panel->counts[w][journal_layer_of(l, &line->arm)]++;
        if (line->kind == STP_LEARN_INCUMBENT ||
            line->kind == STP_LEARN_SETTLED)
            in_force[w] = journal_layer_of(l, &line->arm);
    }
    journal_fill_gaps(in_force, panel);
}

/* Each layer on top of those before it, in percent, from where the window
 * begins. */
static void journal_write_panel(const struct stp_learning_key *key,
                                const struct journal_panel *panel,
                                const struct journal_layers *l, uint64_t width,
                                size_t n_layers, struct stp_chart *chart)
{
    char label[KEY_LABEL];

    journal_key_label(key, label);
    stp_chart_block(chart);
    for (size_t w = 0; w <= WINDOWS; w++) {
        const uint64_t *counts = panel->counts[w < WINDOWS ? w : w - 1];
        uint64_t total = 0, sum = 0;

        for (size_t i = 0; i < LAYERS; i++)
            total += counts[i];
        fprintf(chart->data, "%s\t%" PRIu64, label, w * width);
        for (size_t i = 0; i < n_layers; i++) {
            sum += counts[i < l->n ? i : LAYERS - 1];
            fprintf(chart->data, "\t%.4g", 100.0 * (double)sum / (double)total);
        }
        fputc('\n', chart->data);
    }
}

/* Sets the names of the layers; returns how many there are. */
static size_t journal_set_layers(const struct journal_layers *l,
                                 struct stp_chart *chart)
{
    const bool others = l->n < l->n_arms;
    const size_t n = l->n + others;

    stp_chart_set(chart, "n_arms = %zu\nothers = %d", n, others);
    stp_chart_arrays(chart, n, "arms");
    stp_chart_text_at(chart, "arms", 0, "NCCL's own");
    for (size_t i = 1; i < l->n; i++) {
        const struct stp_bandit_arm *arm = &l->arms[i].arm;
        char name[STP_RAN_NAME];

        stp_ran_name(arm->algo, arm->proto, arm->n_channels, name);
        stp_chart_text_at(chart, "arms", i, name);
    }
    if (others)
        stp_chart_text_at(chart, "arms", l->n, "others");
    return n;
}

static enum stp_status journal_make_arms(const struct stp_journal_plot *plot,
                                         struct stp_chart *chart_ret,
                                         struct stp_error *err)
{
    const struct journal_busiest b =
        journal_find_busiest(plot->learning, PANELS);
    const uint64_t width = journal_last_call(plot->lines) / WINDOWS + 1;
    struct journal_layers *l = calloc(1, sizeof(*l));
    enum stp_status status = STP_OK;
    struct journal_panel panel;
    size_t n_layers;

    if (l == NULL)
        return stp_nomem(err);
    status = journal_begin_chart(plot, &b, "What ran while it was learned",
                                 stp_arms_gp, "message\tcall\tshares",
                                 chart_ret, err);
    if (status == STP_OK) {
        journal_make_layers(&b, l);
        n_layers = journal_set_layers(l, chart_ret);
        stp_chart_set(chart_ret, "last_call = %.10g",
                      (double)(width * WINDOWS));
        for (size_t k = 0; k < b.n; k++) {
            journal_count_calls(plot, b.keys[k], l, width, &panel);
            journal_write_panel(b.keys[k], &panel, l, width, n_layers,
                                chart_ret);
        }
    }
    free(l);
    return status;
}

/* ---- all plots ---- */

static const struct {
    const char *name;
    enum stp_status (*make)(const struct stp_journal_plot *plot,
                            struct stp_chart *chart_ret, struct stp_error *err);
} kinds[STP_N_JOURNAL_PLOTS] = {
    [STP_JOURNAL_REGRET] = {"journal_regret", journal_make_regret},
    [STP_JOURNAL_ARMS] = {"journal_arms", journal_make_arms},
};

const char *stp_journal_plot_name(enum stp_journal_plot_kind kind)
{
    return kinds[kind].name;
}

bool stp_journal_plot_has(const struct stp_journal_plot *plot)
{
    return journal_find_busiest(plot->learning, 1).n > 0;
}

enum stp_status stp_journal_plot_make(const struct stp_journal_plot *plot,
                                      enum stp_journal_plot_kind kind,
                                      struct stp_chart *chart_ret,
                                      struct stp_error *err)
{
    return kinds[kind].make(plot, chart_ret, err);
}
