/*
 * modelled.h - times without a record
 */
#ifndef MOCK_MODELLED_H
#define MOCK_MODELLED_H

#include "mock_nccl.h"

struct mock_model;

/*
 * The additional time of a collective on fewer channels than NCCL's own, us.
 * NCCL's cost model does not contain it, and a tuner never sees it. With N
 * channels of the communicator, n requested and m NCCL's own for the size:
 *
 *   (R(n) - R(m)) * bytes / bandwidth,  R(x) = cbrt((s * N / x)^3 + 1 - s^3)
 *
 * where the bandwidth is the cost model's, and s the share of the channels that
 * would reach it if channels did not compete: R(N) = 1, and a few channels take
 * s * N / x times as long. The latency does not change.
 *
 * The exponent and s were fitted to the single passes of fixtures/machines/
 * h200x4 over 1 to 24 channels from 64 MiB on (4 x H200, NCCL 2.28.9): s = .96,
 * .69 and .55 for rings with LL, LL128 and Simple, .79, .57 and .45 for trees.
 * Added to the recorded times with NCCL's own channels, the formula predicts
 * the 502 other times of all sizes, from 8 B, to 5 percent (median; 9 of 10 to
 * 21 percent). Algorithms without records use the values of rings with Simple.
 */
double mock_fewer_channels_us(const struct mock_model *model,
                              const struct mock_run *run);

/* The cost model's time plus mock_fewer_channels_us(). Fails if NCCL rules the
 * pair out. */
ncclResult_t mock_modelled_time(const struct mock_machine *machine,
                                const struct mock_run *run,
                                struct mock_time *time_ret);

#endif /* MOCK_MODELLED_H */
