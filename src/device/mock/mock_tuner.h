/*
 * mock_tuner.h - whether a communicator of mock NCCL has its tuner plugin
 */
#ifndef STP_MOCK_TUNER_H
#define STP_MOCK_TUNER_H

#include "core/status.h"

struct mock_comm; /* mock_nccl.h */

/* STP_ERR_DEVICE if this NCCL 'version' has not loaded 'plugin', which NCCL
 * itself passes over in silence. */
enum stp_status stp_mock_check_tuner(const struct mock_comm *comm,
                                     const char *version, const char *plugin,
                                     struct stp_error *err);

#endif /* STP_MOCK_TUNER_H */
