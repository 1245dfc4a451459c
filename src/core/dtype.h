/* dtype.h - datatypes and reductions
 *
 * Numbered as ncclDataType_t and ncclRedOp_t of NCCL 2.24 and later.  Each has
 * a word of ours, for files, and that of NVIDIA's nccl-tests; both are read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum stp_type {
    STP_TYPE_I8,
    STP_TYPE_U8,
    STP_TYPE_I32,
    STP_TYPE_U32,
    STP_TYPE_I64,
    STP_TYPE_U64,
    STP_TYPE_F16,
    STP_TYPE_F32,
    STP_TYPE_F64,
    STP_TYPE_BF16,
    STP_TYPE_FP8_E4M3,
    STP_TYPE_FP8_E5M2,
    STP_N_TYPES,
};

enum stp_op {
    STP_OP_SUM,
    STP_OP_PROD,
    STP_OP_MAX,
    STP_OP_MIN,
    STP_OP_AVG,
    STP_N_OPS,                    /* those that benchmarks run */
    STP_OP_PREMULSUM = STP_N_OPS, /* made by applications, seen in traces */
};

/* Both kinds of words, as messages list them. */
#define STP_TYPE_WORDS                                                         \
    "i8, u8, i32, u32, i64, u64, f16, bf16, f32, f64, fp8e4m3 or fp8e5m2"
#define STP_OP_WORDS "sum, prod, min, max, avg or premulsum"

/* The number of the 'len' bytes at 'word', or -1. */
int stp_type_from_name(const char *word, size_t len);
int stp_op_from_name(const char *word, size_t len);

/* Our word, and that of nccl-tests.  Static storage. */
const char *stp_type_name(int type);
const char *stp_type_nccl_name(int type);
const char *stp_op_name(int op);

/* Bytes of an element. */
unsigned stp_type_size(int type);
bool stp_type_is_integer(int type);
bool stp_type_is_fp8(int type);

/* Whether the collective combines elements, so that an operation matters. */
bool stp_coll_reduces(int coll);

/* Whether one rank is its root. */
bool stp_coll_has_root(int coll);
