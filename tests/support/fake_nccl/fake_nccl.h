// fake_nccl.h - what tests make the fake NCCL do
#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>

namespace fake
{

// The next calls of this thread fail; of splits those that have a
// configuration.
void FailNext(int n_allocations, int n_splits);

// How often ncclCommFinalize(), Revoke, Suspend, Destroy or Abort was called,
// by its name's end, "finalize", and "abort with windows" of those with any.
uint64_t CountCalls(const std::string &call);

} // namespace fake
