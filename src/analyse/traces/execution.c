/* execution.c - PyTorch's execution traces, as JSON of schemas 1.0 and 1.1
 *
 * Nodes are operators in the order of their ids.  A collective is a node
 * record_param_comms: the values of its inputs are tensors, a number, the
 * process group, a rank, the collective's name, two lists of split sizes, from
 * schema 1.1 on the group's first rank and its stride, and the number of the
 * group's ranks.  Compute is the GEMMs of linear layers, products and
 * convolutions.  Of other operators there is no time: they are counted. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "analyse/traces/traces.h"
#include "device/mock/operation.h"
#include "nccl_tuner_abi.h"

enum { MAX_DIMS = 8, MAX_ANCESTORS = 8 };

struct node {
    const cJSON *json;
    uint64_t id;
    uint64_t parent;
    unsigned line;    /* of its id; 0: not known */
    bool is_played;   /* its children are parts of it */
    bool is_a_parent; /* of some node */
};

struct execution {
    struct stp_trace_build *b;
    struct node *nodes; /* by id */
    size_t n_nodes;
    int world; /* ranks of the largest process group; 0: not known */
    struct stp_trace_place place;
    struct stp_error *err;
};

enum { NOT_TUNED = -1, NO_WORD = -2 };

static const struct {
    const char *name;
    int coll; /* ncclFunc_t; NOT_TUNED if NCCL asks no tuner about it */
} collective_words[] = {
    // clang-format off
    {"allreduce", ncclFuncAllReduce},
    {"allreduce_coalesced", ncclFuncAllReduce},
    {"all_reduce", ncclFuncAllReduce}, {"broadcast", ncclFuncBroadcast},
    {"_broadcast_oop", ncclFuncBroadcast}, {"reduce", ncclFuncReduce},
    {"_reduce_oop", ncclFuncReduce}, {"allgather", ncclFuncAllGather},
    {"all_gather", ncclFuncAllGather}, {"_allgather_base", ncclFuncAllGather},
    {"_all_gather_base", ncclFuncAllGather},
    {"all_gather_into_tensor", ncclFuncAllGather},
    {"allgather_into_tensor_coalesced", ncclFuncAllGather},
    {"reduce_scatter", ncclFuncReduceScatter},
    {"_reduce_scatter_base", ncclFuncReduceScatter},
    {"reduce_scatter_tensor", ncclFuncReduceScatter},
    {"reduce_scatter_tensor_coalesced", ncclFuncReduceScatter},
    {"all_to_all", NOT_TUNED}, {"all_to_allv", NOT_TUNED},
    {"barrier", NOT_TUNED}, {"send", NOT_TUNED}, {"recv", NOT_TUNED},
    {"gather", NOT_TUNED}, {"scatter", NOT_TUNED}, {"init", NOT_TUNED},
    {"wait", NOT_TUNED},
    // clang-format on
};

static const struct {
    const char *name; /* in "Tensor(NAME)" */
    int type;         /* enum stp_type */
} types[] = {
    {"float", STP_TYPE_F32},        {"double", STP_TYPE_F64},
    {"c10::Half", STP_TYPE_F16},    {"c10::BFloat16", STP_TYPE_BF16},
    {"int", STP_TYPE_I32},          {"long", STP_TYPE_I64},
    {"long int", STP_TYPE_I64},     {"signed char", STP_TYPE_I8},
    {"unsigned char", STP_TYPE_U8}, {"bool", STP_TYPE_U8},
};

/* Operators that launch no kernel: other views of a tensor, and memory. */
static const char *const without_work[] = {
    "aten::alias",     "aten::as_strided",   "aten::detach",
    "aten::empty",     "aten::empty_like",   "aten::empty_strided",
    "aten::expand",    "aten::flatten",      "aten::lift_fresh",
    "aten::narrow",    "aten::permute",      "aten::_reshape_alias",
    "aten::reshape",   "aten::resize_",      "aten::result_type",
    "aten::select",    "aten::slice",        "aten::squeeze",
    "aten::t",         "aten::to",           "aten::transpose",
    "aten::unsqueeze", "aten::_unsafe_view", "aten::view",
    "detach",
};

/* ---- parts of a node ---- */

static const char *execution_name(const struct node *node)
{
    const char *name = cJSON_GetStringValue(
        cJSON_GetObjectItemCaseSensitive(node->json, "name"));

    return name != NULL ? name : "";
}

/* "values", "shapes" or "types" of a node's "inputs" or "outputs": in schema
 * 1.0 those of inputs are "inputs", "input_shapes", "input_types". */
static const cJSON *execution_part(const struct node *node, const char *side,
                                   const char *part)
{
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(node->json, side);
    char key[32];

    if (cJSON_IsObject(all))
        return cJSON_GetObjectItemCaseSensitive(all, part);
    if (strcmp(part, "values") == 0)
        return all;
    snprintf(key, sizeof(key), "%.*s_%s", (int)strlen(side) - 1, side, part);
    return cJSON_GetObjectItemCaseSensitive(node->json, key);
}

/* A whole number from 0; false if it is none. */
static bool execution_whole(const cJSON *json, uint64_t *value_ret)
{
    const double value = cJSON_IsNumber(json) ? json->valuedouble : -1;

    if (!(value >= 0 && value < 9e15) || floor(value) != value)
        return false;
    *value_ret = (uint64_t)value;
    return true;
}

static bool execution_attribute_whole(const cJSON *node, const char *key,
                                      uint64_t *value_ret)
{
    return execution_whole(cJSON_GetObjectItemCaseSensitive(node, key),
                           value_ret);
}

/* The 'i'-th shape: how many sides; 0 if there is none. */
static size_t execution_shape(const cJSON *shapes, int i,
                              uint64_t dims[MAX_DIMS])
{
    const cJSON *shape = cJSON_GetArrayItem(shapes, i);
    const cJSON *side;
    size_t n = 0;

    cJSON_ArrayForEach(side, shape)
    {
        if (n == MAX_DIMS || !execution_whole(side, &dims[n++]))
            return 0;
    }
    return n;
}

/* The type of the first "Tensor(NAME)" in a word; -1 if we have none. */
static int execution_type(const cJSON *word)
{
    const char *s = cJSON_GetStringValue(word);

    s = s != NULL ? strstr(s, "Tensor(") : NULL;
    for (size_t i = 0; s != NULL && i < sizeof(types) / sizeof(types[0]); i++) {
        const size_t n = strlen(types[i].name);

        if (strncmp(s + 7, types[i].name, n) == 0 &&
            (s[7 + n] == ')' || s[7 + n] == ','))
            return types[i].type;
    }
    return -1;
}

/* The bytes of all tensors within a value: [tensor, storage, offset, elements,
 * bytes of each, device]. */
static double execution_bytes(const cJSON *value)
{
    const cJSON *item;
    double sum = 0;

    if (cJSON_GetArraySize(value) >= 6 &&
        cJSON_IsString(cJSON_GetArrayItem(value, 5)) &&
        cJSON_IsNumber(cJSON_GetArrayItem(value, 4)))
        return cJSON_GetArrayItem(value, 3)->valuedouble *
               cJSON_GetArrayItem(value, 4)->valuedouble;
    if (!cJSON_IsArray(value))
        return 0;
    cJSON_ArrayForEach(item, value) sum += execution_bytes(item);
    return sum;
}

static enum stp_status execution_refuse(const struct execution *e,
                                        const struct node *node,
                                        const char *expected)
{
    return stp_fail_at(e->err, STP_ERR_SYNTAX, node->line, 0,
                       "node %ju '%.60s', expected %s", (uintmax_t)node->id,
                       execution_name(node), expected);
}

static enum stp_status execution_skip(const struct execution *e,
                                      const struct node *node, const char *name)
{
    return stp_trace_add_skip(e->b, name, strlen(name), node->line, e->err);
}

/* ---- collectives ---- */

/* Finds the process group, and makes it when it is first named: its ranks and
 * their stride stand behind the name of the collective, or it has all ranks. A
 * group of one rank is STP_ERR_NOTHING: it communicates nothing. */
static enum stp_status execution_find_comm(const struct execution *e,
                                           const struct node *node,
                                           const cJSON *values, int at,
                                           size_t *comm_ret)
{
    const struct stp_trace_comm world = {
        .name = "world", .n_ranks = e->world, .line = node->line};
    struct stp_trace_comm comm = {.creation = STP_SPLIT, .line = node->line};
    const cJSON *group = cJSON_GetArrayItem(values, 2);
    const int last = cJSON_GetArraySize(values) - 1;
    uint64_t stride = 1, size = 0;
    enum stp_status status = STP_OK;

    if (cJSON_IsArray(group))
        group = cJSON_GetArrayItem(group, 0);
    if (last >= at + 5)
        execution_whole(cJSON_GetArrayItem(values, last - 1), &stride);
    if (last >= at + 3)
        execution_whole(cJSON_GetArrayItem(values, last), &size);
    if (stride > MOCK_MAX_RANKS || size > MOCK_MAX_RANKS)
        return execution_refuse(e, node, "a process group of fewer ranks");
    if (size == 1)
        return STP_ERR_NOTHING;
    if (cJSON_IsString(group))
        snprintf(comm.name, sizeof(comm.name), "group %s", group->valuestring);
    else
        snprintf(comm.name, sizeof(comm.name), "group %g",
                 cJSON_IsNumber(group) ? group->valuedouble : 0);
    *comm_ret = stp_trace_find_comm(e->b, comm.name);
    if (*comm_ret < e->b->trace.n_comms)
        return STP_OK;
    comm.n_ranks = (int)size;
    if (size == 0 ? stride <= 1 : comm.n_ranks == e->world) {
        comm.creation = STP_INIT; /* all ranks */
    } else {
        comm.stride = stride > 0 ? (unsigned)stride : 1;
        comm.parent = stp_trace_find_comm(e->b, world.name);
        if (comm.parent == e->b->trace.n_comms)
            status = stp_trace_add_comm(e->b, &world, &comm.parent, e->err);
    }
    STP_THEN(status, stp_trace_add_comm(e->b, &comm, comm_ret, e->err));
    return status;
}

static enum stp_status execution_add_collective(struct execution *e,
                                                const struct node *node)
{
    const cJSON *values = execution_part(node, "inputs", "values");
    struct stp_trace_row row = {
        .type = execution_type(
            cJSON_GetArrayItem(execution_part(node, "inputs", "types"), 0)),
        .op = STP_OP_SUM};
    int coll = NO_WORD;
    const char *word = NULL;
    int at = -1, i = 0; /* where the values name the collective */
    enum stp_status status;
    const cJSON *value;
    double n_bytes;

    cJSON_ArrayForEach(value, values)
    {
        const char *s = cJSON_GetStringValue(value);

        if (s != NULL && coll == NO_WORD) {
            for (size_t w = 0;
                 w < sizeof(collective_words) / sizeof(collective_words[0]);
                 w++)
                if (strcmp(collective_words[w].name, s) == 0)
                    coll = collective_words[w].coll;
            word = s; /* a name that nobody knows is the last word */
            at = i;
        }
        i++;
    }
    if (at < 0)
        return execution_refuse(e, node, "the name of a collective in values");
    if (strcmp(word, "wait") == 0) {
        e->place.waits = true;
        return STP_OK;
    }
    if (coll < 0 || row.type < 0)
        return execution_skip(e, node, word);
    status = execution_find_comm(e, node, values, at, &row.comm);
    if (status == STP_ERR_NOTHING)
        return execution_skip(e, node, word);
    if (status != STP_OK)
        return status;
    /* as a tuner counts them; an all-gather's inputs are a rank's part */
    n_bytes = execution_bytes(
        cJSON_GetArrayItem(execution_part(node, "inputs", "values"), 0));
    if (coll == (int)ncclFuncAllGather) {
        const int n_ranks = e->b->trace.comms[row.comm].n_ranks;

        n_bytes =
            n_ranks > 0
                ? n_bytes * n_ranks
                : execution_bytes(execution_part(node, "outputs", "values"));
    }
    if (!(n_bytes >= 0 && n_bytes < 9e15))
        return execution_refuse(e, node, "tensors of fewer bytes");
    if (n_bytes == 0)
        return execution_skip(e, node, word);
    row.call = (struct mock_call){.coll = (ncclFunc_t)coll,
                                  .n_bytes = (uint64_t)n_bytes};
    row.place = e->place;
    row.place.stream = STP_STREAM_COMM;
    row.place.line = node->line;
    e->place.waits = false;
    stp_set_operation(&row.call, row.type, row.op);
    return stp_trace_add_row(e->b, &row, e->err);
}

/* ---- compute ---- */

static enum stp_status execution_add_sides(struct execution *e,
                                           const struct node *node,
                                           const uint64_t sides[3], int type)
{
    struct stp_trace_compute compute = {.gemm = {(unsigned)sides[0],
                                                 (unsigned)sides[1],
                                                 (unsigned)sides[2], type},
                                        .place = e->place};

    if (sides[0] == 0 || sides[1] == 0 || sides[2] == 0)
        return STP_OK; /* nothing to compute */
    for (int i = 0; i < 3; i++)
        if (sides[i] > (uint64_t)1 << 30)
            return stp_fail_at(e->err, STP_ERR_SYNTAX, node->line, 0,
                               "a GEMM with a side above 2^30");
    compute.place.line = node->line;
    e->place.waits = false;
    return stp_trace_add_compute(e->b, &compute, e->err);
}

static uint64_t execution_product(const uint64_t *dims, size_t n)
{
    uint64_t product = 1;

    for (size_t i = 0; i < n; i++)
        product = dims[i] <= UINT32_MAX && product <= UINT32_MAX
                      ? product * dims[i]
                      : UINT64_MAX;
    return product;
}

/* A times B, which are the inputs 'at' and 'at' + 1; a batch of them is one of
 * as many rows. */
static enum stp_status execution_add_matrices(struct execution *e,
                                              const struct node *node, int at,
                                              int type)
{
    const cJSON *shapes = execution_part(node, "inputs", "shapes");
    uint64_t a[MAX_DIMS], b[MAX_DIMS], sides[3];
    const size_t n_a = execution_shape(shapes, at, a);
    const size_t n_b = execution_shape(shapes, at + 1, b);

    if (n_a < 2 || n_b < 2 || a[n_a - 1] != b[n_b - 2])
        return execution_refuse(e, node, "the shapes of two matrices");
    sides[0] = execution_product(a, n_a - 1);
    sides[1] = b[n_b - 1];
    sides[2] = a[n_a - 1];
    return execution_add_sides(e, node, sides, type);
}

/* As a GEMM: pixels x channels out x (channels in and window). */
static enum stp_status execution_add_forward(struct execution *e,
                                             const struct node *node, int at,
                                             int type)
{
    uint64_t weight[MAX_DIMS], out[MAX_DIMS], sides[3];
    const size_t n_weight = execution_shape(
        execution_part(node, "inputs", "shapes"), at + 1, weight);
    const size_t n_out =
        execution_shape(execution_part(node, "outputs", "shapes"), 0, out);

    if (n_weight < 3 || n_out < 3)
        return execution_refuse(e, node, "the shapes of a convolution");
    sides[0] = out[0] * execution_product(out + 2, n_out - 2);
    sides[1] = weight[0];
    sides[2] = execution_product(weight + 1, n_weight - 1);
    return execution_add_sides(e, node, sides, type);
}

/* The gradients of the input and of the weight, those that are asked for. */
static enum stp_status execution_add_backward(struct execution *e,
                                              const struct node *node, int at,
                                              int type)
{
    const cJSON *shapes = execution_part(node, "inputs", "shapes");
    const cJSON *values = execution_part(node, "inputs", "values");
    const cJSON *mask =
        cJSON_GetArrayItem(values, cJSON_GetArraySize(values) - 1);
    uint64_t out[MAX_DIMS], weight[MAX_DIMS];
    const size_t n_out = execution_shape(shapes, at, out);
    const size_t n_weight = execution_shape(shapes, at + 2, weight);
    enum stp_status status = STP_OK;
    uint64_t pixels, window;

    if (n_out < 3 || n_weight < 3)
        return execution_refuse(e, node, "the shapes of a convolution");
    pixels = out[0] * execution_product(out + 2, n_out - 2);
    window = execution_product(weight + 1, n_weight - 1);
    if (!cJSON_IsFalse(cJSON_GetArrayItem(mask, 0)))
        status = execution_add_sides(
            e, node, (const uint64_t[]){pixels, window, weight[0]}, type);
    if (status == STP_OK && !cJSON_IsFalse(cJSON_GetArrayItem(mask, 1)))
        status = execution_add_sides(
            e, node, (const uint64_t[]){weight[0], window, pixels}, type);
    return status;
}

static const struct {
    const char *name;
    enum stp_status (*add)(struct execution *e, const struct node *node, int at,
                           int type);
    int at; /* of its inputs */
} computes[] = {
    {"aten::mm", execution_add_matrices, 0},
    {"aten::addmm", execution_add_matrices, 1},
    {"aten::bmm", execution_add_matrices, 0},
    {"aten::baddbmm", execution_add_matrices, 1},
    {"aten::convolution", execution_add_forward, 0},
    {"aten::convolution_backward", execution_add_backward, 0},
};

/* *is_ret: whether the node is compute that is played. */
static enum stp_status execution_add_compute(struct execution *e,
                                             const struct node *node,
                                             bool *is_ret)
{
    const char *name = execution_name(node);
    const cJSON *words_of_types = execution_part(node, "inputs", "types");

    for (size_t i = 0; i < sizeof(computes) / sizeof(computes[0]); i++) {
        const int type =
            execution_type(cJSON_GetArrayItem(words_of_types, computes[i].at));

        if (strcmp(name, computes[i].name) != 0)
            continue;
        *is_ret = type == STP_TYPE_F32 || type == STP_TYPE_F64 ||
                  type == STP_TYPE_F16 || type == STP_TYPE_BF16;
        return *is_ret ? computes[i].add(e, node, computes[i].at, type)
                       : STP_OK;
    }
    return STP_OK;
}

/* ---- nodes ---- */

static int execution_compare(const void *pa, const void *pb)
{
    const struct node *a = pa;
    const struct node *b = pb;

    return (a->id > b->id) - (a->id < b->id);
}

static struct node *execution_find(const struct execution *e, uint64_t id)
{
    const struct node key = {.id = id};

    return bsearch(&key, e->nodes, e->n_nodes, sizeof(key), execution_compare);
}

static enum stp_status execution_read_node(struct execution *e,
                                           struct node *node)
{
    const char *name = execution_name(node);
    const struct node *ancestor = node;
    enum stp_status status;

    /* After the last optimizer of a step the next one begins; gradients are
     * there before it, and before DDP copies them out of a bucket. */
    if (strncmp(name, "Optimizer.step", 14) == 0) {
        e->place.waits = true;
        e->place.step++;
    } else if (strstr(name, "copy_bucket_to_grad") != NULL) {
        e->place.waits = true;
    }
    if (strcmp(name, "record_param_comms") == 0) {
        node->is_played = true;
        return execution_add_collective(e, node);
    }
    for (int i = 0; i < MAX_ANCESTORS && ancestor != NULL; i++) {
        ancestor = execution_find(e, ancestor->parent);
        if (ancestor != NULL && ancestor->is_played)
            return STP_OK; /* a part of it */
    }
    status = execution_add_compute(e, node, &node->is_played);
    if (status != STP_OK || node->is_played || node->is_a_parent ||
        !(execution_bytes(execution_part(node, "outputs", "values")) > 0))
        return status;
    for (size_t i = 0; i < sizeof(without_work) / sizeof(without_work[0]); i++)
        if (strcmp(name, without_work[i]) == 0)
            return STP_OK;
    return execution_skip(e, node, name);
}

static enum stp_status
execution_list_nodes(struct execution *e, const cJSON *nodes, const char *text)
{
    const int n = cJSON_GetArraySize(nodes);
    const cJSON *json;
    unsigned line = 1; /* of 'text', which goes on to the id of each node */

    e->nodes = calloc((size_t)n + 1, sizeof(*e->nodes));
    if (e->nodes == NULL)
        return stp_nomem(e->err);
    cJSON_ArrayForEach(json, nodes)
    {
        struct node *node = &e->nodes[e->n_nodes];
        const char *found;

        node->json = json;
        if (!execution_attribute_whole(json, "id", &node->id))
            return stp_fail(e->err, STP_ERR_SYNTAX,
                            "node %zu of the list without an id, expected a "
                            "number",
                            e->n_nodes);
        if (!execution_attribute_whole(json, "ctrl_deps", &node->parent))
            execution_attribute_whole(json, "parent", &node->parent);
        /* Ids are in the text in the order of the list.  Each is looked for
         * from the last one on: behind one that is not found, at the end of the
         * text, none is. */
        found = strstr(text, "\"id\"");
        while (found != NULL) {
            const char *s = found + strlen("\"id\"");
            char *end;

            s += strspn(s, " \t\r\n");
            if (*s == ':' && strtod(s + 1, &end) == (double)node->id &&
                end != s + 1)
                break;
            found = strstr(found + 1, "\"id\"");
        }
        for (; found != NULL ? text < found : *text != '\0'; text++)
            line += *text == '\n';
        if (found != NULL)
            node->line = line;
        e->n_nodes++;
    }
    qsort(e->nodes, e->n_nodes, sizeof(*e->nodes), execution_compare);
    for (size_t i = 0; i < e->n_nodes; i++) {
        struct node *parent = execution_find(e, e->nodes[i].parent);
        const char *words_of_groups = cJSON_GetStringValue(cJSON_GetArrayItem(
            execution_part(&e->nodes[i], "inputs", "values"), 0));
        cJSON *groups;
        uint64_t size;

        if (parent != NULL)
            parent->is_a_parent = true;
        if (words_of_groups == NULL ||
            strstr(execution_name(&e->nodes[i]), "process_group:init") == NULL)
            continue;
        groups = cJSON_Parse(words_of_groups); /* those that were made */
        cJSON_ArrayForEach(json, groups)
        {
            if (execution_attribute_whole(json, "group_size", &size) &&
                size <= MOCK_MAX_RANKS && (int)size > e->world)
                e->world = (int)size;
        }
        cJSON_Delete(groups);
    }
    return STP_OK;
}

enum stp_status stp_read_execution(struct stp_trace_build *b, const char *text,
                                   size_t len, struct stp_error *err)
{
    struct execution e = {.b = b, .place = {.step = 1}, .err = err};
    const cJSON *nodes;
    const char *schema, *end = text;
    cJSON *root = cJSON_ParseWithLengthOpts(text, len + 1, &end, true);
    unsigned line = 1, column = 1;
    enum stp_status status = STP_OK;

    b->trace.has_steps = true;
    if (root == NULL) {
        for (const char *s = text; s < end; s++) {
            column = *s == '\n' ? 1 : column + 1;
            line += *s == '\n';
        }
        return stp_fail_at(err, STP_ERR_SYNTAX, line, column,
                           "this is not JSON, expected what PyTorch's "
                           "ExecutionTraceObserver writes");
    }
    nodes = cJSON_GetObjectItemCaseSensitive(root, "nodes");
    schema =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "schema"));
    if (schema == NULL || schema[0] != '1' || !cJSON_IsArray(nodes))
        status = stp_fail(err, STP_ERR_SYNTAX,
                          "JSON without nodes of a schema 1.x, expected what "
                          "PyTorch's ExecutionTraceObserver writes");
    STP_THEN(status, execution_list_nodes(&e, nodes, text));
    for (size_t i = 0; i < e.n_nodes && status == STP_OK; i++)
        status = execution_read_node(&e, &e.nodes[i]);
    free(e.nodes);
    cJSON_Delete(root);
    return status;
}
