#include "analyse/simulate/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/simulate/simulate_story.h"

/* ---- keys ---- */

/* A collective and a size. */
struct key {
    ncclFunc_t coll;
    size_t n_bytes;
    double own_us;        /* mean time of NCCL's own choice */
    struct mock_run best; /* arm */
    double best_us;
};

struct keys {
    struct key key[STP_LEARN_KEYS];
    size_t n;
};

struct play {
    const struct keys *keys;
    size_t n_steps;
    bool is_oracle;
    double *step_us;                              /* n_steps */
    struct stp_learn_story story[STP_LEARN_KEYS]; /* of a key each */
    size_t n_times, n_modelled;
};

/* What is summed up over seeds. */
struct sum {
    double *settled; /* of each seed and key */
    double *searched;
    double *trials;
    size_t n_settled;
    double *auto_final; /* mean step at the end, of each seed */
    double *final;
    double auto_us, us;
    double auto_first_us, first_us;
};

struct study {
    const struct stp_learn_job *job;
    struct mock_machine *machine;
    struct keys keys;
    struct play baseline; /* AUTO's of the same seed */
    struct play play;
    struct sum *sums;       /* of each learner */
    double *of_key;         /* of each seed */
    enum stp_status status; /* of the first failure */
    struct stp_error *err;
};

static void study_fail(struct study *s)
{
    STP_THEN(s->status,
             stp_fail(s->err, STP_ERR_DEVICE, "%s", mock_last_error()));
}

/* The mean time of an arm; 0 after failing. */
static struct mock_time study_get_time(struct study *s,
                                       const struct mock_run *run)
{
    struct mock_time time = {0};

    if (mock_machine_mean_time(s->machine, run, &time) != ncclSuccess)
        study_fail(s);
    return time;
}

/* ---- keys ---- */

static size_t keys_find(const struct keys *keys, const struct mock_call *call)
{
    size_t k = 0;

    while (k < keys->n && (keys->key[k].coll != call->coll ||
                           keys->key[k].n_bytes != call->n_bytes))
        k++;
    return k;
}

/* Keeps 'run' if it is faster than what the key has. */
static void keys_try_arm(struct study *s, const struct mock_run *run,
                         struct key *key)
{
    struct mock_time time = study_get_time(s, run);

    if (time.source == MOCK_TIME_MODELLED &&
        mock_machine_has_timings(s->machine))
        return; /* not to be compared with what was recorded */
    if (key->best_us == 0 || time.us < key->best_us) {
        key->best = *run;
        key->best_us = time.us;
    }
}

/* All that NCCL allows, and below NCCL's own channels all powers of two; NCCL's
 * own choice where nothing of this size was recorded. */
static void keys_find_best(struct study *s, const struct mock_outcome *own,
                           struct key *key)
{
    static const int channels[] = {0, 32, 16, 8, 4, 2, 1};
    size_t n = s->job->own_channels ? 1 : sizeof(channels) / sizeof(*channels);

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            for (size_t c = 0; c < n && own->cost[a][p] >= 0; c++)
                keys_try_arm(s,
                             &(struct mock_run){key->coll, key->n_bytes, a, p,
                                                channels[c]},
                             key);
    if (key->best_us == 0) {
        key->best = (struct mock_run){key->coll, key->n_bytes, own->algo,
                                      own->proto, 0};
        key->best_us = key->own_us;
    }
}

static void keys_add(struct study *s, struct mock_comm *comm,
                     const struct mock_call *call)
{
    struct keys *keys = &s->keys;
    struct key *key = &keys->key[keys->n];
    struct mock_outcome own;

    if (keys_find(keys, call) < keys->n)
        return;
    if (keys->n == STP_LEARN_KEYS) {
        s->status = stp_fail(s->err, STP_ERR_LIMIT,
                             "more than %d kinds of collectives in a job",
                             STP_LEARN_KEYS);
        return;
    }
    if (mock_comm_collective(comm, call, &own) != ncclSuccess) {
        study_fail(s);
        return;
    }
    *key = (struct key){.coll = call->coll, .n_bytes = call->n_bytes};
    keys->n++;
    key->own_us = study_get_time(s, &(struct mock_run){key->coll, key->n_bytes,
                                                       own.algo, own.proto, 0})
                      .us;
    keys_find_best(s, &own, key);
}

static void keys_find_all(struct study *s, struct mock_nccl *nccl)
{
    struct mock_comm *comm;

    if (mock_comm_create(nccl, s->machine, 1, &comm) != ncclSuccess) {
        study_fail(s);
        return;
    }
    for (size_t i = 0; i < s->job->step.n && s->status == STP_OK; i++)
        keys_add(s, comm, &s->job->step.calls[i].call);
    mock_comm_destroy(comm);
}

/* ---- one play ---- */

static void play_note_step(void *user, const struct mock_job_step *step)
{
    struct play *play = user;

    play->step_us[step->step] = step->us;
    for (size_t i = 0; i < step->n; i++) {
        const struct mock_job_run *run = &step->runs[i];
        struct stp_learn_story *story;

        play->n_times++;
        play->n_modelled += run->source == MOCK_TIME_MODELLED;
        story = &play->story[keys_find(play->keys, run->call)];
        stp_learn_story_call(story, &run->run,
                             step->step >= play->n_steps - play->n_steps / 5);
    }
}

static void play_take_best(void *user, const struct mock_call *call,
                           struct mock_run *run)
{
    const struct play *play = user;

    if (play->is_oracle)
        *run = play->keys->key[keys_find(play->keys, call)].best;
}

static void play_run_job(struct study *s, struct mock_nccl *nccl, uint64_t seed,
                         const char *reward_file, struct play *play)
{
    const struct stp_learn_job *job = s->job;
    const struct mock_job_options options = {
        .comm_id = mock_new_comm_id(),
        .seed = seed,
        .step = job->step,
        .host = job->host,
        .captured = job->captured,
        .overlapped = job->overlapped,
        .compute_noise = job->compute_noise,
        .stalls = job->stalls,
        .stall_us = STP_LEARN_STALL_US,
        .jitter_us = job->jitter_us,
        .gpu_clocks = mock_job_h200_clocks,
        .reward_file = reward_file,
        .replace = play_take_best,
        .done = play_note_step,
        .user = play,
    };
    struct mock_job *played;

    if (mock_job_create(nccl, s->machine, &options, &played) != ncclSuccess) {
        study_fail(s);
        return;
    }
    if (mock_job_play(played, job->n_steps) != ncclSuccess)
        study_fail(s);
    mock_job_destroy(played);
}

/* NCCL goes on without a plugin that does not load, which would then look as if
 * it had learned nothing. */
static void play_check_plugin(struct study *s, struct mock_nccl *nccl,
                              const char *plugin)
{
    char name[64];

    if (plugin != NULL && mock_nccl_find_tuner(nccl, name, sizeof(name)) == 0)
        s->status =
            stp_fail(s->err, STP_ERR_DEVICE,
                     "'%.120s' has no tuner that this NCCL would take", plugin);
}

static void study_play(struct study *s, const struct stp_learner *learner,
                       uint64_t seed, struct play *play)
{
    const struct mock_nccl_options options = {.version = s->job->nccl,
                                              .tuner_plugin = learner->plugin,
                                              .profiler_plugin =
                                                  learner->plugin};
    const char *reward_file = NULL;
    struct mock_nccl *nccl;

    memset(play->story, 0, sizeof(play->story));
    play->n_times = play->n_modelled = 0;
    play->n_steps = s->job->n_steps;
    play->is_oracle = learner->kind == STP_LEARNER_ORACLE;
    if (learner->prepare != NULL)
        s->status = learner->prepare(learner->user, seed, &reward_file, s->err);
    if (s->status != STP_OK)
        return;
    if (mock_nccl_create(&options, &nccl) != ncclSuccess) {
        study_fail(s);
        return;
    }
    play_check_plugin(s, nccl, learner->plugin);
    if (s->status == STP_OK)
        play_run_job(s, nccl, seed, reward_file, play);
    mock_nccl_destroy(nccl);
}

/* ==== all plays ==== */

/* ---- one seed of one learner ---- */

static double simulate_sum(const double *values, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return sum;
}

/* The pairs are steps with the same noise. */
static bool study_ended_worse(const struct study *s, size_t n_last)
{
    size_t first = s->job->n_steps - n_last;
    struct stp_gain gain = stp_paired_gain(&s->baseline.step_us[first],
                                           &s->play.step_us[first], n_last);

    return gain.high < 1 && gain.gain < 0.995;
}

static void study_count_finals(struct study *s, struct stp_learned *learned)
{
    for (size_t k = 0; k < s->keys.n; k++) {
        double us = study_get_time(s, &s->play.story[k].final).us;

        learned->n_finals++;
        learned->keys[k].n_best += us <= 1.01 * s->keys.key[k].best_us;
    }
}

static void study_take_story(const struct stp_learn_story *story,
                             struct sum *sum)
{
    sum->settled[sum->n_settled] = (double)stp_learn_story_settled(story);
    sum->trials[sum->n_settled] = (double)story->n_trials;
    sum->searched[sum->n_settled++] =
        (double)(stp_learn_story_settled(story) - story->searched_from);
}

static void study_take_seed(struct study *s, unsigned seed, struct sum *sum,
                            struct stp_learned *learned)
{
    size_t n = s->job->n_steps;
    size_t n_first = n < STP_LEARN_FIRST ? n : STP_LEARN_FIRST;
    size_t n_last = n / 5;

    for (size_t k = 0; k < s->keys.n; k++) {
        study_take_story(&s->play.story[k], sum);
        learned->n_trying += stp_learn_story_is_trying(&s->play.story[k]);
    }
    sum->auto_us += simulate_sum(s->baseline.step_us, n);
    sum->us += simulate_sum(s->play.step_us, n);
    sum->auto_first_us += simulate_sum(s->baseline.step_us, n_first);
    sum->first_us += simulate_sum(s->play.step_us, n_first);
    sum->auto_final[seed] =
        simulate_sum(&s->baseline.step_us[n - n_last], n_last) / (double)n_last;
    sum->final[seed] =
        simulate_sum(&s->play.step_us[n - n_last], n_last) / (double)n_last;
    learned->n_worse += study_ended_worse(s, n_last);
    learned->n_times += s->play.n_times;
    learned->n_modelled += s->play.n_modelled;
    study_count_finals(s, learned);
}

/* ---- all of them ---- */

static void study_tell(struct study *s, size_t done, size_t total)
{
    if (s->status == STP_OK && s->job->progress != NULL &&
        !s->job->progress(s->job->user, done, total))
        s->status = stp_fail(s->err, STP_ERR_STOPPED, "stopped");
}

static void study_play_seed(struct study *s, unsigned i,
                            const struct stp_learner *learners, size_t n,
                            struct stp_learned *learned)
{
    const struct stp_learner nccl = {.kind = STP_LEARNER_AUTO};
    uint64_t seed = s->job->seed + i;

    study_play(s, &nccl, seed, &s->baseline);
    for (size_t l = 0; l < n && s->status == STP_OK; l++) {
        study_play(s, &learners[l], seed, &s->play);
        if (s->status == STP_OK)
            study_take_seed(s, i, &s->sums[l], &learned[l]);
        study_tell(s, i * n + l + 1, n * s->job->n_seeds);
    }
}

static int simulate_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts what it is given. */
static void simulate_find_quantiles(double *values, size_t n,
                                    double *median_ret, double *p95_ret)
{
    qsort(values, n, sizeof(*values), simulate_compare);
    *median_ret = (values[(n - 1) / 2] + values[n / 2]) / 2;
    *p95_ret = values[(size_t)ceil(0.95 * (double)n) - 1];
}

/* Before what is summed up of all keys is sorted. */
static void study_conclude_key(const struct study *s, const struct sum *sum,
                               size_t k, struct stp_learned_key *learned)
{
    const struct key *key = &s->keys.key[k];
    double p95;

    learned->coll = key->coll;
    learned->n_bytes = key->n_bytes;
    learned->best = key->best;
    learned->gain = key->own_us / key->best_us;
    for (unsigned i = 0; i < s->job->n_seeds; i++)
        s->of_key[i] = sum->searched[i * s->keys.n + k];
    simulate_find_quantiles(s->of_key, s->job->n_seeds,
                            &learned->searched_median, &p95);
}

static void study_conclude(const struct study *s, struct sum *sum,
                           struct stp_learned *learned)
{
    double p95;

    learned->n_keys = s->keys.n;
    for (size_t k = 0; k < s->keys.n; k++) {
        study_conclude_key(s, sum, k, &learned->keys[k]);
        learned->n_best += learned->keys[k].n_best;
    }
    simulate_find_quantiles(sum->settled, sum->n_settled,
                            &learned->settled_median, &learned->settled_p95);
    simulate_find_quantiles(sum->searched, sum->n_settled,
                            &learned->searched_median, &learned->searched_p95);
    simulate_find_quantiles(sum->trials, sum->n_settled,
                            &learned->trials_median, &p95);
    learned->lost = sum->us / sum->auto_us - 1;
    learned->lost_first = sum->first_us / sum->auto_first_us - 1;
    learned->final =
        stp_paired_gain(sum->auto_final, sum->final, s->job->n_seeds);
}

static bool study_allocate(struct study *s, size_t n)
{
    size_t n_seeds = s->job->n_seeds;

    s->baseline.keys = s->play.keys = &s->keys;
    s->baseline.step_us = calloc(s->job->n_steps, sizeof(double));
    s->play.step_us = calloc(s->job->n_steps, sizeof(double));
    s->sums = calloc(n + 1, sizeof(*s->sums));
    s->of_key = calloc(n_seeds, sizeof(double));
    if (s->baseline.step_us == NULL || s->play.step_us == NULL ||
        s->sums == NULL || s->of_key == NULL)
        return false;
    for (size_t l = 0; l < n; l++) {
        struct sum *sum = &s->sums[l];

        sum->settled = calloc(n_seeds * s->keys.n, sizeof(double));
        sum->searched = calloc(n_seeds * s->keys.n, sizeof(double));
        sum->trials = calloc(n_seeds * s->keys.n, sizeof(double));
        sum->auto_final = calloc(n_seeds, sizeof(double));
        sum->final = calloc(n_seeds, sizeof(double));
        if (sum->settled == NULL || sum->searched == NULL ||
            sum->trials == NULL || sum->auto_final == NULL ||
            sum->final == NULL)
            return false;
    }
    return true;
}

static void study_free(struct study *s, size_t n)
{
    for (size_t l = 0; s->sums != NULL && l < n; l++) {
        free(s->sums[l].settled);
        free(s->sums[l].searched);
        free(s->sums[l].trials);
        free(s->sums[l].auto_final);
        free(s->sums[l].final);
    }
    free(s->sums);
    free(s->of_key);
    free(s->baseline.step_us);
    free(s->play.step_us);
    mock_machine_free(s->machine);
}

static void study_open(struct study *s)
{
    const struct mock_nccl_options options = {.version = s->job->nccl};
    struct mock_nccl *nccl;

    if (mock_machine_load(s->job->machine_path, &s->machine) != ncclSuccess ||
        mock_nccl_create(&options, &nccl) != ncclSuccess) {
        study_fail(s);
        return;
    }
    keys_find_all(s, nccl);
    mock_nccl_destroy(nccl);
}

enum stp_status stp_learn(const struct stp_learn_job *job,
                          const struct stp_learner *learners, size_t n,
                          struct stp_learned *learned, struct stp_error *err)
{
    struct study s = {.job = job, .err = err};

    study_open(&s);
    memset(learned, 0, n * sizeof(*learned));
    if (s.status == STP_OK && !study_allocate(&s, n))
        s.status = stp_nomem(err);
    for (unsigned i = 0; i < job->n_seeds && s.status == STP_OK; i++)
        study_play_seed(&s, i, learners, n, learned);
    for (size_t l = 0; l < n && s.status == STP_OK; l++)
        study_conclude(&s, &s.sums[l], &learned[l]);
    study_free(&s, n);
    return s.status;
}
