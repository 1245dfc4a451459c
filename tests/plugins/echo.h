/* What the echo plugins share.  Each says through NCCL's logger what it was
 * handed, and then asks for ring/simple on 4 channels. */
#ifndef TEST_ECHO_H
#define TEST_ECHO_H

#include "nccl_tuner_abi.h"

#define EXPORT __attribute__((visibility("default")))

#define SAY(...)                                                               \
    say(NCCL_LOG_INFO, NCCL_TUNING, __FILE__, __LINE__, __VA_ARGS__)

static ncclDebugLogger_t say;
static int n_inits; /* since the library was opened */

#endif /* TEST_ECHO_H */
