#include "report/charts/labels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/order.h"
#include "core/dtype.h"
#include "core/qsort.h"
#include "core/room.h"
#include "core/text.h"
#include "launch/take.h"
#include "nccl_tuner_abi.h"
#include "report/words.h"

enum { WORD = 80, ORIGIN = 512, MODELS = 16 };

const char *stp_coll_title(int coll)
{
    static const char *const titles[NCCL_NUM_TUNED_FUNCS] = {
        [ncclFuncBroadcast] = "Broadcast",
        [ncclFuncReduce] = "Reduce",
        [ncclFuncAllGather] = "All-gather",
        [ncclFuncReduceScatter] = "Reduce-scatter",
        [ncclFuncAllReduce] = "All-reduce",
    };

    return titles[coll];
}

/* ---- properties of a curve ---- */

enum label_property {
    LABEL_ARM,
    LABEL_BACKEND,
    LABEL_RANKS,
    LABEL_NODES,
    LABEL_PLACE,
    LABEL_GRAPH,
    LABEL_TYPE,
    LABEL_OP,
    LABEL_ROOT,
    LABEL_NCCL,
    LABEL_MACHINE,
    LABEL_GPU,
    LABEL_FILE,
};

/* The word for a property of the curve; "" if it is not known. */
static void label_word(const struct stp_curve *c, enum label_property property,
                       char word[WORD])
{
    const struct stp_measurement *m = &c->like;
    const struct stp_dataset *data = c->data;
    const bool is_nvidia = strncmp(data->gpu, "NVIDIA ", 7) == 0;
    const char *const texts[] = {
        [LABEL_BACKEND] = data->backend,
        [LABEL_PLACE] = m->in_place ? "in place" : "out of place",
        [LABEL_GRAPH] = m->graph ? "in CUDA graphs" : "launched one by one",
        [LABEL_TYPE] = stp_type_name(m->type),
        [LABEL_OP] = stp_coll_reduces(m->coll) ? stp_op_name(m->op) : "",
        [LABEL_MACHINE] = data->machine,
        [LABEL_GPU] = data->gpu + (is_nvidia ? 7 : 0), /* short, and unique */
        [LABEL_FILE] = stp_base_name(c->file),
    };

    switch (property) {
    case LABEL_RANKS:
        snprintf(word, WORD, "%u rank%s", m->n_ranks, STP_S(m->n_ranks));
        break;
    case LABEL_NODES:
        snprintf(word, WORD, "%u node%s", m->n_nodes, STP_S(m->n_nodes));
        break;
    case LABEL_ROOT:
        snprintf(word, WORD, "root %u", m->root);
        break;
    case LABEL_NCCL:
        snprintf(word, WORD, "%s%s", data->nccl[0] ? "NCCL " : "", data->nccl);
        break;
    case LABEL_ARM:
        stp_arm_name(&m->arm, word);
        break;
    default:
        snprintf(word, WORD, "%s", texts[property]);
    }
}

/* ---- as many properties as tell curves apart ---- */

/* Whether the property tells apart two curves of a collective that have the
 * same label so far. Curves with other numbers of processes are apart already
 * if 'by_ranks'. Where several models of GPU are compared, or times in CUDA
 * graphs with others, all curves name theirs. */
static bool label_needed(const struct stp_labelled_set *set,
                         enum label_property property, bool by_ranks)
{
    const bool is_gpu = property == LABEL_GPU,
               always = is_gpu || property == LABEL_GRAPH;

    for (size_t i = 0; i < set->n; i++)
        for (size_t j = 0; j < i; j++) {
            const struct stp_labelled *a = &set->all[i];
            const struct stp_labelled *b = &set->all[j];
            char x[WORD], y[WORD];

            if (!always && (a->curve->like.coll != b->curve->like.coll ||
                            (by_ranks && a->curve->like.n_ranks !=
                                             b->curve->like.n_ranks) ||
                            strcmp(a->series, b->series) != 0))
                continue;
            label_word(a->curve, property, x);
            label_word(b->curve, property, y);
            if (strcmp(x, y) != 0 && !(is_gpu && (!x[0] || !y[0])))
                return true;
        }
    return false;
}

static void label_append(char label[STP_LABEL], const char *word)
{
    stp_append(label, STP_LABEL, "%s%s",
               label[0] != '\0' && *word != '\0' ? ", " : "", word);
}

/* Labels the curves, always with the first property and with the others as far
 * as they are needed. Curves of one series of a study may differ in their
 * processes, which only the label says. */
static void label_curves(struct stp_labelled_set *set,
                         const enum label_property *properties, size_t n,
                         bool is_study)
{
    char word[WORD];

    for (size_t i = 0; i < set->n; i++)
        set->all[i].series[0] = '\0';
    for (size_t p = 0; p < n; p++) {
        if (p > 0 && !label_needed(set, properties[p], is_study))
            continue;
        for (size_t i = 0; i < set->n; i++) {
            label_word(set->all[i].curve, properties[p], word);
            label_append(set->all[i].series, word);
        }
    }
    for (size_t i = 0; i < set->n; i++) {
        memcpy(set->all[i].label, set->all[i].series, STP_LABEL);
        snprintf(word, WORD, "%u processes", set->all[i].curve->like.n_ranks);
        if (is_study)
            label_append(set->all[i].label, word);
    }
}

/* ---- common properties ---- */

/* The property's word if all curves have the same, else "". */
static void label_common(const struct stp_labelled_set *set,
                         enum label_property property, char word[WORD])
{
    word[0] = '\0';
    for (size_t i = 0; i < set->n; i++) {
        char other[WORD];

        label_word(set->all[i].curve, property, other);
        if (i == 0)
            memcpy(word, other, WORD);
        else if (strcmp(word, other) != 0)
            word[0] = '\0';
    }
}

/* "NVIDIA H200", "NVIDIA H200 and CPUs": joins the hardware of all curves; ""
 * if no GPU is known. */
static void label_join_hardware(const struct stp_labelled_set *set,
                                char text[STP_LABEL])
{
    const char *names[MODELS];
    bool has_gpu = false;
    size_t n = 0;

    for (size_t i = 0; i < set->n; i++) {
        const struct stp_dataset *data = set->all[i].curve->data;
        const char *name = data->gpu[0] != '\0'                 ? data->gpu
                           : strcmp(data->backend, "nccl") == 0 ? "unknown GPUs"
                                                                : "CPUs";
        size_t k = 0;

        has_gpu |= data->gpu[0] != '\0';
        while (k < n && strcmp(names[k], name) != 0)
            k++;
        if (k == n && n < MODELS)
            names[n++] = name;
    }
    text[0] = '\0';
    for (size_t k = 0; k < n && has_gpu; k++)
        stp_append(text, STP_LABEL, "%s%s", stp_list_sign(k, n), names[k]);
}

void stp_common_title(const struct stp_labelled_set *set, char *text,
                      size_t size)
{
    char ranks[WORD], gpu[STP_LABEL], backend[WORD], type[WORD], op[WORD];
    char graph[WORD];

    label_common(set, LABEL_RANKS, ranks);
    label_join_hardware(set, gpu);
    label_common(set, LABEL_BACKEND, backend);
    label_common(set, LABEL_TYPE, type);
    label_common(set, LABEL_OP, op);
    snprintf(text, size, "%s%s%s%s%s%s%s", ranks,
             ranks[0] && gpu[0] ? " of " : "", gpu,
             (ranks[0] || gpu[0]) && (type[0] || op[0]) ? ", " : "", type,
             type[0] && op[0] ? " " : "", op);
    if (gpu[0] == '\0' && backend[0] != '\0')
        stp_append(text, size, "%s%s", text[0] ? ", " : "", backend);
    label_common(set, LABEL_GRAPH, graph);
    if (graph[0] != '\0' && set->all[0].curve->like.graph)
        stp_append(text, size, ", %s", graph);
}

void stp_origin_text(const struct stp_dataset *data, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s, %s%s",
             data->machine[0] ? data->machine : "unknown machine",
             data->gpu[0] ? ", " : "", data->gpu, data->nccl[0] ? "NCCL " : "",
             data->nccl[0] ? data->nccl : data->backend);
    if (data->tuner[0])
        stp_append(text, size, ", %s", STP_AUTO_WORDS(data->tuner));
}

void stp_source_line(const struct stp_labelled_set *set, char *text,
                     size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; i < set->n; i++) {
        struct stp_source_count count = {0};
        char origin[ORIGIN], other[ORIGIN], sources[STP_SOURCES_TEXT];
        bool is_new = true;

        stp_origin_text(set->all[i].curve->data, origin, ORIGIN);
        for (size_t k = 0; k < set->n; k++) {
            const struct stp_curve *c = set->all[k].curve;

            stp_origin_text(c->data, other, ORIGIN);
            if (strcmp(origin, other) != 0)
                continue;
            is_new &= k >= i;
            for (size_t p = 0; p < c->n_points; p++) {
                count.n[c->points[p].source]++;
                count.n_single_pass += c->points[p].single_pass;
            }
        }
        stp_sources_words(&count, sources);
        if (is_new)
            stp_append(text, size, "%s%s, %s", text[0] ? "; " : "", origin,
                       sources);
    }
}

/* ---- curves of arms ---- */

/* A curve and how fast its arm is. */
struct ranked {
    const struct stp_curve *curve;
    size_t n_fastest; /* sizes at which no other arm was faster */
    double behind;    /* mean of log(time / the fastest time) */
};

/* Whether the curves differ in their arm alone, so that one can be faster. */
static bool curves_comparable(const struct stp_curve *a,
                              const struct stp_curve *b)
{
    return a->data == b->data && stp_order_kinds(&a->like, &b->like) == 0;
}

/* AUTO first, then the fastest arms, then in the order of the files. */
static int curve_order_ranked(const void *pa, const void *pb)
{
    const struct ranked *a = pa;
    const struct ranked *b = pb;
    bool a_auto = a->curve->like.arm.kind == STP_ARM_AUTO;
    bool b_auto = b->curve->like.arm.kind == STP_ARM_AUTO;

    STP_RETURN_ORDER(b_auto - a_auto);
    STP_RETURN_ORDER(a_auto ? 0 : STP_ORDER(b->n_fastest, a->n_fastest));
    STP_RETURN_ORDER(a_auto ? 0 : STP_ORDER(a->behind, b->behind));
    return STP_ORDER(a->curve, b->curve);
}

struct stp_labelled_set stp_pick_curves(const struct stp_curves *curves,
                                        int coll, size_t n_max)
{
    static const enum label_property properties[] = {
        LABEL_ARM,   LABEL_RANKS, LABEL_GPU,   LABEL_BACKEND, LABEL_TYPE,
        LABEL_OP,    LABEL_PLACE, LABEL_GRAPH, LABEL_ROOT,    LABEL_MACHINE,
        LABEL_NODES, LABEL_NCCL,  LABEL_FILE};
    struct ranked *ranked = stp_take(curves->n_curves, sizeof(*ranked));
    struct stp_labelled_set set = {
        .all = stp_take(curves->n_curves, sizeof(*set.all))};
    size_t n = 0;

    for (size_t i = 0; i < curves->n_curves; i++) {
        const struct stp_curve *c = &curves->curves[i];

        if (c->like.coll != coll)
            continue;
        ranked[n].curve = c;
        for (size_t k = 0; k < c->n_points; k++) {
            const double us = c->points[k].us.mean;
            double best = INFINITY; /* of all that compare with it */

            for (size_t m = 0; m < curves->n_curves; m++) {
                const struct stp_curve *other = &curves->curves[m];
                const struct stp_curve_point *p =
                    stp_curve_at(other, c->points[k].n_bytes);

                if (p != NULL && curves_comparable(other, c))
                    best = fmin(best, p->us.mean);
            }
            ranked[n].n_fastest += us <= best;
            ranked[n].behind += log(us / best) / (double)c->n_points;
        }
        n++;
    }
    STP_SORT(ranked, n, curve_order_ranked);
    for (; set.n < n && set.n < n_max; set.n++)
        set.all[set.n].curve = ranked[set.n].curve;
    free(ranked);
    label_curves(&set, properties, STP_N_OF(properties), false);
    return set;
}

/* ---- the study ---- */

bool stp_in_study(const struct stp_curves *curves, const struct stp_curve *c)
{
    if (c->like.arm.kind != STP_ARM_AUTO)
        return false;
    for (size_t i = 0; c->like.in_place && i < curves->n_curves; i++) {
        struct stp_curve outside = curves->curves[i];

        if (outside.like.in_place || outside.like.arm.kind != STP_ARM_AUTO)
            continue;
        outside.like.in_place = true;
        if (curves_comparable(&outside, c))
            return false;
    }
    return true;
}

static int curve_order_study(const void *pa, const void *pb)
{
    const struct stp_labelled *a = pa;
    const struct stp_labelled *b = pb;

    STP_RETURN_ORDER(STP_ORDER(a->curve->data, b->curve->data));
    return STP_ORDER(a->curve, b->curve);
}

struct stp_labelled_set stp_pick_study(const struct stp_curves *curves,
                                       int coll)
{
    static const enum label_property properties[] = {
        LABEL_BACKEND, LABEL_GPU,     LABEL_TYPE,  LABEL_OP,   LABEL_PLACE,
        LABEL_GRAPH,   LABEL_MACHINE, LABEL_NODES, LABEL_NCCL, LABEL_FILE};
    struct stp_labelled_set set = {
        .all = stp_take(curves->n_curves, sizeof(*set.all))};

    for (size_t i = 0; i < curves->n_curves; i++)
        if (stp_in_study(curves, &curves->curves[i]) &&
            (coll < 0 || curves->curves[i].like.coll == coll))
            set.all[set.n++].curve = &curves->curves[i];
    STP_SORT(set.all, set.n, curve_order_study);
    label_curves(&set, properties, STP_N_OF(properties), true);
    return set;
}

void stp_labelled_free(struct stp_labelled_set *set)
{
    free(set->all);
    *set = (struct stp_labelled_set){0};
}

const struct stp_curve_point *stp_study_100mb(const struct stp_curve *curve)
{
    const struct stp_curve_point *best = NULL;
    double best_off = log(2);

    for (size_t i = 0; i < curve->n_points; i++) {
        double n = (double)curve->points[i].n_bytes;
        double off = fmin(fabs(log(n / 1e8)), fabs(log(n / 104857600.0)));

        if (off < best_off) {
            best_off = off;
            best = &curve->points[i];
        }
    }
    return best;
}

bool stp_is_new_series(const struct stp_labelled_set *set, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(set->all[k].series, set->all[i].series) == 0)
            return false;
    return true;
}
