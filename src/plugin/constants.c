#include "plugin/constants.h"

static bool is_empty(const ncclTunerConstants_v5_t *nccl)
{
    const double *numbers = (const double *)nccl;

    for (size_t i = 0; i < STP_N_CONSTANTS; i++)
        if (numbers[i] != 0)
            return false;
    return true;
}

enum stp_status stp_set_constants(const char *path,
                                  ncclTunerConstants_v5_t *nccl, size_t *n_ret,
                                  uint64_t *hash_ret, struct stp_error *err)
{
    struct stp_constants constants;
    enum stp_status status;

    if (nccl == NULL)
        return stp_fail(err, STP_ERR_RANGE,
                        "this NCCL takes no constants from a tuner, expected "
                        "2.28 or later");
    if (is_empty(nccl))
        return stp_fail(err, STP_ERR_RANGE,
                        "this NCCL forgets the constants that a tuner sets, "
                        "expected 2.28 to 2.30");
    status = stp_constants_load(path, &constants, err);
    if (status != STP_OK)
        return status;
    stp_constants_apply(&constants, nccl);
    *n_ret = stp_constants_size(&constants);
    *hash_ret = stp_constants_hash(&constants);
    return STP_OK;
}
