#include "core/policy/policy_columns.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/names.h"

/* How many GPU names a new one is compared with: a bound for a file that names
 * a different one in every rule. */
enum { RECENT_GPUS = 16 };

/* ---- messages ---- */

const char *stp_show(const struct stp_field *field, struct stp_shown *shown)
{
    static const char hex[] = "0123456789ABCDEF";
    const char *limit = shown->text + sizeof(shown->text) - sizeof("...");
    char *out = shown->text;

    for (size_t i = 0; i < field->len; i++) {
        unsigned char c = (unsigned char)field->s[i];
        bool plain = c >= ' ' && c <= '~';

        if (limit - out < (plain ? 1 : 4)) {
            memcpy(out, "...", 3);
            out += 3;
            break;
        }
        if (plain) {
            *out++ = (char)c;
            continue;
        }
        *out++ = '\\';
        *out++ = 'x';
        *out++ = hex[c >> 4];
        *out++ = hex[c & 15];
    }
    *out = '\0';
    return shown->text;
}

const char *stp_column_names(enum stp_policy_kind kind,
                             struct stp_column_names *names)
{
    names->text[0] = '\0';
    for (size_t i = 0; i < STP_N_COLUMNS; i++)
        if (stp_column_is_of(&stp_columns[i], kind))
            stp_append(names->text, sizeof(names->text), "%s%s",
                       i > 0 ? ", " : "", stp_columns[i].name);
    return names->text;
}

static const char *column_get_expected(const struct stp_column *col)
{
    return col->names != NULL ? col->names() : col->expected;
}

static enum stp_status column_refuse(const struct stp_column *col,
                                     const struct stp_cell *cell,
                                     const char *why)
{
    struct stp_shown shown;

    return stp_fail_at(cell->err, STP_ERR_SYNTAX, cell->line,
                       cell->field->column, "%s '%s' %s, expected %s",
                       col->name, stp_show(cell->field, &shown), why,
                       column_get_expected(col));
}

/* ---- one function a kind of field ---- */

static bool column_is_digits(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (s[i] < '0' || s[i] > '9')
            return false;
    return len > 0;
}

static enum stp_status column_read_word(const struct stp_column *col,
                                        const struct stp_cell *cell, void *out)
{
    int value = col->from_name(cell->field->s, cell->field->len);
    struct stp_shown shown;

    if (value < 0)
        return stp_fail_at(cell->err, STP_ERR_SYNTAX, cell->line,
                           cell->field->column, "unknown %s '%s', expected %s",
                           col->name, stp_show(cell->field, &shown),
                           column_get_expected(col));
    *(int *)out = value;
    return STP_OK;
}

/* For what stp_parse_size() would not have. */
static enum stp_status column_refuse_size(const struct stp_column *col,
                                          const struct stp_cell *cell)
{
    const char *s = cell->field->s;
    size_t len = cell->field->len;
    static const char suffixes[] = {'K', 'k', 'M', 'm', 'G', 'g'};
    bool suffix = memchr(suffixes, s[len - 1], sizeof(suffixes)) != NULL;

    return column_refuse(col, cell,
                         column_is_digits(s, len - suffix) ? "is too large"
                                                           : "is not a size");
}

static enum stp_status column_read_size(const struct stp_column *col,
                                        const struct stp_cell *cell, void *out)
{
    if (!stp_parse_size(cell->field->s, cell->field->len, out))
        return column_refuse_size(col, cell);
    return STP_OK;
}

static enum stp_status column_read_max_size(const struct stp_column *col,
                                            const struct stp_cell *cell,
                                            void *out)
{
    if (!stp_field_is(cell->field, "inf"))
        return column_read_size(col, cell, out);
    *(uint64_t *)out = UINT64_MAX;
    return STP_OK;
}

static enum stp_status column_read_int(const struct stp_column *col,
                                       const struct stp_cell *cell, void *out)
{
    const char *s = cell->field->s;
    size_t len = cell->field->len;
    bool minus = s[0] == '-';
    uint64_t value;

    if (stp_field_is(cell->field, "-1")) {
        *(int *)out = col->any;
        return STP_OK;
    }
    if (!column_is_digits(s + minus, len - minus))
        return column_refuse(col, cell, "is not a whole number");
    if (!stp_parse_u64(s, len, &value) || value < (uint64_t)col->min ||
        value > (uint64_t)col->max)
        return column_refuse(col, cell, "is out of range");
    *(int *)out = (int)value;
    return STP_OK;
}

/* The words of a kind of policy among those of memory. */
static int column_find_registered(const char *word, size_t len)
{
    const int memory = stp_memory_from_name(word, len);

    return memory != STP_MEMORY_STAGE ? memory : -1;
}

static int column_find_staged(const char *word, size_t len)
{
    const int memory = stp_memory_from_name(word, len);

    return memory == STP_MEMORY_PLAIN || memory == STP_MEMORY_STAGE ? memory
                                                                    : -1;
}

static enum stp_status column_read_range(const struct stp_column *col,
                                         const struct stp_cell *cell, void *out)
{
    struct stp_range range = {0, UINT64_MAX};
    struct stp_field min = *cell->field, max = min;
    const char *dash = memchr(min.s, '-', min.len);
    bool open;

    if (stp_field_is(cell->field, "-1"))
        return STP_OK;
    if (dash != NULL) {
        min.len = (size_t)(dash - min.s);
        max.s = dash + 1;
        max.len -= min.len + 1;
    }
    open = stp_field_is(&max, "inf");
    if (!column_is_digits(min.s, min.len) ||
        !(open || column_is_digits(max.s, max.len)))
        return column_refuse(col, cell, "is not a count or a range");
    if (!stp_parse_u64(min.s, min.len, &range.min) || range.min == 0 ||
        !(open || stp_parse_u64(max.s, max.len, &range.max)))
        return column_refuse(col, cell, "is out of range");
    if (range.min > range.max)
        return column_refuse(col, cell, "has its ends reversed");
    *(struct stp_range *)out = range;
    return STP_OK;
}

static enum stp_status column_read_chunk(const struct stp_column *col,
                                         const struct stp_cell *cell, void *out)
{
    uint64_t value = 0;

    if (!stp_field_is(cell->field, "-1") &&
        !stp_parse_size(cell->field->s, cell->field->len, &value))
        return column_refuse_size(col, cell);
    if (value != 0 && (value < STP_MIN_CHUNK || value > STP_MAX_CHUNK))
        return column_refuse(col, cell, "is out of range");
    *(uint32_t *)out = (uint32_t)value;
    return STP_OK;
}

/* The policy's copy of the name, or NULL if memory is out. */
static const char *column_keep_gpu(struct stp_gpu_name **gpus,
                                   const struct stp_field *field)
{
    struct stp_gpu_name *gpu = *gpus;

    for (int i = 0; i < RECENT_GPUS && gpu != NULL; i++, gpu = gpu->next)
        if (gpu->len == field->len &&
            memcmp(gpu->text, field->s, gpu->len) == 0)
            return gpu->text;
    gpu = malloc(sizeof(*gpu) + field->len + 1);
    if (gpu == NULL)
        return NULL;
    memcpy(gpu->text, field->s, field->len);
    gpu->text[field->len] = '\0';
    gpu->len = field->len;
    gpu->next = *gpus;
    *gpus = gpu;
    return gpu->text;
}

/* A name with a quote or a star in it would never match: somebody expects more
 * of this format than it has. */
bool stp_gpu_is_plain(const char *gpu, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)gpu[i] < ' ' || strchr(",#\"*\x7F", gpu[i]) != NULL)
            return false;
    return len > 0;
}

static enum stp_status column_read_gpu(const struct stp_column *col,
                                       const struct stp_cell *cell, void *out)
{
    const struct stp_field *field = cell->field;
    const char *kept;

    if (stp_field_is(field, "*"))
        return STP_OK;
    if (!stp_gpu_is_plain(field->s, field->len))
        return column_refuse(col, cell, "is not a plain name");
    kept = column_keep_gpu(cell->gpus, field);
    if (kept == NULL)
        return stp_nomem(cell->err);
    *(const char **)out = kept;
    return STP_OK;
}

/* ---- the table ---- */

#define AT(member) .offset = offsetof(struct stp_rule, member)
#define SIZE       "bytes such as 0, 4096, 64K, 32M or 2G"
#define SWITCH     "-1, 0 or 1"
#define RANGE      "-1, N, N-M or N-inf, from 1"
#define ARMS       .kinds = 1u << STP_POLICY_OF_ARMS
#define MEMORY     .kinds = 1u << STP_POLICY_OF_MEMORY
#define STAGE      .kinds = 1u << STP_POLICY_OF_STAGE
#define SETUPS     .kinds = (1u << STP_POLICY_OF_MEMORY | 1u << STP_POLICY_OF_STAGE)
#define ALL        .kinds = (1u << STP_N_POLICY_KINDS) - 1

// clang-format off
const struct stp_column stp_columns[STP_N_COLUMNS] = {
    {"collective", "colltype", column_read_word, AT(coll), ALL, .required = true,
     .from_name = stp_coll_from_name, .names = stp_coll_names},
    {"min_bytes", "minbytes", column_read_size, AT(bytes.min), ALL, .expected = SIZE},
    {"max_bytes", "maxbytes", column_read_max_size, AT(bytes.max), ALL,
     .expected = SIZE ", or inf"},
    {"algorithm", NULL, column_read_word, AT(algo), ARMS, .required = true,
     .from_name = stp_algo_from_name, .names = stp_algo_names},
    {"protocol", NULL, column_read_word, AT(proto), ARMS, .required = true,
     .from_name = stp_proto_from_name, .names = stp_proto_names},
    {"channels", NULL, column_read_int, AT(n_channels), ARMS,
     .expected = "-1, 0 or 1 to 64", .any = 0, .min = 0, .max = STP_MAX_CHANNELS},
    {"nNodes", NULL, column_read_range, AT(nodes), ALL, .expected = RANGE},
    {"nRanks", NULL, column_read_range, AT(ranks), ALL, .expected = RANGE},
    {"numPipeOps", NULL, column_read_int, AT(n_pipe_ops), ARMS,
     .expected = "-1 or a count from 1", .any = -1, .min = 1, .max = INT_MAX},
    {"regBuff", NULL, column_read_int, AT(reg_buff), ARMS,
     .expected = SWITCH, .any = -1, .min = 0, .max = 1},
    {"min_bytes_per_rank", NULL, column_read_size, AT(bytes_per_rank.min), ARMS,
     .expected = SIZE},
    {"max_bytes_per_rank", NULL, column_read_max_size, AT(bytes_per_rank.max), ARMS,
     .expected = SIZE ", or inf"},
    {"chunk_bytes", NULL, column_read_chunk, AT(chunk_bytes), ARMS,
     .expected = "-1, 0 or 4K to 16M"},
    {"memory", NULL, column_read_word, AT(memory), MEMORY, .required = true,
     .from_name = column_find_registered, .expected = "plain, reg, sym, ce"},
    {"memory", NULL, column_read_word, AT(memory), STAGE, .required = true,
     .from_name = column_find_staged, .expected = "plain, stage"},
    {"min_ctas", NULL, column_read_int, AT(min_ctas), SETUPS,
     .expected = "-1, 0 or 1 to 64", .any = 0, .min = 0, .max = STP_MAX_CHANNELS},
    {"overlap", NULL, column_read_int, AT(overlap), SETUPS,
     .expected = SWITCH, .any = -1, .min = 0, .max = 1},
    {"graph", NULL, column_read_int, AT(graph), STAGE,
     .expected = SWITCH, .any = -1, .min = 0, .max = 1},
    {"gpu", NULL, column_read_gpu, AT(gpu), ALL,
     .expected = "the name of a GPU model, or * for any"},
};

const struct stp_policy_format stp_policy_formats[STP_N_POLICY_KINDS] = {
    {STP_POLICY_OF_ARMS, "for tuners (*.conf)",
     "collective, algorithm and protocol", .max_plain = 10, .min_plain = 8},
    {STP_POLICY_OF_MEMORY, "of what to register (*.memory)",
     "collective and memory", .max_plain = 0},
    {STP_POLICY_OF_STAGE, "of what to stage (*.stage)",
     "collective and memory", .max_plain = 0},
};
// clang-format on

bool stp_column_is_of(const struct stp_column *col, enum stp_policy_kind kind)
{
    return (col->kinds >> kind & 1) != 0;
}

const struct stp_column *stp_column_find(enum stp_policy_kind kind,
                                         const struct stp_field *field)
{
    for (size_t i = 0; i < STP_N_COLUMNS; i++) {
        const struct stp_column *col = &stp_columns[i];

        if (stp_column_is_of(col, kind) &&
            (stp_field_is(field, col->name) ||
             (col->alias != NULL && stp_field_is(field, col->alias))))
            return col;
    }
    return NULL;
}

enum stp_status stp_column_read(const struct stp_column *col,
                                const struct stp_cell *cell,
                                struct stp_rule *rule)
{
    if (cell->field->len == 0)
        return stp_fail_at(cell->err, STP_ERR_SYNTAX, cell->line,
                           cell->field->column, "%s is empty, expected %s",
                           col->name, column_get_expected(col));
    return col->read(col, cell, (char *)rule + col->offset);
}
