/* machine.h - the content of a machine folder */
#pragma once

#include "model/cost_model.h"

struct mock_recorded;

struct mock_machine {
    struct mock_machine_info info;
    struct mock_graphs graphs;
    struct mock_model model;        /* with NCCL's own constants */
    struct mock_recorded *timings;  /* NULL without timings.csv */
    struct mock_recorded *overlaps; /* NULL without overlap.csv */
};

/* NCCL 2.28.9's channel counts of search graphs (ncclTopoPostset() and
 * ncclNvlsInit()), without CollNet, without a network that unpacks on the GPU,
 * and without NCCL_MIN_NCHANNELS, NCCL_NVLS_NCHANNELS and similar settings.
 * Depends on compute capability, ranks and nodes of 'info'. */
int mock_channel_count(const struct mock_machine_info *info,
                       const struct mock_graphs *graphs);

/* The count of the version of 'rules': from 2.30 on the network decides, too
 * (ncclNvlsTuning()). */
int mock_nvls_channel_count(const struct mock_machine_info *info,
                            const struct mock_graphs *graphs,
                            const struct mock_model_rules *rules);

/* Replaces the NVLS channels of 'info', a copy of the machine's, by those of
 * the version of 'rules', unless machine.csv has other counts than 2.28.9. */
void mock_machine_fit_nvls(const struct mock_machine *machine,
                           const struct mock_model_rules *rules,
                           struct mock_machine_info *info);

/* Whether CollNet is in use if the user has enabled it. It can add channels to
 * 'info', a copy of the machine's, unless machine.csv has the counts. */
bool mock_machine_collnet(const struct mock_machine *machine,
                          struct mock_machine_info *info);
