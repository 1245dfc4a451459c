#include "support/job/state.h"

#include <math.h>

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

double mock_job_draw_factor(const struct mock_job *job,
                            enum mock_job_purpose purpose, double sigma,
                            uint64_t pass, uint64_t place)
{
    const double pi = 3.14159265358979323846;
    double a = mock_job_random(job, purpose, pass, 2 * place);
    double b = mock_job_random(job, purpose, pass, 2 * place + 1);

    return exp(sigma * sqrt(-2 * log1p(-a)) * cos(2 * pi * b) -
               sigma * sigma / 2);
}

void mock_job_clock(double us)
{
    mock_clock_set(epoch_ns + (int64_t)(us * 1000));
}
