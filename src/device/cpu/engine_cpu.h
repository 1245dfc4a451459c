/*
 * engine_cpu.h - CPUs as an engine: a rank a process, data in host memory
 *
 * What was noted runs in synchronise(), on threads, one a stream, from a
 * barrier of all ranks on; a transport moves the data.  Products use all CPUs
 * of a rank, what else there is one.
 */
#ifndef STP_ENGINE_CPU_H
#define STP_ENGINE_CPU_H

#include "device/engine.h"
#include "device/transport.h"

/*
 * Opens the one rank of this process.  A world of one moves no data: its
 * 'transport' may be NULL.  STP_ERR_RANGE for what only NCCL has (several ranks
 * a process, plugins).  Rank 0 says why, the others return STP_ERR_STOPPED.
 */
enum stp_status stp_engine_cpu_open(const struct stp_transport_ops *transport,
                                    const struct stp_engine_options *options,
                                    struct stp_engine *engine_ret,
                                    struct stp_error *err);

#endif /* STP_ENGINE_CPU_H */
