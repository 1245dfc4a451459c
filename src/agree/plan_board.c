#include "agree/plan_board.h"

#include <string.h>

enum plan_stage {
    ENTER, /* say which epoch this rank enters */
    LOOK,  /* at the plan that comes next */
    PASS,  /* say that it is needed no more */
};

static uint64_t plan_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static void plan_store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

static uint64_t plan_pack(uint64_t number, enum stp_plan_state state)
{
    return number << 3 | (uint64_t)state;
}

static struct stp_plan_slot *plan_slot(struct stp_plan_board *board,
                                       uint64_t number)
{
    return &board->slots[number % STP_PLAN_SLOTS];
}

size_t stp_plan_board_bytes(size_t n_ranks)
{
    return offsetof(struct stp_plan_board, lines) +
           n_ranks * sizeof(struct stp_plan_line);
}

/* ---- a rank ---- */

void stp_plan_begin_epoch(struct stp_plan_step *step)
{
    step->epoch++;
    step->word = 0;
    step->stage = ENTER;
}

static bool plan_swap(struct stp_plan_board *board, uint64_t number,
                      enum stp_plan_state state)
{
    uint64_t expected = plan_pack(number, STP_PLAN_ACKNOWLEDGED);

    return __atomic_compare_exchange_n(
        &plan_slot(board, number)->state, &expected, plan_pack(number, state),
        false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

void stp_plan_lose(const struct stp_plan_step *step,
                   struct stp_plan_board *board)
{
    plan_swap(board, step->next + 1, STP_PLAN_LOST);
}

/* A plan that was dropped is passed wherever it would begin. */
static enum stp_plan_access plan_look(struct stp_plan_step *step,
                                      struct stp_plan_board *board)
{
    uint64_t number = step->next + 1;
    const struct stp_plan_slot *slot = plan_slot(board, number);
    uint64_t state = plan_load(&slot->state);

    if (state >> 3 != number)
        return STP_PLAN_DONE;
    if ((state & 7) == STP_PLAN_DROPPED) {
        step->stage = PASS;
        return STP_PLAN_MORE;
    }
    if (slot->first > step->epoch)
        return STP_PLAN_DONE;
    if ((state & 7) != STP_PLAN_COMMITTED)
        return (state & 7) == STP_PLAN_LOST ? STP_PLAN_FAILED : STP_PLAN_DOUBT;
    if (step->epoch - slot->first >= slot->n) /* it was put too late */
        return STP_PLAN_FAILED;
    step->word = slot->words[step->epoch - slot->first];
    if (step->epoch - slot->first + 1 < slot->n)
        return STP_PLAN_DONE;
    step->stage = PASS;
    return STP_PLAN_MORE;
}

enum stp_plan_access stp_plan_access(struct stp_plan_step *step,
                                     struct stp_plan_board *board)
{
    struct stp_plan_line *line = &board->lines[step->rank];

    switch (step->stage) {
    case ENTER:
        plan_store(&line->epoch, step->epoch);
        step->stage = LOOK;
        return STP_PLAN_MORE;
    case LOOK:
        return plan_look(step, board);
    default:
        plan_store(&line->passed, ++step->next);
        step->stage = LOOK;
        return step->word != 0 ? STP_PLAN_DONE : STP_PLAN_MORE;
    }
}

/* ---- the host ---- */

uint64_t stp_plan_epoch(const struct stp_plan_board *board, size_t n_ranks)
{
    uint64_t last = 0;

    for (size_t i = 0; i < n_ranks; i++) {
        uint64_t epoch = plan_load(&board->lines[i].epoch);

        last = epoch > last ? epoch : last;
    }
    return last;
}

bool stp_plan_has_room(const struct stp_plan_board *board, size_t n_ranks,
                       uint64_t number)
{
    for (size_t i = 0; i < n_ranks; i++)
        if (plan_load(&board->lines[i].passed) + STP_PLAN_SLOTS < number)
            return false;
    return true;
}

bool stp_plan_is_ahead(const struct stp_plan_board *board, size_t n_ranks,
                       const struct stp_plan *plan)
{
    return stp_plan_epoch(board, n_ranks) + plan->margin < plan->first;
}

void stp_plan_put(struct stp_plan_board *board, const struct stp_plan *plan)
{
    struct stp_plan_slot *slot = plan_slot(board, plan->number);

    slot->first = plan->first;
    slot->n = plan->n;
    memcpy(slot->words, plan->words, plan->n * sizeof(plan->words[0]));
    plan_store(&slot->state, plan_pack(plan->number, STP_PLAN_ACKNOWLEDGED));
}

enum stp_plan_state stp_plan_decide(struct stp_plan_board *board,
                                    uint64_t number, enum stp_plan_state state)
{
    if (plan_swap(board, number, state))
        return state;
    return (enum stp_plan_state)(plan_load(&plan_slot(board, number)->state) &
                                 7);
}
