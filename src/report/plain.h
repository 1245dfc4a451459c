/* plain.h - text as a program printed it, out of what keeps or shows it
 *
 * Terminals colour text, web pages write "&lt;" and blanks that do not break,
 * collectors of logs and Ansible keep lines as JSON, and Ray says how often it
 * left out the like of one. */
#pragma once

#include <stddef.h>

/* Takes that away from the text, in place, and the blanks at ends of lines; a
 * line stays one, but for JSON that holds several.  Returns its new length. */
size_t stp_plain(char *text, size_t len);
