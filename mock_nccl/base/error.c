#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mock_nccl.h"

static _Thread_local char last_error[1024];

const char *mock_last_error(void)
{
    return last_error;
}

void mock_set_error(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(last_error, sizeof(last_error), fmt, args);
    va_end(args);
}

ncclResult_t mock_fail_prefix(ncclResult_t result, const char *fmt, ...)
{
    char why[sizeof(last_error)];
    va_list args;
    size_t used;

    if (result == ncclSuccess)
        return result;
    memcpy(why, last_error, sizeof(why));
    va_start(args, fmt);
    vsnprintf(last_error, sizeof(last_error), fmt, args);
    va_end(args);
    used = strlen(last_error);
    snprintf(last_error + used, sizeof(last_error) - used, "%s", why);
    return result;
}

void mock_keep(struct mock_kept *kept, ncclResult_t rc)
{
    kept->rc = rc;
    memcpy(kept->error, last_error, sizeof(kept->error));
}

ncclResult_t mock_restore(const struct mock_kept *kept)
{
    if (kept->rc != ncclSuccess)
        memcpy(last_error, kept->error, sizeof(last_error));
    return kept->rc;
}

ncclResult_t mock_copy_text(const char *text, char **copy_ret)
{
    if (text == NULL)
        return ncclSuccess;
    *copy_ret = strdup(text);
    return *copy_ret != NULL ? ncclSuccess : mock_fail_memory();
}

const char *mock_result_name(ncclResult_t result)
{
    static const char *const names[] = {
        "ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
        "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
        "ncclRemoteError",   "ncclInProgress"};

    if ((unsigned)result >= MOCK_N_OF(names))
        return "an unknown code";
    return names[result];
}
