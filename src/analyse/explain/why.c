#include "analyse/explain/why.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/explain/explainer.h"
#include "device/mock/operation.h"

static struct stp_why_run why_describe(const struct stp_explainer *e,
                                       const struct stp_asked *asked,
                                       const struct mock_outcome *out)
{
    const struct mock_run run = mock_outcome_run(&asked->call, out);
    float predicted = asked->alone.cost[out->algo][out->proto];
    struct stp_why_run r = {
        .pick = {out->algo, out->proto},
        .asked_channels = out->asked_channels,
        .limit = mock_outcome_limit(out),
        .n_channels = out->n_channels,
        .predicted_us = predicted >= 0 ? (double)predicted : NAN,
        .us = NAN,
        .source = STP_SOURCE_MODELLED,
    };
    struct mock_time time;

    /* of what NCCL had ruled out nobody has a time */
    if (mock_machine_mean_time(e->machine, &run, &time) == ncclSuccess &&
        time.source != MOCK_TIME_MODELLED) {
        r.us = time.us;
        r.source = stp_mock_source(time.source);
        r.single_pass = time.is_single_pass;
    }
    return r;
}

/* Tells mock NCCL of a value; false if it is one that changes nothing. */
typedef bool (*play_fn)(struct mock_nccl_options *options, const char *value);

/* NCCL reads both variables together, which the options have already. */
static bool why_play_choice(struct mock_nccl_options *options,
                            const char *value)
{
    (void)value;
    return options->algo != NULL || options->proto != NULL;
}

/* As if the user had forbidden what needs it. */
static bool why_play_nvls(struct mock_nccl_options *options, const char *value)
{
    char *end;
    bool off = strtol(value, &end, 0) == 0 && end != value;

    if (off)
        options->algo = "^nvls,nvlstree";
    return off;
}

static bool why_play_collnet(struct mock_nccl_options *options,
                             const char *value)
{
    options->collnet = strtol(value, NULL, 0) == 1;
    return options->collnet;
}

#define LIMIT(member) offsetof(struct mock_nccl_options, limits.member)

static bool why_play_limit(struct mock_nccl_options *options, size_t at,
                           const char *value)
{
    int n = atoi(value);

    if (at == LIMIT(max_channels) && n < 1)
        n = 1;
    /* unlike an application, a variable needs no maximum beside it */
    options->limits.max_ctas = INT_MAX;
    memcpy((char *)options + at, &n, sizeof(n));
    return n > 0;
}

static const struct variable {
    const char *name;
    play_fn play;     /* or: */
    size_t limit;     /* the member that it sets, or: */
    const char *does; /* what mock NCCL does not play */
} variables[] = {
    {"NCCL_ALGO", why_play_choice, 0, NULL},
    {"NCCL_PROTO", why_play_choice, 0, NULL},
    {"NCCL_NVLS_ENABLE", why_play_nvls, 0, NULL},
    {"NCCL_COLLNET_ENABLE", why_play_collnet, 0, NULL},
    {"NCCL_MIN_NCHANNELS", NULL, LIMIT(min_channels), NULL},
    {"NCCL_MAX_NCHANNELS", NULL, LIMIT(max_channels), NULL},
    {"NCCL_MIN_CTAS", NULL, LIMIT(min_ctas), NULL},
    {"NCCL_MAX_CTAS", NULL, LIMIT(max_ctas), NULL},
    {"NCCL_NVLS_NCHANNELS", NULL, LIMIT(nvls_channels), NULL},
    {"NCCL_CTA_POLICY", NULL, 0,
     "NCCL may keep collectives on registered buffers from its tuner"},
    {"NCCL_PAT_ENABLE", NULL, 0, "NCCL rules PAT out, or in"},
    {"NCCL_LL128_C2C", NULL, 0, "NCCL may rule LL128 out"},
    {"NCCL_NET_OVERHEAD", NULL, 0, "NCCL predicts other times between nodes"},
    {"NCCL_NTHREADS", NULL, 0, "messages have other numbers of channels"},
    {"NCCL_THREAD_THRESHOLDS", NULL, 0,
     "messages have other numbers of channels"},
    {"NCCL_BUFFSIZE", NULL, 0, "chunks have other sizes"},
};

enum { N_VARIABLES = sizeof(variables) / sizeof(variables[0]) };

_Static_assert(N_VARIABLES <= (int)STP_MAX_OVERRIDES, "no room for them all");

const char *stp_override_name(size_t i)
{
    return i < N_VARIABLES ? variables[i].name : NULL;
}

/* Plays the call in a libnccl of its own; false if something fails. */
static bool why_collective(const struct stp_explainer *e,
                           const struct mock_nccl_options *options,
                           const struct mock_call *call,
                           struct mock_outcome *out)
{
    struct mock_nccl *nccl = NULL;
    struct mock_comm *comm = NULL;
    const bool plays =
        stp_explainer_comm(e, options, &nccl, &comm, NULL) == STP_OK &&
        mock_comm_collective(comm, call, out) == ncclSuccess;

    mock_comm_destroy(comm);
    mock_nccl_destroy(nccl);
    return plays;
}

/* Asks once more, of a libnccl that knows the variable. */
static void why_play(const struct stp_explainer *e,
                     const struct mock_nccl_options *options,
                     const struct mock_call *call, const struct stp_why *why,
                     struct stp_override *o)
{
    struct mock_outcome out;

    if (!why_collective(e, options, call, &out)) {
        o->kind = STP_OVERRIDE_FAILS;
        snprintf(o->text, sizeof(o->text), "%s", mock_last_error());
        return;
    }
    o->pick = (struct stp_pick){out.algo, out.proto};
    o->n_channels = out.n_channels;
    if (!stp_pick_equal(o->pick, why->tuned.pick) ||
        o->n_channels != why->tuned.n_channels)
        o->kind = STP_OVERRIDE_RUNS;
}

static const struct why_setting {
    const char *where;
    const char *since; /* NCCL that knows it */
    struct mock_nccl_options options;
    enum mock_windows windows;
} settings[STP_MAX_WHY_CASES] = {
    // clang-format off
    {"in windows", "2.29", {0}, MOCK_WINDOWS_BOTH},
    {"in windows, NCCL_CTA_POLICY=2", "2.29", {.zero_ctas = true},
     MOCK_WINDOWS_BOTH},
    {"NCCL_ENQUEUE_REARCH_ENABLE=1", "2.31", {.rearch = true},
     MOCK_WINDOWS_NONE},
    {"in windows, NCCL_ENQUEUE_REARCH_ENABLE=1", "2.31", {.rearch = true},
     MOCK_WINDOWS_BOTH},
    // clang-format on
};

/* Plays the settings that this NCCL knows, each in a libnccl of its own. */
static void why_play_cases(const struct stp_explainer *e, const char *plugin,
                           const struct mock_call *call, struct stp_why *why)
{
    const char *version = mock_machine_get_info(e->machine)->nccl;

    for (int i = 0; i < STP_MAX_WHY_CASES; i++) {
        const struct why_setting *setting = &settings[i];
        struct mock_nccl_options options = setting->options;
        struct mock_call in_windows = *call;
        struct mock_outcome out = {.algo = -1, .proto = -1};

        if (mock_release_find(version) < mock_release_find(setting->since))
            continue;
        options.tuner_plugin = plugin;
        in_windows.windows = setting->windows;
        (void)why_collective(e, &options, &in_windows, &out);
        why->cases[why->n_cases++] = (struct stp_why_case){
            setting->where, out.kernel, {out.algo, out.proto}};
    }
}

enum stp_status stp_ask_why(const struct stp_explain_options *options,
                            uint64_t n_bytes,
                            char *(*variable)(const char *name),
                            struct stp_why *why_ret, struct stp_error *err)
{
    struct stp_why why = {.coll = options->coll, .n_bytes = n_bytes};
    struct stp_asked asked;
    struct stp_explainer e;
    enum stp_status status;

    STP_TRY(stp_explainer_open(&e, options, err));
    status = stp_explainer_ask(&e, why.coll, n_bytes, &asked, err);
    if (status != STP_OK) {
        stp_explainer_close(&e);
        return status;
    }
    why.alone = why_describe(&e, &asked, &asked.alone);
    why.tuned = why_describe(&e, &asked, &asked.tuned);
    memcpy(why.cost, asked.alone.cost, sizeof(why.cost));
    memcpy(why.cost_after, asked.tuned.cost_after, sizeof(why.cost_after));
    why.n_kernels = mock_comm_kernels(e.alone, &asked.call, why.kernels);
    why.n_copies = mock_comm_copies(e.alone, &asked.call, why.copies);
    if (why.n_kernels != 0)
        why_play_cases(&e, options->plugin, &asked.call, &why);
    why.machine = *mock_machine_get_info(e.machine);
    why.decider = asked.decider;
    why.line = asked.line;
    for (size_t i = 0; i < N_VARIABLES && variable != NULL; i++) {
        struct mock_nccl_options with = {.tuner_plugin = options->plugin};
        const char *value = variable(variables[i].name);
        struct stp_override *o = &why.overrides[why.n_overrides];

        if (value == NULL)
            continue;
        if (variables[i].play == why_play_choice) {
            with.algo = variable("NCCL_ALGO");
            with.proto = variable("NCCL_PROTO");
        }
        why.n_overrides++;
        *o = (struct stp_override){.name = variables[i].name, .value = value};
        if (variables[i].does != NULL) {
            o->kind = STP_OVERRIDE_UNPLAYED;
            snprintf(o->text, sizeof(o->text), "%s", variables[i].does);
        } else if (variables[i].play != NULL
                       ? variables[i].play(&with, value)
                       : why_play_limit(&with, variables[i].limit, value))
            why_play(&e, &with, &asked.call, &why, o);
    }
    stp_explainer_close(&e);
    *why_ret = why;
    return STP_OK;
}
