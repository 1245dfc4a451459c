/* A box less another one is up to two boxes a side. The rest of a box is
 * compared with one coverer after the other, until it is empty, or has a part
 * that no coverer meets. */
#include "analyse/check/check_cover.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/room.h"

/* A part, and the first coverer that was not yet taken off it. */
struct part {
    struct stp_box box;
    size_t next;
};

struct parts {
    struct part *at;
    size_t n, capacity;
};

static uint64_t cover_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t cover_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* -1 is any. */
static struct stp_range cover_get_range(int value, uint64_t min, uint64_t max)
{
    if (value == -1)
        return (struct stp_range){min, max};
    return (struct stp_range){(uint64_t)value, (uint64_t)value};
}

struct stp_box stp_box_of(const struct stp_rule *rule)
{
    return (struct stp_box){
        .side =
            {
                [STP_SIDE_BYTES] = rule->bytes,
                [STP_SIDE_BYTES_PER_RANK] = rule->bytes_per_rank,
                [STP_SIDE_NODES] = rule->nodes,
                [STP_SIDE_RANKS] = rule->ranks,
                [STP_SIDE_PIPE_OPS] =
                    cover_get_range(rule->n_pipe_ops, 1, INT_MAX),
                [STP_SIDE_REG_BUFF] = cover_get_range(rule->reg_buff, 0, 1),
                [STP_SIDE_OVERLAP] = cover_get_range(rule->overlap, 0, 1),
                [STP_SIDE_GRAPH] = cover_get_range(rule->graph, 0, 1),
            },
        .gpu = rule->gpu,
    };
}

/* For r ranks the bytes are share.min * r to share.max * r + r - 1.  That they
 * meet the box's bytes bounds r from above by the first, and from below by the
 * second. */
bool stp_box_exists(const struct stp_box *box)
{
    const struct stp_range *bytes = &box->side[STP_SIDE_BYTES];
    const struct stp_range *share = &box->side[STP_SIDE_BYTES_PER_RANK];
    struct stp_range ranks = box->side[STP_SIDE_RANKS];

    for (int s = 0; s < STP_N_SIDES; s++)
        if (box->side[s].min > box->side[s].max)
            return false;
    if (share->min > 0)
        ranks.max = cover_min(ranks.max, bytes->max / share->min);
    if (share->max < UINT64_MAX)
        ranks.min = cover_max(ranks.min, bytes->min / (share->max + 1) + 1);
    return ranks.min <= ranks.max;
}

static bool cover_ranges_intersect(const struct stp_range *a,
                                   const struct stp_range *b)
{
    return a->min <= b->max && b->min <= a->max;
}

static bool cover_gpus_intersect(const char *a, const char *b)
{
    return a == NULL || b == NULL || strcmp(a, b) == 0;
}

bool stp_boxes_share_calls(const struct stp_box *a, const struct stp_box *b)
{
    for (int s = STP_SIDE_NODES; s < STP_N_SIDES; s++)
        if (!cover_ranges_intersect(&a->side[s], &b->side[s]))
            return false;
    return cover_gpus_intersect(a->gpu, b->gpu);
}

bool stp_boxes_intersect(const struct stp_box *a, const struct stp_box *b,
                         struct stp_box *both_ret)
{
    for (int s = 0; s < STP_N_SIDES; s++) {
        const struct stp_range *x = &a->side[s], *y = &b->side[s];

        if (!cover_ranges_intersect(x, y))
            return false;
        both_ret->side[s].min = cover_max(x->min, y->min);
        both_ret->side[s].max = cover_min(x->max, y->max);
    }
    both_ret->gpu = a->gpu != NULL ? a->gpu : b->gpu;
    return cover_gpus_intersect(a->gpu, b->gpu) && stp_box_exists(both_ret);
}

/* Adds a part; false if it is lost for want of memory. */
static bool cover_push(struct parts *parts, const struct stp_box *box,
                       size_t next)
{
    if (!stp_box_exists(box))
        return true;
    if (!STP_ROOM(parts->at, parts->n, parts->capacity))
        return false;
    parts->at[parts->n++] = (struct part){*box, next};
    return true;
}

/* Pushes what 'box' has beside 'cut', a part of it. */
static bool cover_push_rest(struct parts *parts, struct stp_box box,
                            const struct stp_box *cut, size_t next)
{
    for (int s = 0; s < STP_N_SIDES; s++) {
        const struct stp_range *c = &cut->side[s];
        struct stp_box rest = box;

        if (box.side[s].min < c->min) {
            rest.side[s].max = c->min - 1;
            if (!cover_push(parts, &rest, next))
                return false;
            rest = box;
        }
        if (box.side[s].max > c->max) {
            rest.side[s].min = c->max + 1;
            if (!cover_push(parts, &rest, next))
                return false;
        }
        box.side[s] = *c;
    }
    return true;
}

enum stp_cover stp_box_cover(const struct stp_box *box,
                             const struct stp_box *const *by, size_t n,
                             bool *used_ret, uint64_t *budget)
{
    enum stp_cover cover = STP_COVERED;
    struct parts parts = {0};

    memset(used_ret, 0, n * sizeof(*used_ret));
    if (!cover_push(&parts, box, 0))
        cover = STP_COVER_UNKNOWN;
    while (cover == STP_COVERED && parts.n > 0) {
        struct part part = parts.at[--parts.n];
        struct stp_box cut;

        cover = STP_NOT_COVERED;
        for (size_t i = part.next; i < n && cover == STP_NOT_COVERED; i++) {
            if (*budget == 0) {
                cover = STP_COVER_UNKNOWN;
                break;
            }
            --*budget;
            /* A coverer of one GPU takes nothing off a box of any: there is
             * always another. */
            if ((by[i]->gpu != NULL && part.box.gpu == NULL) ||
                !stp_boxes_intersect(&part.box, by[i], &cut))
                continue;
            used_ret[i] = true;
            cover = cover_push_rest(&parts, part.box, &cut, i + 1)
                        ? STP_COVERED
                        : STP_COVER_UNKNOWN;
        }
    }
    free(parts.at);
    return cover;
}
