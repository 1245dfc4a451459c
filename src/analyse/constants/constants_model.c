#include "analyse/constants/constants_model.h"

#include <stdlib.h>
#include <string.h>

#include "device/mock/operation.h"
#include "mock_nccl.h"

struct stp_const_model {
    struct mock_machine *machine;
    struct mock_nccl *nccl;
    struct mock_comm *comm; /* NULL until it is built */
    int release;
    ncclTunerConstants_v7_t constants; /* that 'nccl' reads */
    enum stp_status status;            /* of the first failure */
    struct stp_error *err;
};

void stp_const_model_fail(struct stp_const_model *m, enum stp_status status)
{
    STP_THEN(m->status, status);
}

static void const_model_fail_device(struct stp_const_model *m)
{
    STP_THEN(m->status,
             stp_fail(m->err, STP_ERR_DEVICE, "%s", mock_last_error()));
}

enum stp_status stp_const_model_status(const struct stp_const_model *m)
{
    return m->status;
}

static void const_model_open_nccl(struct stp_const_model *m,
                                  const struct stp_constants_terms *terms)
{
    struct mock_nccl_options options = {.version = terms->nccl,
                                        .tuner_plugin = "none",
                                        .constants = &m->constants};

    if (mock_machine_load(terms->machine_path, &m->machine) != ncclSuccess) {
        const_model_fail_device(m);
        return;
    }
    if (options.version[0] == '\0')
        options.version = mock_machine_get_info(m->machine)->nccl;
    m->release = mock_release_find(options.version);
    if (m->release < mock_release_find("2.28") ||
        m->release > mock_release_find("2.30")) {
        m->status = stp_fail(m->err, STP_ERR_DEVICE,
                             "NCCL '%.40s' takes no constants from a tuner, "
                             "expected 2.28 to 2.30",
                             options.version);
        return;
    }
    mock_release_constants(m->release, &m->constants);
    if (mock_nccl_create(&options, &m->nccl) != ncclSuccess)
        const_model_fail_device(m);
    else
        stp_const_model_build(m, &m->constants);
}

enum stp_status stp_const_model_open(const struct stp_constants_terms *terms,
                                     struct stp_const_model **model_ret,
                                     struct stp_error *err)
{
    struct stp_const_model *m = calloc(1, sizeof(*m));
    enum stp_status status;

    if (m == NULL)
        return stp_nomem(err);
    m->err = err;
    const_model_open_nccl(m, terms);
    status = m->status;
    if (status == STP_OK)
        *model_ret = m;
    else
        stp_const_model_close(m);
    return status;
}

void stp_const_model_close(struct stp_const_model *m)
{
    if (m == NULL)
        return;
    if (m->comm != NULL)
        mock_comm_destroy(m->comm);
    mock_nccl_destroy(m->nccl);
    mock_machine_free(m->machine);
    free(m);
}

unsigned stp_const_model_ranks(const struct stp_const_model *m)
{
    return (unsigned)mock_machine_get_info(m->machine)->n_ranks;
}

unsigned stp_const_model_nodes(const struct stp_const_model *m)
{
    return (unsigned)mock_machine_get_info(m->machine)->n_nodes;
}

void stp_const_model_defaults(const struct stp_const_model *m,
                              ncclTunerConstants_v7_t *constants_ret)
{
    mock_release_constants(m->release, constants_ret);
}

void stp_const_model_build(struct stp_const_model *m,
                           const ncclTunerConstants_v7_t *constants)
{
    if (m->status != STP_OK)
        return;
    if (m->comm != NULL)
        mock_comm_destroy(m->comm);
    m->comm = NULL;
    if (constants != &m->constants)
        m->constants = *constants;
    if (mock_comm_create(m->nccl, m->machine, 1, &m->comm) != ncclSuccess)
        const_model_fail_device(m);
}

int stp_const_model_ask(struct stp_const_model *m,
                        const struct stp_const_question *question,
                        float cost_ret[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS])
{
    struct mock_call call = {.coll = (ncclFunc_t)question->coll,
                             .n_bytes = question->n_bytes};
    struct mock_outcome out = {0};

    stp_set_operation(&call, question->type, question->op);
    if (m->status == STP_OK &&
        mock_comm_collective(m->comm, &call, &out) != ncclSuccess)
        const_model_fail_device(m);
    if (cost_ret != NULL)
        memcpy(cost_ret, out.cost, sizeof(out.cost));
    return m->status == STP_OK ? out.algo * NCCL_NUM_PROTOCOLS + out.proto : 0;
}
