#include "report/page/page_data.h"

#include <math.h>

#include "core/names.h"
#include "report/charts/labels.h"
#include "report/words.h"

/* ---- figures ---- */

/* Keeps the largest gain at a size that was measured round by round. */
static void page_keep_best(const struct stp_point *p,
                           const struct stp_comparison *arm,
                           struct stp_page_summary *s)
{
    s->n_faster++;
    if (!stp_source_is_estimate(arm->source) &&
        arm->gain.gain > s->best.gain.gain)
        s->best = (struct stp_page_extreme){arm->gain, p->coll, p->n_bytes,
                                            p->n_ranks};
}

static void page_count_row(const struct stp_page_row *row,
                           struct stp_page_summary *s)
{
    const struct stp_point *p = row->point;
    const bool changed = row->verdict != STP_VERDICT_SAME;
    const bool slower = row->verdict == STP_VERDICT_SLOWER;
    struct stp_gain gain = {.gain = 1, .low = 1, .high = 1};
    bool below;

    if (row->policy == NULL && row->line > 0) {
        s->n_unknown++;
        return;
    }
    if (row->policy != NULL)
        gain = row->policy->gain;
    s->n_changed += changed;
    s->no_interval |= changed && isinf(gain.high);
    s->mean_gain += changed ? log(gain.gain) : 0;

    /* The smallest gain is kept; a loss within noise only as long as there is
     * no other. */
    below = row->verdict == STP_VERDICT_UNSURE && gain.high < 1;
    if ((slower && s->n_slower == 0) ||
        ((slower || (below && s->n_slower == 0)) &&
         gain.gain < s->worst.gain.gain))
        s->worst =
            (struct stp_page_extreme){gain, p->coll, p->n_bytes, p->n_ranks};
    s->n_slower += slower;
    s->n_below += below;
    if (row->verdict == STP_VERDICT_FASTER)
        page_keep_best(p, row->policy, s);
}

void stp_page_sum_up(const struct stp_page_data *data,
                     struct stp_page_summary *s)
{
    const struct stp_policy *rules = data->files[STP_PAGE_POLICY].rules;
    const struct stp_range ranks = stp_page_ranks(data);
    const struct stp_dataset *first = &stp_page_first_set(data)->data;
    unsigned min = UINT32_MAX, max = 0, nodes = 0;

    *s = (struct stp_page_summary){
        .tried = data->files[STP_PAGE_VERIFY].name != NULL,
        .n_rules = rules != NULL ? stp_policy_size(rules) : 0,
        .n_sizes = data->n_rows,
        .has_ranks = ranks.min < ranks.max,
        .best.gain.gain = 1,
        .worst.gain.gain = 1,
    };
    for (size_t i = 0; i < first->n_rows; i++) {
        const struct stp_measurement *m = &first->rows[i];

        min = m->n_ranks < min ? m->n_ranks : min;
        max = m->n_ranks > max ? m->n_ranks : max;
        nodes = m->n_nodes > nodes ? m->n_nodes : nodes;
    }
    if (min < max)
        stp_page_format(s->machine, "%u to ", min);
    /* several nodes may be containers of one host, with one GPU */
    if (first->gpu[0] != '\0' && nodes == 1)
        stp_page_format(s->machine, "%u x %s", max, first->gpu);
    else
        stp_page_format(s->machine, "%u rank%s", max, max == 1 ? "" : "s");
    if (nodes > 1)
        stp_page_format(s->machine, " on %u nodes%s%s", nodes,
                        first->gpu[0] != '\0' ? " of " : "", first->gpu);
    if (first->nccl[0] != '\0')
        stp_page_format(s->machine, " with NCCL %s", first->nccl);
    stp_auto_words(first->tuner, s->own);
    s->has_policy = rules != NULL || s->tried;
    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_page_row *row = &data->rows[i];

        s->n_compared += row->is_compared;
        s->n_told += row->is_told;
        if (s->has_policy)
            page_count_row(row, s);
        else if (row->best != NULL && row->best->gain.low > 1)
            page_keep_best(row->swept, row->best, s);
    }
    s->mean_gain = s->n_sizes > s->n_unknown
                       ? exp(s->mean_gain / (double)(s->n_sizes - s->n_unknown))
                       : 1;
}

/* ---- sentences ---- */

enum { PAGE_PLACE = 64 };

/* "4 MiB", or "4 MiB on 2 ranks". */
static void page_name_place(const struct stp_page_summary *s,
                            const struct stp_page_extreme *at,
                            char place[PAGE_PLACE])
{
    char size[32];

    stp_size_text(at->n_bytes, size);
    snprintf(place, PAGE_PLACE, s->has_ranks ? "%s on %u ranks" : "%s", size,
             at->n_ranks);
}

static void page_say_losses(const struct stp_page_summary *s, char *text)
{
    size_t n = s->n_slower > 0 ? s->n_slower : s->n_below;
    char place[PAGE_PLACE];

    page_name_place(s, &s->worst, place);
    if (n > 0)
        stp_page_format(
            text,
            ", and is slower at %zu%s: at worst %s takes %.*fx as long (at %s)",
            n, s->n_slower > 0 ? "" : ", but within the noise",
            stp_coll_name(s->worst.coll), s->n_slower > 0 ? 2 : 3,
            1 / s->worst.gain.gain, place);
    else if (s->no_interval)
        stp_page_format(text,
                        "; one round and modelled times have no confidence "
                        "interval, so not all of this is certain");
    else if (s->n_changed > 0)
        stp_page_format(text, ", and is nowhere measurably slower");
    if (s->n_unknown > 0)
        stp_page_format(
            text, "; what it chooses at %zu further sizes was not measured",
            s->n_unknown);
}

void stp_page_sentence(const struct stp_page_summary *s,
                       char text[STP_PAGE_TEXT])
{
    const char *coll = stp_coll_name(s->best.coll);
    const double gain = s->best.gain.gain;
    char place[PAGE_PLACE];

    page_name_place(s, &s->best, place);
    text[0] = '\0';
    stp_page_format(text, "On %s", s->machine);
    if (s->n_sizes == 0) {
        stp_page_format(text, ": training iterations%s.",
                        s->has_policy ? "; collectives alone were not measured"
                                      : ", without a policy");
    } else if (!s->has_policy && gain > 1) {
        stp_page_format(
            text,
            " some arm is faster than %s at %zu of %zu sizes, by up to %.2fx "
            "(%s at %s); there is no policy here.",
            s->own, s->n_faster, s->n_told, gain, coll, place);
    } else if (!s->has_policy) {
        stp_page_format(
            text, " %s %s at any of %zu sizes; there is no policy here.",
            s->n_compared == 0
                ? "no arm that a tuner can choose was compared with"
            : s->n_told == 0
                ? "neither one round nor a model tells an arm from"
                : "no arm that a tuner can choose is significantly faster than",
            s->own,
            s->n_compared == 0 ? s->n_sizes
            : s->n_told == 0   ? s->n_compared
                               : s->n_told);
    } else if (s->n_rules == 0 && !s->tried) {
        stp_page_format(text,
                        " this policy has no rule: %s stands at all %zu sizes.",
                        s->own, s->n_sizes);
    } else {
        stp_page_format(text, " this policy ");
        if (gain > 1)
            stp_page_format(text,
                            "makes %s up to %.2fx as fast (at %s), changes %zu "
                            "of %zu sizes",
                            coll, gain, place, s->n_changed, s->n_sizes);
        else if (s->n_changed > 0)
            stp_page_format(text, "changes %zu of %zu sizes, is %s",
                            s->n_changed, s->n_sizes,
                            s->n_faster > 0
                                ? "faster only at sizes that were not measured"
                                : "significantly faster at none");
        else
            stp_page_format(text, "changes none of %zu sizes", s->n_sizes);
        page_say_losses(s, text);
        stp_page_format(text, s->tried ? "."
                                       : "; it was not verified: these are "
                                         "gains of its arms in the sweep.");
    }
}

void stp_page_sum_up_overlap(const struct stp_iteration_summary *iterations,
                             struct stp_page_overlap *o)
{
    *o = (struct stp_page_overlap){.best = 1, .worst = 1};
    for (size_t i = 0; i < iterations->n_settings; i++) {
        const struct stp_iteration_setting *setting = &iterations->settings[i];

        for (size_t a = 1; a < setting->n_arms; a++) {
            const struct stp_gain *gain = &setting->arms[a].gain;
            const bool slower = gain->high < 1;
            const bool beyond_noise = 1 - gain->gain > 2 * setting->noise;

            if (setting->arms[a].arm.kind != STP_ARM_PLUGIN)
                continue;
            o->n++;
            o->n_faster += gain->low > 1;
            o->n_slower += slower && beyond_noise;
            o->n_below += slower && !beyond_noise;
            if (gain->low > 1)
                o->best = fmax(o->best, gain->gain);
            if (slower)
                o->worst = fmin(o->worst, gain->gain);
        }
    }
}

bool stp_page_overlap_sentence(const struct stp_page_overlap *o,
                               char text[STP_PAGE_TEXT])
{
    size_t n = o->n_slower > 0 ? o->n_slower : o->n_below;

    text[0] = '\0';
    if (o->n == 0)
        return false;
    stp_page_format(text, "With the overlap policy training steps are ");
    if (o->n_faster > 0)
        stp_page_format(
            text, "up to %.2fx as fast: %zu of %zu workloads are faster, ",
            o->best, o->n_faster, o->n);
    else
        stp_page_format(text, "significantly faster in none of %zu workloads, ",
                        o->n);
    stp_page_format(
        text,
        n == 0 ? "and none is measurably slower."
               : "and %zu %s slower%s: at worst a step takes %.3fx as long.",
        n, n == 1 ? "is" : "are",
        o->n_slower > 0 ? "" : ", but within the noise", 1 / o->worst);
    return true;
}

/* The gains count that are measured and beyond doubt, of collectives alone and
 * of training steps. */
bool stp_page_memory_sentence(const struct stp_memory_table *memory,
                              char text[STP_PAGE_TEXT])
{
    const bool is_staged = memory->kind == STP_POLICY_OF_STAGE;
    const struct stp_memory_evidence *best[2] = {NULL, NULL};
    const char *colls[2] = {NULL, NULL};
    char size[32];

    text[0] = '\0';
    for (size_t r = 0; r < memory->n_rules; r++)
        for (size_t i = 0; i < memory->rules[r].n_evidence; i++) {
            const struct stp_memory_evidence *e = &memory->rules[r].evidence[i];
            const bool step = e->overlaps;

            if (!(e->gain.low > 1) || stp_source_is_estimate(e->source) ||
                (best[step] != NULL && best[step]->gain.gain >= e->gain.gain))
                continue;
            best[step] = e;
            colls[step] = stp_coll_name(memory->rules[r].rule.coll);
        }
    if (best[0] == NULL && best[1] == NULL)
        return false;
    stp_page_format(text, is_staged ? "Staging buffers makes "
                                    : "Registering buffers makes ");
    for (int step = 0; step < 2; step++)
        if (best[step] != NULL) {
            stp_size_text(best[step]->n_bytes, size);
            stp_page_format(text, "%s%s up to %.2fx as fast (%s%s %s)",
                            step && best[0] != NULL ? ", and " : "",
                            step ? "training steps" : colls[0],
                            best[step]->gain.gain, step ? colls[1] : "",
                            step ? " of" : "at", size);
        }
    stp_page_format(text, is_staged ? "; a job as it is can have that, by "
                                      "`steptune run --stage`."
                                    : "; only an application can do that, and "
                                      "no tuner.");
    return true;
}

/* ---- sources ---- */

bool stp_page_source_sentence(const struct stp_page_file *sets, size_t n,
                              char text[STP_PAGE_TEXT])
{
    struct stp_source_count count = {0};
    size_t n_all = 0;

    text[0] = '\0';
    for (size_t s = 0; s < n; s++) {
        stp_count_sources(&sets[s].data, &count);
        n_all += sets[s].data.n_rows;
    }
    if (n_all == 0)
        return false;
    if (count.n[STP_SOURCE_MEASURED] == n_all && count.n_single_pass == 0) {
        stp_page_format(text, "Times were measured live.");
        return true;
    }

    /* "Of 960 times 88 were ..., 872 were ...", or "All 960 times were ...". */
    static const char *const words[STP_N_SOURCES] = {
        [STP_SOURCE_MEASURED] = "measured live",
        [STP_SOURCE_RECORDED] = "recorded on that machine and are replayed",
        [STP_SOURCE_INTERPOLATED] = "interpolated between recorded sizes",
        [STP_SOURCE_VIRTUAL] =
            "simulated in virtual time, out of recorded times",
        [STP_SOURCE_MODELLED] = "modelled and measured by nobody",
    };

    for (int s = 0; s < STP_N_SOURCES; s++) {
        if (count.n[s] == 0)
            continue;
        if (stp_source_of_all(&count) == s)
            stp_page_format(text, "All %zu times were %s", n_all, words[s]);
        else if (text[0] == '\0')
            stp_page_format(text, "Of %zu times %zu were %s", n_all, count.n[s],
                            words[s]);
        else
            stp_page_format(text, ", %zu were %s", count.n[s], words[s]);
    }
    if (count.n_single_pass > 0)
        stp_page_format(text,
                        "; %zu of them were taken in single passes, and decide "
                        "nothing unless they are trusted",
                        count.n_single_pass);

    if (count.n[STP_SOURCE_MEASURED] < n_all)
        stp_page_format(text, ": this is not a live measurement");
    stp_page_format(text, ".");
    if (count.n[STP_SOURCE_MODELLED] > 0)
        stp_page_format(text, " " STP_MODEL_WORDS ".");
    return true;
}
