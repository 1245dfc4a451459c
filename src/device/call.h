/*
 * call.h - what ranks run: a collective, a matrix product
 */
#ifndef STP_CALL_H
#define STP_CALL_H

#include <stdbool.h>
#include <stdint.h>

/* One collective on every rank. */
struct stp_collective {
    int coll;         /* ncclFunc_t */
    uint64_t n_bytes; /* as a tuner counts them: a multiple of the type's size,
                         and of it times the ranks for allgather,
                         reducescatter */
    int type;         /* enum stp_type */
    int op;           /* enum stp_op; means nothing if none reduces */
    unsigned root;    /* rank; means nothing if there is none */
    bool in_place;
};

/* A matrix product: C of m x n is A of m x k times B of k x n. */
struct stp_gemm {
    unsigned m, n, k;
    int type; /* STP_TYPE_F32, F64, F16 or BF16; what a device lacks is
                 STP_ERR_RANGE */
};

#endif /* STP_CALL_H */
