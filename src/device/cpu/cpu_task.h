/*
 * cpu_task.h - an operation of device/engine.h that a CPU is yet to run
 */
#ifndef STP_CPU_TASK_H
#define STP_CPU_TASK_H

#include "device/cpu/cpu_math.h"
#include "device/span.h"

enum stp_cpu_task_kind {
    STP_CPU_ZERO,
    STP_CPU_PRODUCT,
    STP_CPU_CROSS_ENTROPY,
    STP_CPU_RELU_BACKWARD,
    STP_CPU_COLUMN_SUM,
    STP_CPU_UPDATE,
    STP_CPU_FIND_NONFINITE,
    STP_CPU_CAST,
    STP_CPU_SCALE,
    STP_CPU_SUBTRACT,
    STP_CPU_COLLECTIVE,
};

/* Arguments of the smaller operations, by the names engine.h has for them. */
struct stp_cpu_elements {
    uint64_t n;
    unsigned rows, columns;
    double factor;
    int type, type_to;
    const void *from;
    void *to;
};

struct stp_cpu_task {
    enum stp_cpu_task_kind kind;
    struct stp_part range; /* of a trace */
    union {
        struct stp_product product;
        struct stp_cross_entropy cross_entropy;
        struct stp_update update;
        struct stp_transfer transfer;
        struct stp_cpu_elements elements;
    } as;
};

/* Runs any but a collective.  STP_ERR_NOMEM. */
enum stp_status stp_cpu_task_run(const struct stp_cpu_task *task,
                                 struct stp_cpu_scratch *scratch,
                                 struct stp_error *err);

#endif /* STP_CPU_TASK_H */
