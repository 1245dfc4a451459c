/* page_words.c - what the page says in words */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "core/dtype.h"
#include "core/names.h"
#include "report/charts/labels.h"
#include "report/page/page_parts.h"

/* Appends to 'text', and cuts what is too long. */
static void say(char *text, size_t size, const char *fmt, ...) STP_PRINTF(3, 4);

static void say(char *text, size_t size, const char *fmt, ...)
{
    size_t len = strlen(text);
    va_list args;

    va_start(args, fmt);
    vsnprintf(text + len, size - len, fmt, args);
    va_end(args);
}

/* ---- summing up ---- */

static void name_machine(const struct stp_page_data *data,
                         char text[STP_PAGE_TEXT])
{
    const struct stp_page_set *set = data->sets;
    unsigned min = UINT32_MAX, max = 0, nodes = 0;

    while (set->name == NULL)
        set++;
    for (size_t i = 0; i < set->data.n_rows; i++) {
        const struct stp_measurement *m = &set->data.rows[i];

        min = m->n_ranks < min ? m->n_ranks : min;
        max = m->n_ranks > max ? m->n_ranks : max;
        nodes = m->n_nodes > nodes ? m->n_nodes : nodes;
    }
    if (min < max)
        say(text, STP_PAGE_TEXT, "%u to ", min);
    if (set->data.gpu[0] != '\0')
        say(text, STP_PAGE_TEXT, "%u x %s", max, set->data.gpu);
    else
        say(text, STP_PAGE_TEXT, "%u rank%s", max, max == 1 ? "" : "s");
    if (nodes > 1)
        say(text, STP_PAGE_TEXT, " on %u nodes", nodes);
    if (set->data.nccl[0] != '\0')
        say(text, STP_PAGE_TEXT, " with NCCL %s", set->data.nccl);
}

/* Keeps the furthest gain there was in one direction. */
static void keep(const struct stp_page_row *row, const struct stp_gain *gain,
                 struct stp_gain *kept, int *coll, uint64_t *n_bytes)
{
    *kept = *gain;
    *coll = row->point->coll;
    *n_bytes = row->point->n_bytes;
}

/* Whether 'p' may be named as the best: one at which somebody measured. */
static bool is_measured(const struct stp_point *p)
{
    return p->source <= STP_SOURCE_RECORDED;
}

static bool is_below(const struct stp_page_row *row)
{
    return row->verdict == STP_VERDICT_UNSURE && row->policy->gain.high < 1;
}

static void count_row(const struct stp_page_row *row,
                      struct stp_page_summary *s)
{
    bool slower = row->verdict == STP_VERDICT_SLOWER;
    bool faster = row->verdict == STP_VERDICT_FASTER;
    struct stp_gain gain;

    s->n_sizes++;
    if (!stp_page_gain(row, &gain)) {
        s->n_unknown++;
        return;
    }
    s->n_changed += row->verdict != STP_VERDICT_SAME;
    s->n_faster += faster;
    if (row->verdict != STP_VERDICT_SAME && gain.n_pairs < 2)
        s->one_round = true;
    if (slower || (is_below(row) && s->n_slower == 0)) {
        if ((slower && s->n_slower == 0) || gain.gain < s->worst.gain)
            keep(row, &gain, &s->worst, &s->worst_coll, &s->worst_bytes);
        s->n_slower += slower;
    }
    s->n_below += is_below(row);
    s->mean_gain += log(row->verdict == STP_VERDICT_SAME ? 1 : gain.gain);
    if (faster && gain.gain > s->best.gain && is_measured(row->point))
        keep(row, &gain, &s->best, &s->best_coll, &s->best_bytes);
}

/* Without a policy: what the fastest arms gain. */
static void count_best(const struct stp_page_row *row,
                       struct stp_page_summary *s)
{
    s->n_sizes++;
    if (row->best == NULL || !(row->best->gain.low > 1))
        return;
    s->n_faster++;
    if (row->best->gain.gain > s->best.gain && is_measured(row->swept))
        keep(row, &row->best->gain, &s->best, &s->best_coll, &s->best_bytes);
}

void stp_page_sum_up(const struct stp_page_data *data,
                     struct stp_page_summary *s)
{
    char machine[STP_PAGE_TEXT] = "";

    memset(s, 0, sizeof(*s));
    name_machine(data, machine);
    snprintf(s->machine, sizeof(s->machine), "%.127s", machine);
    s->tried = data->sets[STP_PAGE_VERIFY].name != NULL;
    s->has_policy = data->policy.rules != NULL || s->tried;
    if (data->policy.rules != NULL)
        s->n_rules = stp_policy_size(data->policy.rules);
    s->best.gain = s->worst.gain = 1;
    for (size_t i = 0; i < data->n_rows; i++)
        if (s->has_policy)
            count_row(&data->rows[i], s);
        else
            count_best(&data->rows[i], s);
    s->mean_gain = s->n_sizes > s->n_unknown
                       ? exp(s->mean_gain / (double)(s->n_sizes - s->n_unknown))
                       : 1;
}

/* ---- the sentence ---- */

static void say_changes(const struct stp_page_summary *s, char *text)
{
    char size[32];

    if (s->best.gain > 1) {
        stp_size_text(s->best_bytes, size);
        say(text, STP_PAGE_TEXT,
            "makes %s up to %.2fx as fast (at %s), changes %zu of %zu sizes",
            stp_coll_name(s->best_coll), s->best.gain, size, s->n_changed,
            s->n_sizes);
    } else if (s->n_changed > 0) {
        say(text, STP_PAGE_TEXT, "changes %zu of %zu sizes, is faster %s",
            s->n_changed, s->n_sizes,
            s->n_faster > 0 ? "only where nobody measured"
                            : "nowhere beyond doubt");
    } else {
        say(text, STP_PAGE_TEXT, "changes none of %zu sizes", s->n_sizes);
    }
}

static void say_losses(const struct stp_page_summary *s, char *text)
{
    char size[32];

    stp_size_text(s->worst_bytes, size);
    if (s->n_slower > 0)
        say(text, STP_PAGE_TEXT,
            ", and is slower at %zu: at worst %s takes %.2fx as long (at %s)",
            s->n_slower, stp_coll_name(s->worst_coll), 1 / s->worst.gain, size);
    else if (s->n_below > 0)
        say(text, STP_PAGE_TEXT,
            ", and is slower at %zu, but within the noise: at worst %s takes "
            "%.3fx as long (at %s)",
            s->n_below, stp_coll_name(s->worst_coll), 1 / s->worst.gain, size);
    else if (s->one_round)
        say(text, STP_PAGE_TEXT,
            "; one round says nothing of its error, so none of this is "
            "certain");
    else if (s->n_changed > 0)
        say(text, STP_PAGE_TEXT,
            ", and is slower nowhere within the 95 percent intervals");
    if (s->n_unknown > 0)
        say(text, STP_PAGE_TEXT,
            "; what it chooses at %zu further sizes was not measured",
            s->n_unknown);
}

static void say_arms(const struct stp_page_summary *s, char *text)
{
    char size[32];

    stp_size_text(s->best_bytes, size);
    if (s->n_sizes == 0)
        say(text, STP_PAGE_TEXT,
            "On %s: training iterations, without a policy.", s->machine);
    else if (!(s->best.gain > 1))
        say(text, STP_PAGE_TEXT,
            "On %s no arm is faster than NCCL's own choice beyond doubt at any "
            "of %zu sizes; there is no policy here.",
            s->machine, s->n_sizes);
    else
        say(text, STP_PAGE_TEXT,
            "On %s some arm is faster than NCCL's own choice at %zu of %zu "
            "sizes, by up to %.2fx (%s at %s); there is no policy here.",
            s->machine, s->n_faster, s->n_sizes, s->best.gain,
            stp_coll_name(s->best_coll), size);
}

void stp_page_sentence(const struct stp_page_summary *s,
                       char text[STP_PAGE_TEXT])
{
    text[0] = '\0';
    if (!s->has_policy || s->n_sizes == 0) {
        say_arms(s, text);
        return;
    }
    say(text, STP_PAGE_TEXT, "On %s this policy ", s->machine);
    if (s->n_rules == 0 && !s->tried) {
        say(text, STP_PAGE_TEXT,
            "has no rule: NCCL's own choice stands at all %zu sizes.",
            s->n_sizes);
        return;
    }
    say_changes(s, text);
    say_losses(s, text);
    say(text, STP_PAGE_TEXT, ".");
}

void stp_page_sum_up_overlap(const struct stp_iteration_summary *iterations,
                             struct stp_page_overlap *o)
{
    *o = (struct stp_page_overlap){.best = 1, .worst = 1};
    for (size_t i = 0; i < iterations->n_settings; i++) {
        const struct stp_iteration_setting *setting = &iterations->settings[i];

        for (size_t a = 1; a < setting->n_arms; a++) {
            const struct stp_gain *gain = &setting->arms[a].gain;

            if (setting->arms[a].arm.kind != STP_ARM_PLUGIN)
                continue;
            o->n++;
            o->n_faster += gain->low > 1;
            if (gain->low > 1)
                o->best = fmax(o->best, gain->gain);
            if (!(gain->high < 1))
                continue;
            o->worst = fmin(o->worst, gain->gain);
            if (1 - gain->gain > 2 * setting->noise)
                o->n_slower++;
            else
                o->n_below++;
        }
    }
}

bool stp_page_overlap_sentence(const struct stp_page_overlap *o,
                               char text[STP_PAGE_TEXT])
{
    text[0] = '\0';
    if (o->n == 0)
        return false;
    say(text, STP_PAGE_TEXT, "With the overlap policy ");
    if (o->n_faster > 0)
        say(text, STP_PAGE_TEXT,
            "training steps are up to %.2fx as fast: %zu of %zu workloads are "
            "faster, ",
            o->best, o->n_faster, o->n);
    else
        say(text, STP_PAGE_TEXT,
            "training steps of none of %zu workloads are faster beyond doubt, ",
            o->n);
    if (o->n_slower > 0)
        say(text, STP_PAGE_TEXT,
            "and %zu slower: at worst a step takes %.3fx as long.", o->n_slower,
            1 / o->worst);
    else if (o->n_below > 0)
        say(text, STP_PAGE_TEXT,
            "and %zu slower, but within the noise: at worst a step takes "
            "%.3fx as long.",
            o->n_below, 1 / o->worst);
    else
        say(text, STP_PAGE_TEXT, "and none is slower.");
    return true;
}

/* ---- where the numbers are from ---- */

void stp_page_sources_text(const struct stp_dataset *data,
                           char text[STP_PAGE_NAME])
{
    const char *before = "";

    text[0] = '\0';
    for (int source = 0; source < STP_N_SOURCES; source++) {
        size_t n = 0;

        for (size_t i = 0; i < data->n_rows; i++)
            n += data->rows[i].source == (enum stp_source)source;
        if (n == 0)
            continue;
        say(text, STP_PAGE_NAME, "%s%zu %s", before, n,
            stp_source_name((enum stp_source)source));
        before = ", ";
    }
}

const char *stp_page_source_sentence(const struct stp_page_set *sets, size_t n)
{
    static const char *const sentences[STP_N_SOURCES] = {
        [STP_SOURCE_MEASURED] = "Times were measured live.",
        [STP_SOURCE_RECORDED] =
            "Times were recorded on that machine and are played back: this is "
            "no live measurement.",
        [STP_SOURCE_INTERPOLATED] =
            "Times were recorded on that machine and are played back, between "
            "recorded sizes by interpolation: this is no live measurement.",
        [STP_SOURCE_SINGLE_PASS] =
            "Times were recorded on that machine and are played back, some of "
            "them in single passes that decide nothing: this is no live "
            "measurement.",
        [STP_SOURCE_MODELLED] =
            "Some of these times nobody measured: a model made them.",
    };
    int worst = -1;

    for (size_t s = 0; s < n; s++)
        for (size_t i = 0; i < sets[s].data.n_rows; i++)
            if ((int)sets[s].data.rows[i].source > worst)
                worst = (int)sets[s].data.rows[i].source;
    return worst >= 0 ? sentences[worst] : NULL;
}

void stp_page_panel_name(const struct stp_page_data *data,
                         const struct stp_page_panel *panel,
                         char name[STP_PAGE_NAME])
{
    const struct stp_point *p = panel->rows->point;
    bool ranks = false, data_type = false, place = false;

    for (size_t i = 0; i < data->n_panels; i++) {
        const struct stp_point *q = data->panels[i].rows->point;

        ranks |= q->n_ranks != p->n_ranks || q->n_nodes != p->n_nodes;
        data_type |= q->type != p->type || q->op != p->op;
        place |= q->in_place != p->in_place;
    }
    name[0] = '\0';
    say(name, STP_PAGE_NAME, "%s", stp_coll_title(p->coll));
    if (ranks)
        say(name, STP_PAGE_NAME, ", %u ranks", p->n_ranks);
    if (ranks && p->n_nodes > 1)
        say(name, STP_PAGE_NAME, " on %u nodes", p->n_nodes);
    if (data_type)
        say(name, STP_PAGE_NAME, ", %s %s", stp_type_name(p->type),
            stp_op_name(p->op));
    if (place)
        say(name, STP_PAGE_NAME, p->in_place ? ", in place" : ", out of place");
}
