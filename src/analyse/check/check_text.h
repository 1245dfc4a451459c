/* check_text.h - where in the text of a policy findings stand */
#ifndef STP_CHECK_TEXT_H
#define STP_CHECK_TEXT_H

#include "analyse/check/check.h"

/* Sets the columns of findings in the 'len' bytes at 'csv', which the parsed
 * policy does not know, and sorts them by line and column. */
void stp_findings_place(struct stp_findings *findings, const char *csv,
                        size_t len);

#endif /* STP_CHECK_TEXT_H */
