/* calibrate.h - compute and collectives alone, and products of a length */
#pragma once

#include "bench/traced_step.h"
#include "bench/workload.h"
#include "device/device.h"

/* The work of one layer that is timed, on the slowest rank, in microseconds. */
struct stp_layer {
    const struct stp_device *device;
    const struct stp_workload *work;
    const struct stp_collective *colls; /* of a layer */
    size_t n_colls;
};

/*
 * Times a layer's compute, which runs in STP_STREAM_MAIN, or all its
 * collectives, in STP_STREAM_COMM, without overlap: the mean of
 * 'n' in a row, or of fewer where those would take long, but at least one;
 * after others that count for nothing. Work that GPUs finish sooner than a host
 * launches it is launched ahead, so that launches are no part of its time.
 */
enum stp_status stp_time_layer(const struct stp_layer *layer, unsigned stream,
                               unsigned n, double *us_ret,
                               struct stp_error *err);

/* Sets the product of '*work', whose kind and type are set, so that a layer's
 * compute takes as close to 'target_us' as can be, and what it takes.  Within
 * 10 percent it is one of which the device knows 'collective', if it can be. */
enum stp_status stp_calibrate(const struct stp_device *device,
                              const struct stp_collective *collective,
                              double target_us, struct stp_workload *work,
                              struct stp_error *err);

/* Chooses all GEMMs of a step that are given by their time, of 'type': each as
 * close to it as can be, those within 5 percent of each other alike. */
enum stp_status stp_calibrate_step(const struct stp_device *device,
                                   struct stp_traced_step *step, int type,
                                   struct stp_error *err);
