/* machine.h - the content of a machine folder */
#pragma once

#include "model/cost_model.h"

struct mock_recorded;

/* A row of calibration.csv, for one node: modelled times of a pair are
 *   launch_us + latency * steps_us + (bandwidth + copy * n / (n - 1)) * data_us
 * where n are the ranks, and the cost model's time is its base latency, plus
 * steps_us, plus data_us. It changes no cost and no choice of NCCL's. */
struct mock_calibration {
    int coll;
    int algo;
    int proto;
    double launch_us;
    double latency;
    double bandwidth;
    double copy;
    char source[160];
};

struct mock_machine {
    struct mock_machine_info info;
    struct mock_graphs graphs;
    struct mock_model model;        /* with NCCL's own constants */
    struct mock_recorded *timings;  /* NULL without timings.csv */
    struct mock_recorded *overlaps; /* NULL without overlap.csv */

    /* without a source: no row, and the cost model's time as it is */
    struct mock_calibration calibration[NCCL_NUM_TUNED_FUNCS]
                                       [NCCL_NUM_ALGORITHMS]
                                       [NCCL_NUM_PROTOCOLS];
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
