/* check_cover.h - the calls that a rule matches as a box, and whether other
 * boxes cover it */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/policy/policy.h"

enum stp_side {
    STP_SIDE_BYTES,
    STP_SIDE_BYTES_PER_RANK,
    STP_SIDE_NODES,
    STP_SIDE_RANKS,
    STP_SIDE_PIPE_OPS,
    STP_SIDE_REG_BUFF,
    STP_SIDE_OVERLAP,
    STP_SIDE_GRAPH,
    STP_N_SIDES,
};

/* All questions whose numbers are within the sides. */
struct stp_box {
    struct stp_range side[STP_N_SIDES];
    const char *gpu; /* NULL: any */
};

struct stp_box stp_box_of(const struct stp_rule *rule);

/* Whether some message is in it: bytes over ranks are its bytes per rank. */
bool stp_box_exists(const struct stp_box *box);

/* Whether some communicator, numPipeOps, regBuff, overlap, graph is in both. */
bool stp_boxes_share_calls(const struct stp_box *a, const struct stp_box *b);

/* Stores the intersection of both boxes; false if it is empty. */
bool stp_boxes_intersect(const struct stp_box *a, const struct stp_box *b,
                         struct stp_box *both_ret);

enum stp_cover {
    STP_COVERED,
    STP_NOT_COVERED,
    STP_COVER_UNKNOWN, /* it would take too long to say */
};

/* Whether all that is in 'box' is in at least one of the 'n' boxes at 'by'.  If
 * so, used_ret[i] says whether by[i] had a part in it that those before it did
 * not have.  Each comparison is taken off *budget; there is no answer at 0,
 * or without memory. */
enum stp_cover stp_box_cover(const struct stp_box *box,
                             const struct stp_box *const *by, size_t n,
                             bool *used_ret, uint64_t *budget);
