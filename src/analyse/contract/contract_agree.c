/*
 * contract_agree.c - checks that all ranks decide the same, whatever differs
 * between them and whatever becomes of them
 *
 * NCCL compares nothing between ranks: it hangs or corrupts data if they
 * differ.  So whatever ranks can see differently is made to differ, on purpose
 * rather than by chance: schedule, layout, regBuff, clock, environment, files,
 * and who still lives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "analyse/contract/contract_suite.h"
#include "core/rng.h"
#include "mock_ranks.h"

enum {
    STORY_GROUPS = 10,
    STORY_STEPS = STP_N_QUESTIONS + STORY_GROUPS,
    STORY_SEEDS = 4, /* of checks that do more than change the schedule: one
                            of each kind that mock_ranks_play() has */
};

#define SECOND ((int64_t)1000000000) /* in ns */
#define HOUR   (3600 * SECOND)

/* How a communicator is made and played. */
struct story {
    struct stp_contract_run *run;
    const char *title; /* for messages, e.g. "processes" */
    enum mock_layout layout;
    bool init_at_once;
    bool play_at_once;
    void (*before_init)(void *story, int rank);
    void (*before_step)(void *story, int rank, size_t step);
    void (*vary)(void *story, int rank, size_t step, struct mock_call *call);
    const struct mock_death *death;
    bool then_another; /* communicator, with nobody dead in it */

    const struct mock_machine *machine;
    const char *ours, *theirs; /* files */
    int odd_one;               /* the rank that finds 'theirs' */
    uint64_t seed;
};

enum { GROUP = 3 }; /* collectives of a group */

/* What all ranks do. */
struct script {
    struct mock_call calls[STP_N_QUESTIONS + STORY_GROUPS * GROUP];
    struct mock_step steps[STORY_STEPS];
};

static void story_write_script(struct script *s)
{
    for (size_t i = 0; i < STP_N_QUESTIONS; i++) {
        s->calls[i] = stp_contract_question(i);
        s->steps[i] = (struct mock_step){&s->calls[i], 1};
    }
    for (size_t g = 0; g < STORY_GROUPS; g++) {
        struct mock_call *calls = &s->calls[STP_N_QUESTIONS + g * GROUP];

        for (size_t i = 0; i < GROUP; i++)
            calls[i] = stp_contract_question((g * 7 + i * 5) % STP_N_QUESTIONS);
        s->steps[STP_N_QUESTIONS + g] = (struct mock_step){calls, GROUP};
    }
}

/* ---- one story ---- */

static bool story_blame(struct story *story, const char *where)
{
    return stp_contract_fail(story->run, "%s%s%s", story->title, where,
                             mock_last_error());
}

static bool story_play(struct story *story, struct mock_ranks *ranks,
                       uint64_t seed, const struct mock_death *death)
{
    struct script s;
    const struct mock_script script = {.steps = s.steps,
                                       .n_steps = STORY_STEPS,
                                       .vary = story->vary,
                                       .before_step = story->before_step,
                                       .user = story,
                                       .death = death,
                                       .at_once = story->play_at_once};
    char what[48];

    story_write_script(&s);
    stp_contract_at(story->run, "%s, schedule %u", story->title,
                    (unsigned)seed);
    snprintf(what, sizeof(what), ", schedule %u: ", (unsigned)seed);
    return mock_ranks_play(ranks, &script, seed) == ncclSuccess ||
           story_blame(story, what);
}

static struct mock_ranks *story_open(struct story *story,
                                     struct mock_nccl *nccl)
{
    const struct mock_ranks_options options = {.layout = story->layout,
                                               .comm_id = mock_new_comm_id(),
                                               .at_once = story->init_at_once,
                                               .before_init =
                                                   story->before_init,
                                               .user = story};
    struct mock_ranks *ranks;

    stp_contract_at(story->run, "%s, init", story->title);
    if (mock_ranks_create(nccl, story->machine, &options, &ranks) ==
        ncclSuccess)
        return ranks;
    story_blame(story, ": ");
    return NULL;
}

static bool story_live(struct story *story, uint64_t seed,
                       const struct mock_death *death)
{
    struct mock_nccl *nccl = stp_contract_nccl(story->run, NULL, NULL, NULL);
    struct mock_ranks *ranks;
    bool good;

    if (nccl == NULL)
        return false;
    ranks = story_open(story, nccl);
    good = ranks != NULL && story_play(story, ranks, seed, death);
    if (ranks != NULL) {
        stp_contract_at(story->run, "%s, finalize", story->title);
        mock_ranks_destroy(ranks);
    }
    mock_nccl_destroy(nccl);
    return good;
}

static const struct mock_machine *
story_machine(const struct stp_contract_run *run)
{
    const struct mock_machine *machine = run->world->machine;

    return mock_machine_get_info(machine)->n_ranks > 1
               ? machine
               : run->world->shapes[STP_SHAPE_4];
}

static bool story_tell(struct stp_contract_run *run, struct story story,
                       unsigned n_seeds)
{
    story.run = run;
    story.machine = story_machine(run);
    for (unsigned seed = 0; seed < n_seeds; seed++) {
        story.seed = seed;
        if (!story_live(&story, seed, story.death) ||
            (story.then_another && !story_live(&story, seed, NULL)))
            return false;
    }
    return true;
}

static bool story_tell_all(struct stp_contract_run *run,
                           const struct story *stories, size_t n,
                           unsigned n_seeds)
{
    for (size_t i = 0; i < n; i++)
        if (!story_tell(run, stories[i], n_seeds))
            return false;
    return true;
}

#define TELL_ALL(run, stories)                                                 \
    story_tell_all(run, stories, sizeof(stories) / sizeof((stories)[0]),       \
                   STORY_SEEDS)

static void story_pause(long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

/* ---- layouts ---- */

void stp_check_agree(struct stp_contract_run *run)
{
    const struct story story = {.title = "one thread"};

    if (story_tell(run, story, run->options->n_seeds))
        stp_contract_note(run, "%d ranks, %u random schedules",
                          mock_machine_get_info(story_machine(run))->n_ranks,
                          run->options->n_seeds);
}

void stp_check_agree_threads(struct stp_contract_run *run)
{
    static const struct story stories[] = {
        {.title = "threads", .layout = MOCK_THREADS},
        {.title = "threads, all inits at once",
         .layout = MOCK_THREADS,
         .init_at_once = true,
         .play_at_once = true},
        {.title = "one thread after inits at once", .init_at_once = true},
    };

    TELL_ALL(run, stories);
}

void stp_check_agree_processes(struct stp_contract_run *run)
{
    static const struct story stories[] = {
        {.title = "processes", .layout = MOCK_PROCESSES},
        {.title = "processes, all at once",
         .layout = MOCK_PROCESSES,
         .init_at_once = true,
         .play_at_once = true},
    };

    TELL_ALL(run, stories);
}

/* ---- children ---- */

/* Two by ncclCommSplit(), and two by ncclCommShrink(), which have the same
 * commId. */
enum { N_CHILDREN = 4 };

static ncclResult_t agree_make_child(struct mock_ranks *parent,
                                     const struct mock_machine *machine, int i,
                                     struct mock_ranks **child_ret)
{
    return i < 2 ? mock_ranks_split(parent, machine, i, child_ret)
                 : mock_ranks_shrink(parent, machine, child_ret);
}

static bool agree_play_family(struct story *story, struct mock_ranks *parent)
{
    const struct mock_machine *small = story->run->world->shapes[STP_SHAPE_2];
    struct mock_ranks *children[N_CHILDREN];

    for (int i = 0; i < N_CHILDREN; i++) {
        stp_contract_at(story->run, "init of a child");
        if (agree_make_child(parent, small, i, &children[i]) != ncclSuccess)
            return story_blame(story, i < 2 ? ", split: " : ", shrink: ");
    }
    if (!story_play(story, parent, 0, NULL))
        return false;
    for (int i = 0; i < N_CHILDREN; i++)
        if (!story_play(story, children[i], (uint64_t)i, NULL))
            return false;
    mock_ranks_destroy(children[2]);
    if (!story_play(story, children[3], 1, NULL))
        return false;
    mock_ranks_destroy(parent); /* before its children */
    mock_ranks_destroy(children[0]);
    if (!story_play(story, children[1], 2, NULL))
        return false;
    mock_ranks_destroy(children[1]);
    mock_ranks_destroy(children[3]);
    return true;
}

void stp_check_agree_children(struct stp_contract_run *run)
{
    static const struct story stories[] = {
        {.title = "one thread"},
        {.title = "processes", .layout = MOCK_PROCESSES},
    };

    for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++) {
        struct mock_nccl *nccl = stp_contract_nccl(run, NULL, NULL, NULL);
        struct story story = stories[i];
        struct mock_ranks *parent;

        story.run = run;
        story.machine = story_machine(run);
        parent = nccl != NULL ? story_open(&story, nccl) : NULL;
        if (parent == NULL || !agree_play_family(&story, parent))
            return;
        mock_nccl_destroy(nccl);
    }
}

/* ---- stalls and deaths ---- */

static void agree_stall_at_init(void *story, int rank)
{
    (void)story;
    if (rank != 1)
        return;
    story_pause(100);
    mock_clock_shift(HOUR);
}

/* One that waits for the others learns that an hour is gone. */
static void agree_stall(void *story, int rank, size_t step)
{
    (void)story;
    if (rank == 1 && (step == 0 || step == STORY_STEPS / 2)) {
        story_pause(100);
        mock_clock_shift(HOUR);
    } else if (rank != 1 && step > STORY_STEPS / 2) {
        mock_clock_shift(HOUR);
    }
}

void stp_check_agree_stall(struct stp_contract_run *run)
{
    static const struct story stories[] = {
        {.title = "threads, one stalls",
         .layout = MOCK_THREADS,
         .before_step = agree_stall,
         .play_at_once = true},
        {.title = "processes, one stalls",
         .layout = MOCK_PROCESSES,
         .before_init = agree_stall_at_init,
         .before_step = agree_stall,
         .init_at_once = true,
         .play_at_once = true},
    };

    for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++)
        if (!story_tell(run, stories[i], 1))
            return;
}

void stp_check_agree_death(struct stp_contract_run *run)
{
    static const struct mock_death at_once = {.rank = 1, .step = 0};
    static const struct mock_death later = {.rank = 0, .step = STORY_STEPS / 2};
    static const struct story stories[] = {
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

    TELL_ALL(run, stories);
}

/* ---- regBuff ---- */

static void agree_vary_reg_buff(void *story, int rank, size_t step,
                                struct mock_call *call)
{
    (void)story;
    call->reg_buff = (int)(((size_t)rank + step) & 1);
}

void stp_check_agree_reg_buff(struct stp_contract_run *run)
{
    static const struct story stories[] = {
        {.title = "ranks with different regBuff", .vary = agree_vary_reg_buff},
    };

    TELL_ALL(run, stories);
}

/* ---- clocks ---- */

enum { N_UNITS = 7 }; /* of time */

/* From a millisecond to a day.  In as many plays as there are units, each
 * question meets each of them, so that ranks differ in whatever unit a tuner
 * looks at; then come times without a pattern. */
static int64_t agree_get_clock(uint64_t seed, int rank, size_t step)
{
    static const int64_t units[N_UNITS] = {
        HOUR,          SECOND,      60 * SECOND, 24 * HOUR,
        SECOND / 1000, SECOND / 10, 10 * SECOND};

    if (step < STP_N_QUESTIONS)
        return rank * units[(step + seed) % N_UNITS];
    return (int64_t)(stp_rng((uint64_t)rank, step) % (uint64_t)(1000 * HOUR));
}

static void agree_set_clock_at_init(void *story, int rank)
{
    (void)story;
    mock_clock_shift(rank * HOUR);
}

static void agree_set_clock(void *opaque, int rank, size_t step)
{
    const struct story *story = opaque;

    mock_clock_shift(agree_get_clock(story->seed, rank, step));
}

static void agree_delay(void *story, int rank, size_t step)
{
    (void)story;
    if (rank == 1 && step % 8 == 0)
        story_pause(5);
}

void stp_check_agree_clocks(struct stp_contract_run *run)
{
    static const struct story stories[] = {
        {.title = "ranks with their own clocks",
         .before_step = agree_set_clock},
        {.title = "ranks whose inits are hours apart",
         .before_init = agree_set_clock_at_init},
        {.title = "ranks with their own clocks, from init on",
         .before_init = agree_set_clock_at_init,
         .before_step = agree_set_clock},
        {.title = "a rank that comes later",
         .layout = MOCK_THREADS,
         .before_step = agree_delay},
    };

    story_tell_all(run, stories, sizeof(stories) / sizeof(stories[0]), N_UNITS);
}

/* ---- environment ---- */

/* What launchers and schedulers tell a rank about itself. */
static void agree_set_variables(void *story, int rank)
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

static void agree_set_variables_again(void *story, int rank, size_t step)
{
    (void)step;
    agree_set_variables(story, rank);
}

void stp_check_agree_environment(struct stp_contract_run *run)
{
    static const struct story stories[] = {
        {.title = "one thread", .before_init = agree_set_variables},
        {.title = "processes",
         .layout = MOCK_PROCESSES,
         .before_init = agree_set_variables,
         .before_step = agree_set_variables_again},
    };

    TELL_ALL(run, stories);
}

/* ---- files ---- */

static void agree_set_file(void *opaque, int rank)
{
    const struct story *story = opaque;

    stp_contract_set_policy(rank == story->odd_one ? story->theirs
                                                   : story->ours);
}

/* The file that all find. */
static void agree_write_moving(const struct story *story, bool tree, long now)
{
    const char *path = story->run->world->files[STP_FILE_MOVING];

    stp_write_policy(path, tree, now);
    stp_contract_set_policy(path);
}

static void agree_write_before_init(void *opaque, int rank)
{
    const struct story *story = opaque;

    agree_write_moving(story, rank != story->odd_one, rank);
}

static void agree_write_once(void *opaque, int rank)
{
    if (rank == 0)
        agree_write_moving(opaque, true, 0);
    stp_contract_set_policy(
        ((const struct story *)opaque)->run->world->files[STP_FILE_MOVING]);
}

/* An hour passes between the steps, for a tuner that looks now and then. */
static void agree_write_before_step(void *opaque, int rank, size_t step)
{
    const struct story *story = opaque;

    agree_write_moving(story, rank != story->odd_one, (long)step * 100 + rank);
    mock_clock_shift((int64_t)(step + 1) * HOUR);
}

static bool agree_tell_files(struct stp_contract_run *run, struct story story)
{
    static const enum mock_layout layouts[] = {MOCK_ONE_THREAD, MOCK_PROCESSES};

    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        story.layout = layouts[i];
        if (!story_tell(run, story, STORY_SEEDS))
            return false;
    }
    return true;
}

void stp_check_agree_files(struct stp_contract_run *run)
{
    const char *tree = run->world->files[STP_FILE_TREE];
    const char *ring = run->world->files[STP_FILE_RING];
    const char *empty = run->world->files[STP_FILE_EMPTY];
    int last = mock_machine_get_info(story_machine(run))->n_ranks - 1;
    const struct story stories[] = {
        {.title = "the last rank found another policy",
         .before_init = agree_set_file,
         .ours = tree,
         .theirs = ring,
         .odd_one = last},
        {.title = "the first rank found another policy",
         .before_init = agree_set_file,
         .ours = tree,
         .theirs = ring},
        {.title = "a rank found an empty policy",
         .before_init = agree_set_file,
         .ours = tree,
         .theirs = empty,
         .odd_one = 1},
        {.title = "a rank found no policy",
         .before_init = agree_set_file,
         .ours = tree,
         .theirs = "/nonexistent/policy.conf",
         .odd_one = 1},
        {.title = "the policy was written between inits",
         .before_init = agree_write_before_init,
         .odd_one = last},
        {.title = "the policy was written between calls",
         .before_init = agree_write_once,
         .before_step = agree_write_before_step,
         .odd_one = last},
    };

    if (!stp_contract_needs_file(run))
        return;
    for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++)
        if (!agree_tell_files(run, stories[i]))
            return;
}
