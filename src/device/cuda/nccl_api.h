/* nccl_api.h - libnccl, opened at run time
 *
 * So that one build measures whatever NCCL is there: the system's, PyTorch's,
 * or the one that $STEPTUNE_NCCL names.  Our own declarations: these functions'
 * ABI has not changed since each appeared, and nccl.h does not go with our
 * nccl_tuner_abi.h in one file.  Results are ncclResult_t. */
#pragma once

#include <stddef.h>

#include "core/status.h"

struct stp_nccl_id {
    char bytes[128];
};

typedef void *stp_nccl_comm;
typedef void *stp_nccl_window;
typedef void *stp_nccl_stream; /* cudaStream_t */

/* ncclConfig_t as NCCL 2.27 has it; later versions append members, and go by
 * 'version'. */
struct stp_nccl_config {
    size_t size;
    unsigned magic;
    unsigned version; /* as get_version() says it */
    int blocking;
    int cga_cluster_size;
    int min_ctas;
    int max_ctas;
    const char *net_name;
    int split_share;
    int traffic_class;
    const char *comm_name;
    int collnet_enable;
    int cta_policy;
    int shrink_share;
    int nvls_ctas;
};

enum {
    STP_NCCL_WINDOW_SYMMETRIC = 1, /* NCCL_WIN_COLL_SYMMETRIC */
    STP_NCCL_CTA_POLICY_ZERO = 2,  /* NCCL_CTA_POLICY_ZERO */
    STP_NCCL_WITH_WINDOWS = 22700, /* and later */
    STP_NCCL_WITH_COPY_ENGINES = 22800,
};

struct stp_nccl_api {
    int (*get_version)(int *version);
    int (*get_unique_id)(struct stp_nccl_id *id);
    int (*comm_init_rank)(stp_nccl_comm *comm, int n_ranks,
                          struct stp_nccl_id id, int rank);
    int (*comm_split)(stp_nccl_comm comm, int color, int key,
                      stp_nccl_comm *child, void *config);
    int (*comm_destroy)(stp_nccl_comm comm);
    int (*comm_abort)(stp_nccl_comm comm);
    int (*comm_get_async_error)(stp_nccl_comm comm, int *error);
    const char *(*get_error_string)(int result);
    const char *(*get_last_error)(stp_nccl_comm comm);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*all_reduce)(const void *send, void *recv, size_t count, int type,
                      int op, stp_nccl_comm comm, stp_nccl_stream stream);
    int (*reduce_scatter)(const void *send, void *recv, size_t count, int type,
                          int op, stp_nccl_comm comm, stp_nccl_stream stream);
    int (*all_gather)(const void *send, void *recv, size_t count, int type,
                      stp_nccl_comm comm, stp_nccl_stream stream);
    int (*broadcast)(const void *send, void *recv, size_t count, int type,
                     int root, stp_nccl_comm comm, stp_nccl_stream stream);
    int (*reduce)(const void *send, void *recv, size_t count, int type, int op,
                  int root, stp_nccl_comm comm, stp_nccl_stream stream);
    int (*mem_alloc)(void **memory, size_t nbytes);
    int (*mem_free)(void *memory);
    int (*comm_register)(stp_nccl_comm comm, void *memory, size_t nbytes,
                         void **handle);
    int (*comm_deregister)(stp_nccl_comm comm, void *handle);
    /* Both NULL before STP_NCCL_WITH_WINDOWS. */
    int (*window_register)(stp_nccl_comm comm, void *memory, size_t nbytes,
                           stp_nccl_window *window, int flags);
    int (*window_deregister)(stp_nccl_comm comm, stp_nccl_window window);
    int version; /* 22809 for 2.28.9 */
};

/* A configuration that leaves all to NCCL. */
struct stp_nccl_config stp_nccl_config_default(int version);

/* Opens it for the rest of the process.  STP_ERR_NOTHING says which is missing,
 * or that it is too old. */
enum stp_status stp_nccl_open(struct stp_nccl_api *api_ret,
                              struct stp_error *err);

/* "2.28.9" */
void stp_nccl_version_name(int version, char name[16]);
