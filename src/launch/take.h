/* take.h - memory for what a command finds out, prints and draws
 *
 * It has measured or read by then, and can do nothing without a few kilobytes:
 * the process ends with status 1 and a sentence, and its temporary files are
 * removed. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "core/room.h"

void stp_end_without_memory(void) __attribute__((noreturn));

/* 'n' items of 'size' bytes that are 0, to be freed with free(). */
void *stp_take(size_t n, size_t size);

/* Makes a list of 'n' items that are 0. */
#define STP_TAKE(items, n) ((items) = stp_take((n), sizeof(*(items))))

/* STP_ROOM(), or the end. */
#define STP_TAKE_ROOM(items, n, capacity)                                      \
    do {                                                                       \
        if (!STP_ROOM(items, n, capacity))                                     \
            stp_end_without_memory();                                          \
    } while (0)

/* Begins a text, as open_memstream() does; ends it, so that '*text' of the
 * former, to be freed with free(), has all of it. */
FILE *stp_take_text(char **text, size_t *len);
void stp_end_text(FILE *fp);
