#include "analyse/explain/overlay.h"

#include <stdlib.h>
#include <string.h>

#include "launch/take.h"

void stp_overlay_add(struct stp_overlay *o, int coll,
                     const struct stp_explanation *cases, size_t n)
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
            memcmp(before->picks, row.picks, sizeof(row.picks)) == 0) {
            before->max_bytes = end;
            continue;
        }
        STP_TAKE_ROOM(o->rows, o->n_rows, o->capacity);
        o->rows[o->n_rows++] = row;
    } while (end < last);
}

struct stp_overlay stp_overlay_ask(struct stp_choice_case *cases, size_t n,
                                   int coll, uint64_t max_bytes)
{
    struct stp_overlay overlay = {.rows = NULL};

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        struct stp_explanation ranges[STP_MAX_CASES];

        if (coll >= 0 && coll != c)
            continue;
        for (size_t i = 0; i < n; i++) {
            struct stp_choice_case *one = &cases[i];
            struct stp_error fault;

            ranges[i] = (struct stp_explanation){.ranges = NULL};
            one->options.coll = c;
            one->options.max_bytes = max_bytes;
            if (stp_explain(&one->options, &ranges[i], &fault) != STP_OK &&
                one->fault[0] == '\0')
                memcpy(one->fault, fault.text, sizeof(one->fault));
        }
        stp_overlay_add(&overlay, c, ranges, n);
        for (size_t i = 0; i < n; i++)
            stp_explanation_free(&ranges[i]);
    }
    return overlay;
}

void stp_overlay_free(struct stp_overlay *overlay)
{
    free(overlay->rows);
    memset(overlay, 0, sizeof(*overlay));
}
