/* nccl_text_columns.c - what the columns of nccl-tests' text hold */
#include <string.h>

#include "core/dtype.h"
#include "report/measurements/nccl_text_parts.h"

size_t stp_nccl_text_split(const char *line, size_t len,
                           struct stp_field *words, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < len && n < max;) {
        size_t begin;

        while (i < len && (line[i] == ' ' || line[i] == '\t'))
            i++;
        begin = i;
        while (i < len && line[i] != ' ' && line[i] != '\t')
            i++;
        if (i > begin)
            words[n++] = (struct stp_field){line + begin, i - begin,
                                            (unsigned)begin + 1};
    }
    return n;
}

static struct stp_nccl_text_time *current(struct stp_nccl_text_fields *row)
{
    return &row->places[row->n_places > 0 ? row->n_places - 1 : 0];
}

static bool read_size(const struct stp_field *f,
                      struct stp_nccl_text_fields *row)
{
    return stp_parse_u64(f->s, f->len, &row->n_bytes);
}

static bool read_type(const struct stp_field *f,
                      struct stp_nccl_text_fields *row)
{
    return (row->type = stp_type_from_name(f->s, f->len)) >= 0;
}

static bool read_op(const struct stp_field *f, struct stp_nccl_text_fields *row)
{
    row->op = stp_field_is(f, "none")     ? STP_OP_SUM
              : stp_field_is(f, "mulsum") ? STP_OP_PREMULSUM
                                          : stp_op_from_name(f->s, f->len);
    return row->op >= 0;
}

static bool read_root(const struct stp_field *f,
                      struct stp_nccl_text_fields *row)
{
    uint64_t root = 0;

    if (!stp_field_is(f, "-1") &&
        (!stp_parse_u64(f->s, f->len, &root) || root > UINT32_MAX))
        return false;
    row->root = (unsigned)root;
    return true;
}

static bool read_us(const struct stp_field *f, double *us_ret)
{
    return stp_parse_double(f->s, f->len, us_ret) && *us_ret > 0;
}

static bool read_time(const struct stp_field *f,
                      struct stp_nccl_text_fields *row)
{
    if (row->n_places == 2)
        return false;
    row->n_places++;
    return stp_field_is(f, "N/A") || read_us(f, &current(row)->us);
}

static bool read_min(const struct stp_field *f,
                     struct stp_nccl_text_fields *row)
{
    return read_us(f, &current(row)->min_us);
}

static bool read_p99(const struct stp_field *f,
                     struct stp_nccl_text_fields *row)
{
    return read_us(f, &current(row)->p99_us);
}

static bool read_wrong(const struct stp_field *f,
                       struct stp_nccl_text_fields *row)
{
    double n;

    if (stp_field_is(f, "N/A"))
        return true;
    if (!stp_parse_double(f->s, f->len, &n) || n < 0 || n > 1e18)
        return false;
    current(row)->n_wrong = (int64_t)n;
    return true;
}

/* The largest difference, until 2.12: only 0 is right beyond doubt. */
static bool read_error(const struct stp_field *f,
                       struct stp_nccl_text_fields *row)
{
    double error;

    if (stp_field_is(f, "N/A"))
        return true;
    if (!stp_parse_double(f->s, f->len, &error))
        return false;
    if (error == 0)
        current(row)->n_wrong = 0;
    return true;
}

static const struct stp_nccl_text_column known_columns[] = {
    {"size", read_size, "a number of bytes"},
    {"count", NULL, NULL},
    {"type", read_type, STP_TYPE_WORDS ", or nccl-tests' word for it"},
    {"redop", read_op, STP_OP_WORDS ", or none"},
    {"root", read_root, "a rank, or -1"},
    {"time", read_time, "a time above 0 out of place and one in place"},
    {"cputime", read_time, "a time above 0 out of place and one in place"},
    {"algbw", NULL, NULL},
    {"busbw", NULL, NULL},
    {"#wrong", read_wrong, "a number of elements, or N/A"},
    {"error", read_error, "a number, or N/A"},
    {"i_min", read_min, "a time above 0"},
    {"i_max", NULL, NULL},
    {"i_p99", read_p99, "a time above 0"},
    {"i_cv%", NULL, NULL},
    {"timestamp", NULL, NULL},
};

const struct stp_nccl_text_column *
stp_nccl_text_find_column(const struct stp_field *name)
{
    for (size_t i = 0; i < sizeof(known_columns) / sizeof(known_columns[0]);
         i++)
        if (stp_field_is(name, known_columns[i].name))
            return &known_columns[i];
    return NULL;
}

bool stp_nccl_text_lacks_op(const struct stp_nccl_text_column *const *columns,
                            size_t n_columns, const struct stp_field *words,
                            size_t n)
{
    struct stp_nccl_text_fields ignored;

    for (size_t i = 0; i < n_columns && i < n; i++)
        if (columns[i]->read == read_op)
            return !read_op(&words[i], &ignored) &&
                   read_root(&words[i], &ignored);
    return false;
}
