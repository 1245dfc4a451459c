#include "agree/published.h"

#include <stdlib.h>

#include "agree/board.h"
#include "agree/segment.h"

_Static_assert((UINT64_C(1) << STP_PUBLISHED_BITS) - 1 == STP_BOARD_DECISION,
               "a head has room for a decision");
_Static_assert((int)STP_PUBLISHED_RANKS == (int)STP_BOARD_RANKS,
               "a board has room for all ranks");

struct stp_published {
    struct stp_segment *segment;
    struct stp_board *board;
    struct stp_turn turn;
};

enum stp_status stp_published_join(uint64_t comm_id, size_t n_ranks,
                                   uint64_t value,
                                   struct stp_published **published_ret,
                                   struct stp_error *err)
{
    const struct stp_segment_key key = {.suffix = "-epochs",
                                        .comm_id = comm_id,
                                        .n_ranks = n_ranks,
                                        .n_bytes = stp_board_bytes(n_ranks)};
    struct stp_published *p;
    enum stp_status status;

    if (n_ranks < 1 || n_ranks > STP_BOARD_RANKS)
        return stp_fail(err, STP_ERR_LIMIT,
                        "%zu ranks cannot agree on a host: expected 1 to %d",
                        n_ranks, STP_BOARD_RANKS);
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return stp_nomem(err);
    status = stp_segment_join(&key, value, &p->segment, &p->turn.rank, err);
    if (status != STP_OK) {
        free(p);
        return status;
    }
    p->board = stp_segment_memory(p->segment);
    p->turn.n_ranks = (uint32_t)n_ranks;
    p->turn.n_slots = STP_BOARD_SLOTS;
    *published_ret = p;
    return STP_OK;
}

bool stp_published_complete(const struct stp_published *published)
{
    return stp_segment_is_full(published->segment) &&
           stp_segment_differing(published->segment) == 0;
}

bool stp_published_is_observer(const struct stp_published *published)
{
    return published->turn.rank == 0;
}

bool stp_published_propose(struct stp_published *published, uint32_t decision)
{
    struct stp_turn turn = {0};

    if (decision == 0 || decision > STP_BOARD_DECISION)
        return false;
    stp_turn_wish(&turn, decision);
    while (stp_turn_step(&turn, published->board))
        ;
    return turn.is_put;
}

bool stp_published_is_waiting(const struct stp_published *published)
{
    return stp_board_is_waiting(published->board);
}

uint32_t stp_published_next(struct stp_published *published,
                            bool *is_frozen_ret)
{
    struct stp_turn *turn = &published->turn;

    if (!turn->is_frozen) {
        stp_turn_advance(turn);
        while (stp_turn_step(turn, published->board))
            ;
    }
    *is_frozen_ret = turn->is_frozen;
    return turn->decision;
}

void stp_published_leave(struct stp_published *published)
{
    if (published == NULL)
        return;
    stp_segment_leave(published->segment);
    free(published);
}
