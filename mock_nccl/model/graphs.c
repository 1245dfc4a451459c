#include "model/graphs.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <expat.h>

/* expat cannot stop with a result, so the first failure is stored here. */
struct parser {
    XML_Parser xml;
    const char *path;
    ncclResult_t rc;
    int depth; /* graphs 1, graph 2, channel 3, gpu 4 */
    int id;    /* of the current graph */
    int n_said;
    int n_channels;
    int n_gpus;
    bool is_first;                 /* of the graphs with this id */
    long heads[MOCK_N_GRAPHS][64]; /* of the channels so far */
    bool seen[MOCK_N_GRAPHS];
    struct mock_graphs graphs;
};

MOCK_PRINTF(2, 3)
static void graphs_fail(struct parser *p, const char *fmt, ...)
{
    char text[256];
    va_list args;

    if (p->rc != ncclSuccess)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    p->rc = mock_refuse("%s:%lu: %s", p->path,
                        (unsigned long)XML_GetCurrentLineNumber(p->xml), text);
    XML_StopParser(p->xml, XML_FALSE);
}

static const char *graphs_read_optional(const char **pairs, const char *name)
{
    for (; pairs[0] != NULL; pairs += 2)
        if (strcmp(pairs[0], name) == 0)
            return pairs[1];
    return NULL;
}

static const char *graphs_find_attribute(struct parser *p, const char **pairs,
                                         const char *name)
{
    const char *text = graphs_read_optional(pairs, name);

    if (text == NULL)
        graphs_fail(p, "a graph without '%s'", name);
    return text;
}

/* A number, which is whole if there is a 'max'. */
static float graphs_read_number(struct parser *p, const char **pairs,
                                const char *name, int max)
{
    const char *text = graphs_find_attribute(p, pairs, name);
    char *end;
    float number;

    if (text == NULL)
        return 0;
    number = max > 0 ? (float)strtol(text, &end, 10) : strtof(text, &end);
    if (isdigit((unsigned char)text[0]) && *end == '\0' && isfinite(number) &&
        (max == 0 || number <= (float)max))
        return number;
    if (max > 0)
        graphs_fail(p, "%s=\"%s\" is not a whole number from 0 to %d", name,
                    text, max);
    else
        graphs_fail(p, "%s=\"%s\" is not a number", name, text);
    return 0;
}

static const char *const path_words[] = {
    [MOCK_PATH_LOC] = "LOC", [MOCK_PATH_NVL] = "NVL",
    [MOCK_PATH_NVB] = "NVB", [3] = "", /* C2C, which NCCL cannot write */
    [MOCK_PATH_PIX] = "PIX", [MOCK_PATH_PXB] = "PXB",
    [MOCK_PATH_P2C] = "P2C", [MOCK_PATH_PXN] = "PXN",
    [MOCK_PATH_PHB] = "PHB", [MOCK_PATH_SYS] = "SYS",
};

static enum mock_path graphs_path_type(struct parser *p, const char **pairs,
                                       const char *name)
{
    const char *text = graphs_find_attribute(p, pairs, name);

    if (text == NULL)
        return MOCK_PATH_LOC;
    for (int i = 0; i <= MOCK_PATH_SYS; i++)
        if (*text != '\0' && strcmp(path_words[i], text) == 0)
            return (enum mock_path)i;
    graphs_fail(p, "%s=\"%s\" is no path that NCCL knows", name, text);
    return MOCK_PATH_LOC;
}

static void graphs_open_graph(struct parser *p, const char **pairs)
{
    const int id = (int)graphs_read_number(p, pairs, "id", MOCK_N_GRAPHS - 1);
    struct mock_graph graph = {0}, *all = &p->graphs.graph[id];

    graph.pattern = (int)graphs_read_number(p, pairs, "pattern", 6);
    graph.n_channels = (int)graphs_read_number(p, pairs, "nchannels", 64);
    graph.bw_intra = graphs_read_number(p, pairs, "speedintra", 0);
    graph.bw_inter = graphs_read_number(p, pairs, "speedinter", 0);
    if (graphs_read_optional(pairs, "latencyinter") !=
        NULL) /* NCCL does not require it */
        graph.latency_inter = graphs_read_number(p, pairs, "latencyinter", 0);
    graph.type_intra = graphs_path_type(p, pairs, "typeintra");
    graph.type_inter = graphs_path_type(p, pairs, "typeinter");
    graph.same_channels = (int)graphs_read_number(p, pairs, "samechannels", 1);
    p->id = id;
    p->is_first = !p->seen[id];
    p->seen[id] = true;
    p->n_said = graph.n_channels;
    p->n_channels = 0;
    if (p->is_first) {
        *all = graph;
        return;
    }
    /* NCCL takes the least of all nodes' graphs, and the farthest links. */
    all->pattern = (int)fmax(all->pattern, graph.pattern);
    all->n_channels = (int)fmin(all->n_channels, graph.n_channels);
    all->bw_intra = fminf(all->bw_intra, graph.bw_intra);
    all->bw_inter = fminf(all->bw_inter, graph.bw_inter);
    all->type_intra = (enum mock_path)fmax(all->type_intra, graph.type_intra);
    all->type_inter = (enum mock_path)fmax(all->type_inter, graph.type_inter);
    all->same_channels &= graph.same_channels;
}

/* Whether the GPU is a head of one of the graph's first 'n' channels. */
static bool graphs_has_head(const struct parser *p, int id, int n, long gpu)
{
    for (int c = 0; c < n; c++)
        if (p->heads[id][c] == gpu)
            return true;
    return false;
}

static void graphs_on_start(void *user, const char *name, const char **pairs)
{
    /* NICs mark where a channel leaves the host. */
    static const char *const names[] = {"graphs", "graph", "channel", "gpu"};
    struct parser *p = user;
    bool nic = p->depth == 3 && strcmp(name, "net") == 0;

    if (p->depth >= 4 || (!nic && strcmp(name, names[p->depth]) != 0)) {
        graphs_fail(p, "<%s> does not belong here, expected %s", name,
                    strcmp(name, "system") == 0
                        ? "search graphs (NCCL_GRAPH_DUMP_FILE) in place of "
                          "the topology (NCCL_TOPO_DUMP_FILE)"
                        : "graphs of channels of GPUs and nets");
        return;
    }
    p->depth++;
    if (p->depth == 2) {
        graphs_open_graph(p, pairs);
    } else if (p->depth == 3) {
        p->n_gpus = 0;
    } else if (nic) {
        p->graphs.on_network |= p->id <= MOCK_GRAPH_TREE;
    } else if (p->depth == 4 && p->n_gpus++ == 0 && p->n_channels < 64 &&
               p->is_first) {
        const char *dev = graphs_read_optional(pairs, "dev");
        long *head = &p->heads[p->id][p->n_channels];

        /* a GPU without a name counts as a GPU of its own */
        *head = dev != NULL ? strtol(dev, NULL, 0) : -1 - p->n_channels;
        p->graphs.graph[p->id].n_heads +=
            !graphs_has_head(p, p->id, p->n_channels, *head);
    }
}

static void graphs_on_end(void *user, const char *name)
{
    struct parser *p = user;
    int *per_node = &p->graphs.per_node;

    if (p->depth == 3) {
        p->n_channels++;
        /* other graphs list only GPUs that are heads of channels */
        if (p->id <= MOCK_GRAPH_TREE && *per_node == 0)
            *per_node = p->n_gpus;
        if (p->id <= MOCK_GRAPH_TREE && *per_node == 0)
            graphs_fail(p, "a channel without GPUs");
        else if (p->id <= MOCK_GRAPH_TREE && p->n_gpus != *per_node)
            graphs_fail(p,
                        "a channel of %d GPUs, but a node has %d: " MOCK_UNEVEN,
                        p->n_gpus, *per_node);
    } else if (p->depth == 2 && p->n_channels != p->n_said) {
        graphs_fail(p, "graph %d has %d channels but says nchannels=\"%d\"",
                    p->id, p->n_channels, p->n_said);
    }
    p->depth--;
}

static ncclResult_t graphs_parse(struct parser *p, FILE *file)
{
    enum XML_Status status;
    size_t len;
    int done;

    do {
        char *text = XML_GetBuffer(p->xml, 4096);

        if (text == NULL)
            return mock_fail_memory();
        len = fread(text, 1, 4096, file);
        done = len == 0;
        status = XML_ParseBuffer(p->xml, (int)len, done);
        if (p->rc != ncclSuccess)
            return p->rc;
        if (status != XML_STATUS_OK)
            graphs_fail(p, "%s",
                        XML_GetErrorCode(p->xml) ==
                                XML_ERROR_JUNK_AFTER_DOC_ELEMENT
                            ? "text behind </graphs>, expected the graphs of "
                              "all nodes in one <graphs>"
                            : XML_ErrorString(XML_GetErrorCode(p->xml)));
    } while (!done && p->rc == ncclSuccess);
    return p->rc;
}

ncclResult_t mock_graphs_load(const char *path, int per_node,
                              struct mock_graphs *graphs_ret)
{
    struct parser p = {.path = path, .graphs.per_node = per_node};
    FILE *file = fopen(path, "r");
    struct mock_graph *ring = &p.graphs.graph[MOCK_GRAPH_RING];
    struct mock_graph *tree = &p.graphs.graph[MOCK_GRAPH_TREE];
    ncclResult_t rc;

    if (file == NULL)
        return mock_fail(ncclSystemError, "%s: %s", path, strerror(errno));
    p.xml = XML_ParserCreate(NULL);
    if (p.xml == NULL) {
        fclose(file);
        return mock_fail_memory();
    }
    XML_SetUserData(p.xml, &p);
    XML_SetElementHandler(p.xml, graphs_on_start, graphs_on_end);
    rc = graphs_parse(&p, file);
    if (rc == ncclSuccess && ring->n_channels == 0)
        rc = mock_refuse("%s: no channels in graph %d (ring)", path,
                         MOCK_GRAPH_RING);
    p.graphs.assumes_tree = tree->n_channels == 0;
    if (p.graphs.assumes_tree) {
        *tree = *ring;
        tree->pattern = p.graphs.per_node == 1 ? MOCK_PATTERN_TREE
                                               : MOCK_PATTERN_BALANCED_TREE;
    }
    /* NCCL tunes with the channels that both have */
    if (tree->n_channels < ring->n_channels)
        ring->n_channels = tree->n_channels;
    tree->n_channels = ring->n_channels;
    for (int id = 0; id < MOCK_N_GRAPHS && rc == ncclSuccess; id++) {
        const struct mock_graph *graphs = p.graphs.graph;

        p.graphs.graph[id].heads_chains = true;
        for (int c = 0; c < graphs[MOCK_GRAPH_COLLNET_CHAIN].n_channels; c++)
            p.graphs.graph[id].heads_chains &=
                graphs_has_head(&p, id, graphs[id].n_channels,
                                p.heads[MOCK_GRAPH_COLLNET_CHAIN][c]);
    }
    if (rc == ncclSuccess)
        *graphs_ret = p.graphs;
    XML_ParserFree(p.xml);
    fclose(file);
    return rc;
}
