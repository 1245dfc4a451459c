/* job_host.c - the host's launches, and the queue between it and the GPUs */
#include <math.h>

#include "job/state.h"

/* Measured on 2 x H200 with PyTorch: between two all-reduces with two GEMMs and
 * a norm, the host is 170 calls ahead of the GPUs (6 launches of 1,024 each),
 * and takes 73 us a call while the queue is not full; a call whose times are
 * requested takes 1 us longer on 1 channel, 2.5 us on 8 and 7 us on 24. */
const struct mock_job_host mock_job_torch_host = {
    .ahead = 1024, .launches = 6, .launch_us = 12, .timed_us = 0.3};

size_t mock_job_count_launches(const struct mock_job_host *host)
{
    return host->launches != 0 ? host->launches : 1;
}

static size_t host_count_group(const struct mock_job *job, size_t i)
{
    size_t n = mock_job_count_launches(&job->options.host);

    if (job->options.captured)
        return i == 0;
    if (i < job->shapes[job->pass.shape].n)
        return n;
    return n > 1 ? n - 1 : 1;
}

static double host_issue_launch(struct mock_job *job)
{
    const struct mock_job_host *host = &job->options.host;

    job->host_us +=
        host->launch_us > 0 ? host->launch_us : (double)MOCK_JOB_LAUNCH_US;
    if (host->ahead > 0)
        job->host_us =
            fmax(job->host_us, job->ended_us[job->n_issued % host->ahead]);
    job->n_issued++;
    return job->host_us;
}

void mock_job_issue(struct mock_job *job, size_t i)
{
    struct mock_job_group *group = &job->pass.groups[i];
    size_t n = mock_job_count_launches(&job->options.host);

    *group = (struct mock_job_group){job->n_issued, host_count_group(job, i)};
    for (size_t k = 0; k < group->n; k++)
        job->pass.issued_us[i * n + k] = host_issue_launch(job);
}

void mock_job_end_call(struct mock_job *job, size_t i)
{
    const struct mock_outcome *outcome = &job->pass.outcomes[i];

    if (outcome->is_timed && !job->options.captured)
        job->host_us += job->options.host.timed_us * outcome->n_channels;
}

double mock_job_issued_us(const struct mock_job *job, size_t i, size_t k)
{
    size_t n = mock_job_count_launches(&job->options.host);

    return job->pass.issued_us[job->pass.groups[i].n > 0 ? i * n + k : 0];
}

double mock_job_launched_us(const struct mock_job *job, size_t i)
{
    size_t n = job->pass.groups[i].n;

    return mock_job_issued_us(job, i, n > 0 ? n - 1 : 0);
}

void mock_job_end_launch(struct mock_job *job, size_t i, size_t k, double us)
{
    const struct mock_job_group *group = &job->pass.groups[i];

    if (job->options.host.ahead > 0 && k < group->n)
        job->ended_us[(group->first + k) % job->options.host.ahead] = us;
}

size_t mock_job_count_ahead(struct mock_job *job, size_t i)
{
    const struct mock_job_group *group = &job->pass.groups[i];
    size_t ahead = job->options.host.ahead;
    uint64_t end = group->first + group->n;
    double now = mock_job_launched_us(job, i);

    if (ahead == 0)
        return 0;
    while (job->n_ended < group->first &&
           (end - job->n_ended > ahead ||
            job->ended_us[job->n_ended % ahead] <= now))
        job->n_ended++;
    return (size_t)(end - job->n_ended);
}

void mock_job_end_host(struct mock_job *job)
{
    const struct mock_job_host *host = &job->options.host;

    if (host->ahead == 0 || (host->sync_every > 0 &&
                             (job->pass.number + 1) % host->sync_every == 0))
        job->host_us = fmax(job->host_us, job->gpu_us);
}
