/* planted_by_file_reload.c - reads its policy whenever the file changes, which
 * ranks notice at different calls */
#include <sys/stat.h>

#include "planted_policy.h"

static long long time_of_policy(void)
{
    const char *path = getenv("NCCL_TUNER_CONFIG_FILE");
    struct stat st;

    return path != NULL && stat(path, &st) == 0 ? st.st_mtime : 0;
}

static ncclResult_t init(struct planted *self)
{
    self->number = time_of_policy();
    return ncclSuccess;
}

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    if (time_of_policy() != self->number)
        planted_follow(call, planted_policy());
    return ncclSuccess;
}

PLANTED_TUNER("by file, reload", init, ask, planted_finalize);
