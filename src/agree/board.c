#include "agree/board.h"

enum stage {
    READ_HEAD,
    READ_OWN_SLOT,  /* the ring's head of this rank's epoch */
    READ_LAST_SLOT, /* the slot where the last epoch belongs */
    SAVE_HEAD,      /* the last epoch there */
    READ_FLOOR,     /* is the slowest rank surely near enough? */
    READ_PROGRESS,  /* if not, of all ranks */
    RAISE_FLOOR,
    READ_PROPOSAL,
    DECIDE, /* move head */
    NOTE_PROGRESS,
    READ_LAST_PROPOSAL, /* before another is put */
    CHECK_TAKEN,
    PUT,
    DONE,
};

static uint64_t board_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static bool board_swap(uint64_t *word, uint64_t old, uint64_t value)
{
    return __atomic_compare_exchange_n(word, &old, value, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static uint32_t board_head_epoch(uint64_t head)
{
    return (uint32_t)(head >> 33);
}

/* How many epochs 'a' is ahead of 'b'; over half of all: it is behind. */
static uint32_t board_epochs_ahead(uint32_t a, uint32_t b)
{
    return (a - b) & STP_BOARD_EPOCHS;
}

static bool board_is_behind(uint32_t a, uint32_t b)
{
    return board_epochs_ahead(a, b) > STP_BOARD_EPOCHS / 2;
}

static bool board_is_untaken(uint64_t proposal, uint64_t head)
{
    return ((proposal ^ head) & STP_BOARD_PARITY) != 0;
}

static uint64_t *board_slot(struct stp_board *board,
                            const struct stp_board_step *step, uint32_t epoch)
{
    return &board->ring[epoch % step->n_slots];
}

static enum stage board_take_decision(struct stp_board_step *step,
                                      uint64_t head)
{
    step->decision = (uint32_t)(head & STP_BOARD_DECISION);
    step->is_frozen = (head & STP_BOARD_FROZEN) != 0;
    return NOTE_PROGRESS;
}

/* The next access of a step to the next epoch. */
static enum stage board_access_epoch(struct stp_board_step *step,
                                     struct stp_board *board)
{
    const uint32_t last = board_head_epoch(step->head);
    uint64_t word;
    uint32_t lag;

    switch (step->stage) {
    case READ_HEAD:
        step->head = board_load(&board->head.word);
        if (board_head_epoch(step->head) == step->epoch)
            return board_take_decision(step, step->head);
        if (!board_is_behind(board_head_epoch(step->head), step->epoch))
            return READ_OWN_SLOT;
        if (step->head & STP_BOARD_FROZEN)
            return board_take_decision(step, step->head);
        return READ_LAST_SLOT;
    case READ_OWN_SLOT:
        return board_take_decision(
            step, board_load(board_slot(board, step, step->epoch)));
    case READ_LAST_SLOT:
        /* The slot may hold the last epoch, or a later one after a stop. */
        step->old = board_load(board_slot(board, step, last));
        return board_is_behind(board_head_epoch(step->old), last) ? SAVE_HEAD
                                                                  : READ_FLOOR;
    case SAVE_HEAD:
        board_swap(board_slot(board, step, last), step->old, step->head);
        return READ_FLOOR;
    case READ_FLOOR:
        step->lag = board_epochs_ahead(
            step->epoch, (uint32_t)board_load(&board->floor.word));
        if (step->lag <= step->n_slots)
            return READ_PROPOSAL;
        step->i = 0;
        step->lag = 0;
        return READ_PROGRESS;
    case READ_PROGRESS:
        /* After this rank was stopped, a rank ahead of it seems very far
         * behind; but then head has moved, too, and this rank's swap fails. */
        word = board_load(&board->progress[step->i].word);
        lag = board_epochs_ahead(step->epoch, (uint32_t)word);
        if (lag > step->lag)
            step->lag = lag;
        if (++step->i < step->n_ranks)
            return READ_PROGRESS;
        if (step->lag <= step->n_slots)
            return RAISE_FLOOR;
        step->next = STP_BOARD_FROZEN | (step->head & STP_BOARD_PARITY);
        return DECIDE;
    case RAISE_FLOOR:
        __atomic_store_n(&board->floor.word,
                         board_epochs_ahead(step->epoch, step->lag),
                         __ATOMIC_SEQ_CST);
        return READ_PROPOSAL;
    case READ_PROPOSAL:
        word = board_load(&board->proposal.word);
        step->next = word & STP_BOARD_PARITY;
        if (board_is_untaken(word, step->head))
            step->next |= word & STP_BOARD_DECISION;
        return DECIDE;
    case DECIDE:
        step->next |= (uint64_t)step->epoch << 33;
        if (!board_swap(&board->head.word, step->head, step->next))
            return READ_HEAD; /* another rank moved head */
        return board_take_decision(step, step->next);
    default: /* NOTE_PROGRESS */
        /* Released after the ring was read; if others see it later, this rank
         * only looks slower than it is.  A step of a rank that is behind then
         * never waits for its own stores elsewhere. */
        __atomic_store_n(&board->progress[step->rank].word, step->epoch,
                         __ATOMIC_RELEASE);
        return DONE;
    }
}

size_t stp_board_bytes(size_t n_ranks)
{
    return offsetof(struct stp_board, progress) +
           n_ranks * sizeof(struct stp_board_line);
}

void stp_board_begin_epoch(struct stp_board_step *step)
{
    step->epoch = (step->epoch + 1) & STP_BOARD_EPOCHS;
    step->stage = READ_HEAD;
}

void stp_board_begin_proposal(struct stp_board_step *step, uint32_t decision)
{
    step->decision = decision;
    step->is_put = false;
    step->stage = READ_LAST_PROPOSAL;
}

bool stp_board_access(struct stp_board_step *step, struct stp_board *board)
{
    switch (step->stage) {
    case READ_LAST_PROPOSAL:
        step->old = board_load(&board->proposal.word);
        step->stage = CHECK_TAKEN;
        break;
    case CHECK_TAKEN:
        step->head = board_load(&board->head.word);
        step->stage = board_is_untaken(step->old, step->head) ||
                              (step->head & STP_BOARD_FROZEN)
                          ? DONE
                          : PUT;
        break;
    case PUT:
        step->is_put =
            board_swap(&board->proposal.word, step->old,
                       ((step->old >> 32) + 1) << 32 | step->decision);
        step->stage = DONE;
        break;
    default:
        step->stage = board_access_epoch(step, board);
        break;
    }
    return step->stage != DONE;
}

bool stp_board_is_pending(const struct stp_board *board)
{
    uint64_t proposal = board_load(&board->proposal.word);

    return board_is_untaken(proposal, board_load(&board->head.word));
}
