#include "device/cpu/cpu_math.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "device/cpu/half.h"

/* Elements go through blocks of doubles, which hold all types exactly. */
enum { BLOCK = 512 };

/* ---- elements ---- */

static void math_load(int type, const void *from, uint64_t first, unsigned n,
                      double *to)
{
    const uint16_t *half = (const uint16_t *)from + first;
    const float *f32 = (const float *)from + first;
    const double *f64 = (const double *)from + first;

    for (unsigned i = 0; type == STP_TYPE_F64 && i < n; i++)
        to[i] = f64[i];
    for (unsigned i = 0; type == STP_TYPE_F32 && i < n; i++)
        to[i] = f32[i];
    for (unsigned i = 0; type == STP_TYPE_F16 && i < n; i++)
        to[i] = stp_float_of_f16(half[i]);
    for (unsigned i = 0; type == STP_TYPE_BF16 && i < n; i++)
        to[i] = stp_float_of_bf16(half[i]);
}

static void math_store(int type, void *to, uint64_t first, unsigned n,
                       const double *from)
{
    uint16_t *half = (uint16_t *)to + first;
    float *f32 = (float *)to + first;
    double *f64 = (double *)to + first;

    for (unsigned i = 0; type == STP_TYPE_F64 && i < n; i++)
        f64[i] = from[i];
    for (unsigned i = 0; type == STP_TYPE_F32 && i < n; i++)
        f32[i] = (float)from[i];
    for (unsigned i = 0; type == STP_TYPE_F16 && i < n; i++)
        half[i] = stp_f16_of_float((float)from[i]);
    for (unsigned i = 0; type == STP_TYPE_BF16 && i < n; i++)
        half[i] = stp_bf16_of_float((float)from[i]);
}

static unsigned math_block_at(uint64_t i, uint64_t n)
{
    return n - i < BLOCK ? (unsigned)(n - i) : BLOCK;
}

void stp_cpu_cast(uint64_t n, int from_type, const void *from, int to_type,
                  void *to)
{
    double x[BLOCK];

    for (uint64_t i = 0; i < n; i += BLOCK) {
        math_load(from_type, from, i, math_block_at(i, n), x);
        math_store(to_type, to, i, math_block_at(i, n), x);
    }
}

static void math_subtract(uint64_t n, const float *restrict x,
                          float *restrict y)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] = x[i] - y[i];
}

/* Goes back through a ReLU, scales, or finds what is not finite. */
static void math_change(const struct stp_kernel *k)
{
    double from[BLOCK], to[BLOCK];

    for (uint64_t i = 0; i < k->n; i += BLOCK) {
        const unsigned n = math_block_at(i, k->n);

        if (k->kind != STP_KERNEL_SCALE)
            math_load(k->type, k->from, i, n, from);
        if (k->kind == STP_KERNEL_FIND_NONFINITE) {
            for (unsigned j = 0; j < n; j++)
                if (!(fabs(from[j]) <= DBL_MAX)) {
                    *(float *)k->to = 1;
                    return;
                }
            continue;
        }
        math_load(k->type, k->to, i, n, to);
        for (unsigned j = 0; j < n; j++)
            to[j] = k->kind == STP_KERNEL_SCALE ? to[j] * k->factor
                    : from[j] <= 0              ? 0
                                                : to[j];
        math_store(k->type, k->to, i, n, to);
    }
}

void stp_cpu_update(const struct stp_update *u)
{
    double w[BLOCK];
    double g[BLOCK];

    if (u->skip != NULL && *u->skip != 0)
        return;
    for (uint64_t i = 0; i < u->n; i += BLOCK) {
        const unsigned n = math_block_at(i, u->n);

        math_load(u->type, u->w, i, n, w);
        math_load(u->gradient_type, u->gradient, i, n, g);
        for (unsigned j = 0; j < n; j++)
            w[j] -= u->rate * u->scale * g[j];
        math_store(u->type, u->w, i, n, w);
        if (u->copy != NULL)
            stp_cpu_cast(n, u->type,
                         (const char *)u->w + i * stp_type_size(u->type),
                         u->copy_type,
                         (char *)u->copy + i * stp_type_size(u->copy_type));
    }
}

/* ---- rows and columns ---- */

static void math_add_columns(const struct stp_kernel *k)
{
    double total[BLOCK];
    double row[BLOCK];

    for (uint64_t c = 0; c < k->columns; c += BLOCK) {
        const unsigned n = math_block_at(c, k->columns);

        math_load(k->type_to, k->to, c, n, total);
        for (unsigned j = 0; j < n; j++)
            total[j] = k->factor == 0 ? 0 : total[j];
        for (uint64_t r = 0; r < k->rows; r++) {
            math_load(k->type, k->from, r * k->columns + c, n, row);
            for (unsigned j = 0; j < n; j++)
                total[j] += row[j];
        }
        math_store(k->type_to, k->to, c, n, total);
    }
}

void stp_cpu_kernel(const struct stp_kernel *k)
{
    switch (k->kind) {
    case STP_KERNEL_ZERO:
        memset(k->to, 0, k->n);
        break;
    case STP_KERNEL_COLUMN_SUM:
        math_add_columns(k);
        break;
    case STP_KERNEL_CAST:
        stp_cpu_cast(k->n, k->type, k->from, k->type_to, k->to);
        break;
    case STP_KERNEL_SUBTRACT:
        math_subtract(k->n, k->from, k->to);
        break;
    default:
        math_change(k);
    }
}

/* The results of a row of logits. */
struct row {
    double largest;
    double exp_sum; /* of the logits less the largest */
    double of_label;
    unsigned argmax;
};

static struct row math_find_row(const struct stp_cross_entropy *c, uint64_t r,
                                unsigned label)
{
    struct row row = {.largest = -INFINITY};
    double x[BLOCK];

    for (uint64_t i = 0; i < c->classes; i += BLOCK) {
        math_load(c->type, c->logits, r * c->classes + i,
                  math_block_at(i, c->classes), x);
        for (unsigned j = 0; j < math_block_at(i, c->classes); j++) {
            if (i + j == label)
                // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign)
                row.of_label = x[j];
            // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult)
            if (x[j] > row.largest) {
                row.largest = x[j];
                row.argmax = (unsigned)i + j;
            }
        }
    }
    for (uint64_t i = 0; i < c->classes; i += BLOCK) {
        math_load(c->type, c->logits, r * c->classes + i,
                  math_block_at(i, c->classes), x);
        for (unsigned j = 0; j < math_block_at(i, c->classes); j++)
            row.exp_sum += exp(x[j] - row.largest);
    }
    return row;
}

void stp_cpu_cross_entropy(const struct stp_cross_entropy *c)
{
    for (uint64_t r = 0; r < c->n; r++) {
        const unsigned label = (unsigned)c->label[r];
        const struct row row = math_find_row(c, r, label);

        *c->loss +=
            c->loss_scale * (log(row.exp_sum) + row.largest - row.of_label);
        if (c->correct != NULL && row.argmax == label)
            *c->correct += 1;
        if (c->gradient != NULL) {
            double x[BLOCK];

            for (uint64_t i = 0; i < c->classes; i += BLOCK) {
                const unsigned n = math_block_at(i, c->classes);

                math_load(c->type, c->logits, r * c->classes + i, n, x);
                for (unsigned j = 0; j < n; j++)
                    x[j] = c->gradient_scale *
                           (exp(x[j] - row.largest) / row.exp_sum -
                            (i + j == label));
                math_store(c->type, c->gradient, r * c->classes + i, n, x);
            }
        }
    }
}
