/*
 * contract_ranks.c - checks that all ranks of a communicator decide the same
 *
 * NCCL compares nothing between ranks: it hangs or corrupts data if they
 * differ.  So whatever ranks can see differently is made to differ here, on
 * purpose rather than by chance: schedule, layout, regBuff, clock, files, and
 * who still lives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "analyse/contract_suite.h"
#include "core/rng.h"
#include "mock_ranks.h"

enum {
    N_GROUPS = 10,
    GROUP = 3, /* collectives of a group */
    N_STEPS = STP_N_QUESTIONS + N_GROUPS,
    N_SEEDS = 4, /* of checks that do more than change the schedule: one of each
                    kind that mock_ranks_play() has */
    N_UNITS = 7, /* of time, and seeds of the check of clocks */
};

#define SECOND ((int64_t)1000000000)
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

/* What all ranks do. */
struct script {
    struct mock_call calls[STP_N_QUESTIONS + N_GROUPS * GROUP];
    struct mock_step steps[N_STEPS];
};

static void write_script(struct script *s)
{
    for (size_t i = 0; i < STP_N_QUESTIONS; i++) {
        s->calls[i] = stp_contract_question(i);
        s->steps[i] = (struct mock_step){&s->calls[i], 1};
    }
    for (size_t g = 0; g < N_GROUPS; g++) {
        struct mock_call *calls = &s->calls[STP_N_QUESTIONS + g * GROUP];

        for (size_t i = 0; i < GROUP; i++)
            calls[i] = stp_contract_question((g * 7 + i * 5) % STP_N_QUESTIONS);
        s->steps[STP_N_QUESTIONS + g] = (struct mock_step){calls, GROUP};
    }
}

/* ---- one story ---- */

static bool blame(struct story *story, const char *what)
{
    return stp_contract_fail(story->run, "%s%s%s", story->title, what,
                             mock_last_error());
}

static bool play(struct story *story, struct mock_ranks *ranks, uint64_t seed,
                 const struct mock_death *death)
{
    struct script s;
    const struct mock_script script = {.steps = s.steps,
                                       .n_steps = N_STEPS,
                                       .vary = story->vary,
                                       .before_step = story->before_step,
                                       .user = story,
                                       .death = death,
                                       .at_once = story->play_at_once};
    char what[48];

    write_script(&s);
    stp_contract_at(story->run, "%s, schedule %u", story->title,
                    (unsigned)seed);
    snprintf(what, sizeof(what), ", schedule %u: ", (unsigned)seed);
    return mock_ranks_play(ranks, &script, seed) == ncclSuccess ||
           blame(story, what);
}

static struct mock_ranks *open_ranks(struct story *story,
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
    blame(story, ": ");
    return NULL;
}

static bool live(struct story *story, uint64_t seed,
                 const struct mock_death *death)
{
    struct mock_nccl *nccl = stp_contract_nccl(story->run, NULL, NULL, NULL);
    struct mock_ranks *ranks;
    bool good;

    if (nccl == NULL)
        return false;
    ranks = open_ranks(story, nccl);
    good = ranks != NULL && play(story, ranks, seed, death);
    if (ranks != NULL) {
        stp_contract_at(story->run, "%s, finalize", story->title);
        mock_ranks_destroy(ranks);
    }
    mock_nccl_destroy(nccl);
    return good;
}

/* NCCL asks no tuner for one rank. */
static const struct mock_machine *machine_of(const struct stp_contract_run *run)
{
    const struct mock_machine *machine = run->world->machine;

    return mock_machine_get_info(machine)->n_ranks > 1
               ? machine
               : run->world->shapes[STP_SHAPE_4];
}

static bool tell(struct stp_contract_run *run, struct story story,
                 unsigned n_seeds)
{
    story.run = run;
    story.machine = machine_of(run);
    for (unsigned seed = 0; seed < n_seeds; seed++) {
        story.seed = seed;
        if (!live(&story, seed, story.death) ||
            (story.then_another && !live(&story, seed, NULL)))
            return false;
    }
    return true;
}

/* Until one fails. */
static void tell_all(struct stp_contract_run *run, const struct story *stories,
                     size_t n, unsigned n_seeds)
{
    for (size_t i = 0; i < n; i++)
        if (!tell(run, stories[i], n_seeds))
            return;
}
#define TELL_ALL(run, stories)                                                 \
    tell_all(run, stories, sizeof(stories) / sizeof((stories)[0]), N_SEEDS)

/* ---- layouts ---- */

void stp_check_agree(struct stp_contract_run *run)
{
    const struct story story = {.title = "one thread"};

    if (tell(run, story, run->options->n_seeds))
        stp_contract_note(run, "%d ranks, %u random schedules",
                          mock_machine_get_info(machine_of(run))->n_ranks,
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

static ncclResult_t make_child(struct mock_ranks *parent,
                               const struct mock_machine *machine, int i,
                               struct mock_ranks **child_ret)
{
    return i < 2 ? mock_ranks_split(parent, machine, i, child_ret)
                 : mock_ranks_shrink(parent, machine, child_ret);
}

static bool play_family(struct story *story, struct mock_ranks *parent)
{
    const struct mock_machine *small = story->run->world->shapes[STP_SHAPE_2];
    struct mock_ranks *children[N_CHILDREN];

    for (int i = 0; i < N_CHILDREN; i++) {
        stp_contract_at(story->run, "init of a child");
        if (make_child(parent, small, i, &children[i]) != ncclSuccess)
            return blame(story, i < 2 ? ", split: " : ", shrink: ");
    }
    if (!play(story, parent, 0, NULL))
        return false;
    for (int i = 0; i < N_CHILDREN; i++)
        if (!play(story, children[i], (uint64_t)i, NULL))
            return false;
    mock_ranks_destroy(children[2]);
    if (!play(story, children[3], 1, NULL))
        return false;
    mock_ranks_destroy(parent); /* before its children */
    mock_ranks_destroy(children[0]);
    if (!play(story, children[1], 2, NULL))
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
        story.machine = machine_of(run);
        parent = nccl != NULL ? open_ranks(&story, nccl) : NULL;
        if (parent == NULL || !play_family(&story, parent))
            return;
        mock_nccl_destroy(nccl);
    }
}

/* ---- regBuff ---- */

static void vary_reg_buff(void *story, int rank, size_t step,
                          struct mock_call *call)
{
    (void)story;
    call->reg_buff = (int)(((size_t)rank + step) & 1);
}

void stp_check_agree_reg_buff(struct stp_contract_run *run)
{
    static const struct story stories[] = {
        {.title = "ranks with different regBuff", .vary = vary_reg_buff},
    };

    TELL_ALL(run, stories);
}

/* ---- clocks ---- */

static void pause_ms(long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

/* From a millisecond to a day.  In as many plays as there are units, each
 * question meets each of them, so that ranks differ in whatever unit a tuner
 * looks at; then come times without a pattern. */
static int64_t clock_of(uint64_t seed, int rank, size_t step)
{
    static const int64_t units[N_UNITS] = {
        HOUR,          SECOND,      60 * SECOND, 24 * HOUR,
        SECOND / 1000, SECOND / 10, 10 * SECOND};

    if (step < STP_N_QUESTIONS)
        return rank * units[(step + seed) % N_UNITS];
    return (int64_t)(stp_rng((uint64_t)rank, step) % (uint64_t)(1000 * HOUR));
}

static void set_clock_at_init(void *story, int rank)
{
    (void)story;
    mock_clock_shift(rank * HOUR);
}

static void set_clock(void *opaque, int rank, size_t step)
{
    const struct story *story = opaque;

    mock_clock_shift(clock_of(story->seed, rank, step));
}

static void dawdle(void *story, int rank, size_t step)
{
    (void)story;
    if (rank == 1 && step % 8 == 0)
        pause_ms(5);
}

void stp_check_agree_clocks(struct stp_contract_run *run)
{
    static const struct story stories[] = {
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

    tell_all(run, stories, sizeof(stories) / sizeof(stories[0]), N_UNITS);
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
    static const struct story stories[] = {
        {.title = "one thread", .before_init = set_variables},
        {.title = "processes",
         .layout = MOCK_PROCESSES,
         .before_init = set_variables,
         .before_step = set_variables_again},
    };

    TELL_ALL(run, stories);
}

/* ---- files ---- */

static void find_other_file(void *opaque, int rank)
{
    const struct story *story = opaque;

    stp_contract_set_policy(rank == story->odd_one ? story->theirs
                                                   : story->ours);
}

/* The file that all find. */
static void write_moving(const struct story *story, bool tree, long now)
{
    const char *path = story->run->world->files[STP_FILE_MOVING];

    stp_write_policy(path, tree, now);
    stp_contract_set_policy(path);
}

static void write_before_init(void *opaque, int rank)
{
    const struct story *story = opaque;

    write_moving(story, rank != story->odd_one, rank);
}

static void write_once(void *opaque, int rank)
{
    if (rank == 0)
        write_moving(opaque, true, 0);
    stp_contract_set_policy(
        ((const struct story *)opaque)->run->world->files[STP_FILE_MOVING]);
}

/* An hour passes between the steps, for a tuner that looks now and then. */
static void write_before_step(void *opaque, int rank, size_t step)
{
    const struct story *story = opaque;

    write_moving(story, rank != story->odd_one, (long)step * 100 + rank);
    mock_clock_shift((int64_t)(step + 1) * HOUR);
}

static bool tell_files(struct stp_contract_run *run, struct story story)
{
    static const enum mock_layout layouts[] = {MOCK_ONE_THREAD, MOCK_PROCESSES};

    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        story.layout = layouts[i];
        if (!tell(run, story, N_SEEDS))
            return false;
    }
    return true;
}

void stp_check_agree_files(struct stp_contract_run *run)
{
    const char *tree = run->world->files[STP_FILE_TREE];
    const char *ring = run->world->files[STP_FILE_RING];
    const char *empty = run->world->files[STP_FILE_EMPTY];
    int last = mock_machine_get_info(machine_of(run))->n_ranks - 1;
    const struct story stories[] = {
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

/* ---- stalls and deaths ---- */

static void stall_at_init(void *story, int rank)
{
    (void)story;
    if (rank != 1)
        return;
    pause_ms(100);
    mock_clock_shift(HOUR);
}

/* One that waits for the others learns that an hour is gone. */
static void stall(void *story, int rank, size_t step)
{
    (void)story;
    if (rank == 1 && (step == 0 || step == N_STEPS / 2)) {
        pause_ms(100);
        mock_clock_shift(HOUR);
    } else if (rank != 1 && step > N_STEPS / 2) {
        mock_clock_shift(HOUR);
    }
}

void stp_check_agree_stall(struct stp_contract_run *run)
{
    static const struct story stories[] = {
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
        if (!tell(run, stories[i], 1))
            return;
}

void stp_check_agree_death(struct stp_contract_run *run)
{
    static const struct mock_death at_once = {.rank = 1, .step = 0};
    static const struct mock_death later = {.rank = 0, .step = N_STEPS / 2};
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
