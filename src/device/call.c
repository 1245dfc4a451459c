#include "device/call.h"

#include <limits.h>

#include "nccl_tuner_abi.h"

static bool collective_is_in_blocks(const struct stp_collective *c)
{
    return c->coll == ncclFuncAllGather || c->coll == ncclFuncReduceScatter;
}

enum stp_status stp_rank_groups_check(const struct stp_rank_groups *groups,
                                      unsigned n_ranks, struct stp_error *err)
{
    const uint64_t block = (uint64_t)groups->size * groups->stride;

    return groups->size == 0 || (block > 0 && n_ranks % block == 0)
               ? STP_OK
               : STP_REFUSE(err,
                            "groups of %u ranks that are %u apart, of %u ranks",
                            groups->size, groups->stride, n_ranks);
}

enum stp_status stp_collective_check(const struct stp_collective *c,
                                     unsigned n_ranks, uint64_t max_bytes,
                                     struct stp_error *err)
{
    uint64_t grain;

    STP_TRY(stp_rank_groups_check(&c->groups, n_ranks, err));
    n_ranks = stp_collective_ranks(c, n_ranks);
    if (c->coll < ncclFuncBroadcast || c->coll > ncclFuncAllReduce)
        return STP_REFUSE(err, "no collective %d", c->coll);
    if (stp_coll_has_root(c->coll) && c->root >= n_ranks)
        return STP_REFUSE(err, "root %u of %u ranks", c->root, n_ranks);
    if (c->type < 0 || c->type >= STP_N_TYPES)
        return STP_REFUSE(err, "no datatype %d", c->type);
    grain = stp_type_size(c->type) *
            (uint64_t)(collective_is_in_blocks(c) ? n_ranks : 1);
    if (c->n_bytes % grain != 0)
        return STP_REFUSE(err, "%llu bytes are no multiple of %llu",
                          (unsigned long long)c->n_bytes,
                          (unsigned long long)grain);
    if (c->n_bytes > max_bytes)
        return STP_REFUSE(err, "%llu bytes, but the device was opened for %llu",
                          (unsigned long long)c->n_bytes,
                          (unsigned long long)max_bytes);
    return STP_OK;
}

struct stp_transfer stp_collective_of_rank(const struct stp_collective *c,
                                           unsigned rank, unsigned n_ranks,
                                           char *send, char *recv)
{
    const uint64_t n = c->n_bytes / stp_type_size(c->type);
    const uint64_t block =
        collective_is_in_blocks(c) ? n / stp_collective_ranks(c, n_ranks) : n;
    const uint64_t mine =
        stp_rank_in_group(&c->groups, rank) * block * stp_type_size(c->type);

    if (c->in_place) {
        send = c->coll == ncclFuncAllGather ? recv + mine : recv;
        recv = c->coll == ncclFuncReduceScatter ? recv + mine : recv;
    }
    return (struct stp_transfer){.coll = c->coll,
                                 .type = c->type,
                                 .op = c->op,
                                 .root = (int)c->root,
                                 .n = block,
                                 .in = send,
                                 .out = recv,
                                 .in_place = c->in_place};
}

enum stp_status stp_product_check(const struct stp_product *p,
                                  struct stp_error *err)
{
    const struct stp_gemm *g = &p->gemm;
    const bool is_half = g->type == STP_TYPE_F16 || g->type == STP_TYPE_BF16;

    if (g->m < 1 || g->n < 1 || g->k < 1 || g->m > INT_MAX || g->n > INT_MAX ||
        g->k > INT_MAX)
        return STP_REFUSE(err, "a GEMM of %u x %u x %u", g->m, g->n, g->k);
    if (!is_half && g->type != STP_TYPE_F32 && g->type != STP_TYPE_F64)
        return STP_REFUSE(err,
                          "no GEMMs of type %s, only f32, f64, f16 and bf16",
                          stp_type_name(g->type));
    if (p->type_c != g->type && !(is_half && p->type_c == STP_TYPE_F32))
        return STP_REFUSE(err, "a product of %s into type %d, expected %s%s",
                          stp_type_name(g->type), p->type_c,
                          stp_type_name(g->type), is_half ? " or f32" : "");
    return STP_OK;
}

const char *stp_kernel_name(enum stp_kernel_kind kind)
{
    static const char *const names[STP_N_KERNELS] = {
        [STP_KERNEL_ZERO] = "zero",
        [STP_KERNEL_RELU_BACKWARD] = "ReLU backward",
        [STP_KERNEL_COLUMN_SUM] = "column sum",
        [STP_KERNEL_FIND_NONFINITE] = "find overflow",
        [STP_KERNEL_CAST] = "cast",
        [STP_KERNEL_SCALE] = "scale",
        [STP_KERNEL_SUBTRACT] = "elementwise",
    };

    return names[kind];
}

unsigned stp_splits_find(const struct stp_splits *splits,
                         const struct stp_rank_groups *groups)
{
    for (unsigned i = 0; i < splits->n && groups->size != 0; i++)
        if (splits->all[i].size == groups->size &&
            splits->all[i].stride == groups->stride)
            return i + 1;
    return 0;
}

enum stp_status stp_splits_add(struct stp_splits *splits,
                               const struct stp_rank_groups *groups,
                               struct stp_error *err)
{
    if (splits->n == STP_MAX_SPLITS)
        return STP_REFUSE(err,
                          "more than %d ways to divide the ranks into groups",
                          STP_MAX_SPLITS);
    splits->all[splits->n++] = *groups;
    return STP_OK;
}
