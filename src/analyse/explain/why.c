#include "analyse/explain/why.h"

#include <math.h>
#include <stdio.h>
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

    /* nobody has a time of what NCCL had ruled out, or of another version */
    if (mock_release_find(e->nccl) ==
            mock_release_find(mock_machine_get_info(e->machine)->nccl) &&
        mock_machine_mean_time(e->machine, &run, &time) == ncclSuccess &&
        time.source != MOCK_TIME_MODELLED) {
        r.us = time.us;
        r.source = stp_mock_source(time.source);
        r.single_pass = time.is_single_pass;
    }
    return r;
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

/* Asks once more, of a libnccl that knows the variables. */
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
    o->kind = stp_pick_equal(o->pick, why->tuned.pick) &&
                      o->n_channels == why->tuned.n_channels
                  ? STP_OVERRIDE_NOTHING
                  : STP_OVERRIDE_RUNS;
}

/* Plays the variables that are set, all together and each alone. */
static void why_play_variables(const struct stp_explainer *e,
                               const struct stp_explain_options *options,
                               const struct stp_asked *asked,
                               struct stp_why *why)
{
    struct mock_nccl_options all = {.tuner_plugin = options->plugin};
    const struct mock_call *call = &asked->call;
    const size_t n = stp_overrides_play(options, e->nccl, &all);
    struct mock_outcome out;
    struct stp_variable v;

    if (n > 0 && why_collective(e, &all, call, &out)) {
        why->set = why_describe(e, asked, &out);
        why->has_set = !stp_pick_equal(why->set.pick, why->tuned.pick) ||
                       why->set.n_channels != why->tuned.n_channels;
    }
    if (n > 1)
        why_play(e, &all, call, why, &why->overrides[why->n_overrides++]);
    for (size_t i = 0;
         stp_variable_at(i, &v) && why->n_overrides < STP_MAX_OVERRIDES; i++) {
        struct mock_nccl_options with = {.tuner_plugin = options->plugin};
        const char *value = options->variable(v.name);
        struct stp_override *o = &why->overrides[why->n_overrides];

        if (value == NULL || v.plays[0] == '\0')
            continue;
        why->n_overrides++;
        snprintf(o->name, sizeof(o->name), "%s", v.name);
        o->value = value;
        o->kind = stp_override_play(&v, value, e->nccl, &with);
        if (o->kind == STP_OVERRIDE_RUNS)
            why_play(e, &with, call, why, o);
        else
            snprintf(o->text, sizeof(o->text), "%s", v.does);
    }
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

enum stp_status stp_ask_why(const struct stp_explain_options *options,
                            uint64_t n_bytes, struct stp_why *why_ret,
                            struct stp_error *err)
{
    struct stp_explain_options unset = *options;
    struct stp_why why = {.coll = options->coll, .n_bytes = n_bytes};
    struct stp_asked asked;
    struct stp_explainer e;
    enum stp_status status;

    unset.variable = NULL;
    STP_TRY(stp_explainer_open(&e, &unset, err));
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
    /* Plays the settings that this NCCL knows, each in a libnccl of its own. */
    for (int i = 0; i < STP_MAX_WHY_CASES && why.n_kernels != 0; i++) {
        const struct why_setting *setting = &settings[i];
        struct mock_nccl_options of_case = setting->options;
        struct mock_call call = asked.call;
        struct mock_outcome out = {.algo = -1, .proto = -1};

        if (mock_release_find(e.nccl) < mock_release_find(setting->since))
            continue;
        of_case.tuner_plugin = options->plugin;
        call.windows = setting->windows;
        (void)why_collective(&e, &of_case, &call, &out);
        why.cases[why.n_cases++] = (struct stp_why_case){
            setting->where, out.kernel, {out.algo, out.proto}};
    }
    why.machine = *mock_machine_get_info(e.machine);
    snprintf(why.nccl, sizeof(why.nccl), "%s", e.nccl);
    why.decider = asked.decider;
    why.line = asked.line;
    if (options->variable != NULL)
        why_play_variables(&e, options, &asked, &why);
    stp_explainer_close(&e);
    *why_ret = why;
    return STP_OK;
}
