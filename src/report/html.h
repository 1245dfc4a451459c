/* html.h - text in HTML that can never become markup */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Writes the 'len' bytes at 'text' so that a browser shows them as they are, in
 * an element or a quoted attribute.  Invalid UTF-8, and control characters
 * except tab and newline, become U+FFFD. */
void stp_html_text(const char *text, size_t len, FILE *fp);
