/* looks.h - the kind of a file that is not the one expected */
#pragma once

#include "core/status.h"

/* Names what the text is like, such as "NCCL's topology (NCCL_TOPO_DUMP_FILE)",
 * by its first bytes and words; NULL if it is like nothing known.  Static
 * storage. */
const char *stp_looks_like(const char *text, size_t len);

/* Says in *err, after a reader has refused the text, what that looks like and
 * what was 'expected', unless that is what it looks like or nothing known: *err
 * stays as it is then.  Returns STP_ERR_SYNTAX. */
enum stp_status stp_refuse_kind(const char *text, size_t len,
                                const char *expected, struct stp_error *err);
