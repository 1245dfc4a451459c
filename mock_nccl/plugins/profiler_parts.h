/*
 * profiler_parts.h - a profiler's functions, whatever its version
 */
#ifndef MOCK_PROFILER_PARTS_H
#define MOCK_PROFILER_PARTS_H

#include "plugins/profiler.h"

/* Whether events are told at all: it is loaded, and NCCL has its functions. */
bool mock_profiler_listens(const struct mock_profiler *profiler);

/* The activation mask, as it is now; 0 if nobody listens. */
int mock_profiler_mask(const struct mock_profiler *profiler);

/* Whether a Coll needs a handle for its Group. */
bool mock_profiler_needs_group(const struct mock_profiler *profiler);

/* Only if somebody listens.  An older profiler's event has only what it knows,
 * and events that it does not know are not started. */
void mock_profiler_start(const struct mock_listener *l, void **event,
                         const ncclProfilerEvent_t *what);
void mock_profiler_stop(const struct mock_listener *l, void *event);
void mock_profiler_state(const struct mock_listener *l, void *event, int state,
                         const ncclProfilerStateArgs_t *args);

#endif /* MOCK_PROFILER_PARTS_H */
