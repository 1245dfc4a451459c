/*
 * html.h - text into HTML and SVG, where nothing that a file says is markup
 */
#ifndef STP_HTML_H
#define STP_HTML_H

#include <stddef.h>
#include <stdio.h>

#include "core/status.h"

/*
 * Writes the 'len' bytes at 'text' so that a browser shows them as they are, in
 * an element or a quoted attribute.  What is not UTF-8, and control characters
 * but tab and newline, become U+FFFD: no page may hold them.
 */
void stp_html_bytes(const char *text, size_t len, FILE *fp);

/* The same of a string. */
void stp_html_text(const char *text, FILE *fp);

/* The same of what printf() would write; all but the first 511 bytes are cut.
 */
void stp_html_printf(FILE *fp, const char *fmt, ...) STP_PRINTF(2, 3);

#endif /* STP_HTML_H */
