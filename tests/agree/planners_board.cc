#include "agree/planners_job.h"

// The linker puts these before the board's functions that the planner calls.
namespace
{

void Interrupt(const stp_plan_board *board)
{
    if (planners::job != nullptr)
        planners::job->Interrupt(planners::job->Of(board));
}

} // namespace

extern "C" {

uint64_t __real_stp_plan_epoch(const stp_plan_board *board, size_t n_ranks);
bool __real_stp_plan_has_room(const stp_plan_board *board, size_t n_ranks,
                              uint64_t number);
bool __real_stp_plan_is_ahead(const stp_plan_board *board, size_t n_ranks,
                              const stp_plan *plan);
void __real_stp_plan_put(stp_plan_board *board, const stp_plan *plan);
stp_plan_state __real_stp_plan_decide(stp_plan_board *board, uint64_t number,
                                      stp_plan_state state);

uint64_t __wrap_stp_plan_epoch(const stp_plan_board *board, size_t n_ranks)
{
    const uint64_t epoch = __real_stp_plan_epoch(board, n_ranks);

    Interrupt(board);
    return epoch;
}

bool __wrap_stp_plan_has_room(const stp_plan_board *board, size_t n_ranks,
                              uint64_t number)
{
    const bool has_room = __real_stp_plan_has_room(board, n_ranks, number);

    Interrupt(board);
    return has_room;
}

bool __wrap_stp_plan_is_ahead(const stp_plan_board *board, size_t n_ranks,
                              const stp_plan *plan)
{
    const bool is_ahead = __real_stp_plan_is_ahead(board, n_ranks, plan);

    if (planners::job != nullptr)
        planners::job->CheckAhead(board, plan, is_ahead);
    Interrupt(board);
    return is_ahead;
}

void __wrap_stp_plan_put(stp_plan_board *board, const stp_plan *plan)
{
    if (planners::job != nullptr)
        planners::job->CheckPut(board, plan);
    Interrupt(board);
    __real_stp_plan_put(board, plan);
    Interrupt(board);
}

stp_plan_state __wrap_stp_plan_decide(stp_plan_board *board, uint64_t number,
                                      stp_plan_state state)
{
    const stp_plan_state is = __real_stp_plan_decide(board, number, state);

    if (planners::job != nullptr)
        planners::job->CheckDecided(number, is);
    Interrupt(board);
    return is;
}
}
