/*
 * machine.h - a machine folder, read
 */
#ifndef MOCK_MACHINE_H
#define MOCK_MACHINE_H

#include "cost_model.h"

struct mock_timings;

struct mock_machine {
    struct mock_machine_info info;
    struct mock_graphs graphs;
    struct mock_model model;      /* with NCCL's own constants */
    struct mock_timings *timings; /* NULL if none were recorded */
};

#endif /* MOCK_MACHINE_H */
