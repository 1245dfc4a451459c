#include "job/state.h"

#include "base/mix.h"

/* The time of the clocks at the begin of a job: a plausible date. */
static const int64_t epoch_ns = INT64_C(1700000000) * 1000000000;

double mock_job_random(const struct mock_job *job,
                       enum mock_job_purpose purpose, uint64_t pass,
                       uint64_t place)
{
    uint64_t z = mock_mix(job->options.seed + MOCK_GOLDEN);

    z = mock_mix(z + MOCK_GOLDEN * ((uint64_t)purpose + 1));
    z = mock_mix(z + MOCK_GOLDEN * (pass + 1));
    z = mock_mix(z + MOCK_GOLDEN * (place + 1));
    return (double)(z >> 11) / (double)(UINT64_C(1) << 53);
}

void mock_job_clock(double us)
{
    mock_clock_set(epoch_ns + (int64_t)(us * 1000));
}
