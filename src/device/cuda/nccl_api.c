#include "device/cuda/nccl_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { OLDEST = 22100 };

void stp_nccl_version_name(int version, char name[16])
{
    snprintf(name, 16, "%d.%d.%d", version / 10000 % 100, version / 100 % 100,
             version % 100);
}

enum stp_status stp_nccl_open(struct stp_nccl_api *api_ret,
                              struct stp_error *err)
{
    const char *path = getenv("STEPTUNE_NCCL");
    struct stp_nccl_api api = {0};
    enum stp_status status = STP_OK;
    void *library;
    char name[16];

    if (path == NULL || path[0] == '\0')
        path = "libnccl.so.2";
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return stp_fail(
            err, STP_ERR_NOTHING,
            "no NCCL: %s (STEPTUNE_NCCL can name the file; that of PyTorch is "
            "nvidia/nccl/lib/libnccl.so.2 in its site-packages)",
            dlerror());
#define NCCL_FIND(result, function, parameters, arguments)                     \
    *(void **)&api.function = dlsym(library, #function);
    NCCL_ALL_CALLS(NCCL_FIND)
#undef NCCL_FIND
    if (api.ncclGetVersion == NULL) {
        status = stp_fail(err, STP_ERR_NOTHING,
                          "'%.500s' has no ncclGetVersion: expected NCCL 2.21 "
                          "or later",
                          path);
    } else if (api.ncclGetVersion(&api.version) != ncclSuccess ||
               api.version < OLDEST) {
        stp_nccl_version_name(api.version, name);
        status =
            stp_fail(err, STP_ERR_NOTHING,
                     "'%s' is NCCL %s, expected 2.21 or later", path, name);
    }
    if (status == STP_OK)
        *api_ret = api;
    else
        dlclose(library);
    return status;
}
