#include "report/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/utf8.h"
#include "launch/take.h"
#include "report/json.h"
#include "report/terminal.h"
#include "report/words.h"

/* ---- rows ---- */

struct stp_table stp_table_begin(enum stp_table_format format)
{
    return (struct stp_table){.format = format};
}

struct stp_table stp_table_result(bool is_json)
{
    cJSON *root = is_json ? cJSON_CreateObject() : NULL;

    return (struct stp_table){.format =
                                  is_json ? STP_TABLE_JSON : STP_TABLE_TEXT,
                              .root = root,
                              .row = root};
}

void stp_table_rows(struct stp_table *t, const char *key)
{
    if (t->format == STP_TABLE_JSON)
        t->list = cJSON_AddArrayToObject(t->root, key);
}

struct stp_table stp_table_array(cJSON *object, const char *key)
{
    return (struct stp_table){.format = STP_TABLE_JSON,
                              .list = cJSON_AddArrayToObject(object, key)};
}

struct stp_table stp_table_member(cJSON *object, const char *key)
{
    return (struct stp_table){.format = STP_TABLE_JSON,
                              .row = cJSON_AddObjectToObject(object, key)};
}

cJSON *stp_table_row(struct stp_table *t)
{
    if (t->list != NULL)
        t->row = stp_json_row(t->list);
    t->is_first = t->n_columns == 0;
    t->is_headings = t->wants_no_row;
    t->wants_no_row = false;
    return t->row;
}

bool stp_table_headings(struct stp_table *t)
{
    t->wants_no_row = t->format != STP_TABLE_JSON && t->n_columns == 0;
    return t->wants_no_row;
}

/* ---- cells ---- */

static void table_put(struct stp_table *t, size_t at, const char *text)
{
    STP_TAKE_ROOM(t->cells, t->n_cells, t->capacity);
    memmove(t->cells[at + 1], t->cells[at],
            (t->n_cells++ - at) * sizeof(*t->cells));
    stp_printable(text, strlen(text), t->cells[at], sizeof(*t->cells));
}

/* Adds a cell to the row, and to the first one its heading: a key of CSV or a
 * heading with its alignment. */
static void table_add(struct stp_table *t, const char *heading,
                      const char *text)
{
    const bool has_signs = t->format != STP_TABLE_CSV;
    const bool is_spare = has_signs && *heading == '?';
    const bool is_left = has_signs && heading[is_spare] == '<';

    if (t->is_first && t->n_columns == STP_TABLE_COLUMNS)
        return;
    if (t->is_first) {
        t->is_spare[t->n_columns] = is_spare;
        t->is_left[t->n_columns] = is_left;
        table_put(t, t->n_columns++, heading + is_spare + is_left);
    }
    if (!t->is_headings)
        table_put(t, t->n_cells, text);
}

/* The name of the column in the table's format; NULL: the value is left out. */
static const char *table_name(const struct stp_table *t, const char *key,
                              const char *heading)
{
    return t->format >= STP_TABLE_CSV ? key : heading;
}

static const char *table_unknown(const struct stp_table *t)
{
    return t->format == STP_TABLE_CSV ? "" : "-";
}

void stp_table_word(struct stp_table *t, const char *key, const char *heading,
                    const char *word)
{
    const char *name = table_name(t, key, heading);

    if (name != NULL && t->format == STP_TABLE_JSON)
        stp_json_word(t->row, name, word);
    else if (name != NULL)
        table_add(t, name, word != NULL ? word : table_unknown(t));
}

void stp_table_text(struct stp_table *t, const char *heading, const char *fmt,
                    ...)
{
    char text[STP_TABLE_CELL];
    va_list va;

    va_start(va, fmt);
    vsnprintf(text, sizeof(text), fmt, va);
    va_end(va);
    stp_table_word(t, NULL, heading, text);
}

void stp_table_count(struct stp_table *t, const char *key, const char *heading,
                     uint64_t n)
{
    const char *name = table_name(t, key, heading);
    char text[24];

    if (name != NULL && t->format == STP_TABLE_JSON) {
        stp_json_number(t->row, name, (double)n);
    } else if (name != NULL) {
        snprintf(text, sizeof(text), "%" PRIu64, n);
        table_add(t, name, text);
    }
}

void stp_table_number(struct stp_table *t, const char *key, const char *heading,
                      double value, int digits)
{
    const char *name = table_name(t, key, heading);
    char text[STP_TABLE_CELL];

    if (name != NULL && t->format == STP_TABLE_JSON) {
        stp_json_number(t->row, name, value);
    } else if (name != NULL) {
        if (digits < 0)
            snprintf(text, sizeof(text), "%.9g", value);
        else
            snprintf(text, sizeof(text), "%.*f", digits, value);
        table_add(t, name, isfinite(value) ? text : table_unknown(t));
    }
}

void stp_table_flag(struct stp_table *t, const char *key, const char *heading,
                    bool flag)
{
    if (t->format != STP_TABLE_JSON)
        stp_table_text(t, heading, "%s", flag ? "yes" : "");
    else if (key != NULL)
        cJSON_AddBoolToObject(t->row, key, flag);
}

void stp_table_ran(struct stp_table *t, const char *key, const char *heading,
                   int algo, int proto, int n_channels)
{
    static const char *const parts[] = {"algorithm", "protocol", "channels"};
    const char *name = table_name(t, key, heading);
    char column[STP_TABLE_CELL], channels[16];
    const char *const cells[] = {stp_algo_name(algo), stp_proto_name(proto),
                                 channels};

    snprintf(channels, sizeof(channels), "%d", n_channels);
    if (name != NULL && t->format == STP_TABLE_JSON)
        stp_json_pair(t->row, key, algo, proto, n_channels);
    else if (name != NULL && t->format == STP_TABLE_CSV)
        for (size_t i = 0; i < 3; i++) {
            snprintf(column, sizeof(column), "%s_%s", key, parts[i]);
            table_add(t, column, algo < 0 ? "" : cells[i]);
        }
    else if (name != NULL)
        table_add(t, heading, STP_RAN_TEXT(algo, proto, n_channels));
}

void stp_table_ran_kernel(struct stp_table *t, const char *key,
                          const char *heading, const char *kernel, int algo,
                          int proto, int n_channels)
{
    if (kernel[0] != '\0' && t->format == STP_TABLE_TEXT) {
        stp_table_text(t, heading, "%s", kernel);
        return;
    }
    stp_table_ran(t, key, heading, algo, proto, n_channels);
    if (kernel[0] != '\0' && t->format == STP_TABLE_JSON && key != NULL)
        stp_json_word(cJSON_GetObjectItemCaseSensitive(t->row, key), "kernel",
                      kernel);
}

void stp_table_gain(struct stp_table *t, const struct stp_gain *gain)
{
    if (t->format == STP_TABLE_JSON) {
        stp_json_gain(t->row, gain);
        return;
    }
    stp_table_text(t, "gain", "%.3f", gain->gain);
    stp_table_word(t, NULL, "95% interval", STP_INTERVAL_TEXT(gain));
}

/* ---- printing ---- */

/* The columns that are printed. */
struct table_shape {
    int width[STP_TABLE_COLUMNS];
    bool is_out[STP_TABLE_COLUMNS];
    size_t last;    /* the last one that is not left out */
    size_t columns; /* of the terminal */
    size_t n_out;
};

static void table_fit(const struct stp_table *t, FILE *fp,
                      struct table_shape *shape)
{
    size_t sum = 0; /* with two blanks behind each column */

    *shape = (struct table_shape){0};
    for (size_t i = 0; i < t->n_cells; i++) {
        int len = (int)strlen(t->cells[i]);

        if (len > shape->width[i % t->n_columns])
            shape->width[i % t->n_columns] = len;
    }
    if (t->format == STP_TABLE_TEXT)
        shape->columns = stp_terminal_columns(fp);
    for (size_t c = 0; c < t->n_columns; c++)
        sum += (size_t)shape->width[c] + 2;
    for (size_t c = t->n_columns;
         sum > shape->columns + 2 && shape->columns > 0 && c-- > 0;)
        if (t->is_spare[c]) {
            shape->is_out[c] = true;
            shape->n_out++;
            sum -= (size_t)shape->width[c] + 2;
        }
    for (size_t c = 0; c < t->n_columns; c++)
        if (!shape->is_out[c])
            shape->last = c;
}

static void table_print_line(const struct stp_table *t, size_t first,
                             const struct table_shape *shape, FILE *fp)
{
    for (size_t c = 0; c < t->n_columns; c++) {
        const char *cell = t->cells[first + c];
        const bool is_last = c == shape->last;
        const int width = shape->width[c];

        if (shape->is_out[c])
            continue;
        if (t->format == STP_TABLE_CSV)
            fprintf(fp, "%s%s", cell, is_last ? "\n" : ",");
        else if (t->format == STP_TABLE_MARKDOWN)
            fprintf(fp, "| %s %s", cell, is_last ? "|\n" : "");
        else if (t->is_left[c])
            fprintf(fp, "%-*s%s", is_last ? 0 : width, cell,
                    is_last ? "\n" : "  ");
        else
            fprintf(fp, "%*s%s", width, cell, is_last ? "\n" : "  ");
    }
}

void stp_table_end(struct stp_table *t, FILE *fp)
{
    const char *before = "";
    struct table_shape shape;

    if (t->format == STP_TABLE_JSON) {
        stp_json_finish(t->root, fp);
        t->root = NULL;
        return;
    }
    table_fit(t, fp, &shape);
    for (size_t i = 0; i < t->n_cells; i += t->n_columns) {
        table_print_line(t, i, &shape, fp);
        if (i > 0 || t->format != STP_TABLE_MARKDOWN)
            continue;
        for (size_t c = 0; c < t->n_columns; c++)
            fputs(t->is_left[c] ? "|---" : "|--:", fp);
        fputs("|\n", fp);
    }
    if (shape.n_out != 0) {
        fprintf(fp,
                "Left out of %zu columns of this terminal: ", shape.columns);
        for (size_t c = 0; c < t->n_columns; c++)
            if (shape.is_out[c]) {
                fprintf(fp, "%s%s", before, t->cells[c]);
                before = ", ";
            }
        fputc('\n', fp);
    }
    stp_table_free(t);
}

void stp_table_free(struct stp_table *t)
{
    free(t->cells);
    cJSON_Delete(t->root);
    *t = (struct stp_table){.format = t->format};
}
