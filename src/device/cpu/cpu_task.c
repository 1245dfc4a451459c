#include "device/cpu/cpu_task.h"

#include <string.h>

static void task_run_elements(enum stp_cpu_task_kind kind,
                              const struct stp_cpu_elements *x)
{
    switch (kind) {
    case STP_CPU_ZERO:
        memset(x->to, 0, x->n);
        break;
    case STP_CPU_RELU_BACKWARD:
        stp_cpu_relu_backward(x->type, x->n, x->from, x->to);
        break;
    case STP_CPU_COLUMN_SUM:
        stp_cpu_column_sum(x->type, x->type_to, x->rows, x->columns, x->factor,
                           x->from, x->to);
        break;
    case STP_CPU_FIND_NONFINITE:
        stp_cpu_find_nonfinite(x->type, x->n, x->from, x->to);
        break;
    case STP_CPU_CAST:
        stp_cpu_cast(x->n, x->type, x->from, x->type_to, x->to);
        break;
    case STP_CPU_SUBTRACT:
        stp_cpu_subtract(x->n, x->from, x->to);
        break;
    default: /* STP_CPU_SCALE */
        stp_cpu_scale(x->type, x->n, x->factor, x->to);
    }
}

enum stp_status stp_cpu_task_run(const struct stp_cpu_task *task,
                                 struct stp_cpu_scratch *scratch,
                                 struct stp_error *err)
{
    switch (task->kind) {
    case STP_CPU_PRODUCT:
        return stp_cpu_product(&task->as.product, scratch, err);
    case STP_CPU_CROSS_ENTROPY:
        stp_cpu_cross_entropy(&task->as.cross_entropy);
        return STP_OK;
    case STP_CPU_UPDATE:
        stp_cpu_update(&task->as.update);
        return STP_OK;
    default:
        task_run_elements(task->kind, &task->as.elements);
        return STP_OK;
    }
}
