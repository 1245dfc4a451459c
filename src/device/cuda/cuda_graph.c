/* cuda_graph.c - what NCCL runs, read from a graph of it */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/room.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_name.h"
#include "device/dl_table.h"

struct edge {
    char data[8]; /* a CUgraphEdgeData, which CUDA has from 12.3 on */
};

/* libcuda's functions: the runtime knows no kernels that others launched. */
struct driver {
    CUresult (*nodes)(CUgraph graph, CUgraphNode *nodes, size_t *n);
    CUresult (*type)(CUgraphNode node, CUgraphNodeType *type);
    CUresult (*kernel)(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params);
    CUresult (*function_name)(const char **name, CUfunction function);
    CUresult (*kernel_name)(const char **name, CUkernel kernel);
    CUresult (*capture)(CUstream stream, CUstreamCaptureStatus *status,
                        cuuint64_t *id, CUgraph *graph,
                        const CUgraphNode **nodes, size_t *n);
    CUresult (*before)(CUgraphNode node, CUgraphNode *nodes, struct edge *edges,
                       size_t *n);
    CUresult (*behind)(CUgraphNode node, CUgraphNode *nodes, struct edge *edges,
                       size_t *n);
    CUresult (*add)(CUgraph graph, const CUgraphNode *from,
                    const CUgraphNode *to, size_t n);
    CUresult (*remove)(CUgraph graph, const CUgraphNode *from,
                       const CUgraphNode *to, size_t n);
};

enum { FOR_KERNELS = 5 };

static const struct stp_dl_symbol functions[] = {
    {"cuGraphGetNodes", offsetof(struct driver, nodes)},
    {"cuGraphNodeGetType", offsetof(struct driver, type)},
    {"cuGraphKernelNodeGetParams_v2", offsetof(struct driver, kernel)},
    {"cuFuncGetName", offsetof(struct driver, function_name)},
    {"cuKernelGetName", offsetof(struct driver, kernel_name)},
    {"cuStreamGetCaptureInfo_v2", offsetof(struct driver, capture)},
    {"cuGraphNodeGetDependencies_v2", offsetof(struct driver, before)},
    {"cuGraphNodeGetDependentNodes_v2", offsetof(struct driver, behind)},
    {"cuGraphAddDependencies", offsetof(struct driver, add)},
    {"cuGraphRemoveDependencies", offsetof(struct driver, remove)},
};

/* The first 'n' of the functions; those behind FOR_KERNELS are of CUDA 12.3. */
static bool graph_open_driver(struct driver *driver, size_t n)
{
    /* The runtime has opened the library already. */
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    return library != NULL && stp_dl_find(library, "libcuda", functions, n,
                                          driver, NULL) == STP_OK;
}

/* NULL if nobody knows. */
static const char *graph_kernel_name(const struct driver *driver,
                                     CUgraphNode node)
{
    CUDA_KERNEL_NODE_PARAMS params = {0};
    const char *name = NULL;

    if (driver->kernel(node, &params) != CUDA_SUCCESS)
        return NULL;
    if (params.func != NULL)
        return driver->function_name(&name, params.func) == CUDA_SUCCESS ? name
                                                                         : NULL;
    return driver->kernel_name(&name, params.kern) == CUDA_SUCCESS ? name
                                                                   : NULL;
}

/* NCCL's part of a graph. */
struct contents {
    bool has_copies;
    bool has_kernels;                /* but for symmetric ones */
    char symmetric[STP_KERNEL_NAME]; /* "": there is none */
};

static void graph_read_node(const struct driver *driver, CUgraphNode node,
                            struct contents *contents)
{
    /* Symmetric kernels have the first prefix, and the second in NCCL 2.27. */
    static const char *const symmetric[] = {"ncclSymkDevKernel_",
                                            "ncclSymDevKernel_"};
    CUgraphNodeType type;
    const char *symbol;
    char name[128];

    if (driver->type(node, &type) != CUDA_SUCCESS)
        return;
    contents->has_copies |= type == CU_GRAPH_NODE_TYPE_MEMCPY;
    symbol = type == CU_GRAPH_NODE_TYPE_KERNEL ? graph_kernel_name(driver, node)
                                               : NULL;
    if (symbol == NULL)
        return;
    stp_cuda_kernel_name(symbol, name, sizeof(name));
    for (size_t i = 0; i < STP_N_OF(symmetric); i++)
        if (strncmp(name, symmetric[i], strlen(symmetric[i])) == 0) {
            snprintf(contents->symmetric, sizeof(contents->symmetric), "%.*s",
                     (int)sizeof(contents->symmetric) - 1,
                     name + strlen(symmetric[i]));
            return;
        }
    contents->has_kernels |= strncmp(name, "ncclDevKernel", 13) == 0;
}

void stp_cuda_graph_kernel(cudaGraph_t graph, char kernel[STP_KERNEL_NAME])
{
    enum { MAX_NODES = 256 };
    CUgraphNode nodes[MAX_NODES];
    struct contents contents = {0};
    struct driver driver;
    size_t n = MAX_NODES;

    kernel[0] = '\0';
    if (!graph_open_driver(&driver, FOR_KERNELS) ||
        driver.nodes(graph, nodes, &n) != CUDA_SUCCESS)
        return;
    for (size_t i = 0; i < n && i < MAX_NODES; i++)
        graph_read_node(&driver, nodes[i], &contents);
    if (contents.symmetric[0] != '\0')
        snprintf(kernel, STP_KERNEL_NAME, "%s", contents.symmetric);
    else if (contents.has_copies && !contents.has_kernels)
        snprintf(kernel, STP_KERNEL_NAME, STP_COPY_ENGINES);
}

void stp_cuda_graph_ease(cudaStream_t stream, void **last)
{
    enum { MOST = 16 };
    CUgraphNode near[MOST], kernel, record, from = *last;
    struct edge edges[MOST];
    CUstreamCaptureStatus status;
    CUgraphNodeType type;
    struct driver driver;
    const CUgraphNode *head;
    cuuint64_t id;
    CUgraph graph;
    size_t n = 0, n_near = MOST;

    *last = NULL;
    if (!graph_open_driver(&driver, STP_N_OF(functions)) ||
        driver.capture(stream, &status, &id, &graph, &head, &n) !=
            CUDA_SUCCESS ||
        status != CU_STREAM_CAPTURE_STATUS_ACTIVE || n != 1)
        return;
    kernel = *head;
    if (driver.behind(kernel, near, edges, &n_near) != CUDA_SUCCESS ||
        n_near != 1 || driver.type(near[0], &type) != CUDA_SUCCESS ||
        type != CU_GRAPH_NODE_TYPE_EVENT_RECORD)
        return;
    *last = record = near[0];
    n_near = MOST;
    if (from == NULL ||
        driver.before(kernel, near, edges, &n_near) != CUDA_SUCCESS)
        return;
    for (size_t i = 0; i < n_near && i < MOST; i++)
        if (near[i] == from &&
            driver.add(graph, &from, &record, 1) == CUDA_SUCCESS)
            driver.remove(graph, &from, &kernel, 1);
}
