/* learn_play.c - the arms of a call, and one play of a job */
#include <string.h>

#include "analyse/simulate/learn_parts.h"

static enum stp_status failed(struct stp_error *err)
{
    return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
}

/* ---- keys ---- */

size_t stp_learn_key_of(const struct stp_learn_keys *keys,
                        const struct mock_call *call)
{
    size_t k = 0;

    while (k < keys->n && (keys->key[k].coll != call->coll ||
                           keys->key[k].n_bytes != call->n_bytes))
        k++;
    return k;
}

/* Keeps 'run' if it is faster than what the key has. */
static enum stp_status try_arm(const struct mock_machine *machine,
                               const struct mock_run *run,
                               struct stp_learn_key *key, struct stp_error *err)
{
    struct mock_time time;

    if (mock_machine_mean_time(machine, run, &time) != ncclSuccess)
        return failed(err);
    if (time.source == MOCK_TIME_MODELLED && mock_machine_has_timings(machine))
        return STP_OK; /* not to be compared with what was recorded */
    if (key->best_us == 0 || time.us < key->best_us) {
        key->best = *run;
        key->best_us = time.us;
    }
    return STP_OK;
}

/* All that NCCL allows, and below NCCL's own channels all powers of two. */
static enum stp_status find_best(const struct stp_learn_job *job,
                                 const struct mock_machine *machine,
                                 const struct mock_outcome *own,
                                 struct stp_learn_key *key,
                                 struct stp_error *err)
{
    static const int channels[] = {0, 32, 16, 8, 4, 2, 1};
    size_t n = job->own_channels ? 1 : sizeof(channels) / sizeof(channels[0]);
    enum stp_status status = STP_OK;

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            for (size_t c = 0; c < n && status == STP_OK; c++) {
                const struct mock_run run = {key->coll, key->n_bytes, a, p,
                                             channels[c]};

                if (own->cost[a][p] >= 0)
                    status = try_arm(machine, &run, key, err);
            }
    return status;
}

static enum stp_status find_own(const struct mock_machine *machine,
                                const struct mock_outcome *own,
                                struct stp_learn_key *key,
                                struct stp_error *err)
{
    const struct mock_run run = {key->coll, key->n_bytes, own->algo, own->proto,
                                 0};
    struct mock_time time;

    if (mock_machine_mean_time(machine, &run, &time) != ncclSuccess)
        return failed(err);
    key->own_us = time.us;
    return STP_OK;
}

static enum stp_status
add_key(const struct stp_learn_job *job, struct mock_comm *comm,
        const struct mock_machine *machine, const struct mock_call *call,
        struct stp_learn_keys *keys, struct stp_error *err)
{
    struct mock_outcome own;
    struct stp_learn_key *key = &keys->key[keys->n];
    enum stp_status status;

    if (stp_learn_key_of(keys, call) < keys->n)
        return STP_OK;
    if (keys->n == STP_LEARN_KEYS)
        return stp_fail(err, STP_ERR_LIMIT,
                        "more than %d kinds of collectives in a job",
                        STP_LEARN_KEYS);
    if (mock_comm_collective(comm, call, &own) != ncclSuccess)
        return failed(err);
    *key = (struct stp_learn_key){.coll = call->coll, .n_bytes = call->n_bytes};
    keys->n++;
    status = find_own(machine, &own, key, err);
    return status == STP_OK ? find_best(job, machine, &own, key, err) : status;
}

enum stp_status stp_learn_find_keys(const struct stp_learn_job *job,
                                    struct mock_nccl *nccl,
                                    const struct mock_machine *machine,
                                    struct stp_learn_keys *keys,
                                    struct stp_error *err)
{
    struct mock_comm *comm;
    enum stp_status status = STP_OK;

    keys->n = 0;
    if (mock_comm_create(nccl, machine, 1, &comm) != ncclSuccess)
        return failed(err);
    for (size_t i = 0; i < job->step.n && status == STP_OK; i++)
        status =
            add_key(job, comm, machine, &job->step.calls[i].call, keys, err);
    mock_comm_destroy(comm);
    return status;
}

/* ---- one play ---- */

static void note_step(void *user, const struct mock_job_step *step)
{
    struct stp_learn_play *play = user;

    play->step_us[step->step] = step->us;
    for (size_t i = 0; i < step->n; i++) {
        const struct mock_job_run *run = &step->runs[i];
        struct stp_learn_story *story;

        play->modelled |= run->source == MOCK_TIME_MODELLED;
        story = &play->story[stp_learn_key_of(play->keys, run->call)];
        stp_learn_story_call(story, &run->run, story->n_calls < STP_LEARN_FIRST,
                             step->step >= play->n_steps - play->n_steps / 5);
    }
}

static void take_best(void *user, const struct mock_call *call,
                      struct mock_run *run)
{
    const struct stp_learn_play *play = user;

    if (play->is_oracle)
        *run = play->keys->key[stp_learn_key_of(play->keys, call)].best;
}

static enum stp_status run_job(const struct stp_learn_job *job,
                               struct mock_nccl *nccl,
                               const struct mock_machine *machine,
                               uint64_t seed, const char *reward_file,
                               struct stp_learn_play *play,
                               struct stp_error *err)
{
    const struct mock_job_options options = {
        .comm_id = mock_new_comm_id(),
        .seed = seed,
        .step = job->step,
        .overlapped = job->overlapped,
        .compute_noise = job->compute_noise,
        .jitter_us = job->jitter_us,
        .gpu_clocks = mock_job_h200_clocks,
        .reward_file = reward_file,
        .replace = take_best,
        .done = note_step,
        .user = play,
    };
    struct mock_job *played;
    enum stp_status status = STP_OK;

    if (mock_job_create(nccl, machine, &options, &played) != ncclSuccess)
        return failed(err);
    if (mock_job_play(played, job->n_steps) != ncclSuccess)
        status = failed(err);
    mock_job_destroy(played);
    return status;
}

/* NCCL goes on without a plugin that does not load, which would then look as if
 * it had learned nothing. */
static enum stp_status check_plugin(struct mock_nccl *nccl, const char *plugin,
                                    struct stp_error *err)
{
    char name[64];

    if (plugin == NULL || mock_nccl_find_tuner(nccl, name, sizeof(name)) != 0)
        return STP_OK;
    return stp_fail(err, STP_ERR_DEVICE,
                    "'%.120s' has no tuner that this NCCL would take", plugin);
}

enum stp_status stp_learn_play(const struct stp_learn_job *job,
                               const struct mock_machine *machine,
                               const struct stp_learner *learner, uint64_t seed,
                               struct stp_learn_play *play,
                               struct stp_error *err)
{
    const struct mock_nccl_options options = {.version = job->nccl,
                                              .tuner_plugin = learner->plugin,
                                              .profiler_plugin =
                                                  learner->plugin};
    const char *reward_file = NULL;
    struct mock_nccl *nccl;
    enum stp_status status = STP_OK;

    memset(play->story, 0, sizeof(play->story));
    play->n_steps = job->n_steps;
    play->is_oracle = learner->kind == STP_LEARNER_ORACLE;
    if (learner->prepare != NULL)
        status = learner->prepare(learner->user, seed, &reward_file, err);
    if (status != STP_OK)
        return status;
    if (mock_nccl_create(&options, &nccl) != ncclSuccess)
        return failed(err);
    status = check_plugin(nccl, learner->plugin, err);
    if (status == STP_OK)
        status = run_job(job, nccl, machine, seed, reward_file, play, err);
    mock_nccl_destroy(nccl);
    return status;
}
