/* job_host.c - the host's launches, and the queue between it and the GPUs */
#include <math.h>

#include "support/job/state.h"

/* Measured on 2 x H200 with PyTorch: between two all-reduces with two GEMMs and
 * a norm, the host is 170 calls ahead of the GPUs (6 launches of 1,024 each),
 * and takes 73 us a call while the queue is not full; a call whose times are
 * requested takes 1 us longer on 1 channel, 2.5 us on 8 and 7 us on 24. */
const struct mock_job_host mock_job_torch_host = {.ahead = 1024,
                                                  .launches = 6,
                                                  .launch_us = 12,
                                                  .timed_us = 0.3,
                                                  .noise = 0.2};

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

/* The host time of a launch of call 'i' on a rank. */
static double host_draw_launch(const struct mock_job *job, size_t i, int r)
{
    const struct mock_job_host *host = &job->options.host;
    double us =
        host->launch_us > 0 ? host->launch_us : (double)MOCK_JOB_LAUNCH_US;

    if (host->noise <= 0)
        return us;
    return us * mock_job_draw_factor(job, MOCK_JOB_HOST, host->noise,
                                     job->pass.number,
                                     i * (size_t)job->n_ranks + (size_t)r);
}

/* Issues the group's launches on a rank; the GPUs wait for the last rank. */
static void host_issue_rank(struct mock_job *job, size_t i, int r)
{
    size_t ahead = job->options.host.ahead;
    const struct mock_job_group *group = &job->pass.groups[i];
    double *issued_us =
        &job->pass.issued_us[i * mock_job_count_launches(&job->options.host)];
    double *host_us = &job->ranks[r].host_us;
    double us = host_draw_launch(job, i, r);

    for (size_t k = 0; k < group->n; k++) {
        *host_us += us;
        if (ahead > 0)
            *host_us =
                fmax(*host_us, job->ended_us[(group->first + k) % ahead]);
        issued_us[k] = r > 0 ? fmax(issued_us[k], *host_us) : *host_us;
    }
    job->pass.asked_us[i * (size_t)job->n_ranks + (size_t)r] = *host_us;
}

void mock_job_issue(struct mock_job *job, size_t i)
{
    struct mock_job_group *group = &job->pass.groups[i];

    *group = (struct mock_job_group){job->n_issued, host_count_group(job, i)};
    for (int r = 0; r < job->n_ranks; r++)
        host_issue_rank(job, i, r);
    job->n_issued += group->n;
}

void mock_job_end_call(struct mock_job *job, size_t i)
{
    for (int r = 0; r < job->n_ranks; r++) {
        const struct mock_outcome *outcome =
            &job->pass.outcomes[(size_t)r * job->largest + i];

        if (outcome->is_timed && !job->options.captured)
            job->ranks[r].host_us +=
                job->options.host.timed_us * outcome->n_channels;
    }
}

double mock_job_asked_us(const struct mock_job *job, size_t i, int r)
{
    return job->pass.asked_us[i * (size_t)job->n_ranks + (size_t)r];
}

double mock_job_first_us(const struct mock_job *job)
{
    double us = job->ranks[0].host_us;

    for (int r = 1; r < job->n_ranks; r++)
        us = fmin(us, job->ranks[r].host_us);
    return us;
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

void mock_job_wait(struct mock_job *job)
{
    for (int r = 0; r < job->n_ranks; r++)
        job->ranks[r].host_us = fmax(job->ranks[r].host_us, job->gpu_us);
}
