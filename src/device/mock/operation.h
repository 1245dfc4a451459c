/*
 * operation.h - datatypes and reductions as NCCL takes them
 *
 * A tuner is told neither, but they decide which entries its table has.  By
 * NCCL 2.28.9's hostToDevRedOp(), ncclNvlsSupported() and collTaskAppend().
 */
#ifndef STP_OPERATION_H
#define STP_OPERATION_H

struct mock_call; /* mock_nccl.h */

/* Sets the members that follow from a type and an operation for the call's
 * collective: element_size, kind, no_nvls, no_pat, fp8 and reduction. */
void stp_set_operation(struct mock_call *call, int type, int op);

#endif /* STP_OPERATION_H */
