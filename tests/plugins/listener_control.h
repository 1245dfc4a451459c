/* listener_control.h - a test's control of listener.c, which exports this
 * struct */
#pragma once

#include <stdint.h>

#include "nccl_profiler_abi.h"

struct listener_control {
    int mask;         /* mask that an init requests */
    int followed;     /* bits of events that get a handle */
    int fails;        /* number of inits that fail */
    int *nccl_mask;   /* mask pointer of the last init */
    uintptr_t events; /* events with a handle so far */
};
