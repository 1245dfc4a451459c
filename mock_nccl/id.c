/* id.c - communicators' ids */
#include <sys/random.h>

#include "mock_nccl.h"

uint64_t mock_new_comm_id(void)
{
    uint64_t id = 0;

    /* Fails only where the kernel has no randomness yet. */
    if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
        id = (uint64_t)(uintptr_t)&id;
    return id | 1;
}
