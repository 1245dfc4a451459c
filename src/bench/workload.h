/* workload.h - what one training iteration does: compute and collectives
 *
 * Two streams, as frameworks have them; an iteration ends when both have done
 * all of it.  A layer's work by mode:
 *
 *   sequential  all compute, then the layers' collectives one after the other,
 *               in one stream
 *   overlap     compute, and behind it the layer's collective on the other
 *               stream, beside the compute of the next layers: as DDP's buckets
 *   fsdp        an all-gather of the layer's parameters, one layer ahead of the
 *               compute that waits for it, and a reduce-scatter of its
 *               gradients behind
 *   trace       a step of a job as its trace has it (traced_step.h)
 *
 * Compute is one GEMM a layer, or that of training: forward through
 * all layers (a product and an elementwise kernel), then backward through them
 * (an elementwise kernel and two products).  Collectives then go with the
 * backward pass, and fsdp gathers the parameters for both passes. */
#pragma once

#include <stddef.h>

#include "core/qsort.h"
#include "core/status.h"
#include "device/program.h"

struct stp_traced_step;

enum stp_compute {
    STP_COMPUTE_GEMM,
    STP_COMPUTE_TRAINING,
    STP_N_COMPUTES,
};

/* All 0 is a collective alone. */
struct stp_workload {
    int mode;    /* enum stp_mode */
    int compute; /* enum stp_compute */
    unsigned layers;
    double ratio; /* that was asked for: a layer's compute over its collectives
                     as NCCL chooses, each alone; 0: the product was given */
    struct stp_gemm gemm;
    double compute_us;                  /* of a layer alone, measured */
    const struct stp_traced_step *step; /* of mode trace, which has one layer:
                                        that step.  NULL in measurements */
};

/* "alone", "sequential", "overlap", "fsdp", "trace"; "gemm", "training". */
const char *stp_mode_name(int mode);
const char *stp_compute_name(int compute);

/* The one of that name, or -1. */
int stp_mode_from_name(const char *word, size_t len);
int stp_compute_from_name(const char *word, size_t len);

/* Orders by mode, compute, layers, and ratio or product, as qsort() wants it:
 * 0 for the same workload, whatever its compute took. */
int stp_workload_order(const struct stp_workload *a,
                       const struct stp_workload *b);

/*
 * Calls the device's 'op', unless something failed before.  's' has the members
 * device, status and err; the arguments end with the error.
 */
#define STP_DEVICE_DO(s, op, ...)                                              \
    do {                                                                       \
        if ((s)->status == STP_OK)                                             \
            (s)->status = stp_device_##op((s)->device, __VA_ARGS__);           \
    } while (0)

/* Notes work of this kind likewise; more arguments set members of stp_work. */
#define STP_DEVICE_NOTE(s, of_kind, in_stream, ...)                            \
    STP_DEVICE_DO(s, note,                                                     \
                  (&(struct stp_work){.kind = STP_WORK_##of_kind,              \
                                      .stream = (in_stream),                   \
                                      __VA_ARGS__}),                           \
                  (s)->err)

enum { STP_MAX_LAYER_COLLS = 3 };

/*
 * The collectives of one layer, but of a trace's step, each with the bytes,
 * type and operation of
 * '*what'; of sequential and overlap '*what' itself.  Returns how many.
 */
size_t
stp_workload_collectives(const struct stp_workload *work,
                         const struct stp_collective *what,
                         struct stp_collective colls[STP_MAX_LAYER_COLLS]);

/* Notes one layer's compute in a stream. */
enum stp_status stp_workload_note_compute(const struct stp_device *device,
                                          const struct stp_workload *work,
                                          unsigned stream,
                                          struct stp_error *err);

/* How many events stp_workload_note() records. */
unsigned stp_workload_events(const struct stp_workload *work);

/* Notes one iteration: it begins where the main stream is, and what is noted
 * there next comes after all of it.  Its events are those from 'event' on. */
enum stp_status stp_workload_note(const struct stp_device *device,
                                  const struct stp_workload *work,
                                  const struct stp_collective *what,
                                  unsigned event, struct stp_error *err);
