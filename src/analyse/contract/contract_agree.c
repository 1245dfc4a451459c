/* contract_agree.c - checks that all ranks decide the same, whatever differs
 * between them and whatever becomes of them
 *
 * NCCL compares nothing between ranks: it hangs or corrupts data if they
 * differ.  So what ranks can see differently is made to differ on purpose. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/contract/contract_suite.h"
#include "core/rng.h"
#include "core/room.h"

enum {
    SCENARIO_GROUPS = 10,
    SCENARIO_SEEDS = 4, /* of checks that do more than change the schedule: one
                            of each kind that mock_ranks_play() has */
    AT_ONCE_SEEDS = 2,  /* which have no schedule, but other calls */
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
    size_t turn; /* scripts that were played before */
    bool more;   /* of the calls that there are */
    struct mock_ranks *ranks;
};

/* ---- one scenario ---- */

/* Fails the check, after the ranks are destroyed as a job would. */
static void scenario_fail(struct play *play, const char *where)
{
    const struct mock_call *call = &play->run->slot->call;
    const bool has_size = strstr(mock_last_error(), " bytes: ") != NULL;
    char text[STP_CALL_TEXT] = "";

    if (call->n_bytes != 0 && !has_size)
        stp_contract_describe(call, text);
    stp_contract_set(play->run->slot, STP_CONTRACT_FAIL, "%s%s%s%s%s",
                     play->scenario.title, where, text,
                     text[0] != '\0' ? ": " : "", mock_last_error());
    if (play->ranks != NULL)
        mock_ranks_destroy(play->ranks);
    stp_contract_end(play->run);
}

static void scenario_note(void *opaque, int rank, const struct mock_call *call)
{
    const struct play *play = opaque;

    stp_contract_begin_call(play->run, call);
}

/* Calls that follow one another, and groups after them: all that there are if
 * 'more', else questions, every other of which is in some way, others in the
 * next script.  A step is of several calls where ranks' threads or processes
 * would wait at each. */
static void scenario_play(struct play *play, struct mock_ranks *ranks,
                          const struct mock_death *death)
{
    const struct stp_scenario *scenario = &play->scenario;
    const size_t n = play->more ? STP_N_MORE : STP_N_LONE;
    const size_t n_all = n + SCENARIO_GROUPS * GROUP;
    const uint64_t seed = play->run->options->seed;
    const bool in_bulk = scenario->layout != MOCK_ONE_THREAD;
    struct mock_call *calls = calloc(n_all, sizeof(*calls));
    struct mock_step *steps = calloc(n + SCENARIO_GROUPS, sizeof(*steps));
    struct mock_script script = {
        .steps = steps,
        .vary = scenario->vary,
        .before_step = scenario->before_step,
        .before_call = scenario->play_at_once ? NULL : scenario_note,
        .user = play,
        .death = death,
        .at_once = scenario->play_at_once};
    char where[48];

    if (calls == NULL || steps == NULL)
        STP_CONTRACT_FAIL_BY(play->run, "out of memory");
    for (size_t i = 0; i < n; i++)
        calls[i] = play->more ? stp_contract_call(seed, i)
                              : stp_contract_question(
                                    seed, i + (i + play->turn) % 2 * STP_N_LONE,
                                    play->turn);
    for (size_t i = n; i < n_all; i++)
        calls[i] =
            stp_contract_call(seed, stp_rng(seed + play->turn, i) % STP_N_LONE);
    play->turn++;
    for (size_t i = 0; i < n; i += steps[script.n_apart++].n) {
        size_t bulk = 1 + stp_rng(play->seed, i) % (play->more ? 200 : 24);

        if (!in_bulk || bulk > n - i)
            bulk = in_bulk ? n - i : 1;
        steps[script.n_apart] = (struct mock_step){&calls[i], bulk};
    }
    script.n_steps = script.n_apart + SCENARIO_GROUPS;
    for (size_t g = 0; g < SCENARIO_GROUPS; g++)
        steps[script.n_apart + g] =
            (struct mock_step){&calls[n + g * GROUP], GROUP};
    stp_contract_at(play->run, ", %s, schedule %u", scenario->title,
                    (unsigned)play->seed);
    snprintf(where, sizeof(where), ", schedule %u: ", (unsigned)play->seed);
    if (mock_ranks_play(ranks, &script, play->seed) != ncclSuccess)
        scenario_fail(play, where);
    stp_contract_at(play->run, "%s", scenario->title);
    free(steps);
    free(calls);
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
    struct mock_nccl *nccl = stp_contract_open(play->run, NULL);

    scenario_open(play, nccl);
    scenario_play(play, play->ranks, death);
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
                         const struct stp_scenario *scenario)
{
    const unsigned n_seeds = scenario->takes_seeds    ? run->options->n_seeds
                             : scenario->play_at_once ? AT_ONCE_SEEDS
                                                      : SCENARIO_SEEDS;
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
    play.scenario.layout =
        scenario->in_processes_too ? MOCK_PROCESSES : scenario->layout;
    play.machine = run->world->shapes[STP_SHAPE_4];
    play.more = true;
    play.seed = 0;
    if (scenario->asks_more)
        scenario_live(&play, NULL);
}

/* Two ranks of each machine that is made up, one after the other: there the
 * ranks of a tuner may differ that agree on others. */
static void scenario_ask_pairs(struct stp_contract_run *run,
                               const struct stp_scenario *scenario)
{
    struct play play = scenario_begin(run, scenario);
    struct mock_nccl *nccl = stp_contract_open(run, NULL);
    struct stp_decisions of[2];
    struct mock_comm *ranks[2];
    char second[96];

    for (int i = 0; i < STP_N_SHAPES; i++) {
        const struct mock_machine *machine = run->world->shapes[i];
        const uint64_t comm_id = mock_new_comm_id();

        for (int r = 0; r < 2; r++) {
            if (scenario->before_init != NULL)
                scenario->before_init(&play, r);
            ranks[r] = stp_contract_comm(run, nccl, machine, comm_id);
        }
        for (int r = 0; r < 2; r++) {
            if (scenario->before_init != NULL)
                scenario->before_init(&play, r);
            run->flips_reg_buff = r > 0 && scenario->vary != NULL;
            stp_contract_ask(run, ranks[r], STP_N_LONE, &of[r]);
        }
        snprintf(second, sizeof(second), "in another of %.60s",
                 mock_machine_get_info(machine)->name);
        stp_contract_same(run, &of[0], "in one rank", &of[1], second);
        stp_contract_destroy(run, ranks[0]);
        stp_contract_destroy(run, ranks[1]);
    }
    stp_contract_unload(run, nccl);
}

/* Two by ncclCommSplit(), two by ncclCommShrink(), which share a commId. */
enum { N_CHILDREN = 4 };

void stp_check_agree_children(struct stp_contract_run *run)
{
    const struct mock_machine *small = run->world->shapes[STP_SHAPE_2];
    const struct stp_scenario layouts[] = {
        {.title = "one thread"},
        {.title = "processes", .layout = MOCK_PROCESSES}};

    for (size_t i = 0; i < STP_N_OF(layouts); i++) {
        struct mock_nccl *nccl = stp_contract_open(run, NULL);
        struct play play = scenario_begin(run, &layouts[i]);
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
        scenario_play(&play, play.ranks, NULL);
        for (int c = 0; c < N_CHILDREN; c++, play.seed++)
            scenario_play(&play, children[c], NULL);
        /* Over all ranks, of which only some have been in other children: a
         * tuner that numbers communicators has seen more of them there. */
        stp_contract_at(run, "init of a child over all ranks");
        if (mock_ranks_split(play.ranks, play.machine, 0, &late) != ncclSuccess)
            scenario_fail(&play, ", split over all ranks: ");
        scenario_play(&play, late, NULL);
        mock_ranks_destroy(late);
        mock_ranks_destroy(children[2]);
        scenario_play(&play, children[3], NULL);
        mock_ranks_destroy(play.ranks); /* before its children */
        play.ranks = NULL;
        mock_ranks_destroy(children[0]);
        scenario_play(&play, children[1], NULL);
        mock_ranks_destroy(children[1]);
        mock_ranks_destroy(children[3]);
        stp_contract_unload(run, nccl);
    }
}

static void agree_vary_reg_buff(void *play, int rank, size_t step,
                                struct mock_call *call)
{
    call->reg_buff = (int)(((size_t)rank + step) & 1);
}

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
    for (size_t i = 0; i < STP_N_OF(names); i++)
        setenv(names[i], value, 1);
}

static void agree_set_variables_again(void *play, int rank, size_t step)
{
    agree_set_variables(play, rank);
}

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

/* ---- all scenarios ---- */

static const struct mock_death at_once = {.rank = 1, .step = 0};
static const struct mock_death later = {.rank = 0, .step = 60};

// clang-format off
static const struct stp_scenario scenarios[] = {
    {"thread-safe init", "all inits at once", MOCK_THREADS,
     .init_at_once = true},
    {"thread-safe calls", "all calls at once", MOCK_THREADS,
     .play_at_once = true},
    {"ranks agree", "one thread", .asks_more = true, .asks_pairs = true,
     .takes_seeds = true},
    {"ranks agree as threads", "threads", .layout = MOCK_THREADS},
    {"ranks agree as threads", "one thread after inits at once",
     .init_at_once = true},
    {"ranks agree as processes", "processes", MOCK_PROCESSES,
     .asks_more = true},
    {"ranks agree as processes", "processes, all at once", MOCK_PROCESSES,
     .init_at_once = true, .play_at_once = true},
    {"ranks agree on regBuff", "ranks with different regBuff",
     .vary = agree_vary_reg_buff, .asks_more = true, .asks_pairs = true},
    {"ranks agree on environment", "one thread",
     .before_init = agree_set_variables, .asks_pairs = true},
    {"ranks agree on environment", "processes", MOCK_PROCESSES,
     .before_init = agree_set_variables,
     .before_step = agree_set_variables_again, .asks_more = true},
    {"ranks agree on files", "the last rank found another policy",
     .asks_more = true, FOUND(STP_LAST_RANK, STP_FILE_RING)},
    {"ranks agree on files", "the first rank found another policy",
     FOUND(STP_FIRST_RANK, STP_FILE_RING)},
    {"ranks agree on files", "a rank found an empty policy",
     FOUND(STP_SECOND_RANK, STP_FILE_EMPTY)},
    {"ranks agree on files", "a rank found no policy",
     FOUND(STP_SECOND_RANK, STP_N_FILES)},
    {"ranks agree on files", "the policy was written between inits",
     .in_processes_too = true, .before_init = agree_write_before_init,
     .odd_rank = STP_LAST_RANK},
    {"ranks agree on files", "the policy was written between calls",
     .in_processes_too = true, .before_init = agree_write_once,
     .before_step = agree_write_before_step, .odd_rank = STP_LAST_RANK},
    {"ranks agree when one dies", "threads, one ends early", MOCK_THREADS,
     .death = &later, .then_another = true},
    {"ranks agree when one dies",
     "processes, one is killed before its first call", MOCK_PROCESSES,
     .death = &at_once, .then_another = true},
    {"ranks agree when one dies", "processes, one is killed", MOCK_PROCESSES,
     .death = &later, .play_at_once = true, .then_another = true},
};
// clang-format on

void stp_check_scenarios(struct stp_contract_run *run)
{
    for (size_t i = 0; i < STP_N_OF(scenarios); i++) {
        const struct stp_scenario *s = &scenarios[i];

        if (strcmp(s->check, run->entry->name) != 0)
            continue;
        if (s->ours != s->theirs)
            stp_contract_needs_file(run);
        if (run->inits_race && s->init_at_once && s->layout != MOCK_PROCESSES)
            stp_contract_set(run->slot, STP_CONTRACT_OK,
                             "without inits at once, which are not safe");
        else
            scenario_run(run, s);
        if (s->asks_pairs)
            scenario_ask_pairs(run, s);
        if (s->takes_seeds)
            stp_contract_set(
                run->slot, STP_CONTRACT_OK, "%d ranks, %u random schedules",
                mock_machine_get_info(scenario_begin(run, s).machine)->n_ranks,
                run->options->n_seeds);
    }
}
