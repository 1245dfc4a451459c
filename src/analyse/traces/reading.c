#include "analyse/traces/reading.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/names.h"
#include "core/utf8.h"
#include "device/mock/operation.h"
#include "launch/take.h"
#include "nccl_tuner_abi.h"

#define DIGITS "0123456789"

static const struct {
    const char *name;
    int type; /* enum stp_type */
} types[] = {
    // clang-format off
    {"float", STP_TYPE_F32}, {"double", STP_TYPE_F64}, {"half", STP_TYPE_F16},
    {"bfloat16", STP_TYPE_BF16}, {"float8_e4m3fn", STP_TYPE_FP8_E4M3},
    {"float8_e5m2", STP_TYPE_FP8_E5M2}, {"int", STP_TYPE_I32},
    {"long", STP_TYPE_I64}, {"long int", STP_TYPE_I64}, {"char", STP_TYPE_I8},
    {"signed char", STP_TYPE_I8}, {"byte", STP_TYPE_U8},
    {"unsigned char", STP_TYPE_U8}, {"bool", STP_TYPE_U8},
    // clang-format on
};

/* Behind the name of a collective, these change nothing that a tuner sees. */
static const char *const variants[] = {"",
                                       "base",
                                       "oop",
                                       "coalesced",
                                       "tensor",
                                       "intotensor",
                                       "tensorcoalesced",
                                       "intotensorcoalesced"};

int stp_read_coll(const char *word)
{
    char plain[32];
    size_t n = 0;

    if (strncmp(word, "nccl:", 5) == 0)
        word += 5;
    for (; *word != '\0' && n + 1 < sizeof(plain); word++)
        if (*word != '_')
            plain[n++] = (char)tolower((unsigned char)*word);
    plain[n] = '\0';
    for (size_t i = 0; i < STP_N_OF(variants); i++) {
        const size_t behind = strlen(variants[i]);

        if (behind <= n && strcmp(plain + n - behind, variants[i]) == 0 &&
            stp_coll_from_name(plain, n - behind) >= 0)
            return stp_coll_from_name(plain, n - behind);
    }
    return -1;
}

int stp_read_type(const char *word, size_t len)
{
    if (len > 5 && strncmp(word, "c10::", 5) == 0) {
        word += 5;
        len -= 5;
    }
    for (size_t i = 0; i < STP_N_OF(types); i++)
        if (strlen(types[i].name) == len &&
            strncasecmp(word, types[i].name, len) == 0)
            return types[i].type;
    return -1;
}

const char *stp_read_word(const cJSON *json, const char *key)
{
    const char *word =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));

    return word != NULL ? word : "";
}

double stp_read_number(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);

    return cJSON_IsNumber(item) && item->valuedouble >= 0 &&
                   item->valuedouble < 1e18
               ? item->valuedouble
               : -1;
}

enum stp_status stp_read_group(struct reading *r, const char *name, double size,
                               double stride, const char *ranks,
                               size_t *place_ret)
{
    struct read_group group = {.rank = -1};
    char text[2 * STP_COMM_NAME];
    double first = 0, n = 0;
    size_t i = 0;

    snprintf(text, sizeof(text), "group %s", name);
    stp_printable(text, strlen(text), group.name, sizeof(group.name));
    while (i < r->n_groups && strcmp(r->groups[i].name, group.name) != 0)
        i++;
    if (i == r->n_groups) {
        STP_TAKE_ROOM(r->groups, r->n_groups, r->group_capacity);
        r->groups[r->n_groups++] = group;
    }
    for (ranks += strcspn(ranks, DIGITS); *ranks != '\0';
         ranks += strcspn(ranks, DIGITS), n++) {
        const double rank = strtod(ranks, NULL);

        first = n == 0 ? rank : first;
        stride = n == 1 && stride <= 0 ? rank - first : stride;
        ranks += strspn(ranks, DIGITS);
    }
    size = size > 0 ? size : n;
    if (size > MOCK_MAX_RANKS || stride > MOCK_MAX_RANKS)
        return stp_fail(r->err, STP_ERR_SYNTAX,
                        "process %s, expected a process group of fewer ranks",
                        group.name);
    if (r->groups[i].size == 0 && size > 0)
        r->groups[i].size = (unsigned)size;
    if (r->groups[i].stride == 0 && stride > 0)
        r->groups[i].stride = (unsigned)stride;
    *place_ret = i;
    return STP_OK;
}

/* The groups of a job, as flight recorder and execution trace list them. */
enum stp_status stp_read_groups(struct reading *r, unsigned line,
                                const cJSON *json)
{
    const cJSON *group;
    size_t place;

    cJSON_ArrayForEach(group, json)
    {
        const char *name = stp_read_word(group, "name");

        STP_TRY(stp_read_group(
            r, name[0] != '\0' ? name : stp_read_word(group, "pg_name"),
            stp_read_number(group, "group_size"), 0,
            stp_read_word(group, "ranks"), &place));
    }
    return STP_OK;
}

/* The communicator of a group, which is made when it is first asked for: it has
 * all ranks, or it is one of those into which the world is split. */
static size_t read_find_comm(const struct reading *r,
                             const struct read_group *group, unsigned line)
{
    const size_t known = stp_trace_find_comm(r->b, group->name);
    struct stp_trace_comm world = {.name = "world", .line = line};
    struct stp_trace_comm comm = {
        .creation = STP_SPLIT, .n_ranks = (int)group->size, .line = line};

    if (known < r->b->trace.n_comms)
        return known;
    for (size_t i = 0; i < r->n_groups; i++)
        if ((int)r->groups[i].size > world.n_ranks)
            world.n_ranks = (int)r->groups[i].size;
    memcpy(comm.name, group->name, sizeof(comm.name));
    if (group->size == 0 ? group->stride <= 1 : comm.n_ranks == world.n_ranks) {
        comm.creation = STP_INIT; /* all ranks */
    } else {
        comm.stride = group->stride > 0 ? group->stride : 1;
        comm.parent = stp_trace_find_comm(r->b, world.name);
        if (comm.parent == r->b->trace.n_comms)
            comm.parent = stp_trace_add_comm(r->b, &world);
    }
    return stp_trace_add_comm(r->b, &comm);
}

enum stp_status stp_read_skip(struct reading *r, const char *name,
                              const char *why, unsigned line)
{
    char words[64];

    snprintf(words, sizeof(words), "%.*s%s", (int)strcspn(name, " ("), name,
             why);
    stp_trace_add_skip(r->b, words, strlen(words), line);
    return STP_OK;
}

enum stp_status stp_read_row(struct reading *r, const struct read_coll *coll,
                             const struct stp_trace_place *place)
{
    const struct read_group *group = &r->groups[coll->group];
    struct stp_trace_row row = {
        .type = coll->type, .op = STP_OP_SUM, .place = *place};
    double n_bytes = fmax(coll->n_in, coll->n_out);

    /* a tuner counts what all ranks have together */
    if (coll->coll == (int)ncclFuncAllGather)
        n_bytes = fmax(n_bytes, coll->n_in * group->size);
    if (coll->coll == (int)ncclFuncReduceScatter)
        n_bytes = fmax(n_bytes, coll->n_out * group->size);
    if (!(n_bytes < 9e15))
        return stp_fail_at(r->err, STP_ERR_SYNTAX, place->line, 0,
                           "a collective of %g bytes, expected fewer", n_bytes);
    if (group->size == 1 || n_bytes < 1)
        return stp_read_skip(r, stp_coll_name(coll->coll),
                             group->size == 1 ? " of one rank" : " of no bytes",
                             place->line);
    row.comm = read_find_comm(r, group, place->line);
    row.call = (struct mock_call){.coll = (ncclFunc_t)coll->coll,
                                  .n_bytes = (uint64_t)n_bytes};
    stp_set_operation(&row.call, row.type, row.op);
    stp_trace_add_row(r->b, &row);
    return STP_OK;
}
