#include "analyse/explain/explainer.h"

#include <inttypes.h>
#include <string.h>

#include "core/names.h"
#include "analyse/explain/overrides.h"
#include "device/mock/operation.h"

enum { ELEMENT_SIZE = 2 };

/* The line that says what the plugin did, or 0. */
static unsigned explainer_find_line(const struct stp_explainer *e,
                                    const struct mock_call *call,
                                    const struct mock_outcome *out)
{
    const struct stp_query query = {(int)call->coll, call->n_bytes, 1, 0};
    const struct stp_cost_view view = {out->cost[0], NCCL_NUM_ALGORITHMS,
                                       NCCL_NUM_PROTOCOLS};
    struct stp_choice choice;

    if (e->compiled == NULL ||
        !stp_compiled_lookup(e->compiled, &query, &view, &choice) ||
        choice.algo != out->algo || choice.proto != out->proto ||
        choice.n_channels != out->asked_channels)
        return 0;
    return choice.line;
}

enum stp_status stp_explainer_ask(struct stp_explainer *explainer, int coll,
                                  uint64_t n_bytes, struct stp_asked *a,
                                  struct stp_error *err)
{
    bool is_pair;

    memset(a, 0, sizeof(*a));
    a->call = (struct mock_call){.coll = (ncclFunc_t)coll,
                                 .n_bytes = n_bytes,
                                 .element_size = ELEMENT_SIZE};
    if (mock_comm_collective(explainer->alone, &a->call, &a->alone) !=
            ncclSuccess ||
        mock_comm_collective(explainer->tuned, &a->call, &a->tuned) !=
            ncclSuccess)
        return stp_fail(err, STP_ERR_DEVICE,
                        "%s of %" PRIu64 " bytes fails: %s",
                        stp_coll_name(coll), n_bytes, mock_last_error());
    /* 2.21 asks for a pair, and shows no table */
    is_pair = mock_comm_tuner_version(explainer->tuned) == 2;
    if (is_pair)
        a->line = explainer_find_line(explainer, &a->call, &a->tuned);
    if (a->line == 0 && a->tuned.asked_channels == 0 &&
        (!is_pair || (a->tuned.algo == a->alone.algo &&
                      a->tuned.proto == a->alone.proto)) &&
        memcmp(a->tuned.cost, a->tuned.cost_after, sizeof(a->tuned.cost)) == 0)
        return STP_OK;
    a->line = explainer_find_line(explainer, &a->call, &a->tuned);
    a->decider = a->line != 0         ? STP_DECIDER_RULE
                 : explainer->is_over ? STP_DECIDER_BELOW
                                      : STP_DECIDER_PLUGIN;
    return STP_OK;
}

enum stp_status stp_explainer_comm(const struct stp_explainer *explainer,
                                   const struct mock_nccl_options *options,
                                   struct mock_nccl **nccl,
                                   struct mock_comm **comm,
                                   struct stp_error *err)
{
    struct mock_nccl_options all = *options;

    all.version = explainer->nccl;
    if (mock_nccl_create(&all, nccl) != ncclSuccess ||
        mock_comm_create(*nccl, explainer->machine, mock_new_comm_id(), comm) !=
            ncclSuccess)
        return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    return STP_OK;
}

enum stp_status stp_explainer_open(struct stp_explainer *e,
                                   const struct stp_explain_options *options,
                                   struct stp_error *err)
{
    const struct mock_nccl_options alone = {.tuner_plugin = "none"};
    struct mock_nccl_options tuned = alone;
    const struct mock_machine_info *m;
    enum stp_status status = STP_OK;
    struct stp_shape shape;

    memset(e, 0, sizeof(*e));
    if (mock_machine_load(options->machine_path, &e->machine) != ncclSuccess)
        return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    m = mock_machine_get_info(e->machine);
    e->nccl = options->nccl != NULL ? options->nccl : m->nccl;
    e->is_over = options->is_over;
    if (options->plugin != NULL)
        tuned.tuner_plugin = options->plugin;
    stp_overrides_play(options, e->nccl, &tuned);
    shape = (struct stp_shape){(size_t)m->n_ranks, (size_t)m->n_nodes, m->gpu};
    if (options->policy != NULL)
        status = stp_policy_compile(options->policy, &shape, &e->compiled, err);
    STP_THEN(status,
             stp_explainer_comm(e, &alone, &e->nccl_alone, &e->alone, err));
    STP_THEN(status,
             stp_explainer_comm(e, &tuned, &e->nccl_tuned, &e->tuned, err));
    if (options->plugin != NULL)
        STP_THEN(status,
                 stp_mock_check_tuner(e->tuned, e->nccl, options->plugin, err));
    if (status != STP_OK)
        stp_explainer_close(e);
    return status;
}

void stp_explainer_close(struct stp_explainer *e)
{
    mock_comm_destroy(e->alone);
    mock_comm_destroy(e->tuned);
    mock_nccl_destroy(e->nccl_alone);
    mock_nccl_destroy(e->nccl_tuned);
    stp_compiled_free(e->compiled);
    mock_machine_free(e->machine);
}

uint64_t stp_explainer_grain(const struct stp_explainer *explainer)
{
    return (uint64_t)mock_machine_get_info(explainer->machine)->n_ranks *
           ELEMENT_SIZE;
}
