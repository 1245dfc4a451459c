/* plot_label.c - what curves are called */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "nccl_tuner_abi.h"
#include "report/charts/plot_parts.h"

enum { WORD = 80, ORIGIN = 256 };

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

/* Divides by 'base' until little is left; returns how often, at most 3. */
static int scale(double *n, double base)
{
    int unit = 0;

    for (; *n >= base && unit < 3; unit++)
        *n /= base;
    return unit;
}

void stp_size_name(uint64_t n_bytes, char name[32])
{
    static const char *const units[] = {"", "K", "M", "G"};
    double n = (double)n_bytes;
    int unit = scale(&n, 1024);

    snprintf(name, 32, "%.4g%s", n, units[unit]);
}

void stp_size_text(uint64_t n_bytes, char text[32])
{
    static const char *const units[2][4] = {{"bytes", "KiB", "MiB", "GiB"},
                                            {"bytes", "KB", "MB", "GB"}};
    bool decimal = n_bytes % 1000 == 0;
    double n = (double)n_bytes;
    int unit = scale(&n, decimal ? 1000 : 1024);

    snprintf(text, 32, "%.4g %s", n, units[decimal][unit]);
}

/* ---- what a curve is of ---- */

static void say_arm(const struct stp_curve *c, char word[WORD])
{
    char name[STP_ARM_NAME];

    stp_arm_name(&c->like.arm, name);
    snprintf(word, WORD, "%s", name);
}

static void say_backend(const struct stp_curve *c, char word[WORD])
{
    snprintf(word, WORD, "%s", c->data->backend);
}

static void say_ranks(const struct stp_curve *c, char word[WORD])
{
    snprintf(word, WORD, "%u rank%s", c->like.n_ranks,
             c->like.n_ranks == 1 ? "" : "s");
}

static void say_nodes(const struct stp_curve *c, char word[WORD])
{
    snprintf(word, WORD, "%u node%s", c->like.n_nodes,
             c->like.n_nodes == 1 ? "" : "s");
}

static void say_place(const struct stp_curve *c, char word[WORD])
{
    snprintf(word, WORD, c->like.in_place ? "in place" : "out of place");
}

static void say_type(const struct stp_curve *c, char word[WORD])
{
    snprintf(word, WORD, "%s", stp_type_name(c->like.type));
}

static void say_op(const struct stp_curve *c, char word[WORD])
{
    snprintf(word, WORD, "%s",
             stp_coll_reduces(c->like.coll) ? stp_op_name(c->like.op) : "");
}

static void say_root(const struct stp_curve *c, char word[WORD])
{
    snprintf(word, WORD, "root %u", c->like.root);
}

static void say_nccl(const struct stp_curve *c, char word[WORD])
{
    snprintf(word, WORD, "%s%s", c->data->nccl[0] ? "NCCL " : "",
             c->data->nccl);
}

static void say_machine(const struct stp_curve *c, char word[WORD])
{
    snprintf(word, WORD, "%s", c->data->machine);
}

static void say_file(const struct stp_curve *c, char word[WORD])
{
    const char *slash = strrchr(c->file, '/');

    snprintf(word, WORD, "%s", slash != NULL ? slash + 1 : c->file);
}

typedef void say_fn(const struct stp_curve *c, char word[WORD]);

/* ---- as much of it as is needed ---- */

/* Whether 'say' tells two curves apart that have the same label so far.  Those
 * of different numbers of processes are apart if 'by_ranks'. */
static bool needed(const struct stp_labelled_set *set, say_fn *say,
                   bool by_ranks)
{
    for (size_t i = 0; i < set->n; i++)
        for (size_t j = 0; j < i; j++) {
            const struct stp_labelled *a = &set->all[i];
            const struct stp_labelled *b = &set->all[j];
            char x[WORD], y[WORD];

            if ((by_ranks &&
                 a->curve->like.n_ranks != b->curve->like.n_ranks) ||
                strcmp(a->series, b->series) != 0)
                continue;
            say(a->curve, x);
            say(b->curve, y);
            if (strcmp(x, y) != 0)
                return true;
        }
    return false;
}

static void append(char label[STP_LABEL], const char *word)
{
    size_t len = strlen(label);

    snprintf(label + len, STP_LABEL - len, "%s%s",
             len > 0 && *word != '\0' ? ", " : "", word);
}

static void append_all(struct stp_labelled_set *set, say_fn *say)
{
    for (size_t i = 0; i < set->n; i++) {
        char word[WORD];

        say(set->all[i].curve, word);
        append(set->all[i].series, word);
    }
}

/* Into the series: the first word always, the others as far as needed. */
static void label(struct stp_labelled_set *set, say_fn *const *words,
                  size_t n_words, bool by_ranks)
{
    for (size_t i = 0; i < set->n; i++)
        set->all[i].series[0] = '\0';
    for (size_t w = 0; w < n_words; w++)
        if (w == 0 || needed(set, words[w], by_ranks))
            append_all(set, words[w]);
}

void stp_label_arms(struct stp_labelled_set *set)
{
    static say_fn *const words[] = {
        say_arm,  say_ranks,   say_backend, say_type, say_op,  say_place,
        say_root, say_machine, say_nodes,   say_nccl, say_file};

    label(set, words, sizeof(words) / sizeof(words[0]), false);
    for (size_t i = 0; i < set->n; i++)
        memcpy(set->all[i].label, set->all[i].series, STP_LABEL);
}

void stp_label_series(struct stp_labelled_set *set)
{
    static say_fn *const words[] = {say_backend, say_type,  say_op,   say_place,
                                    say_machine, say_nodes, say_nccl, say_file};

    label(set, words, sizeof(words) / sizeof(words[0]), true);
    for (size_t i = 0; i < set->n; i++) {
        char processes[WORD];

        snprintf(processes, WORD, "%u processes",
                 set->all[i].curve->like.n_ranks);
        memcpy(set->all[i].label, set->all[i].series, STP_LABEL);
        append(set->all[i].label, processes);
    }
}

/* ---- what all have in common ---- */

/* The word if it is the same of all curves, else "". */
static void common(const struct stp_labelled_set *set, say_fn *say,
                   char word[WORD])
{
    word[0] = '\0';
    for (size_t i = 0; i < set->n; i++) {
        char other[WORD];

        say(set->all[i].curve, other);
        if (i == 0)
            memcpy(word, other, WORD);
        else if (strcmp(word, other) != 0)
            word[0] = '\0';
    }
}

static void say_gpu(const struct stp_curve *c, char word[WORD])
{
    snprintf(word, WORD, "%s", c->data->gpu);
}

void stp_common_title(const struct stp_labelled_set *set, char *text,
                      size_t size)
{
    char ranks[WORD], gpu[WORD], backend[WORD], type[WORD], op[WORD];

    common(set, say_ranks, ranks);
    common(set, say_gpu, gpu);
    common(set, say_backend, backend);
    common(set, say_type, type);
    common(set, say_op, op);
    snprintf(text, size, "%s%s%s%s%s%s%s", ranks,
             ranks[0] && gpu[0] ? " of " : "", gpu,
             (ranks[0] || gpu[0]) && type[0] ? ", " : "", type,
             type[0] && op[0] ? " " : "", op);
    if (gpu[0] == '\0' && backend[0] != '\0') {
        size_t len = strlen(text);

        snprintf(text + len, size - len, "%s%s", len > 0 ? ", " : "", backend);
    }
}

void stp_origin_text(const struct stp_dataset *data, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s, %s%s",
             data->machine[0] ? data->machine : "unknown machine",
             data->gpu[0] ? ", " : "", data->gpu, data->nccl[0] ? "NCCL " : "",
             data->nccl[0] ? data->nccl : data->backend);
}

/* The i-th curve's origin, with what all curves of it say of their times; ""
 * if an earlier curve is of it, too. */
static void say_source(const struct stp_labelled_set *set, size_t i,
                       char text[ORIGIN])
{
    bool has[STP_N_SOURCES] = {false};
    size_t len;

    stp_origin_text(set->all[i].curve->data, text, ORIGIN);
    for (size_t k = 0; k < set->n; k++) {
        char other[ORIGIN];

        stp_origin_text(set->all[k].curve->data, other, ORIGIN);
        if (strcmp(text, other) != 0)
            continue;
        if (k < i) {
            text[0] = '\0';
            return;
        }
        has[set->all[k].curve->like.source] = true;
    }
    len = strlen(text);
    for (int source = 0; source < STP_N_SOURCES && len < ORIGIN; source++)
        if (has[source])
            len += (size_t)snprintf(text + len, ORIGIN - len, ", %s",
                                    stp_source_name(source));
}

void stp_source_line(const struct stp_labelled_set *set, char *text,
                     size_t size)
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < set->n && len < size; i++) {
        char source[ORIGIN];

        say_source(set, i, source);
        if (source[0] != '\0')
            len += (size_t)snprintf(text + len, size - len, "%s%s",
                                    len > 0 ? "; " : "", source);
    }
}
