#include "device/cuda/nccl_api.h"

#include <dlfcn.h>
#include <limits.h>
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

static const struct stp_dl_symbol memory[] = {
    {"ncclMemAlloc", offsetof(struct stp_nccl_api, mem_alloc)},
    {"ncclMemFree", offsetof(struct stp_nccl_api, mem_free)},
    {"ncclCommRegister", offsetof(struct stp_nccl_api, comm_register)},
    {"ncclCommDeregister", offsetof(struct stp_nccl_api, comm_deregister)},
};

static const struct stp_dl_symbol windows[] = {
    {"ncclCommWindowRegister", offsetof(struct stp_nccl_api, window_register)},
    {"ncclCommWindowDeregister",
     offsetof(struct stp_nccl_api, window_deregister)},
};

struct stp_nccl_config stp_nccl_config_default(int version)
{
    enum { UNDEFINED = INT_MIN, MAGIC = 0xcafebeef };

    return (struct stp_nccl_config){.size = sizeof(struct stp_nccl_config),
                                    .magic = (unsigned)MAGIC,
                                    .version = (unsigned)version,
                                    .blocking = UNDEFINED,
                                    .cga_cluster_size = UNDEFINED,
                                    .min_ctas = UNDEFINED,
                                    .max_ctas = UNDEFINED,
                                    .split_share = UNDEFINED,
                                    .traffic_class = UNDEFINED,
                                    .collnet_enable = UNDEFINED,
                                    .cta_policy = UNDEFINED,
                                    .shrink_share = UNDEFINED,
                                    .nvls_ctas = UNDEFINED};
}

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
    static const char expected[] = ": expected NCCL 2.21 or later";
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
                         sizeof(functions) / sizeof(functions[0]), expected,
                         &api, err);
    if (status == STP_OK &&
        (api.get_version(&api.version) != 0 || api.version < OLDEST)) {
        stp_nccl_version_name(api.version, name);
        status =
            stp_fail(err, STP_ERR_NOTHING,
                     "'%s' is NCCL %s, expected 2.21 or later", path, name);
    }
    STP_THEN(status, stp_dl_find(library, quoted, memory,
                                 sizeof(memory) / sizeof(memory[0]), expected,
                                 &api, err));
    if (status == STP_OK && api.version >= STP_NCCL_WITH_WINDOWS)
        status =
            stp_dl_find(library, quoted, windows,
                        sizeof(windows) / sizeof(windows[0]), "", &api, err);
    if (status == STP_OK)
        *api_ret = api;
    else
        dlclose(library);
    return status;
}
