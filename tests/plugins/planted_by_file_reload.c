/* planted_by_file_reload.c - reads its policy whenever the file changes, which
 * ranks notice at different calls */
#include <sys/stat.h>

#include "planted_policy.h"

static long long time_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_mtime : 0;
}

static ncclResult_t init(struct planted *self)
{
    snprintf(self->text, sizeof(self->text), "%s", planted_policy_path());
    self->number = time_of(self->text);
    return ncclSuccess;
}

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    if (time_of(self->text) != self->number)
        planted_follow(call, planted_policy(self->text));
    return ncclSuccess;
}

PLANTED_TUNER("by file, reload", init, ask, planted_finalize);
