/*
 * profiler_abi.c - NCCL's profiler ABI, for a plugin that learns
 *
 * On a rank a collective lasts from the first begin of its channels to their
 * last end.  Each rank notes that in its agreement (agree/agreement.h), on the
 * host's clock.
 */
#define _GNU_SOURCE /* syscall() */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/learn/gpu_clock.h"
#include "core/names.h"
#include "core/policy/policy.h"
#include "nccl_profiler_abi.h"
#include "plugin/online/clock.h"
#include "plugin/online/profile.h"

enum {
    N_FLIGHTS = 64,   /* collectives that are launched and not over, of those
                         that are timed: a host may be far ahead of its GPU */
    LOST_AFTER = 512, /* launches after which one that is not over yet never
                          will be: it has lost a channel's event */
    EVENTS = NCCL_PROFILE_COLL | NCCL_PROFILE_KERNEL_CH,
};

struct flight;

struct channel {
    struct flight *flight;
    uint64_t begin_ns; /* 0: not begun */
};

/* A collective under way. */
struct flight {
    struct stp_profile *profile;
    bool is_used;
    unsigned launch;  /* number of launches before */
    bool is_observed; /* its end is reported to the observer */
    uint32_t token;
    struct stp_collective id;
    unsigned n_channels; /* that it runs on */
    unsigned n_ended;
    uint64_t begin_ns; /* the first channel's; 0: none has begun */
    uint64_t end_ns;
    struct stp_instant heard; /* the end with the least delay */
    struct channel channels[STP_MAX_CHANNELS];
};

struct stp_profile {
    struct stp_profile *next; /* in the list of those that no tuner took yet */
    long thread;              /* in which NCCL made it */
    _Atomic int n_users;      /* NCCL's context and ours */
    uint64_t comm_id;
    size_t n_ranks;
    int group; /* where its address is a handle, for NCCL 2.27 */
    _Atomic bool is_wanted;
    _Atomic bool saw_graph;
    pthread_mutex_t lock;            /* of the members below */
    struct stp_agreement *agreement; /* NULL: times are of no use */
    struct stp_observer *observer;
    struct stp_gpu_clock clock;
    uint64_t next_number[NCCL_NUM_TUNED_FUNCS]; /* number of each function */
    unsigned n_launches;
    struct flight flights[N_FLIGHTS];
};

/* NCCL has one activation mask a process. */
static struct {
    pthread_mutex_t lock;
    int *mask;
    int n_wants; /* communicators that need times */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Profiles that no tuner took yet. */
static struct {
    pthread_mutex_t lock;
    struct stp_profile *all;
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Thread-local variables would need the dynamic linker, one more library to
 * depend on. */
static long profile_thread(void)
{
    return syscall(SYS_gettid);
}

/* Takes 'profile' off the list; if it is NULL, the profile that this thread
 * made for 'comm_id'.  NULL if it is not there. */
static struct stp_profile *profile_take_off(const struct stp_profile *profile,
                                            uint64_t comm_id)
{
    struct stp_profile **link;
    struct stp_profile *found = NULL;

    pthread_mutex_lock(&waiting.lock);
    for (link = &waiting.all; *link != NULL; link = &(*link)->next)
        if (profile != NULL ? *link == profile
                            : (*link)->comm_id == comm_id &&
                                  (*link)->thread == profile_thread()) {
            found = *link;
            *link = found->next;
            break;
        }
    pthread_mutex_unlock(&waiting.lock);
    return found;
}

static void profile_put_on(struct stp_profile *profile)
{
    pthread_mutex_lock(&waiting.lock);
    profile->next = waiting.all;
    waiting.all = profile;
    pthread_mutex_unlock(&waiting.lock);
}

/* ---- the tuner's side ---- */

struct stp_profile *stp_profile_take(uint64_t comm_id)
{
    struct stp_profile *profile = profile_take_off(NULL, comm_id);

    if (profile != NULL)
        atomic_fetch_add(&profile->n_users, 1);
    return profile;
}

void stp_profile_release(struct stp_profile *profile)
{
    if (profile == NULL || atomic_fetch_sub(&profile->n_users, 1) != 1)
        return;
    pthread_mutex_destroy(&profile->lock);
    free(profile);
}

void stp_profile_attach(struct stp_profile *profile,
                        struct stp_agreement *agreement,
                        struct stp_observer *observer)
{
    pthread_mutex_lock(&profile->lock);
    profile->agreement = agreement;
    profile->observer = observer;
    for (int i = 0; i < N_FLIGHTS; i++)
        profile->flights[i].is_used = false;
    pthread_mutex_unlock(&profile->lock);
}

/* Under the lock.  NCCL reads it in any thread. */
static void profile_set_mask(void)
{
    if (process.mask != NULL)
        __atomic_store_n(process.mask, process.n_wants > 0 ? EVENTS : 0,
                         __ATOMIC_RELAXED);
}

void stp_profile_want(struct stp_profile *profile, bool is_wanted)
{
    if (atomic_load_explicit(&profile->is_wanted, memory_order_relaxed) ==
            is_wanted ||
        atomic_exchange(&profile->is_wanted, is_wanted) == is_wanted)
        return;
    pthread_mutex_lock(&process.lock);
    process.n_wants += is_wanted ? 1 : -1;
    profile_set_mask();
    pthread_mutex_unlock(&process.lock);
}

bool stp_profile_saw_graph(struct stp_profile *profile)
{
    return atomic_exchange(&profile->saw_graph, false);
}

/* ---- launches ---- */

/* -1 for NULL and unknown words. */
static int profile_word_number(const char *word,
                               int (*from_name)(const char *, size_t))
{
    return word != NULL ? stp_from_any_case(word, strlen(word), from_name) : -1;
}

/* "ncclBfloat16": its first number is bits. */
static uint64_t profile_type_bytes(const char *datatype)
{
    size_t at = strcspn(datatype, "0123456789");

    return strtoul(datatype + at, NULL, 10) / 8;
}

static bool profile_read_launch(const struct stp_profile *p,
                                const ncclProfilerEvent_t *event,
                                struct stp_launch *launch)
{
    int coll = profile_word_number(event->coll.func, stp_coll_from_name);

    if (coll < 0 || event->coll.datatype == NULL)
        return false;
    launch->coll = coll;
    launch->n_bytes =
        event->coll.count * profile_type_bytes(event->coll.datatype);
    if (coll == ncclFuncAllGather || coll == ncclFuncReduceScatter)
        launch->n_bytes *= p->n_ranks; /* as a tuner counts */
    launch->algo = profile_word_number(event->coll.algo, stp_algo_from_name);
    launch->proto = profile_word_number(event->coll.proto, stp_proto_from_name);
    launch->n_channels = event->coll.nChannels;
    return true;
}

/* ---- events ---- */

/* A free flight; NULL: too many are under way. */
static struct flight *profile_find_room(struct stp_profile *p)
{
    unsigned launch = p->n_launches++;

    for (unsigned i = 0; i < N_FLIGHTS; i++) {
        struct flight *f = &p->flights[(launch + i) % N_FLIGHTS];

        if (!f->is_used || launch - f->launch > LOST_AFTER) {
            f->launch = launch;
            return f;
        }
    }
    return NULL;
}

static struct flight *profile_begin_flight(struct stp_profile *p,
                                           struct flight *f,
                                           const ncclProfilerEvent_t *event,
                                           const struct stp_launch *launch)
{
    f->profile = p;
    f->is_used = true;
    f->is_observed = p->observer != NULL &&
                     stp_observer_launched(p->observer, launch, &f->token);
    f->id =
        (struct stp_collective){(unsigned)launch->coll, event->coll.seqNumber};
    f->n_channels = event->coll.nChannels;
    f->n_ended = 0;
    f->begin_ns = 0;
    f->end_ns = 0;
    for (int c = 0; c < STP_MAX_CHANNELS; c++)
        f->channels[c] = (struct channel){.flight = f};
    return f;
}

/* NCCL does not count launches of a CUDA graph, so ranks cannot tell them
 * apart. */
static bool profile_is_counted(struct stp_profile *p, int coll, uint64_t number)
{
    bool is_next = number >= p->next_number[coll];

    if (is_next)
        p->next_number[coll] = number + 1;
    return is_next;
}

static void *profile_start_collective(struct stp_profile *p,
                                      const ncclProfilerEvent_t *event)
{
    struct stp_launch launch;
    struct flight *flight = NULL;

    pthread_mutex_lock(&p->lock);
    if (p->agreement != NULL && event->coll.nChannels > 0 &&
        profile_read_launch(p, event, &launch) &&
        profile_is_counted(p, launch.coll, event->coll.seqNumber)) {
        flight = profile_find_room(p);
        if (flight != NULL)
            profile_begin_flight(p, flight, event, &launch);
    }
    pthread_mutex_unlock(&p->lock);
    return flight;
}

static void *profile_start_channel(struct stp_profile *p,
                                   const ncclProfilerEvent_t *event)
{
    struct flight *f = event->parentObj;
    struct channel *channel = NULL;

    if (f == NULL || event->kernelCh.channelId >= STP_MAX_CHANNELS)
        return NULL;
    pthread_mutex_lock(&p->lock);
    if (f->is_used) {
        channel = &f->channels[event->kernelCh.channelId];
        channel->begin_ns = event->kernelCh.pTimer;
        if (f->begin_ns == 0 || event->kernelCh.pTimer < f->begin_ns)
            f->begin_ns = event->kernelCh.pTimer;
    }
    pthread_mutex_unlock(&p->lock);
    return channel;
}

/* Notes the times of a collective that is over on this rank. */
static void profile_note_time(struct stp_profile *p, const struct flight *f)
{
    uint64_t offset_ns;
    struct stp_rank_time time;

    stp_gpu_clock_heard(&p->clock, &f->heard);
    if (p->agreement == NULL || f->end_ns <= f->begin_ns ||
        !stp_gpu_clock_offset(&p->clock, f->end_ns, &offset_ns))
        return;
    time.begin_ns = f->begin_ns + offset_ns;
    time.end_ns = f->end_ns + offset_ns;
    p->agreement->ops->put_time(p->agreement, f->id, &time);
    if (f->is_observed && p->observer != NULL)
        stp_observer_took(p->observer, f->token, f->id.number, f->end_ns);
}

static void profile_end_channel(struct channel *channel, uint64_t end_ns)
{
    const struct stp_instant now = {end_ns, stp_now_ns()};
    struct flight *f = channel->flight;

    if (!f->is_used || channel->begin_ns == 0)
        return;
    channel->begin_ns = 0;
    if (f->n_ended == 0 ||
        now.heard_ns - now.gpu_ns + f->heard.gpu_ns < f->heard.heard_ns)
        f->heard = now;
    if (end_ns > f->end_ns)
        f->end_ns = end_ns;
    if (++f->n_ended < f->n_channels)
        return;
    f->is_used = false;
    profile_note_time(f->profile, f);
}

static ncclResult_t profile_start(struct stp_profile *p, void **handle,
                                  uint64_t type,
                                  const ncclProfilerEvent_t *event)
{
    *handle = NULL;
    if (p == NULL)
        return ncclSuccess;
    switch (type) {
    case NCCL_PROFILE_GROUP:
        *handle = &p->group;
        break;
    case NCCL_PROFILE_COLL_API:
        if (event->collApi.graphCaptured)
            atomic_store(&p->saw_graph, true);
        break;
    case NCCL_PROFILE_COLL:
        *handle = profile_start_collective(p, event);
        break;
    case NCCL_PROFILE_KERNEL_CH:
        *handle = profile_start_channel(p, event);
        break;
    default:
        break;
    }
    return ncclSuccess;
}

static ncclResult_t profile_start_v4(void *context, void **handle,
                                     const ncclProfilerEvent_t *event)
{
    return profile_start(context, handle, event->type.v4, event);
}

static ncclResult_t profile_start_v5(void *context, void **handle,
                                     const ncclProfilerEvent_t *event)
{
    return profile_start(context, handle, event->type.v5, event);
}

static ncclResult_t profile_stop(void *event)
{
    (void)event;
    return ncclSuccess;
}

/* Only channels have that state. */
static ncclResult_t profile_record_state(void *event, int state,
                                         const void *args)
{
    const ncclProfilerStateArgs_t *state_args = args;
    struct channel *channel = event;
    struct stp_profile *p;

    if (state != NCCL_PROFILE_KERNEL_CH_STOP || event == NULL || args == NULL)
        return ncclSuccess;
    p = channel->flight->profile;
    pthread_mutex_lock(&p->lock);
    profile_end_channel(channel, state_args->kernelCh.pTimer);
    pthread_mutex_unlock(&p->lock);
    return ncclSuccess;
}

/* ---- life ---- */

static ncclResult_t profile_init_v5(void **context, uint64_t comm_id, int *mask,
                                    const char *name, int n_nodes, int n_ranks,
                                    int rank, ncclDebugLogger_t log)
{
    struct stp_profile *p = calloc(1, sizeof(*p));

    (void)name;
    (void)n_nodes;
    (void)rank;
    (void)log;
    if (p == NULL)
        return ncclSystemError; /* NCCL goes on without */
    atomic_init(&p->n_users, 1);
    p->comm_id = comm_id;
    p->n_ranks = (size_t)n_ranks;
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_lock(&process.lock);
    process.mask = mask;
    profile_set_mask();
    pthread_mutex_unlock(&process.lock);
    p->thread = profile_thread();
    *context = p;
    profile_put_on(p);
    return ncclSuccess;
}

static ncclResult_t profile_init_v4(void **context, int *mask, const char *name,
                                    uint64_t comm_id, int n_nodes, int n_ranks,
                                    int rank, ncclDebugLogger_t log)
{
    return profile_init_v5(context, comm_id, mask, name, n_nodes, n_ranks, rank,
                           log);
}

static ncclResult_t profile_finalize(void *context)
{
    if (context == NULL)
        return ncclSuccess;
    profile_take_off(context, 0);
    stp_profile_release(context);
    return ncclSuccess;
}

#define EXPORT __attribute__((visibility("default"))) extern

EXPORT const ncclProfiler_v4_t ncclProfiler_v4;
EXPORT const ncclProfiler_v5_t ncclProfiler_v5;
EXPORT const ncclProfiler_v5_t ncclProfiler_v6;

const ncclProfiler_v4_t ncclProfiler_v4 = {
    STP_TUNER_NAME, profile_init_v4,      profile_start_v4,
    profile_stop,   profile_record_state, profile_finalize};
const ncclProfiler_v5_t ncclProfiler_v5 = {
    STP_TUNER_NAME, profile_init_v5,      profile_start_v5,
    profile_stop,   profile_record_state, profile_finalize};
const ncclProfiler_v5_t ncclProfiler_v6 = {
    STP_TUNER_NAME, profile_init_v5,      profile_start_v5,
    profile_stop,   profile_record_state, profile_finalize};
