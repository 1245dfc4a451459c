#include "launch/take.h"

#include <stdlib.h>

#include "launch/stop.h"

void stp_end_without_memory(void)
{
    fputs("steptune: out of memory\n", stderr);
    stp_stop_remove_files();
    exit(EXIT_FAILURE);
}

void *stp_take(size_t n, size_t size)
{
    void *items = calloc(n > 0 ? n : 1, size);

    if (items == NULL)
        stp_end_without_memory();
    return items;
}

FILE *stp_take_text(char **text, size_t *len)
{
    FILE *fp = open_memstream(text, len);

    if (fp == NULL)
        stp_end_without_memory();
    return fp;
}

void stp_end_text(FILE *fp)
{
    const int lost = ferror(fp);

    if (fclose(fp) != 0 || lost != 0)
        stp_end_without_memory();
}
