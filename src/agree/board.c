#include "agree/board.h"

enum stage {
    LOOK,       /* at head */
    RECALL,     /* what the ring has of this rank's epoch */
    LAST_SLOT,  /* what the ring has where the last epoch belongs */
    SAVE,       /* the last epoch there */
    FLOOR,      /* is nobody too far behind? */
    PROGRESS,   /* or is somebody, really? */
    RAISE,      /* the floor */
    WISH,       /* is there one? */
    DECIDE,     /* move head */
    NOTE,       /* progress */
    LOOK_WISH,  /* before another is put */
    LOOK_TAKEN, /* was it? */
    PUT,
    DONE,
};

static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static void store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

static bool swap(uint64_t *word, uint64_t old, uint64_t value)
{
    return __atomic_compare_exchange_n(word, &old, value, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static uint32_t epoch_of(uint64_t head)
{
    return (uint32_t)(head >> 33);
}

/* How far 'a' is ahead of 'b', which it is not if this is over half of all. */
static uint32_t ahead(uint32_t a, uint32_t b)
{
    return (a - b) & STP_BOARD_EPOCHS;
}

static bool is_behind(uint32_t a, uint32_t b)
{
    return ahead(a, b) > STP_BOARD_EPOCHS / 2;
}

static uint64_t parity_of_wish(uint64_t wish)
{
    return wish & STP_BOARD_PARITY;
}

static bool waits(uint64_t wish, uint64_t head)
{
    return parity_of_wish(wish) != (head & STP_BOARD_PARITY);
}

static uint64_t *slot(struct stp_board *board, const struct stp_turn *turn,
                      uint32_t epoch)
{
    return &board->ring[epoch % turn->n_slots];
}

/* ---- the steps to the next epoch ---- */

static enum stage settle(struct stp_turn *turn, uint64_t head)
{
    turn->decision = (uint32_t)(head & STP_BOARD_DECISION);
    turn->is_frozen = (head & STP_BOARD_FROZEN) != 0;
    return NOTE;
}

static enum stage look(struct stp_turn *turn, struct stp_board *board)
{
    turn->head = load(&board->head.word);
    if (epoch_of(turn->head) == turn->epoch)
        return settle(turn, turn->head);
    if (!is_behind(epoch_of(turn->head), turn->epoch))
        return RECALL;
    if (turn->head & STP_BOARD_FROZEN)
        return settle(turn, turn->head);
    return LAST_SLOT;
}

static enum stage recall(struct stp_turn *turn, struct stp_board *board)
{
    return settle(turn, load(slot(board, turn, turn->epoch)));
}

/* It may be there, or even what comes after it, if this rank was stopped. */
static enum stage last_slot(struct stp_turn *turn, struct stp_board *board)
{
    uint32_t last = epoch_of(turn->head);

    turn->old = load(slot(board, turn, last));
    return is_behind(epoch_of(turn->old), last) ? SAVE : FLOOR;
}

static enum stage save(struct stp_turn *turn, struct stp_board *board)
{
    swap(slot(board, turn, epoch_of(turn->head)), turn->old, turn->head);
    return FLOOR;
}

static enum stage look_floor(struct stp_turn *turn, struct stp_board *board)
{
    turn->lag = ahead(turn->epoch, (uint32_t)load(&board->floor.word));
    if (turn->lag <= turn->n_slots)
        return WISH;
    turn->i = 0;
    turn->lag = 0;
    return PROGRESS;
}

static enum stage look_progress(struct stp_turn *turn, struct stp_board *board)
{
    uint64_t done = load(&board->progress[turn->i].word);
    uint32_t lag = ahead(turn->epoch, (uint32_t)done);

    /* Who is ahead of this rank, because this one was stopped, seems to be very
     * far behind; but then head has moved, too, and nothing comes of it. */
    if (lag > turn->lag)
        turn->lag = lag;
    if (++turn->i < turn->n_ranks)
        return PROGRESS;
    if (turn->lag <= turn->n_slots)
        return RAISE;
    turn->next = STP_BOARD_FROZEN | (turn->head & STP_BOARD_PARITY);
    return DECIDE;
}

static enum stage raise_floor(struct stp_turn *turn, struct stp_board *board)
{
    store(&board->floor.word, ahead(turn->epoch, turn->lag));
    return WISH;
}

static enum stage look_for_wish(struct stp_turn *turn, struct stp_board *board)
{
    uint64_t wish = load(&board->wish.word);

    turn->next = parity_of_wish(wish);
    if (waits(wish, turn->head))
        turn->next |= wish & STP_BOARD_DECISION;
    return DECIDE;
}

static enum stage decide(struct stp_turn *turn, struct stp_board *board)
{
    turn->next |= (uint64_t)turn->epoch << 33;
    if (!swap(&board->head.word, turn->head, turn->next))
        return LOOK; /* another did */
    return settle(turn, turn->next);
}

/* Behind what was read of the ring; that others see it later only makes this
 * rank look slower than it is.  No step of a rank that is behind then waits for
 * what it stored elsewhere. */
static enum stage note(struct stp_turn *turn, struct stp_board *board)
{
    __atomic_store_n(&board->progress[turn->rank].word, turn->epoch,
                     __ATOMIC_RELEASE);
    return DONE;
}

/* ---- the steps of a wish ---- */

static enum stage look_wish(struct stp_turn *turn, struct stp_board *board)
{
    turn->old = load(&board->wish.word);
    return LOOK_TAKEN;
}

static enum stage look_taken(struct stp_turn *turn, struct stp_board *board)
{
    turn->head = load(&board->head.word);
    if (waits(turn->old, turn->head) || (turn->head & STP_BOARD_FROZEN))
        return DONE;
    return PUT;
}

static enum stage put(struct stp_turn *turn, struct stp_board *board)
{
    uint64_t sequence = (turn->old >> 32) + 1;

    turn->is_put =
        swap(&board->wish.word, turn->old, sequence << 32 | turn->decision);
    return DONE;
}

static enum stage (*const steps[])(struct stp_turn *, struct stp_board *) = {
    [LOOK] = look,         [RECALL] = recall,       [LAST_SLOT] = last_slot,
    [SAVE] = save,         [FLOOR] = look_floor,    [PROGRESS] = look_progress,
    [RAISE] = raise_floor, [WISH] = look_for_wish,  [DECIDE] = decide,
    [NOTE] = note,         [LOOK_WISH] = look_wish, [LOOK_TAKEN] = look_taken,
    [PUT] = put,
};

/* ---- what others call ---- */

size_t stp_board_bytes(size_t n_ranks)
{
    return offsetof(struct stp_board, progress) +
           n_ranks * sizeof(struct stp_board_line);
}

void stp_turn_advance(struct stp_turn *turn)
{
    turn->epoch = (turn->epoch + 1) & STP_BOARD_EPOCHS;
    turn->stage = LOOK;
}

void stp_turn_wish(struct stp_turn *turn, uint32_t decision)
{
    turn->decision = decision;
    turn->is_put = false;
    turn->stage = LOOK_WISH;
}

bool stp_turn_step(struct stp_turn *turn, struct stp_board *board)
{
    turn->stage = steps[turn->stage](turn, board);
    return turn->stage != DONE;
}

bool stp_board_is_waiting(const struct stp_board *board)
{
    uint64_t wish = load(&board->wish.word);

    return waits(wish, load(&board->head.word));
}
