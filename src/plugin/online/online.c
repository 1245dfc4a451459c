/* online.c - the backend that learns while a job runs: settings, files, a
 * thread for the observer, and log messages */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/names.h"
#include "core/rng.h"
#include "plugin/backend.h"
#include "plugin/entry.h"
#include "plugin/file.h"
#include "plugin/log.h"
#include "plugin/online/clock.h"
#include "plugin/online/follower.h"
#include "plugin/online/journal.h"
#include "plugin/online/learned_file.h"
#include "plugin/online/online_settings.h"
#include "plugin/online/profile.h"
#include "plugin/online/reward_file.h"
#include "plugin/online/service.h"
#include "plugin/shared_policy.h"

/* By these a user rules entries of NCCL's cost table out. */
static const char *const rules_out[] = {
    "NCCL_ALGO",        "NCCL_PROTO",          "NCCL_LL128_C2C",
    "NCCL_NVLS_ENABLE", "NCCL_COLLNET_ENABLE", "NCCL_PAT_ENABLE"};

enum {
    THOROUGH_PASSES = 2, /* of a schedule */
    SAVE_MINUTES = 5,    /* from one save to the next, at most */
    INLINE_CALLS = 8, /* without a thread: calls between two passes on files */
};

static const uint64_t minute_ns = UINT64_C(60000000000);

/* Log messages that appear once a communicator. */
enum message {
    BAD_REWARDS,
    SKIPPED_REWARDS,
    NOT_SAVED,
    JOURNAL_ENDED,
    GRAPHS,
    STOPPED,
    N_MESSAGES
};

struct stp_backend {
    struct stp_task task; /* its passes, and that it is saved at exit */
    struct stp_online_settings set;
    struct stp_comm_info info;
    char gpu[STP_GPU_SIZE];
    ncclDebugLogger_t log;
    struct stp_follower *follower;
    struct stp_observer *observer; /* the follower's; NULL: does not learn */
    struct stp_profile *profile;   /* NULL: NCCL has loaded no profiler */
    struct stp_journal *journal;
    struct stp_reward_file *rewards;
    struct stp_evidence_list evidence; /* of earlier runs */
    uint64_t n_calls;                  /* inline */
    uint64_t saved_ns;
    bool has_news; /* a set was confirmed or dropped since then */
    bool is_logged[N_MESSAGES];
};

#define LOG(b, level, ...)                                                     \
    stp_log((b)->log, level, "online.c", __LINE__,                             \
            STP_TUNER_NAME ": " __VA_ARGS__)

static bool online_logs_first(struct stp_backend *b, enum message message)
{
    bool is_first = !b->is_logged[message];

    b->is_logged[message] = true;
    return is_first;
}

/* ---- events ---- */

static void online_log_event(const struct stp_backend *b,
                             const struct stp_learn_event *e,
                             const struct stp_learned *learned)
{
    /* what a set is compared with */
    const char *base =
        b->follower->policy != NULL ? "the policy alone" : STP_BASE_CHOICE;
    char text[160], arm[48] = STP_BASE_CHOICE, channels[8] = "";

    /* "allgather of 3670016 to 4194303 bytes: ring/ll128/16" */
    if (learned->arm.n_channels != 0)
        snprintf(channels, sizeof(channels), "/%u", learned->arm.n_channels);
    if (learned->arm.algo >= 0)
        snprintf(arm, sizeof(arm), "%s/%s%s", stp_algo_name(learned->arm.algo),
                 stp_proto_name(learned->arm.proto), channels);
    snprintf(text, sizeof(text), "%s of %" PRIu64 " to %" PRIu64 " bytes: %s",
             stp_coll_name(learned->coll), learned->bytes.min,
             learned->bytes.max, arm);
    switch (e->kind) {
    case STP_LEARN_SETTLED:
        LOG(b, NCCL_LOG_INFO,
            "settled after %" PRIu64
            " calls in trials: %s, steps are %.3fx as fast (%.3f to %.3f)",
            learned->n_calls, text, e->gain, e->gain_low, e->gain_high);
        break;
    case STP_LEARN_ALONE:
        LOG(b, NCCL_LOG_INFO,
            "nothing is tried: %.0f calls repeat no sequence of up to %d, so "
            "there is no equal work to compare",
            e->value, STP_SEQUENCE_MAX);
        break;
    case STP_LEARN_CONFIRMED:
        LOG(b, NCCL_LOG_INFO,
            "confirmed in %.0f blocks of windows: with all that was learned "
            "steps are %.3fx as fast as with %s (%.3f to %.3f)",
            e->value, e->gain, base, e->gain_low, e->gain_high);
        break;
    case STP_LEARN_DROPPED:
        LOG(b, NCCL_LOG_INFO,
            "with all that was learned steps are %.3fx as fast as with %s "
            "(%.3f to %.3f), in %.0f blocks of windows: what was learned last "
            "is dropped",
            e->gain, base, e->gain_low, e->gain_high, e->value);
        break;
    case STP_LEARN_PLAN:
        LOG(b, NCCL_LOG_INFO,
            "the schedule lasts %.1f s at the pace measured; the arms that it "
            "tries are expected to cost %.2g percent of that (modelled, by "
            "NCCL's cost table); what is found in this run is used from the "
            "next on",
            e->value / 1e6, 100 * (1 - e->gain));
        break;
    case STP_LEARN_WINDOW:
        LOG(b, NCCL_LOG_INFO, "compares windows of %.0f collectives", e->value);
        break;
    default:
        break;
    }
}

static void online_take_event(void *user, const struct stp_learn_event *event)
{
    struct stp_backend *b = user;
    struct stp_learned learned;

    b->has_news |=
        event->kind == STP_LEARN_CONFIRMED ||
        event->kind == STP_LEARN_DROPPED ||
        (event->kind == STP_LEARN_SETTLED && b->follower->schedule != NULL);
    stp_observer_explain(b->observer, event, &learned);
    online_log_event(b, event, &learned);
    if (b->journal != NULL)
        stp_journal_write(b->journal, stp_now_ns(), event, &learned);
}

/* ---- results ---- */

static void online_save(struct stp_backend *b)
{
    struct stp_learned *rules = calloc(STP_BANDIT_KEYS, sizeof(*rules));
    struct stp_learned_rules learned = {rules, 0, b->follower->same_bits};
    const struct stp_shared_policy *policy = b->follower->policy;
    /* A message that settled with what runs anyway loses the rule that the file
     * has for it, unless that is what runs. */
    const bool is_base =
        policy != NULL &&
        strcmp(stp_shared_policy_path(policy), b->set.learned) == 0;
    struct stp_error err;
    enum stp_status status = rules != NULL ? STP_OK : stp_nomem(&err);

    b->saved_ns = stp_now_ns();
    b->has_news = false;
    for (size_t i = 0; rules != NULL && learned.n < STP_BANDIT_KEYS &&
                       stp_observer_learned(b->observer, i, &rules[learned.n]);
         i++)
        learned.n += rules[learned.n].arm.algo >= 0 || !is_base;
    if (learned.n > 0)
        status =
            stp_learned_save(b->set.learned, &learned, &b->info.shape, &err);
    if (b->set.metrics[0] != '\0')
        STP_THEN(status,
                 stp_learned_save_metrics(
                     b->set.metrics, &learned, &b->info.shape,
                     stp_observer_why_stopped(b->observer) != NULL, &err));
    if (status != STP_OK && online_logs_first(b, NOT_SAVED))
        LOG(b, NCCL_LOG_WARN, "what was learned is not saved: %s", err.text);
    free(rules);
}

/* ---- in the thread ---- */

static void online_take_reward(void *user, const struct stp_reward *reward)
{
    struct stp_backend *b = user;

    if (reward->n_nodes == b->info.shape.n_nodes &&
        reward->n_ranks == b->info.shape.n_ranks)
        stp_observer_reward(b->observer, reward);
}

static void online_read_rewards(struct stp_backend *b)
{
    const struct stp_reward_log *log = stp_reward_file_log(b->rewards);
    struct stp_error err;

    if (stp_reward_file_read(b->rewards, online_take_reward, b, &err) != STP_OK)
        LOG(b, NCCL_LOG_WARN, "no rewards are read: %s", err.text);
    if (log->n_bad > 0 && online_logs_first(b, BAD_REWARDS))
        LOG(b, NCCL_LOG_WARN,
            "%s: '%s' is no reward, expected "
            "collType,nBytes,nNodes,nRanks,latency_ms; such lines are counted "
            "and dropped",
            b->set.rewards, log->first_bad);
    if (stp_reward_file_skipped(b->rewards) > 0 &&
        online_logs_first(b, SKIPPED_REWARDS))
        LOG(b, NCCL_LOG_INFO,
            "%s: %" PRIu64 " bytes of older rewards are passed over",
            b->set.rewards, stp_reward_file_skipped(b->rewards));
}

static void online_flush_journal(struct stp_backend *b)
{
    if (b->journal == NULL)
        return;
    stp_journal_flush(b->journal);
    if (stp_journal_error(b->journal) != 0 &&
        online_logs_first(b, JOURNAL_ENDED))
        LOG(b, NCCL_LOG_WARN, "the journal '%.140s' ends early: %s",
            b->set.journal, stp_file_strerror(stp_journal_error(b->journal)));
}

static void online_process_files(struct stp_backend *b)
{
    if (b->rewards != NULL)
        online_read_rewards(b);
    online_flush_journal(b);
    if (b->has_news || stp_now_ns() - b->saved_ns >= SAVE_MINUTES * minute_ns)
        online_save(b);
}

static void online_observe(struct stp_backend *b)
{
    const struct stp_learn_event graphs = {.kind = STP_LEARN_GRAPHS, .key = -1};
    const struct stp_learned none = {.coll = -1};
    const char *why;

    stp_observer_run_pass(b->observer);
    why = stp_observer_why_stopped(b->observer);
    if (why != NULL && online_logs_first(b, STOPPED))
        LOG(b, NCCL_LOG_WARN,
            "nothing more is learned: %s; what was found stays", why);
    if (b->profile != NULL && stp_profile_take_graph() &&
        online_logs_first(b, GRAPHS)) {
        LOG(b, NCCL_LOG_INFO,
            "collectives are captured into CUDA graphs, for which NCCL asks "
            "once; something else is tried only with the next capture");
        if (b->journal != NULL)
            stp_journal_write(b->journal, stp_now_ns(), &graphs, &none);
    }
}

/* In the process's thread. */
static void online_run_pass(void *user)
{
    online_observe(user);
    online_process_files(user);
}

/* ---- on the launch path ---- */

bool stp_backend_choose(struct stp_backend *backend,
                        const struct stp_query *query,
                        const struct stp_cost_view *view,
                        struct stp_choice *choice_ret)
{
    struct stp_follower *follower = backend->follower;
    bool is_decided = stp_follower_choose(follower, query, view, choice_ret);
    struct stp_entry entry;

    if (backend->observer == NULL)
        return is_decided;
    if (backend->profile != NULL)
        stp_profile_want(backend->profile, stp_follower_wants_time(follower));
    if (backend->set.is_inline) {
        stp_entry_begin(&entry);
        if (++backend->n_calls % INLINE_CALLS == 0)
            online_process_files(backend);
        online_observe(backend);
        stp_entry_end(&entry);
    }
    return is_decided;
}

/* ---- opening ---- */

/* Reads the evidence of earlier runs; none where it cannot be read. */
static void online_read_evidence(struct stp_backend *b)
{
    char why[STP_PATH_SIZE + STP_ERROR_TEXT];
    enum stp_status status;
    struct stp_error err;
    char *text = NULL;
    size_t len;

    if (b->set.evidence[0] == '\0')
        return;
    status =
        stp_file_read(b->set.evidence, STP_MAX_EVIDENCE, &text, &len, &err);
    STP_THEN(status, stp_evidence_parse(text, len, &b->evidence, &err));
    free(text);
    if (status == STP_OK)
        return;
    stp_error_string(&err, b->set.evidence, why, sizeof(why));
    LOG(b, NCCL_LOG_WARN, "nothing is known of earlier runs: %s", why);
}

/* Whether a communicator of several hosts tries arms by a schedule, and how. */
static bool online_plan_schedule(const struct stp_backend *b,
                                 const struct stp_plugin_settings *settings,
                                 struct stp_schedule_rules *ret)
{
    if (b->info.shape.n_nodes == 1 || b->info.comm_id == 0 ||
        b->set.is_frozen || b->profile == NULL ||
        settings->agree != STP_AGREE_STORE ||
        b->set.rules.objective == STP_LEARN_FILE)
        return false;
    *ret = (struct stp_schedule_rules){.bandit = b->set.rules.bandit,
                                       .of = b->info.shape,
                                       .evidence = b->evidence};
    ret->bandit.seed = b->info.comm_id;
    ret->bandit.n_passes = b->set.is_thorough ? THOROUGH_PASSES : 1;
    ret->bandit.prune = 0; /* by no time of NCCL's cost table */
    return true;
}

enum stp_status stp_backend_open(const struct stp_comm_info *info,
                                 struct stp_plugin_settings *settings,
                                 ncclDebugLogger_t log,
                                 struct stp_backend **backend_ret,
                                 const char **subject_ret,
                                 struct stp_error *err)
{
    struct stp_backend *b = calloc(1, sizeof(*b));
    struct stp_schedule_rules schedule;
    const char *policy_path;
    enum stp_status status;
    bool has_schedule;

    if (b == NULL)
        return stp_nomem(err);
    b->log = log;
    status = stp_online_settings_read(info->comm_id, &b->set, err);
    if (status == STP_OK) {
        policy_path = stp_online_base(&b->set, settings);
        if (policy_path == b->set.warm_start)
            memcpy(settings->policy_path, b->set.warm_start, STP_PATH_SIZE);
        b->info = *info;
        if (info->shape.gpu != NULL) {
            snprintf(b->gpu, sizeof(b->gpu), "%s", info->shape.gpu);
            b->info.shape.gpu = b->gpu;
        }
        b->saved_ns = stp_now_ns();
        b->profile = stp_profile_take(info->comm_id);
        if (info->shape.n_nodes > 1) /* by which all ranks decide */
            online_read_evidence(b);
        has_schedule = online_plan_schedule(b, settings, &schedule);
        /* Hosts begin with what an earlier run found, unless there is another
         * policy. */
        if (has_schedule && policy_path == NULL &&
            b->set.warm_start[0] == '\0' && access(b->set.learned, F_OK) == 0) {
            memcpy(settings->policy_path, b->set.learned, STP_PATH_SIZE);
            policy_path = settings->policy_path;
        }
        status = stp_follower_open(info, policy_path, b->set.rules.same_bits,
                                   b->set.is_frozen ? NULL : &b->set.rules,
                                   has_schedule ? &schedule : NULL,
                                   &b->follower, err);
        if (status != STP_OK && policy_path != NULL)
            *subject_ret = settings->policy_path;
    }
    if (status == STP_OK) {
        *backend_ret = b;
        return STP_OK;
    }
    stp_profile_release(b->profile);
    stp_evidence_free(&b->evidence);
    free(b);
    return status;
}

void stp_backend_fingerprint(const struct stp_backend *backend,
                             struct stp_fingerprint *fingerprint)
{
    uint64_t *hash = &fingerprint->part[STP_FINGERPRINT_SETTINGS];

    stp_follower_fingerprint(backend->follower, fingerprint);
    for (size_t i = 0; backend->follower->schedule != NULL &&
                       i < sizeof(rules_out) / sizeof(rules_out[0]);
         i++) {
        const char *c = stp_setting(rules_out[i]);

        *hash = stp_hash(*hash, i);
        for (; c != NULL && *c != '\0'; c++)
            *hash = stp_hash(*hash, (unsigned char)*c);
    }
}

const struct stp_shared_policy *
stp_backend_policy(const struct stp_backend *backend)
{
    return backend->follower->policy;
}

bool stp_backend_proposes(const struct stp_backend *backend)
{
    return backend->follower->why_not == NULL &&
           backend->follower->schedule == NULL;
}

void stp_backend_join(struct stp_backend *backend,
                      struct stp_agreement *agreement)
{
    stp_follower_join(backend->follower, agreement,
                      backend->profile != NULL &&
                          stp_profile_rank(backend->profile) == 0,
                      &backend->set.rules);
    backend->observer = backend->follower->observer;
    if (backend->observer != NULL && backend->profile == NULL &&
        backend->set.rules.objective != STP_LEARN_FILE)
        backend->follower->why_idle =
            "NCCL's profiler gives it no times: the job sets "
            "NCCL_PROFILER_PLUGIN itself, or its NCCL is older than 2.27";
}

void stp_backend_describe(const struct stp_backend *backend, char *buf,
                          size_t size)
{
    stp_follower_describe(backend->follower, buf, size);
}

/* ---- learning ---- */

static void online_stop_learning(struct stp_backend *b)
{
    b->observer = NULL;
    if (b->profile != NULL) {
        stp_profile_want(b->profile, false);
        stp_profile_attach(b->profile, NULL, false);
    }
}

static void online_finish_at_exit(void *user);

void stp_backend_start(struct stp_backend *backend)
{
    struct stp_error err;

    if (backend->observer == NULL)
        return;
    if (backend->profile != NULL) {
        stp_profile_attach(backend->profile, backend->observer,
                           !backend->set.is_inline);
        stp_profile_want(backend->profile,
                         stp_observer_is_sampling(backend->observer));
    } else if (backend->set.rules.objective != STP_LEARN_FILE) {
        LOG(backend, NCCL_LOG_WARN,
            "nothing is learned without times on the GPU: set "
            "NCCL_PROFILER_PLUGIN to this plugin, too (NCCL 2.27 and later)");
    }
    if (backend->set.journal[0] != '\0' &&
        stp_journal_open(backend->set.journal, &backend->info,
                         &backend->journal, &err) != STP_OK)
        LOG(backend, NCCL_LOG_WARN, "no journal: %s", err.text);
    if (backend->set.rules.objective == STP_LEARN_FILE &&
        stp_reward_file_open(backend->set.rewards, &backend->rewards, &err) !=
            STP_OK)
        LOG(backend, NCCL_LOG_WARN, "no rewards: %s", err.text);
    if (backend->info.shape.n_nodes == 1)
        online_read_evidence(backend);
    stp_observer_recall(backend->observer, &backend->evidence,
                        &backend->info.shape);
    backend->task.run = backend->set.is_inline ? NULL : online_run_pass;
    backend->task.finish = online_finish_at_exit;
    backend->task.user = backend;
    if (stp_observer_begin(backend->observer, online_take_event, backend,
                           &err) != STP_OK ||
        stp_service_add(&backend->task, &err) != STP_OK) {
        LOG(backend, NCCL_LOG_WARN, "nothing is learned: %s", err.text);
        online_stop_learning(backend);
        return;
    }
    LOG(backend, NCCL_LOG_INFO, "%s by %s",
        stp_strategy_name(backend->set.rules.bandit.strategy),
        stp_learn_objective_name(backend->set.rules.objective));
}

/* ---- the end ---- */

/* The last pass, and its results. */
static void online_finish(struct stp_backend *b)
{
    online_observe(b);
    stp_observer_conclude(b->observer);
    if (b->rewards != NULL)
        online_read_rewards(b);
    online_save(b);
    online_flush_journal(b);
}

void stp_backend_close(struct stp_backend *backend)
{
    struct stp_profile_others others = {0};
    struct stp_entry entry;

    if (backend == NULL)
        return;
    if (backend->observer != NULL && backend->profile != NULL)
        others = stp_profile_others(backend->profile);
    if (others.n_symmetric != 0 || others.n_copied != 0)
        LOG(backend, NCCL_LOG_INFO,
            "nothing is learned of what no tuner decides on: collectives by "
            "kernels for symmetric windows (%.0f timed) and by copy engines "
            "(%.0f)",
            (double)others.n_symmetric, (double)others.n_copied);
    if (backend->observer != NULL) {
        stp_entry_begin(&entry);
        stp_service_remove(&backend->task);
        online_finish(backend);
        stp_entry_end(&entry);
    }
    online_stop_learning(backend);
    stp_profile_release(backend->profile);
    stp_journal_close(backend->journal);
    stp_reward_file_close(backend->rewards);
    stp_follower_close(backend->follower);
    stp_evidence_free(&backend->evidence);
    free(backend);
}

/* NCCL may be gone already, so nothing is logged. */
static void online_finish_at_exit(void *user)
{
    struct stp_backend *b = user;

    b->log = NULL;
    online_finish(b);
}

/* At the end of a process that has not finalized its communicators, or when
 * NCCL closes the plugin, which then has none. */
__attribute__((destructor)) static void online_save_all(void)
{
    struct stp_entry entry;

    stp_entry_begin(&entry);
    stp_service_end();
    stp_entry_end(&entry);
}
