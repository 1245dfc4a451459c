/*
 * check_machine.h - findings about rules that do not fit a machine
 */
#ifndef STP_CHECK_MACHINE_H
#define STP_CHECK_MACHINE_H

#include "analyse/check/findings.h"

/* Asks mock NCCL for the machine in the folder; STP_ERR_DEVICE if it cannot be
 * had. */
enum stp_status stp_check_machine(struct stp_check_state *c,
                                  const char *machine_path);

#endif /* STP_CHECK_MACHINE_H */
