/* utf8.h - text of files, for people: UTF-8 that no terminal obeys */
#pragma once

#include <stddef.h>

/* The length of the UTF-8 character that the 'len' >= 1 bytes at 's' begin
 * with; 0 if they begin with none. */
size_t stp_utf8_len(const char *s, size_t len);

/* Copies the 'len' bytes at 's', which any file may hold, as a terminal may
 * print them: of control characters but tabs, and of what is not UTF-8, each
 * byte becomes "\xNN".  Always terminated; cut after a character if 'size' is
 * too small. */
void stp_printable(const char *s, size_t len, char *buf, size_t size);
