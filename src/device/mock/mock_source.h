/*
 * mock_source.h - how much a time of mock NCCL is worth
 */
#ifndef STP_MOCK_SOURCE_H
#define STP_MOCK_SOURCE_H

#include "device/source.h"
#include "mock_nccl.h"

enum stp_source stp_mock_source(enum mock_time_source source);

#endif /* STP_MOCK_SOURCE_H */
