#include "report/measurements/nccl_log.h"

#include <stdio.h>

#include "core/names.h"
#include "launch/take.h"
#include "nccl_tuner_abi.h"

void stp_nccl_log_read(struct stp_nccl_log *log,
                       const struct stp_log_message *message, bool is_log,
                       const char *end)
{
    struct stp_nccl_settings *settings = &log->settings;
    struct stp_log_fact fact;
    const struct stp_field *v = fact.value;
    struct stp_nccl_ran ran;
    uint64_t n_ranks, n_nodes;

    if (!stp_log_read(message, is_log, end, &fact))
        return;
    switch (fact.row->key) {
    case STP_LOG_VERSION:
        if (settings->nccl[0] == '\0')
            snprintf(settings->nccl, sizeof(settings->nccl), "2.%.*s",
                     STP_SHOWN(&v[0]));
        break;
    case STP_LOG_FAILURE:
        log->failure = log->failure.len > 0 ? log->failure : fact.message;
        break;
    case STP_LOG_SHAPE:
        if (!stp_parse_u64(v[1].s, v[1].len, &n_ranks) ||
            !stp_parse_u64(v[2].s, v[2].len, &n_nodes) || n_nodes == 0 ||
            n_nodes > n_ranks || n_ranks > UINT32_MAX)
            break;
        if (log->n_comms > 0 &&
            log->comms[log->n_comms - 1].n_ranks == n_ranks &&
            log->comms[log->n_comms - 1].n_nodes == n_nodes)
            break;
        STP_TAKE_ROOM(log->comms, log->n_comms, log->comms_capacity);
        log->comms[log->n_comms++] =
            (struct stp_nccl_comm){(unsigned)n_ranks, (unsigned)n_nodes};
        break;
    case STP_LOG_RAN:
        ran = (struct stp_nccl_ran){
            stp_from_any_case(v[0].s, v[0].len, stp_coll_from_name), 0,
            stp_log_word(&v[2], NCCL_NUM_ALGORITHMS, stp_algo_from_name),
            stp_log_word(&v[3], NCCL_NUM_PROTOCOLS, stp_proto_from_name)};
        if (!stp_parse_u64(v[1].s, v[1].len, &ran.n_bytes) || ran.algo < 0 ||
            ran.proto < 0)
            break;
        STP_TAKE_ROOM(log->ran, log->n_ran, log->capacity);
        log->ran[log->n_ran++] = ran;
        break;
    case STP_LOG_VARIABLE:
        if (stp_field_is(&v[0], "ALGO") || stp_field_is(&v[0], "PROTO"))
            snprintf(v[0].s[0] == 'A' ? settings->algo : settings->proto,
                     sizeof(settings->algo), "%.*s", STP_SHOWN(&v[1]));
        break;
    default:
        settings->has_tuner |= fact.row->key == STP_LOG_TUNER;
    }
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
