/*
 * cpu_memory.h - the memory of an engine of CPUs
 */
#ifndef STP_CPU_MEMORY_H
#define STP_CPU_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

/* Zero but for the first three to begin with. */
struct stp_cpu_memory {
    uint64_t budget;  /* bytes that this rank may take */
    unsigned rank;    /* for messages */
    const char *host; /* likewise */
    uint64_t taken;
    void **all; /* what was given */
    size_t n;
};

/* As stp_engine_ops.alloc and release. */
enum stp_status stp_cpu_memory_take(struct stp_cpu_memory *m, uint64_t nbytes,
                                    const char *what, void **address_ret,
                                    struct stp_error *err);
void stp_cpu_memory_release(struct stp_cpu_memory *m);

#endif /* STP_CPU_MEMORY_H */
