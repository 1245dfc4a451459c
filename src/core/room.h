/* room.h - lists, and those that double when they are full */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* How many items an array has. */
#define STP_N_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Makes room for one more than 'n' items in a list from malloc(), or NULL, with
 * room for 'capacity'.  Without memory it is false, and the list as it was. */
#define STP_ROOM(items, n, capacity)                                           \
    stp_make_room((void *)&(items), n, &(capacity), sizeof(*(items)))

/* 'list' is where the pointer to the items is. */
bool stp_make_room(void *list, size_t n, size_t *capacity, size_t size);
