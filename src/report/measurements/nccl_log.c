#include "report/measurements/nccl_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/room.h"
#include "nccl_tuner_abi.h"

/* The number of a name of NCCL's, in capitals, or of a number. */
static int log_parse_word(const struct stp_field *f, int n,
                          int (*from_name)(const char *, size_t))
{
    uint64_t number;

    if (stp_parse_u64(f->s, f->len, &number))
        return number < (uint64_t)n ? (int)number : -1;
    return stp_from_any_case(f->s, f->len, from_name);
}

static enum stp_status log_add_comm(struct stp_nccl_log *log,
                                    const struct stp_field *v,
                                    struct stp_error *err)
{
    const struct stp_nccl_comm *last =
        log->n_comms > 0 ? &log->comms[log->n_comms - 1] : NULL;
    uint64_t n_ranks, n_nodes;

    if (!stp_parse_u64(v[1].s, v[1].len, &n_ranks) ||
        !stp_parse_u64(v[2].s, v[2].len, &n_nodes) || n_nodes == 0 ||
        n_nodes > n_ranks || n_ranks > UINT32_MAX ||
        (last != NULL && last->n_ranks == n_ranks && last->n_nodes == n_nodes))
        return STP_OK;
    if (!STP_ROOM(log->comms, log->n_comms, log->comms_capacity))
        return stp_nomem(err);
    log->comms[log->n_comms++] =
        (struct stp_nccl_comm){(unsigned)n_ranks, (unsigned)n_nodes};
    return STP_OK;
}

static enum stp_status log_add_ran(struct stp_nccl_log *log,
                                   const struct stp_field *v,
                                   struct stp_error *err)
{
    struct stp_nccl_ran ran = {
        .coll = stp_from_any_case(v[0].s, v[0].len, stp_coll_from_name),
        .algo = log_parse_word(&v[2], NCCL_NUM_ALGORITHMS, stp_algo_from_name),
        .proto =
            log_parse_word(&v[3], NCCL_NUM_PROTOCOLS, stp_proto_from_name)};

    if (!stp_parse_u64(v[1].s, v[1].len, &ran.n_bytes) || ran.algo < 0 ||
        ran.proto < 0)
        return STP_OK;
    if (!STP_ROOM(log->ran, log->n_ran, log->capacity))
        return stp_nomem(err);
    log->ran[log->n_ran++] = ran;
    return STP_OK;
}

enum stp_status stp_nccl_log_read(struct stp_nccl_log *log,
                                  const struct stp_log_message *message,
                                  const char *end, struct stp_error *err)
{
    struct stp_log_fact fact;
    const struct stp_field *v = fact.value;

    if (message->s == NULL || !stp_log_read(message, true, end, &fact))
        return STP_OK;
    if (fact.row->key == STP_LOG_SHAPE)
        return log_add_comm(log, v, err);
    if (fact.row->key == STP_LOG_RAN)
        return log_add_ran(log, v, err);
    log->settings.has_tuner |= fact.row->key == STP_LOG_TUNER;
    if (fact.row->key == STP_LOG_VARIABLE && stp_field_is(&v[0], "ALGO"))
        snprintf(log->settings.algo, sizeof(log->settings.algo), "%.*s",
                 STP_SHOWN(&v[1]));
    if (fact.row->key == STP_LOG_VARIABLE && stp_field_is(&v[0], "PROTO"))
        snprintf(log->settings.proto, sizeof(log->settings.proto), "%.*s",
                 STP_SHOWN(&v[1]));
    return STP_OK;
}

void stp_nccl_log_free(struct stp_nccl_log *log)
{
    free(log->ran);
    free(log->comms);
    memset(log, 0, sizeof(*log));
}

bool stp_nccl_log_pair(const struct stp_nccl_log *log, int coll,
                       uint64_t n_bytes, unsigned n_ranks, int *algo_ret,
                       int *proto_ret)
{
    bool is_split = coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;
    const struct stp_nccl_ran *found = NULL;

    for (size_t i = 0; i < log->n_ran; i++) {
        const struct stp_nccl_ran *r = &log->ran[i];
        uint64_t parts = r->coll >= 0 && is_split ? n_ranks : 1;

        if ((r->coll >= 0 && r->coll != coll) || r->n_bytes * parts != n_bytes)
            continue;
        if (found != NULL &&
            (r->algo != found->algo || r->proto != found->proto))
            return false;
        found = r;
    }
    if (found == NULL)
        return false;
    *algo_ret = found->algo;
    *proto_ret = found->proto;
    return true;
}

const struct stp_nccl_comm *stp_nccl_log_comm(const struct stp_nccl_log *log,
                                              unsigned n_ranks)
{
    for (size_t i = log->n_comms; i-- > 0;)
        if (n_ranks == 0 || log->comms[i].n_ranks == n_ranks)
            return &log->comms[i];
    return NULL;
}
