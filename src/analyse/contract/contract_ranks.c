/* contract_ranks.c - checks of where ranks live, and of how they end */
#include <stdio.h>

#include "analyse/contract/contract_story.h"

/* ---- layouts ---- */

void stp_check_agree(struct stp_contract_run *run)
{
    const struct stp_story story = {.title = "one thread"};

    if (stp_story_tell(run, story, run->options->n_seeds))
        stp_contract_note(
            run, "%d ranks, %u random schedules",
            mock_machine_get_info(stp_story_machine(run))->n_ranks,
            run->options->n_seeds);
}

void stp_check_agree_threads(struct stp_contract_run *run)
{
    static const struct stp_story stories[] = {
        {.title = "threads", .layout = MOCK_THREADS},
        {.title = "threads, all inits at once",
         .layout = MOCK_THREADS,
         .init_at_once = true,
         .play_at_once = true},
        {.title = "one thread after inits at once", .init_at_once = true},
    };

    STP_TELL_ALL(run, stories);
}

void stp_check_agree_processes(struct stp_contract_run *run)
{
    static const struct stp_story stories[] = {
        {.title = "processes", .layout = MOCK_PROCESSES},
        {.title = "processes, all at once",
         .layout = MOCK_PROCESSES,
         .init_at_once = true,
         .play_at_once = true},
    };

    STP_TELL_ALL(run, stories);
}

/* ---- children ---- */

/* Two by ncclCommSplit(), and two by ncclCommShrink(), which have the same
 * commId. */
enum { N_CHILDREN = 4 };

static ncclResult_t make_child(struct mock_ranks *parent,
                               const struct mock_machine *machine, int i,
                               struct mock_ranks **child_ret)
{
    return i < 2 ? mock_ranks_split(parent, machine, i, child_ret)
                 : mock_ranks_shrink(parent, machine, child_ret);
}

static bool play_family(struct stp_story *story, struct mock_ranks *parent)
{
    const struct mock_machine *small = story->run->world->shapes[STP_SHAPE_2];
    struct mock_ranks *children[N_CHILDREN];

    for (int i = 0; i < N_CHILDREN; i++) {
        stp_contract_at(story->run, "init of a child");
        if (make_child(parent, small, i, &children[i]) != ncclSuccess)
            return stp_story_blame(story, i < 2 ? ", split: " : ", shrink: ");
    }
    if (!stp_story_play(story, parent, 0, NULL))
        return false;
    for (int i = 0; i < N_CHILDREN; i++)
        if (!stp_story_play(story, children[i], (uint64_t)i, NULL))
            return false;
    mock_ranks_destroy(children[2]);
    if (!stp_story_play(story, children[3], 1, NULL))
        return false;
    mock_ranks_destroy(parent); /* before its children */
    mock_ranks_destroy(children[0]);
    if (!stp_story_play(story, children[1], 2, NULL))
        return false;
    mock_ranks_destroy(children[1]);
    mock_ranks_destroy(children[3]);
    return true;
}

void stp_check_agree_children(struct stp_contract_run *run)
{
    static const struct stp_story stories[] = {
        {.title = "one thread"},
        {.title = "processes", .layout = MOCK_PROCESSES},
    };

    for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++) {
        struct mock_nccl *nccl = stp_contract_nccl(run, NULL, NULL, NULL);
        struct stp_story story = stories[i];
        struct mock_ranks *parent;

        story.run = run;
        story.machine = stp_story_machine(run);
        parent = nccl != NULL ? stp_story_open(&story, nccl) : NULL;
        if (parent == NULL || !play_family(&story, parent))
            return;
        mock_nccl_destroy(nccl);
    }
}

/* ---- stalls and deaths ---- */

static void stall_at_init(void *story, int rank)
{
    (void)story;
    if (rank != 1)
        return;
    stp_story_pause(100);
    mock_clock_shift(STP_HOUR);
}

/* One that waits for the others learns that an hour is gone. */
static void stall(void *story, int rank, size_t step)
{
    (void)story;
    if (rank == 1 && (step == 0 || step == STP_STORY_STEPS / 2)) {
        stp_story_pause(100);
        mock_clock_shift(STP_HOUR);
    } else if (rank != 1 && step > STP_STORY_STEPS / 2) {
        mock_clock_shift(STP_HOUR);
    }
}

void stp_check_agree_stall(struct stp_contract_run *run)
{
    static const struct stp_story stories[] = {
        {.title = "threads, one stalls",
         .layout = MOCK_THREADS,
         .before_step = stall,
         .play_at_once = true},
        {.title = "processes, one stalls",
         .layout = MOCK_PROCESSES,
         .before_init = stall_at_init,
         .before_step = stall,
         .init_at_once = true,
         .play_at_once = true},
    };

    for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++)
        if (!stp_story_tell(run, stories[i], 1))
            return;
}

void stp_check_agree_death(struct stp_contract_run *run)
{
    static const struct mock_death at_once = {.rank = 1, .step = 0};
    static const struct mock_death later = {.rank = 0,
                                            .step = STP_STORY_STEPS / 2};
    static const struct stp_story stories[] = {
        {.title = "threads, one ends early",
         .layout = MOCK_THREADS,
         .death = &later,
         .then_another = true},
        {.title = "processes, one is killed before its first call",
         .layout = MOCK_PROCESSES,
         .death = &at_once,
         .then_another = true},
        {.title = "processes, one is killed",
         .layout = MOCK_PROCESSES,
         .death = &later,
         .play_at_once = true,
         .then_another = true},
    };

    STP_TELL_ALL(run, stories);
}
