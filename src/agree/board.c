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

static void board_store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
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

/* ---- accesses of a step to the next epoch ---- */

static enum stage board_settle(struct stp_board_step *step, uint64_t head)
{
    step->decision = (uint32_t)(head & STP_BOARD_DECISION);
    step->is_frozen = (head & STP_BOARD_FROZEN) != 0;
    return NOTE_PROGRESS;
}

static enum stage board_read_head(struct stp_board_step *step,
                                  struct stp_board *board)
{
    step->head = board_load(&board->head.word);
    if (board_head_epoch(step->head) == step->epoch)
        return board_settle(step, step->head);
    if (!board_is_behind(board_head_epoch(step->head), step->epoch))
        return READ_OWN_SLOT;
    if (step->head & STP_BOARD_FROZEN)
        return board_settle(step, step->head);
    return READ_LAST_SLOT;
}

static enum stage board_read_own_slot(struct stp_board_step *step,
                                      struct stp_board *board)
{
    return board_settle(step, board_load(board_slot(board, step, step->epoch)));
}

/* The slot may hold the last epoch, or a later one if this rank was stopped. */
static enum stage board_read_last_slot(struct stp_board_step *step,
                                       struct stp_board *board)
{
    uint32_t last = board_head_epoch(step->head);

    step->old = board_load(board_slot(board, step, last));
    return board_is_behind(board_head_epoch(step->old), last) ? SAVE_HEAD
                                                              : READ_FLOOR;
}

static enum stage board_save_head(struct stp_board_step *step,
                                  struct stp_board *board)
{
    board_swap(board_slot(board, step, board_head_epoch(step->head)), step->old,
               step->head);
    return READ_FLOOR;
}

static enum stage board_read_floor(struct stp_board_step *step,
                                   struct stp_board *board)
{
    step->lag = board_epochs_ahead(step->epoch,
                                   (uint32_t)board_load(&board->floor.word));
    if (step->lag <= step->n_slots)
        return READ_PROPOSAL;
    step->i = 0;
    step->lag = 0;
    return READ_PROGRESS;
}

static enum stage board_read_progress(struct stp_board_step *step,
                                      struct stp_board *board)
{
    uint64_t done = board_load(&board->progress[step->i].word);
    uint32_t lag = board_epochs_ahead(step->epoch, (uint32_t)done);

    /* After this rank was stopped, a rank ahead of it seems very far behind;
     * but then head has moved, too, and this rank's swap fails. */
    if (lag > step->lag)
        step->lag = lag;
    if (++step->i < step->n_ranks)
        return READ_PROGRESS;
    if (step->lag <= step->n_slots)
        return RAISE_FLOOR;
    step->next = STP_BOARD_FROZEN | (step->head & STP_BOARD_PARITY);
    return DECIDE;
}

static enum stage board_raise_floor(struct stp_board_step *step,
                                    struct stp_board *board)
{
    board_store(&board->floor.word, board_epochs_ahead(step->epoch, step->lag));
    return READ_PROPOSAL;
}

static enum stage board_read_proposal(struct stp_board_step *step,
                                      struct stp_board *board)
{
    uint64_t proposal = board_load(&board->proposal.word);

    step->next = proposal & STP_BOARD_PARITY;
    if (board_is_untaken(proposal, step->head))
        step->next |= proposal & STP_BOARD_DECISION;
    return DECIDE;
}

static enum stage board_decide(struct stp_board_step *step,
                               struct stp_board *board)
{
    step->next |= (uint64_t)step->epoch << 33;
    if (!board_swap(&board->head.word, step->head, step->next))
        return READ_HEAD; /* another rank moved head */
    return board_settle(step, step->next);
}

/* Released after the ring was read; if others see it later, this rank only
 * looks slower than it is.  A step of a rank that is behind then never waits
 * for its own stores elsewhere. */
static enum stage board_note_progress(struct stp_board_step *step,
                                      struct stp_board *board)
{
    __atomic_store_n(&board->progress[step->rank].word, step->epoch,
                     __ATOMIC_RELEASE);
    return DONE;
}

/* ---- accesses of a step that puts a proposal ---- */

static enum stage board_read_last_proposal(struct stp_board_step *step,
                                           struct stp_board *board)
{
    step->old = board_load(&board->proposal.word);
    return CHECK_TAKEN;
}

static enum stage board_check_taken(struct stp_board_step *step,
                                    struct stp_board *board)
{
    step->head = board_load(&board->head.word);
    if (board_is_untaken(step->old, step->head) ||
        (step->head & STP_BOARD_FROZEN))
        return DONE;
    return PUT;
}

static enum stage board_put(struct stp_board_step *step,
                            struct stp_board *board)
{
    uint64_t sequence = (step->old >> 32) + 1;

    step->is_put = board_swap(&board->proposal.word, step->old,
                              sequence << 32 | step->decision);
    return DONE;
}

static enum stage (*const board_accesses[])(struct stp_board_step *,
                                            struct stp_board *) = {
    [READ_HEAD] = board_read_head,
    [READ_OWN_SLOT] = board_read_own_slot,
    [READ_LAST_SLOT] = board_read_last_slot,
    [SAVE_HEAD] = board_save_head,
    [READ_FLOOR] = board_read_floor,
    [READ_PROGRESS] = board_read_progress,
    [RAISE_FLOOR] = board_raise_floor,
    [READ_PROPOSAL] = board_read_proposal,
    [DECIDE] = board_decide,
    [NOTE_PROGRESS] = board_note_progress,
    [READ_LAST_PROPOSAL] = board_read_last_proposal,
    [CHECK_TAKEN] = board_check_taken,
    [PUT] = board_put,
};

/* ---- the interface ---- */

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
    step->stage = board_accesses[step->stage](step, board);
    return step->stage != DONE;
}

bool stp_board_is_pending(const struct stp_board *board)
{
    uint64_t proposal = board_load(&board->proposal.word);

    return board_is_untaken(proposal, board_load(&board->head.word));
}
