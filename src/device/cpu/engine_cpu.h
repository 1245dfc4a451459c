/* engine_cpu.h - CPUs as an engine: a rank per process, data in host memory
 *
 * Noted work runs in synchronise(), on one thread per stream, from a barrier of
 * all ranks on; a transport moves the data.  Products use all CPUs of a rank,
 * all else one.  Measured streams have buffers, matrices and vectors of their
 * own, so they run side by side, on as many CPUs as there are.
 *
 * An average is the transport's sum, divided by the number of ranks in place
 * afterwards; that counts to its time.  Nothing can be forced, there are no
 * groups and no graphs.  Eight-bit floating point is moved but not reduced. */
#pragma once

#include "device/module.h"
#include "device/transport.h"

/* Opens the one rank of this process, connected by 'transport'.  A world of one
 * that trains moves no data: its 'transport' may be NULL.  STP_ERR_RANGE for
 * features of NCCL (several ranks a process, plugins, CUDA graphs, search
 * graphs).  STP_ERR_NOMEM if the buffers of measuring, two times
 * options->max_bytes a process, are more than a host has free.  Rank 0 says
 * why, the others return STP_ERR_STOPPED. */
enum stp_status stp_cpu_open(const struct stp_transport_ops *transport,
                             const struct stp_device_options *options,
                             struct stp_engines *engines_ret,
                             struct stp_error *err);
