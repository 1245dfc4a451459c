#include "analyse/simulate/traced_job.h"

#include <stdlib.h>

#include "analyse/traces/trace_step.h"
#include "device/mock/mock_compute.h"
#include "device/mock/mock_program.h"

static enum stp_status job_time_gemm(const struct mock_machine *machine,
                                     const struct stp_traced_step *step,
                                     const struct stp_work *note,
                                     double *us_ret, struct stp_error *err)
{
    struct stp_mock_compute compute = {0};
    enum stp_status status = STP_OK;

    if (note->task > 0) {
        *us_ret = step->us[note->task - 1];
        return STP_OK;
    }
    status = stp_mock_gemm(machine, &note->gemm, &compute, err);
    *us_ret = compute.us;
    return status;
}

static enum stp_status job_fill(const struct mock_machine *machine,
                                const struct stp_traced_step *step,
                                struct stp_traced_job *job,
                                struct stp_error *err)
{
    double compute_us = 0;

    job->overlapped = true;
    for (size_t i = 0; i < step->program.n_notes; i++) {
        const struct stp_work *note = &step->program.notes[i];
        enum stp_status status = STP_OK;
        double us = 0;

        if (note->kind == STP_WORK_GEMM)
            status = job_time_gemm(machine, step, note, &us, err);
        if (status != STP_OK)
            return status;
        compute_us += us;
        if (note->kind != STP_WORK_COLLECTIVE)
            continue;
        if (note->collective.groups.size != 0)
            return stp_fail(err, STP_ERR_RANGE,
                            "a job of groups of %u ranks, but a played one has "
                            "one communicator, of all ranks: take a machine of "
                            "%u ranks",
                            note->collective.groups.size,
                            note->collective.groups.size);
        job->overlapped &= note->stream == STP_STREAM_COMM;
        job->calls[job->step.n++] = (struct mock_job_call){
            .compute_us = compute_us, .call = stp_mock_call(&note->collective)};
        compute_us = 0;
    }
    job->step.calls = job->calls;
    job->step.tail_us = compute_us;
    return STP_OK;
}

static enum stp_status job_make_on(const struct mock_machine *machine,
                                   const struct stp_trace *trace,
                                   struct stp_traced_job *job,
                                   struct stp_error *err)
{
    const int n_ranks = mock_machine_get_info(machine)->n_ranks;
    struct stp_trace_step step;
    enum stp_status status =
        stp_trace_step_make(trace, (unsigned)n_ranks, -1, &step, err);

    if (status != STP_OK)
        return status;
    job->calls = calloc(step.work.n_colls, sizeof(*job->calls));
    status = job->calls != NULL ? job_fill(machine, &step.work, job, err)
                                : stp_nomem(err);
    stp_trace_step_free(&step);
    return status;
}

enum stp_status stp_traced_job_make(const struct stp_trace *trace,
                                    const char *machine_path,
                                    struct stp_traced_job *job_ret,
                                    struct stp_error *err)
{
    struct stp_traced_job job = {0};
    struct mock_machine *machine;
    enum stp_status status;

    if (mock_machine_load(machine_path, &machine) != ncclSuccess)
        return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    status = job_make_on(machine, trace, &job, err);
    mock_machine_free(machine);
    if (status == STP_OK)
        *job_ret = job;
    else
        stp_traced_job_free(&job);
    return status;
}

void stp_traced_job_free(struct stp_traced_job *job)
{
    free(job->calls);
    *job = (struct stp_traced_job){0};
}
