/* planted_leaks_files.c - opens a file for each communicator, and leaves it */
#include <fcntl.h>

#include "planted.h"

static ncclResult_t init(struct planted *self)
{
    self->number = open("/dev/null", O_RDONLY);
    return ncclSuccess;
}

PLANTED_TUNER("leaks files", init, planted_ask, planted_finalize);
