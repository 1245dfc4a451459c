/* execution.c - PyTorch's execution traces, as JSON of schemas 1.0 and 1.1
 *
 * Nodes are operators in the order of their ids.  A collective is a node
 * record_param_comms: the values of its inputs are tensors, a number, the
 * process group, a rank, the collective's name, two lists of split sizes, from
 * schema 1.1 on the group's first rank and its stride, and the number of the
 * group's ranks.  Compute is the GEMMs of linear layers, products and
 * convolutions.  Other operators have no time here: they are counted. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/traces/reading.h"
#include "core/qsort.h"
#include "launch/take.h"

enum { MAX_DIMS = 8, MAX_ANCESTORS = 8, MAX_SIDE = 1 << 30 };

enum node_kind {
    NODE_OTHER, /* nothing to play */
    NODE_STEP,  /* the end of a step */
    NODE_WAIT,  /* compute waits for collectives */
    NODE_COLLECTIVE,
};

struct node {
    double id;
    double parent;
    unsigned line;
    enum node_kind kind;
    struct read_coll coll;
    unsigned n_gemms; /* of which its children are parts */
    struct stp_gemm gemms[2];
};

/* ---- parts of a node ---- */

/* "values", "shapes" or "types" of a node's "inputs" or "outputs": in schema
 * 1.0 those of inputs are "inputs", "input_shapes", "input_types". */
static const cJSON *execution_part(const cJSON *node, const char *side,
                                   const char *part)
{
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(node, side);
    char key[32];

    if (cJSON_IsObject(all))
        return cJSON_GetObjectItemCaseSensitive(all, part);
    if (strcmp(part, "values") == 0)
        return all;
    snprintf(key, sizeof(key), "%.*s_%s", (int)strlen(side) - 1, side, part);
    return cJSON_GetObjectItemCaseSensitive(node, key);
}

/* The 'i'-th shape: how many sides; 0 if there is none. */
static size_t execution_shape(const cJSON *shapes, int i, double dims[MAX_DIMS])
{
    const cJSON *side;
    size_t n = 0;

    cJSON_ArrayForEach(side, cJSON_GetArrayItem(shapes, i))
    {
        if (n == MAX_DIMS || !cJSON_IsNumber(side))
            return 0;
        dims[n++] = side->valuedouble;
    }
    return n;
}

/* The type of the first "Tensor(NAME)" of an input; -1 if we have none. */
static int execution_type(const cJSON *node, int at)
{
    const char *s = cJSON_GetStringValue(
        cJSON_GetArrayItem(execution_part(node, "inputs", "types"), at));

    s = s != NULL ? strstr(s, "Tensor(") : NULL;
    return s != NULL ? stp_read_type(s + 7, strcspn(s + 7, "),")) : -1;
}

/* The elements of all tensors within a value, times bytes: [tensor, storage,
 * offset, elements, bytes of each, device]. */
static double execution_bytes(const cJSON *value)
{
    const cJSON *item;
    double sum = 0;

    if (cJSON_GetArraySize(value) >= 6 &&
        cJSON_IsString(cJSON_GetArrayItem(value, 5)))
        return fmax(0, cJSON_GetNumberValue(cJSON_GetArrayItem(value, 3)) *
                           cJSON_GetNumberValue(cJSON_GetArrayItem(value, 4)));
    cJSON_ArrayForEach(item, value)
    {
        if (cJSON_IsArray(item))
            sum += execution_bytes(item);
    }
    return sum;
}

/* The collective is the first value that names one, else the last text. */
static enum stp_status execution_add_collective(struct reading *r,
                                                struct node *node,
                                                const cJSON *json)
{
    const cJSON *values = execution_part(json, "inputs", "values");
    const cJSON *group = cJSON_GetArrayItem(values, 2);
    const cJSON *last = NULL, *last_but_one = NULL, *value;
    const char *word = "record_param_comms";
    struct read_coll *coll = &node->coll;
    int behind = 0; /* the name */
    char number[32];

    coll->coll = -1;
    cJSON_ArrayForEach(value, values)
    {
        last_but_one = last;
        last = value;
        behind++;
        if (!cJSON_IsString(value) || coll->coll >= 0)
            continue;
        word = value->valuestring;
        coll->coll = stp_read_coll(word);
        behind = 0;
    }
    if (strcmp(word, "wait") == 0) {
        node->kind = NODE_WAIT;
        return STP_OK;
    }
    coll->type = execution_type(json, 0);
    if (coll->coll < 0 || coll->type < 0)
        return stp_read_skip(r, word, "", node->line);
    node->kind = NODE_COLLECTIVE;
    coll->n_in = execution_bytes(cJSON_GetArrayItem(values, 0));
    if (cJSON_IsArray(group))
        group = cJSON_GetArrayItem(group, 0);
    snprintf(number, sizeof(number), "%.0f", /* an address, before 2.1 */
             cJSON_IsNumber(group) ? fmin(fabs(group->valuedouble), 1e18) : 0);
    STP_TRY(stp_read_group(r,
                           cJSON_IsString(group) ? group->valuestring : number,
                           behind >= 3 ? cJSON_GetNumberValue(last) : 0,
                           behind >= 5 ? cJSON_GetNumberValue(last_but_one) : 1,
                           "", &coll->group));
    if (r->groups[coll->group].size == 0)
        coll->n_out =
            execution_bytes(execution_part(json, "outputs", "values"));
    return STP_OK;
}

/* ---- compute ---- */

/* Each adds GEMMs; false if these are none. */

static bool execution_add_sides(struct node *node, double m, double n, double k,
                                int type)
{
    if (!(m >= 1 && n >= 1 && k >= 1 && m <= MAX_SIDE && n <= MAX_SIDE &&
          k <= MAX_SIDE))
        return false;
    node->gemms[node->n_gemms++] =
        (struct stp_gemm){(unsigned)m, (unsigned)n, (unsigned)k, type};
    return true;
}

static double execution_product(const double *dims, size_t n)
{
    double product = 1;

    while (n > 0)
        product *= dims[--n];
    return product;
}

/* A times B, the inputs 'at' and 'at' + 1; a batch is one of as many rows. */
static bool execution_add_matrices(struct node *node, const cJSON *json, int at,
                                   int type)
{
    const cJSON *shapes = execution_part(json, "inputs", "shapes");
    double a[MAX_DIMS], b[MAX_DIMS];
    const size_t n_a = execution_shape(shapes, at, a);
    const size_t n_b = execution_shape(shapes, at + 1, b);

    return n_a >= 2 && n_b >= 2 && a[n_a - 1] == b[n_b - 2] &&
           execution_add_sides(node, execution_product(a, n_a - 1), b[n_b - 1],
                               a[n_a - 1], type);
}

/* As GEMMs of pixels, channels out, and channels in with the window: forward
 * that of the output, backward those of the gradients of the input and of the
 * weight that are asked for. */
static bool execution_add_convolution(struct node *node, const cJSON *json,
                                      int at, int type)
{
    const bool is_forward =
        strcmp(stp_read_word(json, "name"), "aten::convolution") == 0;
    const cJSON *shapes = execution_part(json, "inputs", "shapes");
    const cJSON *values = execution_part(json, "inputs", "values");
    const cJSON *mask =
        cJSON_GetArrayItem(values, cJSON_GetArraySize(values) - 1);
    double out[MAX_DIMS], weight[MAX_DIMS], pixels, window;
    const size_t n_weight = execution_shape(shapes, is_forward ? 1 : 2, weight);
    const size_t n_out = execution_shape(
        is_forward ? execution_part(json, "outputs", "shapes") : shapes, at,
        out);

    if (n_out < 3 || n_weight < 3)
        return false;
    pixels = out[0] * execution_product(out + 2, n_out - 2);
    window = execution_product(weight + 1, n_weight - 1);
    if (is_forward)
        return execution_add_sides(node, pixels, weight[0], window, type);
    return (cJSON_IsFalse(cJSON_GetArrayItem(mask, 0)) ||
            execution_add_sides(node, pixels, window, weight[0], type)) &&
           (cJSON_IsFalse(cJSON_GetArrayItem(mask, 1)) ||
            execution_add_sides(node, weight[0], window, pixels, type));
}

static const struct {
    const char *name;
    bool (*add)(struct node *node, const cJSON *json, int at, int type);
    int at; /* of its inputs */
} computes[] = {
    {"aten::mm", execution_add_matrices, 0},
    {"aten::addmm", execution_add_matrices, 1},
    {"aten::bmm", execution_add_matrices, 0},
    {"aten::baddbmm", execution_add_matrices, 1},
    {"aten::convolution", execution_add_convolution, 0},
    {"aten::convolution_backward", execution_add_convolution, 0},
};

static enum stp_status execution_add_compute(struct reading *r,
                                             struct node *node,
                                             const cJSON *json,
                                             const char *name)
{
    for (size_t i = 0; i < STP_N_OF(computes); i++) {
        const int type = execution_type(json, computes[i].at);

        if (strcmp(name, computes[i].name) != 0)
            continue;
        if (type == STP_TYPE_F32 || type == STP_TYPE_F64 ||
            type == STP_TYPE_F16 || type == STP_TYPE_BF16)
            return computes[i].add(node, json, computes[i].at, type)
                       ? STP_OK
                       : stp_read_skip(r, name, " of other shapes", node->line);
    }
    return execution_bytes(execution_part(json, "outputs", "values")) > 0
               ? stp_read_skip(r, "operator", " that is no GEMM", node->line)
               : STP_OK;
}

/* ---- nodes ---- */

enum stp_status stp_execution_node(struct reading *r, unsigned line,
                                   const cJSON *json)
{
    const char *name = stp_read_word(json, "name");
    struct node node = {.line = line,
                        .id = stp_read_number(json, "id"),
                        .parent = stp_read_number(json, "ctrl_deps")};

    r->b->trace.has_steps = true;
    if (node.id < 0)
        return stp_fail_at(r->err, STP_ERR_SYNTAX, line, 0,
                           "node %zu of the list without an id, expected a "
                           "number",
                           r->n_nodes);
    if (node.parent < 0)
        node.parent = stp_read_number(json, "parent");
    /* After the last optimizer of a step the next one begins; gradients are
     * there before it, and before DDP copies them out of a bucket. */
    if (strncmp(name, "Optimizer.step", 14) == 0)
        node.kind = NODE_STEP;
    else if (strstr(name, "copy_bucket_to_grad") != NULL)
        node.kind = NODE_WAIT;
    else if (strcmp(name, "record_param_comms") == 0)
        STP_TRY(execution_add_collective(r, &node, json));
    else if (strstr(name, "process_group:init") != NULL) {
        /* a text has the process groups that were made */
        const char *text = cJSON_GetStringValue(
            cJSON_GetArrayItem(execution_part(json, "inputs", "values"), 0));
        cJSON *groups = text != NULL ? cJSON_Parse(text) : NULL;
        const enum stp_status status = stp_read_groups(r, line, groups);

        cJSON_Delete(groups);
        STP_TRY(status);
    } else
        STP_TRY(execution_add_compute(r, &node, json, name));
    STP_TAKE_ROOM(r->nodes, r->n_nodes, r->node_capacity);
    r->nodes[r->n_nodes++] = node;
    return STP_OK;
}

/* ---- rows ---- */

static int execution_compare(const void *pa, const void *pb)
{
    const struct node *a = pa;
    const struct node *b = pb;

    return (a->id > b->id) - (a->id < b->id);
}

/* Whether an ancestor's GEMMs are played, and this node's are parts of them. */
static bool execution_is_part(const struct reading *r, const struct node *node)
{
    for (int i = 0; i < MAX_ANCESTORS; i++) {
        const struct node key = {.id = node->parent};

        node =
            bsearch(&key, r->nodes, r->n_nodes, sizeof(key), execution_compare);
        if (node == NULL || node->n_gemms > 0)
            return node != NULL;
    }
    return false;
}

enum stp_status stp_execution_finish(struct reading *r)
{
    struct stp_trace_place place = {.step = 1};

    STP_SORT(r->nodes, r->n_nodes, execution_compare);
    for (size_t i = 0; i < r->n_nodes; i++) {
        struct node *node = &r->nodes[i];
        const size_t n_rows = r->b->trace.n_rows;

        if (node->n_gemms > 0 && execution_is_part(r, node))
            node->n_gemms = 0;
        place.line = node->line;
        place.step += node->kind == NODE_STEP;
        place.waits |= node->kind == NODE_STEP || node->kind == NODE_WAIT;
        for (unsigned g = 0; g < node->n_gemms; g++) {
            place.stream = STP_STREAM_MAIN;
            stp_trace_add_compute(
                r->b, &(struct stp_trace_compute){.gemm = node->gemms[g],
                                                  .place = place});
            place.waits = false;
        }
        place.stream = STP_STREAM_COMM;
        if (node->kind == NODE_COLLECTIVE)
            STP_TRY(stp_read_row(r, &node->coll, &place));
        place.waits &= r->b->trace.n_rows == n_rows;
    }
    return STP_OK;
}
