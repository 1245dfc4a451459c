/*
 * online.c - what a plugin that learns does beside deciding: clocks, files, a
 * thread to think in, and words for the log
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/names.h"
#include "plugin/companion.h"
#include "plugin/online/clock.h"
#include "plugin/online/journal.h"
#include "plugin/online/learned_file.h"
#include "plugin/online/online_settings.h"
#include "plugin/online/profile.h"
#include "plugin/online/reward_file.h"
#include "plugin/online/thread.h"

enum {
    LOOK_MS = 10,     /* between two looks of the thread */
    INLINE_CALLS = 8, /* without a thread: calls between two looks at files */
    MAX_LEARNED = STP_BANDIT_KEYS,
};

struct stp_companion {
    struct stp_companion *next; /* of those that must be saved at exit */
    struct stp_online_settings set;
    struct stp_comm_info info;
    char gpu[STP_GPU_SIZE];
    ncclDebugLogger_t log;
    void *self;                    /* the backend's */
    struct stp_observer *observer; /* NULL: on another rank, or none learns */
    struct stp_profile *profile;   /* NULL: NCCL has loaded no profiler */
    struct stp_thread *thread;
    struct stp_journal *journal;
    struct stp_reward_file *rewards;
    uint64_t n_calls; /* inline */
    uint64_t saved_ns;
    bool told_bad_rewards;
    bool told_skipped;
    bool told_lock; /* saving failed */
    bool told_graph;
    bool told_stopped;
    bool told_blind;
    pid_t pid;
};

/* Those of this process that learn, for the end of a process that does not
 * finalize its communicators. */
static struct {
    pthread_mutex_t lock;
    pid_t pid; /* of the process; its children have nothing to save */
    struct stp_companion *all;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define SAY(c, level, ...)                                                     \
    do {                                                                       \
        if ((c)->log != NULL)                                                  \
            (c)->log(level, NCCL_INIT | NCCL_TUNING, "online.c", __LINE__,     \
                     __VA_ARGS__);                                             \
    } while (0)

/* ---- telling ---- */

/* "allgather of 3670016 to 4194303 bytes: ring/ll128/16" */
static void describe(const struct stp_learned *what, char text[160])
{
    char arm[48] = "NCCL's own choice";
    char channels[8] = "";

    if (what->arm.n_channels != 0)
        snprintf(channels, sizeof(channels), "/%u", what->arm.n_channels);
    if (what->arm.algo >= 0)
        snprintf(arm, sizeof(arm), "%s/%s%s", stp_algo_name(what->arm.algo),
                 stp_proto_name(what->arm.proto), channels);
    snprintf(text, 160, "%s of %" PRIu64 " to %" PRIu64 " bytes: %s",
             stp_coll_name(what->coll), what->bytes.min, what->bytes.max, arm);
}

static void say_event(const struct stp_companion *c,
                      const struct stp_learn_event *e,
                      const struct stp_learned *what)
{
    char text[160];

    describe(what, text);
    switch (e->kind) {
    case STP_LEARN_SETTLED:
        SAY(c, NCCL_LOG_INFO,
            "%s: settled after %" PRIu64 " calls: %s, %.3fx "
            "(%.3f to %.3f)",
            stp_backend.name, what->n_calls, text, e->gain, e->gain_low,
            e->gain_high);
        break;
    case STP_LEARN_CONFIRMED:
    case STP_LEARN_LONGER:
        SAY(c, NCCL_LOG_INFO, "%s: %s: steps are %s, %.4fx (%.4f to %.4f)",
            stp_backend.name, text,
            e->kind == STP_LEARN_CONFIRMED ? "shorter" : "not shorter", e->gain,
            e->gain_low, e->gain_high);
        break;
    case STP_LEARN_NOISY:
        if (e->value > 0.0)
            SAY(c, NCCL_LOG_INFO,
                "%s: %s: too noisy to learn from, it would take %.0f steps "
                "with it and as many without to tell what it saves",
                stp_backend.name, text, e->value);
        else
            SAY(c, NCCL_LOG_INFO,
                "%s: %s: calls do not repeat, so there are no steps to "
                "confirm it by (STEPTUNE_OBJECTIVE=gpu needs none)",
                stp_backend.name, text);
        break;
    case STP_LEARN_PERIOD:
        SAY(c, NCCL_LOG_INFO, "%s: a step has %.0f collectives",
            stp_backend.name, e->value);
        break;
    default:
        break;
    }
}

static void take_event(void *user, const struct stp_learn_event *event)
{
    struct stp_companion *c = user;
    struct stp_learned what;

    stp_backend.learn->explain(c->observer, event, &what);
    say_event(c, event, &what);
    if (c->journal != NULL)
        stp_journal_write(c->journal, stp_now_ns(), event, &what);
}

/* ---- what was learned ---- */

static void save(struct stp_companion *c)
{
    struct stp_learned *rules = calloc(MAX_LEARNED, sizeof(*rules));
    struct stp_learned_rules learned = {rules, 0};
    struct stp_error err;

    c->saved_ns = stp_now_ns();
    if (rules == NULL)
        return;
    while (
        learned.n < MAX_LEARNED &&
        stp_backend.learn->learned(c->observer, learned.n, &rules[learned.n]))
        learned.n++;
    if (learned.n > 0 &&
        stp_learned_save(c->set.learned, &learned, &c->info.shape, &err) !=
            STP_OK &&
        !c->told_lock) {
        SAY(c, NCCL_LOG_WARN, "%s: what was learned is not saved: %s",
            stp_backend.name, err.text);
        c->told_lock = true;
    }
    free(rules);
}

static void save_now_and_then(struct stp_companion *c)
{
    uint64_t every_ns = c->set.save_minutes * UINT64_C(60000000000);

    if (every_ns != 0 && stp_now_ns() - c->saved_ns >= every_ns)
        save(c);
}

/* ---- looking ---- */

static void take_reward(void *user, const struct stp_reward *reward)
{
    struct stp_companion *c = user;

    if (reward->n_nodes == c->info.shape.n_nodes &&
        reward->n_ranks == c->info.shape.n_ranks)
        stp_backend.learn->reward(c->observer, reward);
}

static void read_rewards(struct stp_companion *c)
{
    const struct stp_reward_log *log = stp_reward_file_log(c->rewards);
    struct stp_error err;

    if (stp_reward_file_read(c->rewards, take_reward, c, &err) != STP_OK)
        SAY(c, NCCL_LOG_WARN, "%s: no rewards are read: %s", stp_backend.name,
            err.text);
    if (log->n_bad > 0 && !c->told_bad_rewards) {
        c->told_bad_rewards = true;
        SAY(c, NCCL_LOG_WARN,
            "%s: %s: '%s' is no reward, expected "
            "collType,nBytes,nNodes,nRanks,latency_ms; such lines are counted "
            "and dropped",
            stp_backend.name, c->set.rewards, log->first_bad);
    }
    if (stp_reward_file_skipped(c->rewards) > 0 && !c->told_skipped) {
        c->told_skipped = true;
        SAY(c, NCCL_LOG_INFO,
            "%s: %s: %" PRIu64 " bytes of older rewards are "
            "passed over",
            stp_backend.name, c->set.rewards,
            stp_reward_file_skipped(c->rewards));
    }
}

static void look_at_graphs(struct stp_companion *c)
{
    if (!stp_profile_saw_graph(c->profile) || c->told_graph)
        return;
    c->told_graph = true;
    SAY(c, NCCL_LOG_INFO,
        "%s: collectives are captured into CUDA graphs, for which NCCL asks "
        "once; something else is tried only with the next capture",
        stp_backend.name);
}

static void look_at_files(struct stp_companion *c)
{
    if (c->rewards != NULL)
        read_rewards(c);
    if (c->journal != NULL)
        stp_journal_flush(c->journal);
    save_now_and_then(c);
}

static void look_whether_stopped(struct stp_companion *c)
{
    if (!stp_backend.learn->is_stopped(c->observer) || c->told_stopped)
        return;
    c->told_stopped = true;
    SAY(c, NCCL_LOG_WARN,
        "%s: nothing more is learned: a rank has no part in it (its log says "
        "why), or was thousands of calls behind; what was found stays",
        stp_backend.name);
}

static void look_whether_blind(struct stp_companion *c)
{
    if (!stp_backend.learn->is_blind(c->observer) || c->told_blind)
        return;
    c->told_blind = true;
    SAY(c, NCCL_LOG_WARN,
        "%s: not all ranks have NCCL_PROFILER_PLUGIN set to this plugin, so "
        "there are no times on the GPU: learns from steps",
        stp_backend.name);
}

static void think(struct stp_companion *c)
{
    stp_backend.learn->think(c->observer);
    look_whether_stopped(c);
    look_whether_blind(c);
    if (c->profile == NULL)
        return;
    look_at_graphs(c);
}

static void look(void *user)
{
    struct stp_companion *c = user;

    think(c);
    look_at_files(c);
}

/* ---- on the launch path ---- */

static void think_inline(struct stp_companion *c)
{
    if (++c->n_calls % INLINE_CALLS == 0)
        look_at_files(c);
    think(c);
}

static bool online_choose(struct stp_companion *companion,
                          const struct stp_query *query,
                          const struct stp_cost_view *view,
                          struct stp_choice *choice_ret)
{
    void *self = companion->self;
    bool decided;

    if (companion->observer != NULL)
        stp_backend.learn->set_time(
            self, stp_backend.learn->wants_time(self) ? stp_now_ns() : 0);
    decided = stp_backend.choose(self, query, view, choice_ret);
    if (companion->profile != NULL)
        stp_profile_want(companion->profile,
                         stp_backend.learn->wants_times(self));
    if (companion->set.is_inline && companion->observer != NULL)
        think_inline(companion);
    return decided;
}

/* ---- life ---- */

/* Without the profiler, the steps alone say which arm is better. */
static void choose_objective(struct stp_companion *c)
{
    if (c->profile == NULL &&
        stp_learn_objective_is_gpu(c->set.rules.objective))
        c->set.rules.objective = STP_LEARN_STEP;
}

static enum stp_status
online_prepare(const struct stp_plugin_settings *settings,
               const struct stp_comm_info *info,
               struct stp_companion **companion_ret,
               struct stp_settings *what_ret, struct stp_error *err)
{
    struct stp_companion *c = calloc(1, sizeof(*c));
    enum stp_status status;

    if (c == NULL)
        return stp_nomem(err);
    status = stp_online_settings_read(info->comm_id, &c->set, err);
    if (status != STP_OK) {
        free(c);
        return status;
    }
    c->info = *info;
    if (info->shape.gpu != NULL) {
        snprintf(c->gpu, sizeof(c->gpu), "%s", info->shape.gpu);
        c->info.shape.gpu = c->gpu;
    }
    c->pid = getpid();
    c->saved_ns = stp_now_ns();
    c->profile = stp_profile_take(info->comm_id);
    choose_objective(c);
    what_ret->policy_path = stp_online_base(&c->set, settings);
    what_ret->learner = c->set.is_frozen ? NULL : &c->set.rules;
    *companion_ret = c;
    return STP_OK;
}

static void open_files(struct stp_companion *c)
{
    struct stp_error err;

    if (c->set.journal[0] != '\0' &&
        stp_journal_open(c->set.journal, &c->info, c->set.rules.objective,
                         &c->journal, &err) != STP_OK)
        SAY(c, NCCL_LOG_WARN, "%s: no journal: %s", stp_backend.name, err.text);
    if (c->set.rules.objective == STP_LEARN_FILE &&
        stp_reward_file_open(c->set.rewards, &c->rewards, &err) != STP_OK)
        SAY(c, NCCL_LOG_WARN, "%s: no rewards: %s", stp_backend.name, err.text);
}

static void keep_for_exit(struct stp_companion *c)
{
    pthread_mutex_lock(&process.lock);
    c->next = process.all;
    process.all = c;
    process.pid = c->pid;
    pthread_mutex_unlock(&process.lock);
}

static void forget(struct stp_companion *c)
{
    struct stp_companion **link;

    pthread_mutex_lock(&process.lock);
    for (link = &process.all; *link != NULL; link = &(*link)->next)
        if (*link == c) {
            *link = c->next;
            break;
        }
    pthread_mutex_unlock(&process.lock);
}

static void stop_learning(struct stp_companion *c)
{
    c->observer = NULL;
    if (c->profile != NULL) {
        stp_profile_want(c->profile, false);
        stp_profile_attach(c->profile, NULL, NULL);
    }
}

static void start_learning(struct stp_companion *c)
{
    struct stp_error err;

    if (stp_backend.learn->begin(c->observer, take_event, c, &err) != STP_OK ||
        (!c->set.is_inline &&
         stp_thread_start(look, c, LOOK_MS, &c->thread, &err) != STP_OK)) {
        SAY(c, NCCL_LOG_WARN, "%s: nothing is learned: %s", stp_backend.name,
            err.text);
        stop_learning(c);
        return;
    }
    SAY(c, NCCL_LOG_INFO, "%s: %s by %s%s", stp_backend.name,
        stp_strategy_name(c->set.rules.bandit.strategy),
        stp_learn_objective_name(c->set.rules.objective),
        c->profile != NULL || c->set.rules.objective == STP_LEARN_FILE
            ? ""
            : "; for times on the GPU set NCCL_PROFILER_PLUGIN to this plugin, "
              "too");
}

/* Every rank notes its times. */
static void attach_profile(struct stp_companion *c)
{
    if (c->profile == NULL || stp_backend.learn->times(c->self) == NULL)
        return;
    stp_profile_attach(c->profile, stp_backend.learn->times(c->self),
                       c->observer);
    stp_profile_want(c->profile, true);
}

static void online_begin(struct stp_companion *companion, void *self,
                         ncclDebugLogger_t log)
{
    struct stp_companion *c = companion;

    c->log = log;
    c->self = self;
    c->observer = stp_backend.learn->observer(self);
    attach_profile(c);
    if (c->observer == NULL)
        return;
    open_files(c);
    keep_for_exit(c);
    start_learning(c);
}

static void stop_thread(struct stp_companion *c)
{
    stp_thread_stop(c->thread);
    c->thread = NULL;
}

/* The last look, and what came of it. */
static void finish(struct stp_companion *c)
{
    if (c->observer == NULL || c->pid != getpid())
        return;
    think(c);
    if (c->rewards != NULL)
        read_rewards(c);
    save(c);
    if (c->journal != NULL)
        stp_journal_flush(c->journal);
}

static struct stp_companion *online_end(struct stp_companion *companion)
{
    struct stp_companion *c = companion;

    if (c == NULL)
        return NULL;
    forget(c);
    stop_thread(c);
    finish(c);
    stop_learning(c);
    stp_profile_release(c->profile);
    stp_journal_close(c->journal);
    stp_reward_file_close(c->rewards);
    free(c);
    return NULL;
}

/* At the end of a process, or when NCCL closes the plugin: then there is none
 * left.  NCCL may be gone already, so nothing is logged. */
__attribute__((destructor)) static void save_all(void)
{
    if (process.pid != getpid())
        return; /* none, or a child's copies, perhaps with the lock taken */
    pthread_mutex_lock(&process.lock);
    for (struct stp_companion *c = process.all; c != NULL; c = c->next) {
        stop_thread(c); /* it logs */
        c->log = NULL;
        finish(c);
    }
    pthread_mutex_unlock(&process.lock);
}

const struct stp_companion_ops stp_companion = {
    .prepare = online_prepare,
    .begin = online_begin,
    .choose = online_choose,
    .end = online_end,
};
