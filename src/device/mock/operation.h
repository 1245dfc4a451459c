/* operation.h - what datatypes, reductions and tuners are to mock NCCL, and
 * what its times are worth */
#pragma once

#include "core/status.h"
#include "device/source.h"
#include "mock_nccl.h"

/* Sets the members that follow from a type and an operation for the call's
 * collective: element_size, kind, no_nvls, no_pat, fp8 and reduction.  A tuner
 * is told neither, but they decide which entries its table has.  By NCCL
 * 2.28.9's hostToDevRedOp(), ncclNvlsSupported() and collTaskAppend(). */
void stp_set_operation(struct mock_call *call, int type, int op);

/* STP_ERR_DEVICE if this NCCL 'version' has not loaded 'plugin', which NCCL
 * itself passes over in silence. */
enum stp_status stp_mock_check_tuner(const struct mock_comm *comm,
                                     const char *version, const char *plugin,
                                     struct stp_error *err);

enum stp_source stp_mock_source(enum mock_time_source source);
