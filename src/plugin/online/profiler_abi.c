/*
 * profiler_abi.c - NCCL's profiler ABI, for a plugin that learns
 *
 * On a rank a collective lasts from the first of its channels' beginnings to
 * the last of their ends.  Each rank notes that where the one that learns reads
 * it (agree/times.h), on the host's clock.
 */
#define _GNU_SOURCE /* syscall() */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agree/times.h"
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
    unsigned launch; /* the how manieth */
    bool is_told;    /* the observer is to be */
    uint32_t token;
    struct stp_times_id id;
    unsigned n_channels; /* that it runs on */
    unsigned n_ended;
    uint64_t begin_ns; /* the first channel's; 0: none has begun */
    uint64_t end_ns;
    struct stp_instant heard; /* of the ends, that with the least delay */
    struct channel channels[STP_MAX_CHANNELS];
};

struct stp_profile {
    struct stp_profile *next; /* of those that no tuner has taken yet */
    long thread;              /* that NCCL made it in */
    _Atomic int n_users;      /* NCCL's context and ours */
    uint64_t comm_id;
    size_t n_ranks;
    int group; /* where its address is a handle, for NCCL 2.27 */
    _Atomic bool is_wanted;
    _Atomic bool saw_graph;
    pthread_mutex_t lock; /* of what follows */
    struct stp_times *times;
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
    int n_wants; /* communicators that want times */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Made, and not taken by a tuner yet. */
static struct {
    pthread_mutex_t lock;
    struct stp_profile *all;
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Thread-local variables would need the dynamic linker's help, and that be a
 * library to depend on. */
static long this_thread(void)
{
    return syscall(SYS_gettid);
}

/* Takes 'profile' off the list, or what this thread made for 'comm_id' if that
 * is NULL.  NULL if it is not there. */
static struct stp_profile *take_off(const struct stp_profile *profile,
                                    uint64_t comm_id)
{
    struct stp_profile **link;
    struct stp_profile *found = NULL;

    pthread_mutex_lock(&waiting.lock);
    for (link = &waiting.all; *link != NULL; link = &(*link)->next)
        if (profile != NULL ? *link == profile
                            : (*link)->comm_id == comm_id &&
                                  (*link)->thread == this_thread()) {
            found = *link;
            *link = found->next;
            break;
        }
    pthread_mutex_unlock(&waiting.lock);
    return found;
}

static void put_on(struct stp_profile *profile)
{
    pthread_mutex_lock(&waiting.lock);
    profile->next = waiting.all;
    waiting.all = profile;
    pthread_mutex_unlock(&waiting.lock);
}

/* ---- the tuner's side ---- */

struct stp_profile *stp_profile_take(uint64_t comm_id)
{
    struct stp_profile *profile = take_off(NULL, comm_id);

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

void stp_profile_attach(struct stp_profile *profile, struct stp_times *times,
                        struct stp_observer *observer)
{
    pthread_mutex_lock(&profile->lock);
    profile->times = times;
    profile->observer = observer;
    for (int i = 0; i < N_FLIGHTS; i++)
        profile->flights[i].is_used = false;
    pthread_mutex_unlock(&profile->lock);
}

/* Under the lock.  NCCL reads it in any thread. */
static void set_mask(void)
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
    set_mask();
    pthread_mutex_unlock(&process.lock);
}

bool stp_profile_saw_graph(struct stp_profile *profile)
{
    return atomic_exchange(&profile->saw_graph, false);
}

/* ---- what was launched ---- */

/* -1 for NULL and what is unknown. */
static int number_of(const char *word, int (*from_name)(const char *, size_t))
{
    return word != NULL ? stp_from_any_case(word, strlen(word), from_name) : -1;
}

/* "ncclBfloat16": its first number is bits. */
static uint64_t bytes_of(const char *datatype)
{
    size_t at = strcspn(datatype, "0123456789");

    return strtoul(datatype + at, NULL, 10) / 8;
}

static bool read_launch(const struct stp_profile *p,
                        const ncclProfilerEvent_t *what,
                        struct stp_launch *launch)
{
    int coll = number_of(what->coll.func, stp_coll_from_name);

    if (coll < 0 || what->coll.datatype == NULL)
        return false;
    launch->coll = coll;
    launch->n_bytes = what->coll.count * bytes_of(what->coll.datatype);
    if (coll == ncclFuncAllGather || coll == ncclFuncReduceScatter)
        launch->n_bytes *= p->n_ranks; /* as a tuner counts */
    launch->algo = number_of(what->coll.algo, stp_algo_from_name);
    launch->proto = number_of(what->coll.proto, stp_proto_from_name);
    launch->n_channels = what->coll.nChannels;
    return true;
}

/* ---- events ---- */

/* Room for another; NULL: too many are under way. */
static struct flight *find_room(struct stp_profile *p)
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

static struct flight *begin_flight(struct stp_profile *p, struct flight *f,
                                   const ncclProfilerEvent_t *what,
                                   const struct stp_launch *launch)
{
    f->profile = p;
    f->is_used = true;
    f->is_told = p->observer != NULL &&
                 stp_backend.learn->launched(p->observer, launch, &f->token);
    f->id = (struct stp_times_id){(unsigned)launch->coll, what->coll.seqNumber};
    f->n_channels = what->coll.nChannels;
    f->n_ended = 0;
    f->begin_ns = 0;
    f->end_ns = 0;
    for (int c = 0; c < STP_MAX_CHANNELS; c++)
        f->channels[c] = (struct channel){.flight = f};
    return f;
}

/* NCCL does not count what a CUDA graph launches, so it cannot be told apart on
 * different ranks. */
static bool is_counted(struct stp_profile *p, int coll, uint64_t number)
{
    bool is_next = number >= p->next_number[coll];

    if (is_next)
        p->next_number[coll] = number + 1;
    return is_next;
}

static void *start_collective(struct stp_profile *p,
                              const ncclProfilerEvent_t *what)
{
    struct stp_launch launch;
    struct flight *flight = NULL;

    pthread_mutex_lock(&p->lock);
    if (p->times != NULL && what->coll.nChannels > 0 &&
        read_launch(p, what, &launch) &&
        is_counted(p, launch.coll, what->coll.seqNumber)) {
        flight = find_room(p);
        if (flight != NULL)
            begin_flight(p, flight, what, &launch);
    }
    pthread_mutex_unlock(&p->lock);
    return flight;
}

static void *start_channel(struct stp_profile *p,
                           const ncclProfilerEvent_t *what)
{
    struct flight *f = what->parentObj;
    struct channel *channel = NULL;

    if (f == NULL || what->kernelCh.channelId >= STP_MAX_CHANNELS)
        return NULL;
    pthread_mutex_lock(&p->lock);
    if (f->is_used) {
        channel = &f->channels[what->kernelCh.channelId];
        channel->begin_ns = what->kernelCh.pTimer;
        if (f->begin_ns == 0 || what->kernelCh.pTimer < f->begin_ns)
            f->begin_ns = what->kernelCh.pTimer;
    }
    pthread_mutex_unlock(&p->lock);
    return channel;
}

/* Notes the times of a collective that is over on this rank. */
static void note_times(struct stp_profile *p, const struct flight *f)
{
    uint64_t offset_ns;
    struct stp_rank_time time;

    stp_gpu_clock_heard(&p->clock, &f->heard);
    if (p->times == NULL || f->end_ns <= f->begin_ns ||
        !stp_gpu_clock_offset(&p->clock, f->end_ns, &offset_ns))
        return;
    time.begin_ns = f->begin_ns + offset_ns;
    time.end_ns = f->end_ns + offset_ns;
    stp_times_put(p->times, f->id, &time);
    if (f->is_told && p->observer != NULL)
        stp_backend.learn->took(p->observer, f->token, f->id.number, f->end_ns);
}

static void end_channel(struct channel *channel, uint64_t end_ns)
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
    note_times(f->profile, f);
}

static ncclResult_t start(struct stp_profile *p, void **event, uint64_t type,
                          const ncclProfilerEvent_t *what)
{
    *event = NULL;
    if (p == NULL)
        return ncclSuccess;
    switch (type) {
    case NCCL_PROFILE_GROUP:
        *event = &p->group;
        break;
    case NCCL_PROFILE_COLL_API:
        if (what->collApi.graphCaptured)
            atomic_store(&p->saw_graph, true);
        break;
    case NCCL_PROFILE_COLL:
        *event = start_collective(p, what);
        break;
    case NCCL_PROFILE_KERNEL_CH:
        *event = start_channel(p, what);
        break;
    default:
        break;
    }
    return ncclSuccess;
}

static ncclResult_t start_v4(void *context, void **event,
                             const ncclProfilerEvent_t *what)
{
    return start(context, event, what->type.v4, what);
}

static ncclResult_t start_v5(void *context, void **event,
                             const ncclProfilerEvent_t *what)
{
    return start(context, event, what->type.v5, what);
}

static ncclResult_t stop(void *event)
{
    (void)event;
    return ncclSuccess;
}

/* Only channels have that state. */
static ncclResult_t record_state(void *event, int state, const void *args)
{
    const ncclProfilerStateArgs_t *what = args;
    struct channel *channel = event;
    struct stp_profile *p;

    if (state != NCCL_PROFILE_KERNEL_CH_STOP || event == NULL || args == NULL)
        return ncclSuccess;
    p = channel->flight->profile;
    pthread_mutex_lock(&p->lock);
    end_channel(channel, what->kernelCh.pTimer);
    pthread_mutex_unlock(&p->lock);
    return ncclSuccess;
}

/* ---- life ---- */

static ncclResult_t init_v5(void **context, uint64_t comm_id, int *mask,
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
    set_mask();
    pthread_mutex_unlock(&process.lock);
    p->thread = this_thread();
    *context = p;
    put_on(p);
    return ncclSuccess;
}

static ncclResult_t init_v4(void **context, int *mask, const char *name,
                            uint64_t comm_id, int n_nodes, int n_ranks,
                            int rank, ncclDebugLogger_t log)
{
    return init_v5(context, comm_id, mask, name, n_nodes, n_ranks, rank, log);
}

static ncclResult_t finalize(void *context)
{
    if (context == NULL)
        return ncclSuccess;
    take_off(context, 0);
    stp_profile_release(context);
    return ncclSuccess;
}

#define EXPORT __attribute__((visibility("default"))) extern

EXPORT const ncclProfiler_v4_t ncclProfiler_v4;
EXPORT const ncclProfiler_v5_t ncclProfiler_v5;
EXPORT const ncclProfiler_v5_t ncclProfiler_v6;

const ncclProfiler_v4_t ncclProfiler_v4 = {
    STP_TUNER_NAME, init_v4, start_v4, stop, record_state, finalize};
const ncclProfiler_v5_t ncclProfiler_v5 = {
    STP_TUNER_NAME, init_v5, start_v5, stop, record_state, finalize};
const ncclProfiler_v5_t ncclProfiler_v6 = {
    STP_TUNER_NAME, init_v5, start_v5, stop, record_state, finalize};
