/*
 * check_machine.h - findings about rules that do not fit a machine
 */
#ifndef STP_CHECK_MACHINE_H
#define STP_CHECK_MACHINE_H

#include "analyse/check/findings.h"

/* Asks mock NCCL for the machine in the folder; c->status is STP_ERR_DEVICE if
 * it cannot be had. */
void stp_check_machine(struct stp_check_state *c, const char *machine_path);

#endif /* STP_CHECK_MACHINE_H */
