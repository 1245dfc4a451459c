/* memory.h - where the data of a collective lie when NCCL moves them, and so
 * which kernels or engines NCCL can move them by
 *
 * The words stand in the files steptune.conf.memory, steptune.conf.stage and in
 * measurements. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stp_memory {
    STP_MEMORY_PLAIN, /* nothing: memory of cudaMalloc() */
    STP_MEMORY_REG,   /* ncclCommRegister() */
    STP_MEMORY_SYM,   /* ncclMemAlloc() and ncclCommWindowRegister(): symmetric
                         memory, which NCCL's symmetric kernels need */
    STP_MEMORY_CE,    /* windows of a communicator with CTA policy ZERO: copy
                         engines */
    STP_MEMORY_STAGE, /* plain buffers, copied into windows of a library in
                         front of NCCL, and out of them: as
                         STP_MEMORY_SYM, without the application */
    STP_N_MEMORIES,
};

/* The value that the 'len' bytes at 'word' stand for, or -1. */
int stp_memory_from_name(const char *word, size_t len);

/* The word for a value, or "?" if there is none.  Static. */
const char *stp_memory_name(int memory);

/* All words, joined by ", ", for messages.  Static. */
const char *stp_memory_names(void);

/* "sym", or "sym, minCTAs 32" for a communicator that has at least so many CTAs
 * a kernel.  'min_ctas' is 0 for NCCL's own count. */
enum { STP_MEMORY_TEXT = 32 };
const char *stp_memory_text(int memory, int min_ctas,
                            char text[STP_MEMORY_TEXT]);

/* Whether NCCL's symmetric kernels run on it. */
bool stp_memory_is_symmetric(int memory);

/* A message is staged only if each of its parts, of which an all-reduce has
 * one, is a multiple of so many bytes, and all of it no more than the second:
 * beyond it copies cost too much. */
enum { STP_STAGE_UNIT = 16, STP_STAGE_MAX = 64 << 20 };

/* The bytes of a message that NCCL's symmetric kernels move in one round: 8 KiB
 * for each CTA ('min_ctas', or 64 if it is 0) of an all-reduce's message, else
 * of a rank's part, and for each rank of those if they sum.  Whole rounds alone
 * go with 16 bytes a lane; what is left over may take as long as several rounds
 * (NCCL 2.28.9, src/device/symmetric).  UINT64_MAX for more than 2^20 ranks. */
uint64_t stp_memory_round(int coll, uint64_t n_ranks, int min_ctas);
