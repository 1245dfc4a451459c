/* contract_differ.c - checks of what one rank sees otherwise than another */
#include <stdio.h>
#include <stdlib.h>

#include "analyse/contract/contract_story.h"
#include "core/rng.h"

/* ---- regBuff ---- */

static void vary_reg_buff(void *story, int rank, size_t step,
                          struct mock_call *call)
{
    (void)story;
    call->reg_buff = (int)(((size_t)rank + step) & 1);
}

void stp_check_agree_reg_buff(struct stp_contract_run *run)
{
    static const struct stp_story stories[] = {
        {.title = "ranks with different regBuff", .vary = vary_reg_buff},
    };

    STP_TELL_ALL(run, stories);
}

enum { N_UNITS = 7 }; /* of time */

/* ---- clocks ---- */

/* From a millisecond to a day.  In as many plays as there are units, each
 * question meets each of them, so that ranks differ in whatever unit a tuner
 * looks at; then come times without a pattern. */
static int64_t clock_of(uint64_t seed, int rank, size_t step)
{
    static const int64_t units[N_UNITS] = {
        STP_HOUR,          STP_SECOND,      60 * STP_SECOND, 24 * STP_HOUR,
        STP_SECOND / 1000, STP_SECOND / 10, 10 * STP_SECOND};

    if (step < STP_N_QUESTIONS)
        return rank * units[(step + seed) % N_UNITS];
    return (int64_t)(stp_rng((uint64_t)rank, step) %
                     (uint64_t)(1000 * STP_HOUR));
}

static void set_clock_at_init(void *story, int rank)
{
    (void)story;
    mock_clock_shift(rank * STP_HOUR);
}

static void set_clock(void *opaque, int rank, size_t step)
{
    const struct stp_story *story = opaque;

    mock_clock_shift(clock_of(story->seed, rank, step));
}

static void dawdle(void *story, int rank, size_t step)
{
    (void)story;
    if (rank == 1 && step % 8 == 0)
        stp_story_pause(5);
}

void stp_check_agree_clocks(struct stp_contract_run *run)
{
    static const struct stp_story stories[] = {
        {.title = "ranks with their own clocks", .before_step = set_clock},
        {.title = "ranks whose inits are hours apart",
         .before_init = set_clock_at_init},
        {.title = "ranks with their own clocks, from init on",
         .before_init = set_clock_at_init,
         .before_step = set_clock},
        {.title = "a rank that comes later",
         .layout = MOCK_THREADS,
         .before_step = dawdle},
    };

    stp_story_tell_all(run, stories, sizeof(stories) / sizeof(stories[0]),
                       N_UNITS);
}

/* ---- environment ---- */

/* What launchers and schedulers tell a rank about itself. */
static void set_variables(void *story, int rank)
{
    static const char *const names[] = {"RANK",
                                        "LOCAL_RANK",
                                        "GROUP_RANK",
                                        "CUDA_VISIBLE_DEVICES",
                                        "HOSTNAME",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "PMI_RANK",
                                        "PMIX_RANK",
                                        "SLURM_PROCID",
                                        "SLURM_LOCALID",
                                        "SLURM_NODEID"};
    char value[16];

    (void)story;
    snprintf(value, sizeof(value), "%d", rank);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        setenv(names[i], value, 1);
}

static void set_variables_again(void *story, int rank, size_t step)
{
    (void)step;
    set_variables(story, rank);
}

void stp_check_agree_environment(struct stp_contract_run *run)
{
    static const struct stp_story stories[] = {
        {.title = "one thread", .before_init = set_variables},
        {.title = "processes",
         .layout = MOCK_PROCESSES,
         .before_init = set_variables,
         .before_step = set_variables_again},
    };

    STP_TELL_ALL(run, stories);
}

/* ---- files ---- */

static void find_other_file(void *opaque, int rank)
{
    const struct stp_story *story = opaque;

    stp_contract_set_policy(rank == story->odd_one ? story->theirs
                                                   : story->ours);
}

/* The file that all find. */
static void write_moving(const struct stp_story *story, bool tree, long now)
{
    const char *path = story->run->world->files[STP_FILE_MOVING];

    stp_write_policy(path, tree, now);
    stp_contract_set_policy(path);
}

static void write_before_init(void *opaque, int rank)
{
    const struct stp_story *story = opaque;

    write_moving(story, rank != story->odd_one, rank);
}

static void write_once(void *opaque, int rank)
{
    if (rank == 0)
        write_moving(opaque, true, 0);
    stp_contract_set_policy(
        ((const struct stp_story *)opaque)->run->world->files[STP_FILE_MOVING]);
}

/* An hour passes between the steps, for a tuner that looks now and then. */
static void write_before_step(void *opaque, int rank, size_t step)
{
    const struct stp_story *story = opaque;

    write_moving(story, rank != story->odd_one, (long)step * 100 + rank);
    mock_clock_shift((int64_t)(step + 1) * STP_HOUR);
}

static bool tell_files(struct stp_contract_run *run, struct stp_story story)
{
    static const enum mock_layout layouts[] = {MOCK_ONE_THREAD, MOCK_PROCESSES};

    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        story.layout = layouts[i];
        if (!stp_story_tell(run, story, STP_STORY_SEEDS))
            return false;
    }
    return true;
}

void stp_check_agree_files(struct stp_contract_run *run)
{
    const char *tree = run->world->files[STP_FILE_TREE];
    const char *ring = run->world->files[STP_FILE_RING];
    const char *empty = run->world->files[STP_FILE_EMPTY];
    int last = mock_machine_get_info(stp_story_machine(run))->n_ranks - 1;
    const struct stp_story stories[] = {
        {.title = "the last rank found another policy",
         .before_init = find_other_file,
         .ours = tree,
         .theirs = ring,
         .odd_one = last},
        {.title = "the first rank found another policy",
         .before_init = find_other_file,
         .ours = tree,
         .theirs = ring},
        {.title = "a rank found an empty policy",
         .before_init = find_other_file,
         .ours = tree,
         .theirs = empty,
         .odd_one = 1},
        {.title = "a rank found no policy",
         .before_init = find_other_file,
         .ours = tree,
         .theirs = "/nonexistent/policy.conf",
         .odd_one = 1},
        {.title = "the policy was written between inits",
         .before_init = write_before_init,
         .odd_one = last},
        {.title = "the policy was written between calls",
         .before_init = write_once,
         .before_step = write_before_step,
         .odd_one = last},
    };

    if (!stp_contract_needs_file(run))
        return;
    for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++)
        if (!tell_files(run, stories[i]))
            return;
}
