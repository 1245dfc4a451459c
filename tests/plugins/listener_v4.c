/* A profiler of version 4 alone. */
#include "listener.h"

extern const ncclProfiler_v4_t ncclProfiler_v4;
EXPORT const ncclProfiler_v4_t ncclProfiler_v4 = {
    "listener_v4", join, start_v4, stop, state, leave};
