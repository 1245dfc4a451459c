/* ledger_file.h - a ledger (core/policy/ledger.h) in the folder that
 * STEPTUNE_LEDGER names */
#pragma once

#include "core/policy/ledger.h"
#include "core/status.h"

/* Makes a new file in the folder 'dir', readable by its owner alone, and maps
 * it: an empty ledger of all 0 bytes.  STP_ERR_IO with a sentence if it cannot
 * be had; *ledger_ret is untouched then.  Unmap with stp_ledger_close(); the
 * file stays. */
enum stp_status stp_ledger_open(const char *dir, struct stp_ledger **ledger_ret,
                                struct stp_error *err);

/* NULL is fine. */
void stp_ledger_close(struct stp_ledger *ledger);
