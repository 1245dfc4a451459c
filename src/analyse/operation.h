/*
 * operation.h - datatypes and reductions, and what NCCL makes of them
 *
 * A tuner is told neither, but they decide which entries its table has.  By
 * NCCL 2.28.9's hostToDevRedOp(), ncclNvlsSupported() and collTaskAppend().
 */
#ifndef STP_OPERATION_H
#define STP_OPERATION_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mock_call; /* mock_nccl.h */

enum { STP_TYPE_DEFAULT = 7, STP_OP_DEFAULT = 0 }; /* bf16, sum */

/* Their words, as messages list them. */
#define STP_TYPE_WORDS                                                         \
    "i8, u8, i32, u32, i64, u64, f16, bf16, f32, f64, fp8e4m3 or fp8e5m2"
#define STP_OP_WORDS "sum, prod, min, max, avg or premulsum"

/* The number of the 'len' bytes at 'word', or -1. */
int stp_type_from_name(const char *word, size_t len);
int stp_op_from_name(const char *word, size_t len);

/* Sets what the call's type and operation mean for its collective:
 * element_size, kind, no_nvls, no_pat and fp8. */
void stp_set_operation(struct mock_call *call, int type, int op);

#ifdef __cplusplus
}
#endif
#endif /* STP_OPERATION_H */
