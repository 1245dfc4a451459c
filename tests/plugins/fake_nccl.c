/* A libnccl that has nothing but a version: 2.28.9, or what FAKE_NCCL says;
 * with "crash" there it does. */
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
