/* traced_step.h - one step of a job, as its trace has it */
#pragma once

#include <stddef.h>

#include "device/program.h"

/* Its work in two streams.  All zero to begin with. */
struct stp_traced_step {
    /* Collectives, NCCL groups, GEMMs, and events from 0 that a stream waits
     * for.  A GEMM with a task above 0 is given by its time, us[task - 1]; it
     * has no sides until stp_calibrate_step() chooses one as long. */
    struct stp_program program;
    double *us;
    size_t n_us;
    size_t us_capacity;

    struct stp_collective *colls; /* all of them, in order */
    size_t n_colls;
    struct stp_collective *kinds; /* those that differ; first the one whose
                                     messages have the most bytes in all */
    size_t n_kinds;
};

/* Adds a GEMM that is to take 'us' to the main stream. */
enum stp_status stp_traced_step_add_time(struct stp_traced_step *step,
                                         double us, struct stp_error *err);

/* To be called once, after all work was added: lists the collectives. */
void stp_traced_step_finish(struct stp_traced_step *step);

void stp_traced_step_free(struct stp_traced_step *step);

/* Notes the step; its events are those from 'event' on. */
enum stp_status stp_traced_step_note(const struct stp_device *device,
                                     const struct stp_traced_step *step,
                                     unsigned event, struct stp_error *err);

/* Notes its GEMMs in a stream. */
enum stp_status stp_traced_step_note_compute(const struct stp_device *device,
                                             const struct stp_traced_step *step,
                                             unsigned stream,
                                             struct stp_error *err);
