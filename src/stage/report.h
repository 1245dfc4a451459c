/*
 * report.h - how many calls of which kind were staged, in a file
 *
 * STEPTUNE_STAGE_REPORT names a folder, in which each process writes PID.csv
 * when its last communicator ends, and at exit: collective, type, bytes_from,
 * bytes_to (a power of two, and the bytes below the next), ctas, calls_staged,
 * calls_plain, captured (of both, in graphs), why (a word of why.h).  A comment
 * says why a communicator stepped aside.
 */
#ifndef STP_STAGE_REPORT_H
#define STP_STAGE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "stage/why.h"

/* Counts a call; what there is no row for is not counted. */
void stp_stage_report_count(int coll, int type, uint64_t n_bytes, int ctas,
                            enum stp_stage_why why, bool is_captured);

/* Writes the file, if the process counted calls or stepped aside. */
void stp_stage_report_write(void);

#endif /* STP_STAGE_REPORT_H */
