#include "device/splits.h"

unsigned stp_splits_find(const struct stp_splits *splits,
                         const struct stp_rank_groups *groups)
{
    for (unsigned i = 0; i < splits->n && groups->size != 0; i++)
        if (splits->all[i].size == groups->size &&
            splits->all[i].stride == groups->stride)
            return i + 1;
    return 0;
}

enum stp_status stp_splits_add(struct stp_splits *splits,
                               const struct stp_rank_groups *groups,
                               struct stp_error *err)
{
    if (splits->n == STP_MAX_SPLITS)
        return stp_fail(err, STP_ERR_RANGE,
                        "more than %d ways to divide the ranks into groups",
                        STP_MAX_SPLITS);
    splits->all[splits->n++] = *groups;
    return STP_OK;
}
