/*
 * contract.h - the verdicts of the contract suite, as text and as JSON
 */
#ifndef STP_REPORT_CONTRACT_H
#define STP_REPORT_CONTRACT_H

#include <stdio.h>

#include "analyse/contract/contract.h"

/* A line a check: verdict, name and reason; then the count of each verdict. */
void stp_print_contract(const struct stp_contract *contract, FILE *fp);

/* One object, with a member of 'checks' for each.  STP_ERR_NOMEM, or STP_OK. */
enum stp_status stp_print_contract_json(const struct stp_contract *contract,
                                        FILE *fp, struct stp_error *err);

#endif /* STP_REPORT_CONTRACT_H */
