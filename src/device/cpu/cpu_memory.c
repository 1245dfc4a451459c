#include "device/cpu/cpu_memory.h"

#include <stdlib.h>
#include <string.h>

#include "device/engine.h"

static enum stp_status memory_refuse(const struct stp_cpu_memory *m,
                                     uint64_t nbytes, const char *what,
                                     struct stp_error *err)
{
    return stp_fail(err, STP_ERR_NOMEM,
                    "no memory on rank %u for %s: %.2f GB beside %.2f GB, but "
                    "%.2f GB of %s are free for each rank",
                    m->rank, what, (double)nbytes / 1e9, (double)m->taken / 1e9,
                    (double)m->budget / 1e9, m->host);
}

enum stp_status stp_cpu_memory_take(struct stp_cpu_memory *m, uint64_t nbytes,
                                    const char *what, void **address_ret,
                                    struct stp_error *err)
{
    void **more;
    void *memory;

    if (nbytes > m->budget - m->taken)
        return memory_refuse(m, nbytes, what, err);
    more = realloc(m->all, (m->n + 1) * sizeof(*more));
    if (more == NULL)
        return memory_refuse(m, nbytes, what, err);
    m->all = more;
    nbytes = (nbytes / STP_ENGINE_ALIGN + 1) * STP_ENGINE_ALIGN;
    memory = aligned_alloc(STP_ENGINE_ALIGN, nbytes);
    if (memory == NULL)
        return memory_refuse(m, nbytes, what, err);
    memset(memory, 0, nbytes);
    m->all[m->n++] = memory;
    m->taken += nbytes <= m->budget - m->taken ? nbytes : m->budget - m->taken;
    *address_ret = memory;
    return STP_OK;
}

void stp_cpu_memory_release(struct stp_cpu_memory *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->all[i]);
    free(m->all);
    m->all = NULL;
    m->n = 0;
    m->taken = 0;
}
