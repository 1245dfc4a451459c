#include "report/results/results.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "analyse/bandwidth.h"
#include "analyse/order.h"
#include "analyse/wrong.h"
#include "core/names.h"
#include "core/text.h"
#include "launch/take.h"
#include "report/table.h"

/* The mean of all rounds at one size. */
struct size {
    struct stp_measurement m; /* of the first */
    double us;
    unsigned n;
    const struct size *there; /* the same size of the others, or NULL */
};

struct sizes {
    struct size *at;
    size_t n;
};

bool stp_is_auto_alone(const struct stp_dataset *data)
{
    for (size_t i = 0; i < data->n_rows; i++)
        if (data->rows[i].arm.kind != STP_ARM_AUTO ||
            data->rows[i].work.mode != STP_MODE_ALONE)
            return false;
    return data->n_rows > 0;
}

/* By what cannot be compared, then by size. */
static int normal_order(const void *a, const void *b)
{
    const struct stp_measurement *x = &((const struct size *)a)->m;
    const struct stp_measurement *y = &((const struct size *)b)->m;

    STP_RETURN_ORDER(STP_ORDER(x->coll, y->coll));
    STP_RETURN_ORDER(STP_ORDER(x->n_ranks, y->n_ranks));
    return STP_ORDER(x->n_bytes, y->n_bytes);
}

static bool normal_is_series(const struct size *a, const struct size *b)
{
    return a->m.coll == b->m.coll && a->m.n_ranks == b->m.n_ranks;
}

static void normal_collect(const struct stp_dataset *data, struct sizes *sizes)
{
    bool in_place = true; /* all of them; else only those that are not count */
    const struct stp_measurement **rows;
    size_t n = 0, n_right;

    sizes->n = 0;
    STP_TAKE(sizes->at, data->n_rows);
    STP_TAKE(rows, data->n_rows);
    n_right = stp_right_rows(data, false, rows);
    for (size_t i = 0; i < n_right; i++)
        in_place &= rows[i]->in_place;
    for (size_t i = 0; i < n_right; i++)
        if (rows[i]->in_place == in_place)
            sizes->at[n++] = (struct size){*rows[i], rows[i]->us.mean, 1, NULL};
    free(rows);
    STP_SORT(sizes->at, n, normal_order);
    for (size_t i = 0; i < n; i++) {
        struct size *last = &sizes->at[sizes->n > 0 ? sizes->n - 1 : 0];

        if (sizes->n > 0 && normal_order(last, &sizes->at[i]) == 0) {
            last->us += sizes->at[i].us;
            last->n++;
        } else {
            sizes->at[sizes->n++] = sizes->at[i];
        }
    }
    for (size_t i = 0; i < sizes->n; i++)
        sizes->at[i].us /= sizes->at[i].n;
}

static double normal_busbw(const struct size *s)
{
    return stp_busbw(s->m.coll, s->m.n_ranks, s->m.n_bytes, s->us);
}

/* The pair that ran, or would by the others; false if nobody knows. */
static bool normal_ran(const struct size *s, const struct stp_measurement **ran)
{
    *ran = s->m.ran_algo >= 0                              ? &s->m
           : s->there != NULL && s->there->m.ran_algo >= 0 ? &s->there->m
                                                           : NULL;
    return *ran != NULL && (*ran)->ran_proto >= 0;
}

/* Says how the size is out of line with its neighbours; false if it is not. */
static bool normal_judge(const struct stp_normal *normal, const struct size *s,
                         const struct size *before, const struct size *after,
                         char text[STP_TABLE_CELL])
{
    const double keeps = 0.9; /* of bandwidth: what is lost above is noise */
    const struct stp_measurement *ran, *ran_before;

    *text = '\0';
    if (before != NULL && normal_busbw(s) < keeps * normal_busbw(before)) {
        snprintf(text, STP_TABLE_CELL, "%.1fx the time of %" PRIu64 " bytes",
                 s->us / before->us, before->m.n_bytes);
        if (normal_ran(s, &ran) && normal_ran(before, &ran_before) &&
            (ran->ran_algo != ran_before->ran_algo ||
             ran->ran_proto != ran_before->ran_proto))
            stp_append(text, STP_TABLE_CELL,
                       ": NCCL changes from %s/%s to %s/%s here%s%s",
                       stp_algo_name(ran_before->ran_algo),
                       stp_proto_name(ran_before->ran_proto),
                       stp_algo_name(ran->ran_algo),
                       stp_proto_name(ran->ran_proto),
                       ran == &s->m ? "" : " on ",
                       ran == &s->m ? "" : normal->other_name);
    } else if (after != NULL && keeps * s->us > after->us) {
        snprintf(text, STP_TABLE_CELL, "longer than %" PRIu64 " bytes, %.2f us",
                 after->m.n_bytes, after->us);
    }
    return *text != '\0';
}

/* Prints what was measured, and with what it is compared. */
static void normal_say(const struct stp_normal *normal,
                       const struct sizes *sizes, size_t n_found, FILE *fp)
{
    const struct stp_dataset *other = normal->other;
    double least = INFINITY, most = 0, mean = 0;
    size_t n_there = 0;

    for (size_t i = 0; i < sizes->n; i++)
        if (sizes->at[i].there != NULL) {
            const double ratio = sizes->at[i].us / sizes->at[i].there->us;

            least = fmin(least, ratio);
            most = fmax(most, ratio);
            mean += log(ratio);
            n_there++;
        }

    fprintf(fp,
            "%s alone was measured, at %zu size%s%s%s, and no arm was compared "
            "with it.\n",
            STP_AUTO_WORDS(normal->data->tuner), sizes->n, STP_S(sizes->n),
            normal->data->gpu[0] != '\0' ? " on " : "", normal->data->gpu);
    if (other != NULL && n_there > 0)
        fprintf(
            fp,
            "%s has %zu of these sizes, %s: times here are %.2fx to %.2fx "
            "those, %.2fx in the geometric mean.\n",
            normal->other_name, n_there,
            stp_source_words(other->rows[0].source, other->rows[0].single_pass),
            least, most, exp(mean / (double)n_there));
    else if (other != NULL)
        fprintf(fp, "%s has no time of the same collective, ranks and size.\n",
                normal->other_name);
    if (n_found == 0)
        fprintf(fp, "No size falls out of line with its neighbours%s.\n",
                n_there > 0 ? ", nor with those" : "");
    else
        fprintf(fp, "%zu fall%s out of line:\n\n", n_found,
                n_found == 1 ? "s" : "");
}

void stp_print_normal(const struct stp_normal *normal, bool is_json, FILE *fp)
{
    struct sizes sizes = {0}, others = {0};
    struct stp_table t = stp_table_result(is_json);
    char finding[STP_TABLE_CELL];
    size_t n_found = 0;

    normal_collect(normal->data, &sizes);
    if (normal->other != NULL)
        normal_collect(normal->other, &others);
    stp_table_rows(&t, "sizes");
    for (size_t i = 0; i < sizes.n; i++) {
        struct size *s = &sizes.at[i];
        const bool has_before = i > 0 && normal_is_series(s - 1, s);
        const bool has_after = i + 1 < sizes.n && normal_is_series(s, s + 1);

        if (others.n > 0)
            s->there =
                bsearch(s, others.at, others.n, sizeof(*s), normal_order);
        /* Beyond a quarter, or twice what is only an estimate, is no line. */
        const double ratio = s->there != NULL ? s->us / s->there->us : NAN;
        const double most =
            s->there != NULL && stp_source_is_estimate(s->there->m.source)
                ? 2
                : 1.25;
        const bool is_found = normal_judge(normal, s, has_before ? s - 1 : NULL,
                                           has_after ? s + 1 : NULL, finding) ||
                              ratio > most || ratio < 1 / most;

        n_found += is_found;
        if (!is_found && !is_json)
            continue;
        stp_table_row(&t);
        stp_table_word(&t, "collective", "<collective",
                       stp_coll_name(s->m.coll));
        stp_table_count(&t, "ranks", "ranks", s->m.n_ranks);
        stp_table_count(&t, "bytes", "bytes", s->m.n_bytes);
        stp_table_number(&t, "us", "us", s->us, 2);
        stp_table_number(&t, "busbw_gbps", "busbw GB/s", normal_busbw(s), 2);
        if (normal->other != NULL) {
            stp_table_number(&t, "other_us", "us there",
                             s->there != NULL ? s->there->us : (double)NAN, 2);
            stp_table_number(&t, "ratio", "times there", ratio, 2);
        }
        stp_table_word(&t, "finding", "<finding",
                       *finding != '\0' ? finding : NULL);
    }
    if (!is_json)
        normal_say(normal, &sizes, n_found, fp);
    stp_table_end(&t, fp);
    free(sizes.at);
    free(others.at);
}
