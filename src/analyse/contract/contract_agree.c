/*
 * contract_agree.c - checks that all ranks decide the same, whatever differs
 * between them and whatever becomes of them
 *
 * NCCL compares nothing between ranks: it hangs or corrupts data if they
 * differ.  So what ranks can see differently is made to differ, on purpose
 * rather than by chance: schedule, layout, regBuff, environment, files, and who
 * still lives.
 */
#include <stdio.h>
#include <stdlib.h>

#include "analyse/contract/contract_suite.h"

enum {
    SCENARIO_GROUPS = 10,
    SCENARIO_STEPS = STP_N_QUESTIONS + SCENARIO_GROUPS,
    SCENARIO_SEEDS = 4, /* of checks that do more than change the schedule: one
                            of each kind that mock_ranks_play() has */
    GROUP = 3,          /* collectives of a group */
};

#define HOUR (3600 * (int64_t)1000000000) /* in ns */

/* A scenario under way. */
struct play {
    struct stp_scenario scenario;
    struct stp_contract_run *run;
    const struct mock_machine *machine;
    int odd_rank; /* rank */
    uint64_t seed;
    struct mock_ranks *ranks;
};

/* The calls and steps of all ranks. */
struct script {
    struct mock_call calls[STP_N_QUESTIONS + SCENARIO_GROUPS * GROUP];
    struct mock_step steps[SCENARIO_STEPS];
};

/* ---- one scenario ---- */

/* Fails the check, after the ranks are destroyed as a job would. */
static void scenario_fail(struct play *play, const char *where)
{
    stp_contract_set(play->run->slot, STP_CONTRACT_FAIL, "%s%s%s",
                     play->scenario.title, where, mock_last_error());
    if (play->ranks != NULL)
        mock_ranks_destroy(play->ranks);
    stp_contract_end(play->run);
}

static void scenario_play(struct play *play, struct mock_ranks *ranks,
                          uint64_t seed, const struct mock_death *death)
{
    const struct stp_scenario *scenario = &play->scenario;
    struct script s;
    const struct mock_script script = {.steps = s.steps,
                                       .n_steps = SCENARIO_STEPS,
                                       .vary = scenario->vary,
                                       .before_step = scenario->before_step,
                                       .user = play,
                                       .death = death,
                                       .at_once = scenario->play_at_once};
    char where[48];

    for (size_t i = 0; i < STP_N_QUESTIONS; i++) {
        s.calls[i] = stp_contract_question(i);
        s.steps[i] = (struct mock_step){&s.calls[i], 1};
    }
    for (size_t g = 0; g < SCENARIO_GROUPS; g++) {
        struct mock_call *calls = &s.calls[STP_N_QUESTIONS + g * GROUP];

        for (size_t i = 0; i < GROUP; i++)
            calls[i] = stp_contract_question((g * 7 + i * 5) % STP_N_QUESTIONS);
        s.steps[STP_N_QUESTIONS + g] = (struct mock_step){calls, GROUP};
    }
    stp_contract_at(play->run, "%s, schedule %u", scenario->title,
                    (unsigned)seed);
    snprintf(where, sizeof(where), ", schedule %u: ", (unsigned)seed);
    if (mock_ranks_play(ranks, &script, seed) != ncclSuccess)
        scenario_fail(play, where);
}

static void scenario_open(struct play *play, struct mock_nccl *nccl)
{
    const struct mock_ranks_options options = {
        .layout = play->scenario.layout,
        .comm_id = mock_new_comm_id(),
        .at_once = play->scenario.init_at_once,
        .before_init = play->scenario.before_init,
        .user = play};

    stp_contract_at(play->run, "%s, init", play->scenario.title);
    if (mock_ranks_create(nccl, play->machine, &options, &play->ranks) !=
        ncclSuccess) {
        play->ranks = NULL;
        scenario_fail(play, ": ");
    }
}

static void scenario_live(struct play *play, const struct mock_death *death)
{
    struct mock_nccl *nccl = stp_contract_open(play->run);

    scenario_open(play, nccl);
    scenario_play(play, play->ranks, play->seed, death);
    stp_contract_at(play->run, "%s, finalize", play->scenario.title);
    mock_ranks_destroy(play->ranks);
    play->ranks = NULL;
    stp_contract_unload(play->run, nccl);
}

static struct play scenario_begin(struct stp_contract_run *run,
                                  const struct stp_scenario *scenario)
{
    struct play play = {
        .scenario = *scenario, .run = run, .machine = run->world->machine};
    int n_ranks = mock_machine_get_info(play.machine)->n_ranks;

    if (n_ranks == 1) {
        play.machine = run->world->shapes[STP_SHAPE_4];
        n_ranks = mock_machine_get_info(play.machine)->n_ranks;
    }
    play.odd_rank = scenario->odd_rank == STP_LAST_RANK
                        ? n_ranks - 1
                        : (int)scenario->odd_rank;
    return play;
}

static void scenario_run(struct stp_contract_run *run,
                         const struct stp_scenario *scenario, unsigned n_seeds)
{
    struct play play = scenario_begin(run, scenario);

    for (int layouts = 1 + scenario->in_processes_too; layouts > 0; layouts--) {
        for (unsigned seed = 0; seed < n_seeds; seed++) {
            play.seed = seed;
            scenario_live(&play, scenario->death);
            if (scenario->then_another)
                scenario_live(&play, NULL);
        }
        play.scenario.layout = MOCK_PROCESSES;
    }
}

void stp_check_scenarios(struct stp_contract_run *run)
{
    for (const struct stp_scenario *s = run->entry->scenarios; s->title != NULL;
         s++) {
        if (run->inits_race && s->init_at_once && s->layout != MOCK_PROCESSES)
            stp_contract_set(run->slot, STP_CONTRACT_OK,
                             "without inits at once, which are not safe");
        else
            scenario_run(run, s, SCENARIO_SEEDS);
    }
}

/* ---- layouts ---- */

static const struct stp_scenario one_thread = {.title = "one thread"};

void stp_check_agree(struct stp_contract_run *run)
{
    struct play play = scenario_begin(run, &one_thread);

    scenario_run(run, &one_thread, run->options->n_seeds);
    stp_contract_set(
        run->slot, STP_CONTRACT_OK, "%d ranks, %u random schedules",
        mock_machine_get_info(play.machine)->n_ranks, run->options->n_seeds);
}

const struct stp_scenario stp_scenarios_threads[] = {
    {.title = "threads", .layout = MOCK_THREADS},
    {.title = "threads, all inits at once",
     .layout = MOCK_THREADS,
     .init_at_once = true,
     .play_at_once = true},
    {.title = "one thread after inits at once", .init_at_once = true},
    {0},
};

const struct stp_scenario stp_scenarios_processes[] = {
    {.title = "processes", .layout = MOCK_PROCESSES},
    {.title = "processes, all at once",
     .layout = MOCK_PROCESSES,
     .init_at_once = true,
     .play_at_once = true},
    {0},
};

/* ---- children ---- */

/* Two by ncclCommSplit(), and two by ncclCommShrink(), which have the same
 * commId. */
enum { N_CHILDREN = 4 };

void stp_check_agree_children(struct stp_contract_run *run)
{
    const struct mock_machine *small = run->world->shapes[STP_SHAPE_2];
    const struct stp_scenario scenarios[] = {
        one_thread, {.title = "processes", .layout = MOCK_PROCESSES}};

    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        struct mock_nccl *nccl = stp_contract_open(run);
        struct play play = scenario_begin(run, &scenarios[i]);
        struct mock_ranks *children[N_CHILDREN], *late;

        scenario_open(&play, nccl);
        for (int c = 0; c < N_CHILDREN; c++) {
            const bool is_split = c < 2;

            stp_contract_at(run, "init of a child");
            if ((is_split ? mock_ranks_split(play.ranks, small, c, &children[c])
                          : mock_ranks_shrink(play.ranks, small,
                                              &children[c])) != ncclSuccess)
                scenario_fail(&play, is_split ? ", split: " : ", shrink: ");
        }
        scenario_play(&play, play.ranks, 0, NULL);
        for (int c = 0; c < N_CHILDREN; c++)
            scenario_play(&play, children[c], (uint64_t)c, NULL);
        /* Over all ranks, of which only some have been in other children: a
         * tuner that numbers communicators has seen more of them there. */
        stp_contract_at(run, "init of a child over all ranks");
        if (mock_ranks_split(play.ranks, play.machine, 0, &late) != ncclSuccess)
            scenario_fail(&play, ", split over all ranks: ");
        scenario_play(&play, late, 3, NULL);
        mock_ranks_destroy(late);
        mock_ranks_destroy(children[2]);
        scenario_play(&play, children[3], 1, NULL);
        mock_ranks_destroy(play.ranks); /* before its children */
        play.ranks = NULL;
        mock_ranks_destroy(children[0]);
        scenario_play(&play, children[1], 2, NULL);
        mock_ranks_destroy(children[1]);
        mock_ranks_destroy(children[3]);
        stp_contract_unload(run, nccl);
    }
}

/* ---- deaths ---- */

static const struct mock_death at_once = {.rank = 1, .step = 0};
static const struct mock_death later = {.rank = 0, .step = SCENARIO_STEPS / 2};

const struct stp_scenario stp_scenarios_death[] = {
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
    {0},
};

/* ---- regBuff ---- */

static void agree_vary_reg_buff(void *play, int rank, size_t step,
                                struct mock_call *call)
{
    call->reg_buff = (int)(((size_t)rank + step) & 1);
}

const struct stp_scenario stp_scenarios_reg_buff[] = {
    {.title = "ranks with different regBuff", .vary = agree_vary_reg_buff},
    {0},
};

/* ---- environment ---- */

/* Sets variables by which launchers and schedulers tell a rank its number. */
static void agree_set_variables(void *play, int rank)
{
    // clang-format off
    static const char *const names[] = {
        "RANK", "LOCAL_RANK", "GROUP_RANK", "CUDA_VISIBLE_DEVICES", "HOSTNAME",
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK",
        "PMIX_RANK", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"};
    // clang-format on
    char value[16];

    snprintf(value, sizeof(value), "%d", rank);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        setenv(names[i], value, 1);
}

static void agree_set_variables_again(void *play, int rank, size_t step)
{
    agree_set_variables(play, rank);
}

const struct stp_scenario stp_scenarios_environment[] = {
    {.title = "one thread", .before_init = agree_set_variables},
    {.title = "processes",
     .layout = MOCK_PROCESSES,
     .before_init = agree_set_variables,
     .before_step = agree_set_variables_again},
    {0},
};

/* ---- files ---- */

static const char *agree_get_path(const struct play *play, int file)
{
    return file == STP_N_FILES ? "/nonexistent/policy.conf"
                               : play->run->world->files[file];
}

static void agree_set_file(void *opaque, int rank)
{
    const struct play *play = opaque;

    stp_contract_set_policy(agree_get_path(play, rank == play->odd_rank
                                                     ? play->scenario.theirs
                                                     : play->scenario.ours));
}

/* The file that all find. */
static void agree_write_moving(const struct play *play, bool tree, long now)
{
    const char *path = agree_get_path(play, STP_FILE_MOVING);

    stp_write_policy(path, tree, now);
    stp_contract_set_policy(path);
}

static void agree_write_before_init(void *opaque, int rank)
{
    const struct play *play = opaque;

    agree_write_moving(play, rank != play->odd_rank, rank);
}

static void agree_write_once(void *opaque, int rank)
{
    if (rank == 0)
        agree_write_moving(opaque, true, 0);
    stp_contract_set_policy(agree_get_path(opaque, STP_FILE_MOVING));
}

/* An hour passes between the steps, for a tuner that looks now and then. */
static void agree_write_before_step(void *opaque, int rank, size_t step)
{
    const struct play *play = opaque;

    agree_write_moving(play, rank != play->odd_rank, (long)step * 100 + rank);
    mock_clock_shift((int64_t)(step + 1) * HOUR);
}

#define FOUND(which, file)                                                     \
    .in_processes_too = true, .before_init = agree_set_file,                   \
    .ours = STP_FILE_TREE, .theirs = (file), .odd_rank = (which)

const struct stp_scenario stp_scenarios_files[] = {
    {.title = "the last rank found another policy",
     FOUND(STP_LAST_RANK, STP_FILE_RING)},
    {.title = "the first rank found another policy",
     FOUND(STP_FIRST_RANK, STP_FILE_RING)},
    {.title = "a rank found an empty policy",
     FOUND(STP_SECOND_RANK, STP_FILE_EMPTY)},
    {.title = "a rank found no policy", FOUND(STP_SECOND_RANK, STP_N_FILES)},
    {.title = "the policy was written between inits",
     .in_processes_too = true,
     .before_init = agree_write_before_init,
     .odd_rank = STP_LAST_RANK},
    {.title = "the policy was written between calls",
     .in_processes_too = true,
     .before_init = agree_write_once,
     .before_step = agree_write_before_step,
     .odd_rank = STP_LAST_RANK},
    {0},
};

void stp_check_agree_files(struct stp_contract_run *run)
{
    stp_contract_needs_file(run);
    stp_check_scenarios(run);
}
