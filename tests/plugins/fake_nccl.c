/* A libnccl with only a version: 2.28.9, or the value of FAKE_NCCL; the value
 * "crash" makes it abort. */
#include <stdlib.h>
#include <string.h>

int ncclGetVersion(int *version);

int ncclGetVersion(int *version)
{
    const char *value = getenv("FAKE_NCCL");

    if (value != NULL && strcmp(value, "crash") == 0)
        abort();
    *version = value != NULL ? atoi(value) : 22809;
    return 0;
}
