/* job_log_machine.h - a machine out of what NCCL logged on it
 *
 * The search graphs stand in the log but for the order of GPUs, which decides
 * nothing that mock NCCL plays; there are no times and no choices. */
#pragma once

#include "report/job_log.h"
#include "report/measurements/machine_folder.h"

/* The compute capability of a GPU of this name, 90 of an H100; 0: not known. */
int stp_log_capability(const char *gpu);

/* Fills in what the log tells of the machine of its largest communicator that
 * has graphs, whose shape is *shape_ret.  'gpu' is for a log that does not name
 * the GPU; or NULL.  STP_ERR_NOTHING says what the log lacks. */
enum stp_status stp_log_machine(const struct stp_job_log *log, const char *gpu,
                                struct stp_machine_record *record,
                                unsigned *shape_ret, struct stp_error *err);

/* Writes graphs.xml. */
enum stp_status stp_log_write_graphs(const struct stp_job_log *log,
                                     unsigned shape, const char *path,
                                     struct stp_error *err);
