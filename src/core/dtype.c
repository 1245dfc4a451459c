#include "core/dtype.h"

#include <string.h>

#include "core/room.h"
#include "core/text.h"
#include "nccl_tuner_abi.h"

static const struct {
    const char *name;
    const char *nccl_name; /* of nccl-tests */
    unsigned size;
    bool integer;
    bool fp8;
} types[STP_N_TYPES] = {
    [STP_TYPE_I8] = {"i8", "int8", 1, true, false},
    [STP_TYPE_U8] = {"u8", "uint8", 1, true, false},
    [STP_TYPE_I32] = {"i32", "int32", 4, true, false},
    [STP_TYPE_U32] = {"u32", "uint32", 4, true, false},
    [STP_TYPE_I64] = {"i64", "int64", 8, true, false},
    [STP_TYPE_U64] = {"u64", "uint64", 8, true, false},
    [STP_TYPE_F16] = {"f16", "half", 2, false, false},
    [STP_TYPE_F32] = {"f32", "float", 4, false, false},
    [STP_TYPE_F64] = {"f64", "double", 8, false, false},
    [STP_TYPE_BF16] = {"bf16", "bfloat16", 2, false, false},
    [STP_TYPE_FP8_E4M3] = {"fp8e4m3", "f8e4m3", 1, false, true},
    [STP_TYPE_FP8_E5M2] = {"fp8e5m2", "f8e5m2", 1, false, true},
};

static const char *const ops[] = {
    [STP_OP_SUM] = "sum", [STP_OP_PROD] = "prod",
    [STP_OP_MAX] = "max", [STP_OP_MIN] = "min",
    [STP_OP_AVG] = "avg", [STP_OP_PREMULSUM] = "premulsum",
};

static bool dtype_is_word(const char *name, const char *word, size_t len)
{
    return strlen(name) == len && memcmp(name, word, len) == 0;
}

int stp_type_from_name(const char *word, size_t len)
{
    for (int i = 0; i < STP_N_TYPES; i++)
        if (dtype_is_word(types[i].name, word, len) ||
            dtype_is_word(types[i].nccl_name, word, len))
            return i;
    return -1;
}

int stp_op_from_name(const char *word, size_t len)
{
    const int op = stp_find_word(ops, STP_N_OF(ops), word, len);

    return op < 0 && dtype_is_word("mulsum", word, len) ? STP_OP_PREMULSUM : op;
}

const char *stp_type_name(int type)
{
    return types[type].name;
}

const char *stp_type_nccl_name(int type)
{
    return types[type].nccl_name;
}

const char *stp_op_name(int op)
{
    return ops[op];
}

unsigned stp_type_size(int type)
{
    return types[type].size;
}

bool stp_type_is_integer(int type)
{
    return types[type].integer;
}

bool stp_type_is_fp8(int type)
{
    return types[type].fp8;
}

bool stp_coll_reduces(int coll)
{
    return coll != ncclFuncBroadcast && coll != ncclFuncAllGather;
}

bool stp_coll_has_root(int coll)
{
    return coll == ncclFuncBroadcast || coll == ncclFuncReduce;
}
