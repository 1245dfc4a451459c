#include "device/mock/operation.h"

#include "core/dtype.h"

/* Operations as NCCL's kernels know them. */
enum device_op { SUM, PROD, MIN_MAX, PRE_MUL_SUM, SUM_POST_DIV, N_DEVICE_OPS };

/* Operations that NVLS can do, as bits. */
enum { NOTHING = 0, SUMS = 1 << SUM, SUMS_AND_ORDER = 1 << SUM | 1 << MIN_MAX };

static const unsigned nvls[STP_N_TYPES] = {
    [STP_TYPE_I8] = NOTHING,         [STP_TYPE_U8] = NOTHING,
    [STP_TYPE_I32] = SUMS_AND_ORDER, [STP_TYPE_U32] = SUMS_AND_ORDER,
    [STP_TYPE_I64] = SUMS_AND_ORDER, [STP_TYPE_U64] = SUMS_AND_ORDER,
    [STP_TYPE_F16] = SUMS_AND_ORDER, [STP_TYPE_BF16] = SUMS_AND_ORDER,
    [STP_TYPE_F32] = SUMS,           [STP_TYPE_F64] = SUMS,
    [STP_TYPE_FP8_E4M3] = NOTHING,   [STP_TYPE_FP8_E5M2] = NOTHING,
};

static const struct {
    enum device_op on_integers;
    enum device_op on_floats;
} ops[] = {
    [STP_OP_SUM] = {SUM, SUM},
    [STP_OP_PROD] = {PROD, PROD},
    [STP_OP_MIN] = {MIN_MAX, MIN_MAX},
    [STP_OP_MAX] = {MIN_MAX, MIN_MAX},
    [STP_OP_AVG] = {SUM_POST_DIV, PRE_MUL_SUM},
    [STP_OP_PREMULSUM] = {PRE_MUL_SUM, PRE_MUL_SUM},
};

/* NCCL moves broadcasts and allgathers as bytes, and reduces none. */
void stp_set_operation(struct mock_call *call, int type, int op)
{
    enum device_op device_op =
        stp_type_is_integer(type) ? ops[op].on_integers : ops[op].on_floats;

    call->element_size = stp_type_size(type);
    if (!stp_coll_reduces((int)call->coll))
        return;
    call->kind = 1 + (unsigned)type * N_DEVICE_OPS + (unsigned)device_op;
    call->no_nvls = !(nvls[type] >> device_op & 1);
    call->no_pat = device_op == PRE_MUL_SUM || device_op == SUM_POST_DIV;
    call->fp8 = stp_type_is_fp8(type);
    call->reduction = stp_type_is_integer(type) || type == STP_TYPE_F64
                          ? MOCK_REDUCTION_OTHER
                      : op == STP_OP_SUM ? MOCK_REDUCTION_SUM
                      : op == STP_OP_AVG ? MOCK_REDUCTION_AVERAGE
                                         : MOCK_REDUCTION_OTHER;
}

enum stp_status stp_mock_check_tuner(const struct mock_comm *comm,
                                     const char *version, const char *plugin,
                                     struct stp_error *err)
{
    if (mock_comm_tuner_version(comm) != 0)
        return STP_OK;
    return stp_fail(err, STP_ERR_DEVICE,
                    "NCCL %s would not load tuner plugin '%s': `steptune "
                    "replay --contract` with it says why",
                    version, plugin);
}

enum stp_source stp_mock_source(enum mock_time_source source)
{
    static const enum stp_source sources[] = {
        [MOCK_TIME_RECORDED] = STP_SOURCE_RECORDED,
        [MOCK_TIME_INTERPOLATED] = STP_SOURCE_INTERPOLATED,
        [MOCK_TIME_VIRTUAL] = STP_SOURCE_VIRTUAL,
        [MOCK_TIME_MODELLED] = STP_SOURCE_MODELLED,
    };

    return sources[source];
}
