#include "analyse/operation.h"

#include <string.h>

#include "analyse/trace.h"

/* Operations as NCCL's kernels know them. */
enum device_op { SUM, PROD, MIN_MAX, PRE_MUL_SUM, SUM_POST_DIV, N_DEVICE_OPS };

/* Operations that NVLS can do, as bits. */
enum { NOTHING = 0, SUMS = 1 << SUM, SUMS_AND_ORDER = 1 << SUM | 1 << MIN_MAX };

static const struct {
    const char *name;
    size_t size;
    unsigned nvls;
    bool integer;
    bool fp8;
} types[] = {
    {"i8", 1, NOTHING, true, false},
    {"u8", 1, NOTHING, true, false},
    {"i32", 4, SUMS_AND_ORDER, true, false},
    {"u32", 4, SUMS_AND_ORDER, true, false},
    {"i64", 8, SUMS_AND_ORDER, true, false},
    {"u64", 8, SUMS_AND_ORDER, true, false},
    {"f16", 2, SUMS_AND_ORDER, false, false},
    {"bf16", 2, SUMS_AND_ORDER, false, false},
    {"f32", 4, SUMS, false, false},
    {"f64", 8, SUMS, false, false},
    {"fp8e4m3", 1, NOTHING, false, true},
    {"fp8e5m2", 1, NOTHING, false, true},
};

static const struct {
    const char *name;
    enum device_op on_integers;
    enum device_op on_floats;
} ops[] = {
    {"sum", SUM, SUM},
    {"prod", PROD, PROD},
    {"min", MIN_MAX, MIN_MAX},
    {"max", MIN_MAX, MIN_MAX},
    {"avg", SUM_POST_DIV, PRE_MUL_SUM},
    {"premulsum", PRE_MUL_SUM, PRE_MUL_SUM},
};

static bool is_word(const char *name, const char *word, size_t len)
{
    return strlen(name) == len && memcmp(name, word, len) == 0;
}

int stp_type_from_name(const char *word, size_t len)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (is_word(types[i].name, word, len))
            return (int)i;
    return -1;
}

int stp_op_from_name(const char *word, size_t len)
{
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (is_word(ops[i].name, word, len))
            return (int)i;
    return -1;
}

/* NCCL moves broadcasts and allgathers as bytes, which are reduced by nobody.
 */
void stp_set_operation(struct mock_call *call, int type, int op)
{
    enum device_op device_op =
        types[type].integer ? ops[op].on_integers : ops[op].on_floats;

    call->element_size = types[type].size;
    if (call->coll == ncclFuncBroadcast || call->coll == ncclFuncAllGather)
        return;
    call->kind = 1 + (unsigned)type * N_DEVICE_OPS + (unsigned)device_op;
    call->no_nvls = !(types[type].nvls >> device_op & 1);
    call->no_pat = device_op == PRE_MUL_SUM || device_op == SUM_POST_DIV;
    call->fp8 = types[type].fp8;
}
