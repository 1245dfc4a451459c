/* memory.h - where the data of a collective lie when NCCL moves them, and so
 * which kernels or engines NCCL can move them by
 *
 * The words stand in the files steptune.conf.memory, steptune.conf.stage and in
 * measurements. */
#pragma once

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

/* The bytes that a staged collective has in its window, of 'n_bytes' that its
 * call has: of the message of an all-reduce, else of a rank's part.
 *
 * NCCL's symmetric kernels move 16 bytes a lane in whole rounds alone, which
 * are 8 KiB for each CTA (and for each rank of those, if they sum).  What is
 * left over goes with 4 bytes a lane in quarters of a round, and then element
 * by element, which may take as long as several rounds (NCCL 2.28.9,
 * src/device/symmetric).  So a rest of more than half a round is filled up to
 * a round, and a smaller one to a quarter or to half of one; a message of less
 * than a quarter, or of NCCL's own count of CTAs, to 16 bytes.  At most twice
 * 'n_bytes', or 16. */
uint64_t stp_memory_padded(int coll, unsigned n_ranks, int min_ctas,
                           uint64_t n_bytes);
