// fake_nccl.h - what tests make the fake NCCL do
#pragma once

#include <unistd.h>

namespace fake
{

// The next calls of this thread fail; of splits those that have a
// configuration.
void FailNext(int n_allocations, int n_splits);

} // namespace fake
