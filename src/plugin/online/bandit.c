/*
 * bandit.c - the backend that learns while a job runs
 *
 * Each rank follows what is published (agree/published.h): an arm for a key
 * from an epoch on, epochs being counted in calls, which all ranks share.  One
 * of them, the observer, sees and learns.  What no arm decides, a policy does,
 * if there is one, and NCCL else.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agree/published.h"
#include "agree/times.h"
#include "plugin/backend.h"
#include "plugin/online/decision.h"
#include "plugin/online/keys.h"
#include "plugin/online/observer.h"
#include "plugin/shared_policy.h"

/* One arm in force.  NCCL's own choice to begin with. */
struct force {
    struct stp_bandit_arm what;
    struct stp_bandit_arm home; /* what a trial goes back to */
    uint8_t arm;                /* the number of 'what' */
    uint8_t home_arm;           /* of 'home' */
    uint8_t n_left;             /* calls of the trial; 0: there is none */
};

struct tuner {
    struct stp_shared_policy *base;  /* NULL: none */
    struct stp_published *published; /* NULL: nothing is learned */
    const char *why_not;             /* then */
    struct stp_times *times;         /* NULL: nobody wants the GPU's */
    uint64_t value;                  /* of what must be the same on all ranks */
    bool is_checked;                 /* that all ranks take part */
    bool takes_part;                 /* if so */
    bool is_searching;               /* something is tried now and then */
    bool by_gpu;                     /* by the GPU's times */
    bool by_host;                    /* by steps on the host's clock */
    uint32_t countdown;              /* calls to the next epoch */
    uint32_t epoch_calls;            /* of an epoch */
    uint32_t short_epoch;            /* while something is tried */
    unsigned last_key;               /* that a decision was about */
    uint64_t t_ns;                   /* of the next question; 0: unknown */
    struct stp_observer *observer;   /* NULL on the others */
    struct stp_keys keys;
    struct force in_force[STP_BANDIT_KEYS];
};

/* ---- the launch path ---- */

static void begin_arm(struct tuner *t, uint32_t word)
{
    const struct stp_decision d = stp_decision_unpack(word);
    struct force *f = &t->in_force[d.key];

    t->last_key = d.key;
    if (f->n_left == 0) {
        f->home = f->what;
        f->home_arm = f->arm;
    }
    f->what = d.what;
    f->arm = (uint8_t)d.arm;
    f->n_left = (uint8_t)d.n_calls;
    t->is_searching = !d.is_settled;
    t->epoch_calls = d.is_settled ? STP_EPOCH_SETTLED : t->short_epoch;
    if (t->observer != NULL)
        stp_observer_began(t->observer, d.key, d.arm);
}

/* Nothing will be decided any more, which all ranks hear of in the same epoch.
 * What was decided last may be a trial, which must not stay. */
static void freeze(struct tuner *t)
{
    if (t->epoch_calls == t->short_epoch)
        t->in_force[t->last_key] = (struct force){.what.algo = -1};
    t->is_searching = false;
    if (t->observer != NULL)
        stp_observer_stop(t->observer);
}

static void enter_epoch(struct tuner *t)
{
    bool is_frozen;
    uint32_t word = stp_published_next(t->published, &is_frozen);

    if (word != 0)
        begin_arm(t, word);
    if (is_frozen)
        freeze(t);
    t->countdown = is_frozen ? UINT32_MAX : t->epoch_calls;
}

/* Before the first decision, when all ranks have joined. */
static void check(struct tuner *t)
{
    bool is_blind;

    t->is_checked = true;
    t->takes_part =
        t->published != NULL && stp_published_complete(t->published);
    t->is_searching = t->takes_part;
    is_blind = t->by_gpu && (t->times == NULL || !stp_times_complete(t->times));
    t->by_gpu = t->by_gpu && !is_blind;
    t->by_host |= is_blind;
    if (t->observer == NULL)
        return;
    if (!t->takes_part)
        stp_observer_stop(t->observer);
    else if (is_blind)
        stp_observer_blind(t->observer);
}

static bool allows(const struct stp_cost_view *view,
                   const struct stp_bandit_arm *arm)
{
    return arm->algo >= 0 && arm->algo < view->n_algo &&
           arm->proto < view->n_proto &&
           view->cost[arm->algo * view->n_proto + arm->proto] >= 0.0f;
}

static bool base_choose(const struct tuner *t, const struct stp_query *query,
                        const struct stp_cost_view *view,
                        struct stp_choice *choice_ret)
{
    return t->base != NULL &&
           stp_compiled_lookup(stp_shared_policy_compiled(t->base), query, view,
                               choice_ret);
}

/* A call of a trial is over. */
static void count_down(struct tuner *t, unsigned key)
{
    struct force *f = &t->in_force[key];

    if (--f->n_left > 0)
        return;
    f->what = f->home;
    f->arm = f->home_arm;
    if (t->observer != NULL)
        stp_observer_began(t->observer, key, f->arm);
}

static void observe(const struct tuner *t, unsigned key, bool is_new,
                    const struct stp_query *query,
                    const struct stp_cost_view *view)
{
    struct stp_observed call = {
        .key = key, .before.algo = -1, .is_new = is_new, .t_ns = t->t_ns};
    struct stp_choice choice;

    if (is_new && base_choose(t, query, view, &choice)) {
        call.before.algo = (int8_t)choice.algo;
        call.before.proto = (int8_t)choice.proto;
    }
    if (key < STP_BANDIT_KEYS) {
        call.arm = t->in_force[key].arm;
        call.what = t->in_force[key].what;
    }
    stp_observer_call(t->observer, &call, query, view);
}

/* The arm in force for the query; NCCL's own choice if there is none. */
static struct stp_bandit_arm follow(struct tuner *t,
                                    const struct stp_query *query,
                                    const struct stp_cost_view *view)
{
    static const struct stp_bandit_arm own = {.algo = -1};
    struct stp_bandit_arm arm = own;
    bool is_new;
    unsigned key;

    if (--t->countdown == 0)
        enter_epoch(t);
    key = stp_keys_find(&t->keys, query->coll, query->n_bytes, &is_new);
    if (key < STP_BANDIT_KEYS)
        arm = t->in_force[key].what;
    if (t->observer != NULL)
        observe(t, key, is_new, query, view);
    if (key < STP_BANDIT_KEYS && t->in_force[key].n_left > 0)
        count_down(t, key);
    return arm;
}

static bool bandit_choose(void *self, const struct stp_query *query,
                          const struct stp_cost_view *view,
                          struct stp_choice *choice_ret)
{
    struct tuner *t = self;
    struct stp_bandit_arm arm = {.algo = -1};

    if (!t->is_checked)
        check(t);
    if (t->takes_part)
        arm = follow(t, query, view);
    if (!allows(view, &arm))
        return base_choose(t, query, view, choice_ret);
    *choice_ret = (struct stp_choice){
        .algo = arm.algo, .proto = arm.proto, .n_channels = arm.n_channels};
    return true;
}

static bool bandit_wants_time(const void *self)
{
    const struct tuner *t = self;

    /* But for steps, how long the job runs is all there is to know: once an
     * epoch will do, and where GPUs are heard of these tell. */
    return t->observer != NULL &&
           (t->by_host || (!t->by_gpu && t->countdown == 1)) &&
           stp_observer_wants_time(t->observer);
}

static void bandit_set_time(void *self, uint64_t t_ns)
{
    struct tuner *t = self;

    t->t_ns = t_ns;
}

static struct stp_times *bandit_times(void *self)
{
    struct tuner *t = self;

    return t->times;
}

static bool bandit_wants_times(const void *self)
{
    const struct tuner *t = self;

    return t->by_gpu && (t->is_searching || !t->is_checked);
}

/* ---- learning ---- */

static struct stp_observer *bandit_observer(void *self)
{
    struct tuner *t = self;

    return t->observer;
}

/* ---- life ---- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Never 0, and never what a rank that stepped aside has. */
static uint64_t value_of(const struct tuner *t,
                         const struct stp_learner_rules *rules)
{
    uint64_t hash = t->base != NULL ? stp_shared_policy_hash(t->base) : 2;

    if (rules != NULL)
        hash = mix(mix(hash, (uint64_t)rules->bandit.strategy + 1),
                   t->short_epoch);
    return hash < 2 ? 2 : hash;
}

static void bandit_close(void *self)
{
    struct tuner *t = self;

    stp_observer_free(t->observer);
    stp_times_leave(t->times);
    stp_published_leave(t->published);
    if (t->base != NULL)
        stp_shared_policy_release(t->base);
    free(t);
}

/* Without agreement nothing is learned, but the policy stays. */
static void join(struct tuner *t, const struct stp_comm_info *info,
                 const struct stp_learner_rules *rules)
{
    struct stp_error err;

    if (rules == NULL)
        t->why_not = "STEPTUNE_FREEZE is set";
    else if (info->shape.n_nodes != 1)
        t->why_not = "the communicator spans several hosts";
    else if (info->comm_id == 0)
        t->why_not = "this NCCL names no communicator, 2.28 does";
    else if (stp_published_join(info->comm_id, info->shape.n_ranks, t->value,
                                &t->published, &err) != STP_OK)
        t->why_not = "the ranks have no shared memory to agree in";
    if (t->published == NULL)
        return;
    t->by_gpu = stp_learn_objective_is_gpu(rules->objective);
    t->by_host = rules->objective == STP_LEARN_STEP;
    if (t->by_gpu)
        stp_times_join(info->comm_id, info->shape.n_ranks, &t->times, &err);
    if (stp_published_is_observer(t->published))
        t->observer = stp_observer_new(rules, t->published, t->times);
}

static struct tuner *new_tuner(const struct stp_learner_rules *rules)
{
    static const uint32_t short_epochs[STP_N_STRATEGIES] = {
        [STP_STRATEGY_HALVING] = STP_EPOCH_HALVING,
        [STP_STRATEGY_EPSILON] = STP_EPOCH_EPSILON,
    };
    struct tuner *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return NULL;
    t->countdown = 1;
    for (unsigned k = 0; k < STP_BANDIT_KEYS; k++)
        t->in_force[k].what.algo = -1;
    if (rules == NULL)
        return t;
    t->keys.strategy = rules->bandit.strategy;
    t->short_epoch = t->epoch_calls = short_epochs[rules->bandit.strategy];
    return t;
}

static enum stp_status bandit_open(const struct stp_comm_info *info,
                                   const struct stp_settings *settings,
                                   void **self_ret, struct stp_error *err)
{
    struct tuner *t = new_tuner(settings->learner);
    enum stp_status status = STP_OK;

    if (t == NULL)
        return stp_nomem(err);
    if (settings->policy_path != NULL)
        status = stp_shared_policy_acquire(settings->policy_path, &info->shape,
                                           &t->base, err);
    if (status != STP_OK) {
        free(t);
        return status;
    }
    t->value = value_of(t, settings->learner);
    join(t, info, settings->learner);
    *self_ret = t;
    return STP_OK;
}

static uint64_t bandit_fingerprint(const void *self)
{
    const struct tuner *t = self;

    return t->value;
}

static void bandit_describe(const void *self, char *buf, size_t size)
{
    const struct tuner *t = self;
    char base[256] = "NCCL's own choice";

    if (t->base != NULL)
        snprintf(
            base, sizeof(base), "%.100s, hash %016" PRIx64 ", %zu of %zu rules",
            stp_shared_policy_path(t->base), stp_shared_policy_hash(t->base),
            stp_compiled_size(stp_shared_policy_compiled(t->base)),
            stp_shared_policy_rules(t->base));
    if (t->published == NULL)
        snprintf(buf, size, "nothing is learned: %s; %s", t->why_not, base);
    else
        snprintf(buf, size, "%s, beginning with %s",
                 t->observer != NULL ? "learns" : "follows", base);
}

static const struct stp_learn_ops learn_ops = {
    .wants_time = bandit_wants_time,
    .set_time = bandit_set_time,
    .times = bandit_times,
    .wants_times = bandit_wants_times,
    .observer = bandit_observer,
    .begin = stp_observer_begin,
    .think = stp_observer_think,
    .is_exploring = stp_observer_is_exploring,
    .is_stopped = stp_observer_is_stopped,
    .is_blind = stp_observer_is_blind,
    .reward = stp_observer_reward,
    .launched = stp_observer_launched,
    .took = stp_observer_took,
    .explain = stp_observer_explain,
    .learned = stp_observer_learned,
};

const struct stp_backend_ops stp_backend = {
    .name = STP_TUNER_NAME,
    .open = bandit_open,
    .choose = bandit_choose,
    .fingerprint = bandit_fingerprint,
    .describe = bandit_describe,
    .close = bandit_close,
    .learn = &learn_ops,
};
