#include "device/mock/mock_tuner.h"

#include "mock_nccl.h"

enum stp_status stp_mock_check_tuner(const struct mock_comm *comm,
                                     const char *version, const char *plugin,
                                     struct stp_error *err)
{
    if (mock_comm_tuner_version(comm) != 0)
        return STP_OK;
    return stp_fail(err, STP_ERR_DEVICE,
                    "NCCL %s would not load tuner plugin '%s': `steptune "
                    "replay --contract` with it says why",
                    version, plugin);
}
