#include "bench/sizes.h"

#include <math.h>
#include <string.h>

uint64_t stp_size_step(uint64_t size, uint64_t grain)
{
    return size >= 4096 * grain ? 16 * grain : grain;
}

enum stp_status stp_sizes_add(struct stp_sizes *sizes, uint64_t size,
                              uint64_t grain, struct stp_error *err)
{
    size_t i = sizes->n;

    size = size < grain ? grain : size / grain * grain;
    while (i > 0 && sizes->size[i - 1] > size)
        i--;
    if (i > 0 && sizes->size[i - 1] == size)
        return STP_OK;
    if (sizes->n == STP_MAX_SIZES)
        return stp_fail(
            err, STP_ERR_LIMIT,
            "more than %d message sizes, expected a greater factor or "
            "step from size to size",
            STP_MAX_SIZES);
    memmove(&sizes->size[i + 1], &sizes->size[i],
            (sizes->n - i) * sizeof(sizes->size[0]));
    sizes->size[i] = size;
    sizes->n++;
    return STP_OK;
}

enum stp_status stp_sizes_add_geometric(struct stp_sizes *sizes, uint64_t begin,
                                        uint64_t end, double factor,
                                        uint64_t grain, struct stp_error *err)
{
    if (begin < 1 || begin > end || !(factor > 1))
        return STP_REFUSE(
            err,
            "sizes from %llu to %llu by %g, expected at least 1 byte, the end "
            "not below the begin, and a factor above 1",
            (unsigned long long)begin, (unsigned long long)end, factor);
    for (double s = (double)begin; s <= (double)end; s *= factor) {
        uint64_t size = (uint64_t)s;

        if (size != begin)
            size -= size % stp_size_step(size, grain);
        STP_TRY(stp_sizes_add(sizes, size, grain, err));
    }
    return STP_OK;
}

enum stp_status stp_sizes_add_steps(struct stp_sizes *sizes, uint64_t begin,
                                    uint64_t end, uint64_t step, uint64_t grain,
                                    struct stp_error *err)
{
    if (begin < 1 || begin > end || step < 1)
        return STP_REFUSE(
            err,
            "sizes from %llu to %llu by steps of %llu, expected at least 1 "
            "byte, the end not below the begin, and a step of at least 1",
            (unsigned long long)begin, (unsigned long long)end,
            (unsigned long long)step);
    for (uint64_t s = begin;; s += step) {
        STP_TRY(stp_sizes_add(sizes, s, grain, err));
        if (end - s < step)
            return STP_OK;
    }
}

uint64_t stp_size_between(uint64_t a, uint64_t b)
{
    uint64_t mid = (uint64_t)sqrt((double)a * (double)b);

    return mid < a ? a : mid > b ? b : mid;
}
