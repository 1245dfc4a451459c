// Traces of jobs, in all formats, and a step of them.
#include "fuzz/fuzz.h"

extern "C" {
#include "analyse/traces/trace_step.h"
#include "analyse/traces/traces.h"
}

namespace fuzz
{

namespace
{

std::string MakeSteps(const stp_trace &trace)
{
    for (unsigned n_ranks : {1U, 8U}) {
        stp_trace_step step{};
        stp_error err{};
        if (stp_trace_step_make(&trace, n_ranks, -1, &step, &err) == STP_OK)
            stp_trace_step_free(&step);
        else if (!FaultOf(err).empty())
            return FaultOf(err);
    }
    return "";
}

} // namespace

// A file, which may be compressed.
std::string Trace(std::string_view bytes)
{
    const std::string path = WriteFile("trace", bytes);
    stp_trace trace{};
    stp_error err{};

    if (stp_traces_load(path.c_str(), &trace, &err) != STP_OK)
        return FaultOf(err);
    stp_trace_keep_process(&trace);
    const std::string fault = MakeSteps(trace);
    stp_trace_free(&trace);
    return fault;
}

} // namespace fuzz
