/* plot_journal_arms.c - what share of a message's calls each arm had */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "report/charts/plot_parts.h"
#include "report/learning/plot_journal_parts.h"
#include "report/words.h"

enum {
    PANELS = 4,
    WINDOWS = 100,
    LAYERS = 8, /* the last one is of all other arms */
};

/* Arms by how often they ran in all panels: each has one colour.  NCCL's own
 * choice is the first. */
struct layers {
    struct stp_learning_arm arms[PANELS * STP_BANDIT_ARMS];
    size_t n_arms;
    size_t n; /* of these that have a layer of their own */
};

/* How many times each layer had in each window of calls of the communicator. */
struct panel {
    uint64_t counts[WINDOWS][LAYERS];
};

/* ---- layers ---- */

static size_t find_arm(const struct layers *l, const struct stp_bandit_arm *arm)
{
    size_t i = 0;

    while (i < l->n_arms && (l->arms[i].arm.algo != arm->algo ||
                             l->arms[i].arm.proto != arm->proto ||
                             l->arms[i].arm.n_channels != arm->n_channels))
        i++;
    return i;
}

static size_t layer_of(const struct layers *l, const struct stp_bandit_arm *arm)
{
    size_t i = find_arm(l, arm);

    return i < l->n ? i : LAYERS - 1;
}

static int order_arms(const void *pa, const void *pb)
{
    const struct stp_learning_arm *a = pa;
    const struct stp_learning_arm *b = pb;

    return (a->n < b->n) - (a->n > b->n);
}

static void make_layers(const struct stp_busiest *b, struct layers *l)
{
    l->arms[0] = (struct stp_learning_arm){.arm = {.algo = -1, .proto = -1}};
    l->n_arms = 1;
    for (size_t k = 0; k < b->n; k++)
        for (size_t i = 0; i < b->keys[k]->n_arms; i++) {
            const struct stp_learning_arm *arm = &b->keys[k]->arms[i];
            size_t at = find_arm(l, &arm->arm);

            if (at == l->n_arms)
                l->arms[l->n_arms++] =
                    (struct stp_learning_arm){.arm = arm->arm};
            l->arms[at].n += arm->n;
        }
    qsort(l->arms + 1, l->n_arms - 1, sizeof(l->arms[0]), order_arms);
    l->n = l->n_arms <= LAYERS ? l->n_arms : LAYERS - 1;
}

/* ---- windows ---- */

static uint64_t last_call(const struct stp_journal_lines *lines)
{
    uint64_t last = 0;

    for (size_t i = 0; i < lines->n; i++)
        if (lines->all[i].call > last)
            last = lines->all[i].call;
    return last;
}

/* What is in force while nothing is timed, as when all has settled. */
static void fill_gaps(const size_t in_force[WINDOWS], struct panel *panel)
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

static void count(const struct stp_journal_plot *plot,
                  const struct stp_learning_key *key, const struct layers *l,
                  uint64_t width, struct panel *panel)
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
        if (line->kind == STP_LEARN_REWARD)
            panel->counts[w][layer_of(l, &line->arm)]++;
        if (line->kind == STP_LEARN_TRIAL || line->kind == STP_LEARN_BACK ||
            line->kind == STP_LEARN_BLOCK || line->kind == STP_LEARN_SETTLED)
            in_force[w] = layer_of(l, &line->arm);
    }
    fill_gaps(in_force, panel);
}

/* Each layer on top of those before it, in percent, from where the window
 * begins. */
static void write_data(size_t k, const struct panel *panel, uint64_t width,
                       FILE *fp)
{
    fprintf(fp, "$d%zu << EOD\n", k);
    for (size_t w = 0; w <= WINDOWS; w++) {
        const uint64_t *counts = panel->counts[w < WINDOWS ? w : w - 1];
        uint64_t total = 0, sum = 0;

        for (size_t i = 0; i < LAYERS; i++)
            total += counts[i];
        fprintf(fp, "%" PRIu64, w * width);
        for (size_t i = 0; i < LAYERS; i++) {
            sum += counts[i];
            fprintf(fp, " %.4g", 100.0 * (double)sum / (double)total);
        }
        fputc('\n', fp);
    }
    fputs("EOD\n", fp);
}

/* ---- scripts ---- */

static const char *colour(const struct layers *l, size_t i)
{
    if (i == 0)
        return "#c8c8c8";
    return i < l->n ? stp_plot_colour(i) : "#404040";
}

static void layer_name(const struct layers *l, size_t i,
                       char name[STP_RAN_NAME])
{
    const struct stp_bandit_arm *arm = &l->arms[i].arm;

    if (i == 0)
        snprintf(name, STP_RAN_NAME, "NCCL's own");
    else if (i < l->n)
        stp_ran_name(arm->algo, arm->proto, arm->n_channels, name);
    else
        snprintf(name, STP_RAN_NAME, "others");
}

static size_t count_layers(const struct layers *l)
{
    return l->n == l->n_arms ? l->n : LAYERS;
}

/* One for all panels, in the order of the layers; gnuplot's own would have to
 * fit beside one of them. */
static void write_key(const struct layers *l, FILE *fp)
{
    size_t n = count_layers(l);

    for (size_t i = 0; i < n; i++) {
        double y = 0.85 - 0.036 * (double)(n - 1 - i);
        char name[STP_RAN_NAME];

        layer_name(l, i, name);
        fprintf(fp,
                "set object %zu rectangle from screen 0.82,%.3f to screen "
                "0.845,%.3f fillcolor rgb '%s' fillstyle solid noborder\n"
                "set label %zu ",
                i + 1, y - 0.011, y + 0.011, colour(l, i), i + 3);
        stp_gnuplot_quote(name, fp);
        fprintf(fp, " at screen 0.852,%.3f left\n", y);
    }
}

/* From the top layer down, since each hides what is below. */
static void write_panel(size_t k, const struct layers *l, FILE *fp)
{
    fputs("plot ", fp);
    for (size_t i = count_layers(l); i-- > 0;)
        fprintf(fp, "$d%zu using 1:%zu with fillsteps fillcolor rgb '%s'%s", k,
                i + 2, colour(l, i), i > 0 ? ", \\\n     " : "\n");
}

/* The panels share the height between title and source. */
static void place_panel(size_t k, size_t n, FILE *fp)
{
    double height = 0.80 / (double)n;
    double top = 0.91 - height * (double)k;

    fprintf(fp,
            "set tmargin at screen %.4f\nset bmargin at screen %.4f\n"
            "set lmargin at screen 0.085\nset rmargin at screen 0.80\n",
            top - 0.045, top - height + 0.012);
    if (k + 1 < n)
        fputs("set format x ''\nunset xlabel\n", fp);
    else
        fputs("set format x '%.0f'\nset xlabel 'Calls of the communicator'\n",
              fp);
}

static void write_panels(const struct stp_journal_plot *plot,
                         const struct stp_busiest *b, const struct layers *l,
                         FILE *fp)
{
    uint64_t width = last_call(plot->lines) / WINDOWS + 1;
    struct panel panel;

    for (size_t k = 0; k < b->n; k++) {
        count(plot, b->keys[k], l, width, &panel);
        write_data(k, &panel, width, fp);
    }
    fprintf(fp, "set xrange [0:%" PRIu64 "]\nset multiplot\n", width * WINDOWS);
    for (size_t k = 0; k < b->n; k++) {
        char label[STP_JOURNAL_LABEL];

        stp_journal_key_label(b->keys[k], label);
        place_panel(k, b->n, fp);
        fputs("set title ", fp);
        stp_gnuplot_quote(label, fp);
        fputs(" font ',12' offset 0,-0.5\n", fp);
        write_panel(k, l, fp);
        fputs("unset label\nunset object\n", fp);
    }
    fputs("unset multiplot\n", fp);
}

enum stp_status stp_write_arms(const struct stp_journal_plot *plot, FILE *fp,
                               struct stp_error *err)
{
    struct stp_busiest b = stp_find_busiest(plot->learning, PANELS);
    struct layers *l = calloc(1, sizeof(*l));
    char title[STP_LABEL * 2];

    if (l == NULL)
        return stp_nomem(err);
    make_layers(&b, l);
    stp_journal_title(plot, "What ran while it was learned", &b, title);
    stp_plot_write_rules(plot->source, fp);
    fputs("set label 2 ", fp);
    stp_gnuplot_quote(title, fp);
    fputs(" at screen 0.5,0.965 center font ',15'\n"
          "set ylabel 'Calls (%)'\nset yrange [0:100]\nset ytics 50\n"
          "set style fill solid 1.0 noborder\nunset grid\nunset key\n",
          fp);
    write_key(l, fp);
    write_panels(plot, &b, l, fp);
    free(l);
    return STP_OK;
}
