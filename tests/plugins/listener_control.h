/*
 * listener_control.h - how a test steers listener.h, which exports one of these
 */
#ifndef LISTENER_CONTROL_H
#define LISTENER_CONTROL_H

#include <stdint.h>

#include "nccl_profiler_abi.h"

struct listener_control {
    int mask;         /* that an init asks for */
    int followed;     /* bits of events that get a handle */
    int fails;        /* inits that fail */
    int *nccl_mask;   /* the last init's */
    uintptr_t events; /* that got a handle so far */
};

#endif /* LISTENER_CONTROL_H */
