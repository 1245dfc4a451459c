#include "core/room.h"

#include <stdlib.h>
#include <string.h>

bool stp_make_room(void *list, size_t n, size_t *capacity, size_t size)
{
    const size_t more = *capacity > 0 ? 2 * *capacity : 64;
    void *items;

    if (n < *capacity)
        return true;
    memcpy(&items, list, sizeof(items)); /* of whatever type */
    items = realloc(items, more * size);
    if (items == NULL)
        return false;
    memcpy(list, &items, sizeof(items));
    *capacity = more;
    return true;
}
