// fake_nccl.h - what tests make the fake NCCL do
#ifndef FAKE_NCCL_H
#define FAKE_NCCL_H

#include <unistd.h>

extern "C" int cuCtxGetCurrent(void **context);

namespace fake
{

// The next calls of this thread fail.
void FailNext(int n_allocations, int n_splits);

} // namespace fake

#endif // FAKE_NCCL_H
