#include "device/cuda/nccl_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/dl_table.h"

enum { OLDEST = 22100 };

static const struct stp_dl_symbol functions[] = {
    {"ncclGetVersion", offsetof(struct stp_nccl_api, get_version)},
    {"ncclGetUniqueId", offsetof(struct stp_nccl_api, get_unique_id)},
    {"ncclCommInitRank", offsetof(struct stp_nccl_api, comm_init_rank)},
    {"ncclCommSplit", offsetof(struct stp_nccl_api, comm_split)},
    {"ncclCommDestroy", offsetof(struct stp_nccl_api, comm_destroy)},
    {"ncclCommAbort", offsetof(struct stp_nccl_api, comm_abort)},
    {"ncclCommGetAsyncError",
     offsetof(struct stp_nccl_api, comm_get_async_error)},
    {"ncclGetErrorString", offsetof(struct stp_nccl_api, get_error_string)},
    {"ncclGetLastError", offsetof(struct stp_nccl_api, get_last_error)},
    {"ncclGroupStart", offsetof(struct stp_nccl_api, group_start)},
    {"ncclGroupEnd", offsetof(struct stp_nccl_api, group_end)},
    {"ncclAllReduce", offsetof(struct stp_nccl_api, all_reduce)},
    {"ncclReduceScatter", offsetof(struct stp_nccl_api, reduce_scatter)},
    {"ncclAllGather", offsetof(struct stp_nccl_api, all_gather)},
    {"ncclBroadcast", offsetof(struct stp_nccl_api, broadcast)},
    {"ncclReduce", offsetof(struct stp_nccl_api, reduce)},
};

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
    void *library;
    char name[16];
    char quoted[512];
    enum stp_status status;

    if (path == NULL || path[0] == '\0')
        path = "libnccl.so.2";
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return stp_fail(
            err, STP_ERR_NOTHING,
            "no NCCL: %s (STEPTUNE_NCCL can name the file; that of PyTorch is "
            "nvidia/nccl/lib/libnccl.so.2 in its site-packages)",
            dlerror());
    snprintf(quoted, sizeof(quoted), "'%.500s'", path);
    status = stp_dl_find(library, quoted, functions,
                         sizeof(functions) / sizeof(functions[0]),
                         ": expected NCCL 2.21 or later", &api, err);
    if (status == STP_OK &&
        (api.get_version(&api.version) != 0 || api.version < OLDEST)) {
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
