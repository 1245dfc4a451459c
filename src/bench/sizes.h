/* sizes.h - lists of message sizes */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum { STP_MAX_SIZES = 4096 };

/* Ascending, each once. */
struct stp_sizes {
    uint64_t size[STP_MAX_SIZES];
    size_t n;
};

/*
 * Returns the step to a multiple of which a size about 'size' is rounded if
 * nobody asked for this very one: 'grain', and from 4096 of them on 16, so that
 * every rank's part begins at a multiple of 16 bytes whatever the type, as
 * tensors, buckets and nccl-tests' sizes do. NCCL moves 16 bytes at a time, and
 * goes another way where it cannot: on 2 x H200 an allgather of 512 MiB takes
 * 1.06 ms, one of 724 MiB and 12 bytes 2.22.
 */
uint64_t stp_size_step(uint64_t size, uint64_t grain);

/* Puts 'size', rounded down to a multiple of 'grain' but not below one, where
 * it belongs.  STP_ERR_LIMIT if the list is full. */
enum stp_status stp_sizes_add(struct stp_sizes *sizes, uint64_t size,
                              uint64_t grain, struct stp_error *err);

/* Adds 'begin', 'begin' times 'factor' and so on up to 'end', but for the first
 * in steps of stp_size_step(); 1 <= begin <= end and factor > 1, else
 * STP_ERR_RANGE. */
enum stp_status stp_sizes_add_geometric(struct stp_sizes *sizes, uint64_t begin,
                                        uint64_t end, double factor,
                                        uint64_t grain, struct stp_error *err);

/* Adds 'begin', 'begin' plus 'step' and so on up to 'end'; 1 <= begin <= end
 * and step >= 1, else STP_ERR_RANGE. */
enum stp_status stp_sizes_add_steps(struct stp_sizes *sizes, uint64_t begin,
                                    uint64_t end, uint64_t step, uint64_t grain,
                                    struct stp_error *err);

/* The size as far from 'a' as from 'b' on a logarithmic scale, rounded down. */
uint64_t stp_size_between(uint64_t a, uint64_t b);
