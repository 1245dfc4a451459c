#include "device/cpu/cpu_data.h"

#include <stdlib.h>
#include <string.h>

#include "device/cpu/reduce.h"
#include "device/pattern.h"

/* ---- memory ---- */

/* Every page is written to, so that no collective is the first to. */
static void *make_buffer(uint64_t nbytes)
{
    void *buffer = malloc(nbytes + 1);

    if (buffer != NULL)
        memset(buffer, 0, nbytes + 1);
    return buffer;
}

enum stp_status stp_cpu_buffers_make(struct stp_cpu_buffers *buffers,
                                     unsigned rank, unsigned n_ranks,
                                     uint64_t nbytes, struct stp_error *err)
{
    buffers->rank = rank;
    buffers->n_ranks = n_ranks;
    if (buffers->in == NULL)
        buffers->in = make_buffer(nbytes);
    if (buffers->out == NULL)
        buffers->out = make_buffer(nbytes);
    if (buffers->in == NULL || buffers->out == NULL)
        return stp_fail(err, STP_ERR_NOMEM,
                        "no memory for two buffers of %llu bytes",
                        (unsigned long long)nbytes);
    return STP_OK;
}

void stp_cpu_buffers_free(struct stp_cpu_buffers *buffers)
{
    free(buffers->in);
    free(buffers->out);
}

/* ---- what runs ---- */

static struct stp_pattern pattern_of(const struct stp_collective *what,
                                     const struct stp_cpu_buffers *buffers,
                                     uint64_t seed, uint64_t *n_send_ret,
                                     uint64_t *n_recv_ret)
{
    struct stp_pattern p = {.coll = what->coll,
                            .type = what->type,
                            .op = what->op,
                            .root = what->root,
                            .ranks = buffers->n_ranks,
                            .seed = seed};

    stp_pattern_sizes(&p, what->n_bytes, n_send_ret, n_recv_ret);
    return p;
}

struct stp_transfer stp_cpu_transfer(const struct stp_collective *what,
                                     const struct stp_cpu_buffers *buffers)
{
    uint64_t n_send, n_recv;
    const struct stp_pattern p = pattern_of(what, buffers, 0, &n_send, &n_recv);
    const uint64_t offset = p.block * buffers->rank * stp_type_size(what->type);
    struct stp_transfer t = {.coll = what->coll,
                             .type = what->type,
                             .op =
                                 what->op == STP_OP_AVG ? STP_OP_SUM : what->op,
                             .root = (int)what->root,
                             .n = p.block,
                             .in = buffers->in,
                             .out = buffers->out,
                             .in_place = what->in_place};

    if (!what->in_place)
        return t;
    t.in = t.out;
    if (what->coll == ncclFuncAllGather)
        t.in = (char *)t.out + offset;
    if (what->coll == ncclFuncReduceScatter)
        t.out = (char *)t.out + offset;
    return t;
}

uint64_t stp_cpu_result_size(const struct stp_collective *what,
                             const struct stp_cpu_buffers *buffers)
{
    uint64_t n_send, n_recv;

    pattern_of(what, buffers, 0, &n_send, &n_recv);
    return what->coll == ncclFuncReduce && what->root != buffers->rank ? 0
                                                                       : n_recv;
}

/* ---- what can run ---- */

static enum stp_status check_type(const struct stp_collective *what,
                                  struct stp_error *err)
{
    if (what->type < 0 || what->type >= STP_N_TYPES)
        return stp_fail(err, STP_ERR_RANGE, "no datatype %d", what->type);
    if (!stp_coll_reduces(what->coll))
        return STP_OK;
    if (stp_type_is_fp8(what->type))
        return stp_fail(err, STP_ERR_RANGE, "CPUs do not reduce %s",
                        stp_type_name(what->type));
    if (what->op < 0 || what->op >= STP_N_OPS)
        return stp_fail(err, STP_ERR_RANGE,
                        "CPUs do not reduce by operation %d", what->op);
    return STP_OK;
}

static enum stp_status check_size(const struct stp_collective *what,
                                  const struct stp_cpu_buffers *buffers,
                                  uint64_t max_bytes,
                                  const struct stp_transport_ops *transport,
                                  struct stp_error *err)
{
    const uint64_t n = stp_cpu_transfer(what, buffers).n;
    const bool blocks =
        what->coll == ncclFuncAllGather || what->coll == ncclFuncReduceScatter;
    const uint64_t grain =
        stp_type_size(what->type) * (uint64_t)(blocks ? buffers->n_ranks : 1);

    if (what->n_bytes % grain != 0)
        return stp_fail(
            err, STP_ERR_RANGE, "%llu bytes are no multiple of %llu",
            (unsigned long long)what->n_bytes, (unsigned long long)grain);
    if (what->n_bytes > max_bytes)
        return stp_fail(err, STP_ERR_RANGE,
                        "%llu bytes, but the device was opened for %llu",
                        (unsigned long long)what->n_bytes,
                        (unsigned long long)max_bytes);
    if (n > transport->max_elements)
        return stp_fail(err, STP_ERR_RANGE,
                        "%llu elements, but %s counts no more than %llu",
                        (unsigned long long)n, transport->name,
                        (unsigned long long)transport->max_elements);
    return STP_OK;
}

enum stp_status stp_cpu_check_collective(
    const struct stp_collective *what, const struct stp_cpu_buffers *buffers,
    uint64_t max_bytes, const struct stp_transport_ops *transport,
    struct stp_error *err)
{
    enum stp_status status;

    if (what->coll < ncclFuncBroadcast || what->coll > ncclFuncAllReduce)
        return stp_fail(err, STP_ERR_RANGE, "no collective %d", what->coll);
    if (stp_coll_has_root(what->coll) && what->root >= buffers->n_ranks)
        return stp_fail(err, STP_ERR_RANGE, "root %u of %u ranks", what->root,
                        buffers->n_ranks);
    status = check_type(what, err);
    if (status == STP_OK)
        status = check_size(what, buffers, max_bytes, transport, err);
    return status;
}

/* ---- running it ---- */

enum stp_status stp_cpu_collective(const struct stp_transport_ops *transport,
                                   void *link, unsigned stream,
                                   const struct stp_collective *what,
                                   const struct stp_cpu_buffers *buffers,
                                   struct stp_error *err)
{
    const struct stp_transfer t = stp_cpu_transfer(what, buffers);
    enum stp_status status;

    if (t.n == 0)
        return STP_OK;
    status = transport->collective(link, stream, &t, err);
    if (status == STP_OK && what->op == STP_OP_AVG &&
        stp_coll_reduces(what->coll))
        stp_reduce_divide(what->type, t.out, stp_cpu_result_size(what, buffers),
                          buffers->n_ranks);
    return status;
}

/* ---- elements ---- */

static void put(void *data, unsigned size, uint64_t i, uint64_t bits)
{
    if (size == 1)
        ((uint8_t *)data)[i] = (uint8_t)bits;
    else if (size == 2)
        ((uint16_t *)data)[i] = (uint16_t)bits;
    else if (size == 4)
        ((uint32_t *)data)[i] = (uint32_t)bits;
    else
        ((uint64_t *)data)[i] = bits;
}

static uint64_t get(const void *data, unsigned size, uint64_t i)
{
    if (size == 1)
        return ((const uint8_t *)data)[i];
    if (size == 2)
        return ((const uint16_t *)data)[i];
    if (size == 4)
        return ((const uint32_t *)data)[i];
    return ((const uint64_t *)data)[i];
}

void stp_cpu_data_fill(const struct stp_collective *what,
                       const struct stp_cpu_buffers *buffers, uint64_t seed)
{
    uint64_t n_send, n_recv;
    const struct stp_pattern p =
        pattern_of(what, buffers, seed, &n_send, &n_recv);
    const struct stp_transfer t = stp_cpu_transfer(what, buffers);
    const unsigned size = stp_type_size(what->type);
    const bool gives =
        what->coll != ncclFuncBroadcast || what->root == buffers->rank;

    for (uint64_t i = 0; i < n_recv; i++)
        put(t.out, size, i, stp_pattern_poison(&p, buffers->rank, i));
    for (uint64_t i = 0; gives && i < n_send; i++)
        put((void *)t.in, size, i, stp_pattern_input(&p, buffers->rank, i));
}

uint64_t stp_cpu_data_count_wrong(const struct stp_collective *what,
                                  const struct stp_cpu_buffers *buffers,
                                  uint64_t seed)
{
    uint64_t n_send, n_recv;
    const struct stp_pattern p =
        pattern_of(what, buffers, seed, &n_send, &n_recv);
    const struct stp_transfer t = stp_cpu_transfer(what, buffers);
    const unsigned size = stp_type_size(what->type);
    const uint64_t n = stp_cpu_result_size(what, buffers);
    uint64_t n_wrong = 0;

    for (uint64_t i = 0; i < n; i++)
        n_wrong +=
            !stp_pattern_right(&p, buffers->rank, i, get(t.out, size, i));
    return n_wrong;
}
