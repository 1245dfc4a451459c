#include "analyse/best.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/order.h"
#include "bench/sizes.h"
#include "core/names.h"

typedef const struct stp_best_row *row;

enum stp_status stp_best_add(struct stp_best_rows *rows,
                             const struct stp_best_row *r)
{
    if (rows->n_rows == rows->capacity) {
        size_t capacity = rows->capacity ? 2 * rows->capacity : 256;
        struct stp_best_row *more =
            realloc(rows->rows, capacity * sizeof(*more));

        if (more == NULL)
            return STP_ERR_NOMEM;
        rows->rows = more;
        rows->capacity = capacity;
    }
    rows->rows[rows->n_rows++] = *r;
    return STP_OK;
}

void stp_best_rows_free(struct stp_best_rows *rows)
{
    free(rows->rows);
    memset(rows, 0, sizeof(*rows));
}

/* ---- order ---- */

/* As unsigned numbers, so that -1 comes last. */
static int best_order_any(int a, int b)
{
    return STP_ORDER((unsigned)a, (unsigned)b);
}

static int best_order_calls(row a, row b)
{
    STP_RETURN_ORDER(STP_ORDER(a->calls.coll, b->calls.coll));
    STP_RETURN_ORDER(best_order_any(a->calls.n_nodes, b->calls.n_nodes));
    STP_RETURN_ORDER(best_order_any(a->calls.n_ranks, b->calls.n_ranks));
    STP_RETURN_ORDER(best_order_any(a->calls.n_pipe_ops, b->calls.n_pipe_ops));
    return best_order_any(a->calls.reg_buff, b->calls.reg_buff);
}

static int best_order_arms(row a, row b)
{
    STP_RETURN_ORDER(STP_ORDER(a->algo, b->algo));
    STP_RETURN_ORDER(STP_ORDER(a->proto, b->proto));
    return STP_ORDER(a->n_channels, b->n_channels);
}

static int best_order_sizes(row a, row b)
{
    STP_RETURN_ORDER(best_order_calls(a, b));
    return STP_ORDER(a->n_bytes, b->n_bytes);
}

/* The fastest arm of each size comes first. */
static int best_order_times(const void *pa, const void *pb)
{
    row a = *(const row *)pa;
    row b = *(const row *)pb;

    STP_RETURN_ORDER(best_order_sizes(a, b));
    STP_RETURN_ORDER(STP_ORDER(a->us, b->us));
    return best_order_arms(a, b);
}

/* Rows alike in the order in which they were read. */
static int best_order_lines(const void *pa, const void *pb)
{
    row a = *(const row *)pa;
    row b = *(const row *)pb;

    STP_RETURN_ORDER(best_order_sizes(a, b));
    STP_RETURN_ORDER(best_order_arms(a, b));
    return STP_ORDER(a, b);
}

static row *best_sort_rows(const struct stp_best_rows *rows,
                           int (*compare)(const void *, const void *))
{
    row *sorted = calloc(rows->n_rows + 1, sizeof(row));

    if (sorted == NULL)
        return NULL;
    for (size_t i = 0; i < rows->n_rows; i++)
        sorted[i] = &rows->rows[i];
    qsort(sorted, rows->n_rows, sizeof(row), compare);
    return sorted;
}

/* ---- checking and deriving ---- */

enum stp_status stp_best_check(const struct stp_best_rows *rows,
                               struct stp_error *err)
{
    row *sorted = best_sort_rows(rows, best_order_lines);
    row twice = NULL;

    if (sorted == NULL)
        return stp_nomem(err);
    for (size_t i = 1; i < rows->n_rows && twice == NULL; i++)
        if (best_order_sizes(sorted[i - 1], sorted[i]) == 0 &&
            best_order_arms(sorted[i - 1], sorted[i]) == 0)
            twice = sorted[i];
    free(sorted);
    if (twice == NULL)
        return STP_OK;
    return stp_fail_at(
        err, STP_ERR_SYNTAX, twice->line, 1,
        "%s of %" PRIu64
        " bytes with %s/%s once more, expected one row an arm and size",
        stp_coll_name(twice->calls.coll), twice->n_bytes,
        stp_algo_name(twice->algo), stp_proto_name(twice->proto));
}

/* Puts the fastest arm of each size into 'points'; returns how many sizes. */
static size_t best_find_points(row *sorted, size_t n,
                               struct stp_best_point *points)
{
    size_t n_points = 0;

    for (size_t i = 0; i < n; i++) {
        if (i == 0 || best_order_sizes(sorted[i - 1], sorted[i]) != 0)
            points[n_points++].row = sorted[i];
        points[n_points - 1].n_arms++;
    }
    return n_points;
}

static void best_make_rules(const struct stp_best_point *points, size_t n,
                            struct stp_best *out)
{
    struct stp_best_rule *rule = NULL;

    for (size_t i = 0; i < n; i++) {
        row r = points[i].row;
        bool first = i == 0 || best_order_calls(points[i - 1].row, r) != 0;
        bool last = i + 1 == n || best_order_calls(r, points[i + 1].row) != 0;

        if (first || best_order_arms(points[i - 1].row, r) != 0) {
            rule = &out->rules[out->n_rules++];
            rule->points = &points[i];
            rule->min_bytes =
                first
                    ? r->n_bytes
                    : stp_size_between(points[i - 1].row->n_bytes, r->n_bytes) +
                          1;
        }
        rule->n_points++;
        rule->max_bytes =
            last ? r->n_bytes
                 : stp_size_between(r->n_bytes, points[i + 1].row->n_bytes);
    }
}

enum stp_status stp_best_derive(const struct stp_best_rows *rows,
                                struct stp_best *best_ret,
                                struct stp_error *err)
{
    struct stp_best out = {0};
    row *sorted = best_sort_rows(rows, best_order_times);

    out.points = calloc(rows->n_rows + 1, sizeof(*out.points));
    out.rules = calloc(rows->n_rows + 1, sizeof(*out.rules));
    if (sorted == NULL || out.points == NULL || out.rules == NULL) {
        free(sorted);
        stp_best_free(&out);
        return stp_nomem(err);
    }
    best_make_rules(out.points,
                    best_find_points(sorted, rows->n_rows, out.points), &out);
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
    free(sorted);
    *best_ret = out;
    return STP_OK;
}

void stp_best_free(struct stp_best *best)
{
    free(best->rules);
    free(best->points);
    memset(best, 0, sizeof(*best));
}
