/* cpu_trace.c - when the operations of an engine of CPUs ran */
#include <stdio.h>

#include "core/names.h"
#include "device/cpu/cpu.h"

enum stp_status stp_cpu_trace_reserve(struct stp_cpu *cpu,
                                      struct stp_error *err)
{
    struct stp_cpu_trace *trace = &cpu->trace;
    enum stp_status status = STP_OK;

    trace->begun = trace->spans.n;
    for (size_t i = 0; i < cpu->n_tasks && trace->on && status == STP_OK; i++) {
        /* The span begins and ends at 0 until the task ran. */
        const struct stp_cpu_task *task = &cpu->tasks[i];
        const struct stp_gemm *p = &task->as.product.gemm;
        const struct stp_transfer *t = &task->as.transfer;
        struct stp_span span = {.kind = STP_SPAN_COMPUTE, .range = task->range};

        if (task->kind == STP_CPU_COLLECTIVE) {
            span.kind = STP_SPAN_COMMUNICATION;
            snprintf(span.name, sizeof(span.name), "%s %s %ju elements",
                     stp_coll_name(t->coll), stp_type_name(t->type),
                     (uintmax_t)t->n);
        } else if (task->kind == STP_CPU_PRODUCT) {
            snprintf(span.name, sizeof(span.name), "product %s %u x %u x %u",
                     stp_type_name(p->type), p->m, p->n, p->k);
        } else {
            snprintf(span.name, sizeof(span.name), "%s",
                     task->kind == STP_CPU_UPDATE ? "update"
                     : task->kind == STP_CPU_CROSS_ENTROPY
                         ? "cross-entropy"
                         : stp_kernel_name(task->as.kernel.kind));
        }

        status = stp_spans_add(&trace->spans, &span, err);
    }
    return status;
}

enum stp_status stp_cpu_trace_end(struct stp_cpu_trace *trace,
                                  struct stp_spans *spans,
                                  struct stp_error *err)
{
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < trace->spans.n && status == STP_OK; i++)
        if (trace->spans.all[i].end_us > 0)
            status = stp_spans_add(spans, &trace->spans.all[i], err);
    stp_spans_free(&trace->spans);
    trace->on = false;
    return status;
}
