#include "analyse/explain/overlay.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/explain/explainer.h"
#include "core/room.h"

/* The ranges of one case, of which nothing is left if it fails. */
static void overlay_explain(struct stp_choice_case *c, bool one,
                            struct stp_explanation *ranges_ret)
{
    struct stp_explanation ranges = {.ranges = NULL};
    struct stp_explainer e;
    struct stp_asked asked;
    struct stp_error err;
    enum stp_status status;

    if (!one) {
        status = stp_explain(&c->options, &ranges, &err);
    } else {
        status = stp_explainer_open(&e, &c->options, &err);
        if (status == STP_OK) {
            status = stp_explainer_ask(&e, c->options.coll,
                                       c->options.max_bytes, &asked, &err);
            stp_explainer_close(&e);
        }
        if (status == STP_OK &&
            STP_ROOM(ranges.ranges, ranges.n_ranges, ranges.capacity))
            ranges.ranges[ranges.n_ranges++] = (struct stp_explained){
                .coll = c->options.coll,
                .min_bytes = c->options.max_bytes,
                .max_bytes = c->options.max_bytes,
                .pick = {asked.tuned.algo, asked.tuned.proto}};
    }
    if (status != STP_OK && c->fault[0] == '\0')
        memcpy(c->fault, err.text, sizeof(c->fault));
    *ranges_ret = ranges;
}

enum stp_status stp_overlay_add(struct stp_overlay *o, int coll,
                                const struct stp_explanation *cases, size_t n,
                                struct stp_error *err)
{
    const struct stp_explained *at[STP_MAX_CASES] = {NULL};
    uint64_t first = 0, last = 0, end = 0;

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < cases[i].n_ranges; k++) {
            const struct stp_explained *r = &cases[i].ranges[k];

            if (r->coll != coll)
                continue;
            if (at[i] == NULL) {
                at[i] = r;
                first = r->min_bytes;
            }
            last = r->max_bytes;
        }
    do {
        struct stp_overlay_row row = {coll, end + first, last, {{{0}, 0}}};
        struct stp_overlay_row *before =
            o->n_rows > 0 ? &o->rows[o->n_rows - 1] : NULL;

        for (size_t i = 0; i < n; i++) {
            row.picks[i].pick.algo = row.picks[i].pick.proto = -1;
            if (at[i] == NULL)
                continue;
            at[i] += at[i]->max_bytes <= end;
            row.picks[i] =
                (struct stp_overlay_pick){at[i]->pick, at[i]->asked_channels};
            if (at[i]->max_bytes < row.max_bytes)
                row.max_bytes = at[i]->max_bytes;
        }
        end = row.max_bytes;
        if (before != NULL && before->coll == coll &&
            memcmp(before->picks, row.picks, sizeof(row.picks)) == 0)
            before->max_bytes = end;
        else if (STP_ROOM(o->rows, o->n_rows, o->capacity))
            o->rows[o->n_rows++] = row;
        else
            return stp_nomem(err);
    } while (end < last);
    return STP_OK;
}

enum stp_status stp_overlay_ask(struct stp_choice_case *cases, size_t n,
                                int coll, uint64_t max_bytes, bool one,
                                struct stp_overlay *out_ret,
                                struct stp_error *err)
{
    struct stp_overlay overlay = {.rows = NULL};
    enum stp_status status = STP_OK;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS && status == STP_OK; c++) {
        struct stp_explanation ranges[STP_MAX_CASES];

        if (coll >= 0 && coll != c)
            continue;
        for (size_t i = 0; i < n; i++) {
            cases[i].options.coll = c;
            cases[i].options.max_bytes = max_bytes;
            overlay_explain(&cases[i], one, &ranges[i]);
        }
        status = stp_overlay_add(&overlay, c, ranges, n, err);
        for (size_t i = 0; i < n; i++)
            stp_explanation_free(&ranges[i]);
    }
    if (status == STP_OK)
        *out_ret = overlay;
    else
        stp_overlay_free(&overlay);
    return status;
}

void stp_overlay_free(struct stp_overlay *overlay)
{
    free(overlay->rows);
    memset(overlay, 0, sizeof(*overlay));
}
