/* steptune_memory.h - which buffers an application should register with NCCL
 *
 * Link with -lsteptune_memory.  Only an application can register the buffers
 * that NCCL moves, and whether that makes a collective faster depends on its
 * size.  `steptune tune` measures it, and writes a memory policy
 * (steptune.conf.memory; steptune-policy(5)); these functions read it. */
#ifndef STEPTUNE_MEMORY_H
#define STEPTUNE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The way in which a buffer is registered. */
enum steptune_memory {
    STEPTUNE_MEMORY_PLAIN = 0, /* nothing */
    STEPTUNE_MEMORY_REG = 1,   /* ncclCommRegister() */
    STEPTUNE_MEMORY_SYM = 2,   /* ncclMemAlloc(), and ncclCommWindowRegister()
                                  with NCCL_WIN_COLL_SYMMETRIC on all ranks */
    STEPTUNE_MEMORY_CE = 3,    /* likewise, on a communicator whose CTAPolicy is
                                  NCCL_CTA_POLICY_ZERO: copy engines */
};

enum steptune_memory_result {
    STEPTUNE_MEMORY_OK = 0,
    STEPTUNE_MEMORY_NO_FILE = 1,  /* there is no file: all buffers are plain */
    STEPTUNE_MEMORY_REFUSED = -1, /* a line does not parse */
    STEPTUNE_MEMORY_FAILED = -2,  /* the file cannot be read, or no memory */
};

struct steptune_memory_policy; /* opaque; made by steptune_memory_open() */

/* Reads the memory policy in the file 'path'; if that is NULL, in
 * $STEPTUNE_MEMORY_CONFIG_FILE, else in that of $NCCL_TUNER_CONFIG_FILE with
 * ".memory" behind it, else in nccl_tuner.conf.memory.  All ranks of a
 * communicator must read the same.
 *
 * From 0 on *policy_ret is a policy, to be freed with steptune_memory_close();
 * below 0 it is untouched.  But for STEPTUNE_MEMORY_OK one sentence, cut to
 * 'size' bytes, is put into 'text': "PATH:LINE:COLUMN: ..." if a line does not
 * parse.  'text' may be NULL with size 0.
 *
 * Reads the environment, and the GPU's model from $STEPTUNE_GPU or the driver's
 * files; otherwise any number of threads may call it at once. */
int steptune_memory_open(const char *path,
                         struct steptune_memory_policy **policy_ret, char *text,
                         size_t size);

/* A collective of one communicator. */
struct steptune_memory_call {
    const char *collective; /* "broadcast", "reduce", "allgather",
                               "reducescatter" or "allreduce" */
    uint64_t n_bytes;       /* as NCCL passes it to a tuner: of the whole
                               buffer, for allgather and reducescatter the sum
                               over all ranks */
    uint64_t n_ranks;       /* from 1 */
    uint64_t n_nodes;       /* from 1 */
    int overlaps;           /* compute runs at the same time: 0 or 1 */
};

/* Returns how to register the buffers of the call, an enum steptune_memory; or
 * -1 if no collective is called so, or if there are no ranks or nodes. Any
 * number of threads may ask at once. */
int steptune_memory_ask(const struct steptune_memory_policy *policy,
                        const struct steptune_memory_call *call);

/* Returns the ncclConfig_t.minCTAs that the call's communicator should have,
 * with maxCTAs 64: the kernels of symmetric memory are faster at many sizes
 * with more CTAs than NCCL gives them. From 1 to 64; or 0, for NCCL's own
 * count. An application that asks for buffers of several sizes makes a
 * communicator for each answer. -1 as steptune_memory_ask(). */
int steptune_memory_min_ctas(const struct steptune_memory_policy *policy,
                             const struct steptune_memory_call *call);

/* Frees.  NULL is allowed and does nothing. */
void steptune_memory_close(struct steptune_memory_policy *policy);

#ifdef __cplusplus
}
#endif

#endif /* STEPTUNE_MEMORY_H */
