/* device_info.c - what the engine of the first rank knows for all of them */
#include <stdio.h>

#include "device/engine.h"

const char *stp_gpus_text(unsigned n_ranks, unsigned n_gpus, const char *gpu,
                          char text[STP_GPUS_TEXT])
{
    if (n_gpus == 0)
        snprintf(text, STP_GPUS_TEXT, "%u x %.63s", n_ranks, gpu);
    else
        snprintf(text, STP_GPUS_TEXT, "%u x %.63s shared by %u ranks", n_gpus,
                 gpu, n_ranks);
    return text;
}

void stp_device_rank_line(const struct stp_device *device, unsigned rank,
                          char *line, size_t size)
{
    const struct stp_engine *first = stp_device_engine(device);

    first->ops->rank_line(first->self, rank, line, size);
}

size_t stp_device_sizes(const struct stp_device *device, int coll,
                        uint64_t *sizes, size_t max)
{
    const struct stp_engine *first = stp_device_engine(device);

    return first->ops->sizes != NULL
               ? first->ops->sizes(first->self, coll, sizes, max)
               : 0;
}

size_t stp_device_overlaps(const struct stp_device *device, int coll,
                           struct stp_device_overlap *overlaps, size_t max)
{
    const struct stp_engine *first = stp_device_engine(device);

    return first->ops->overlaps != NULL
               ? first->ops->overlaps(first->self, coll, overlaps, max)
               : 0;
}

bool stp_device_knows_mode(const struct stp_device *device, int mode, int coll)
{
    enum { MAX_KNOWN = 512 };
    struct stp_device_overlap known[MAX_KNOWN];
    struct stp_device_info info;
    size_t n;

    stp_device_get_info(device, &info);
    if (info.is_live)
        return true;
    n = stp_device_overlaps(device, coll, known, MAX_KNOWN);
    for (size_t i = 0; i < n && i < MAX_KNOWN; i++)
        if (known[i].mode == mode)
            return true;
    return false;
}

enum stp_source stp_device_source(const struct stp_device *device,
                                  bool *single_pass_ret)
{
    const struct stp_engine *first = stp_device_engine(device);

    *single_pass_ret = false;
    return first->ops->source != NULL
               ? first->ops->source(first->self, single_pass_ret)
               : STP_SOURCE_MEASURED;
}
