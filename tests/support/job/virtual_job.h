// A job in virtual time, and its calls.
#pragma once

#include <memory>

#include "support/job/mock_job.h"

namespace virtual_job
{

struct FreeJob {
    void operator()(mock_job *job) const
    {
        mock_job_destroy(job);
    }
};
using Job = std::unique_ptr<mock_job, FreeJob>;

inline mock_job_call After(double compute_us, ncclFunc_t coll, size_t n_bytes)
{
    mock_job_call call{};
    call.compute_us = compute_us;
    call.call.coll = coll;
    call.call.n_bytes = n_bytes;
    return call;
}

} // namespace virtual_job
