/*
 * profiler_abi.c - NCCL's profiler ABI, for a plugin that learns
 *
 * On a rank a collective begins when the first of its channels does.  That is
 * all that is asked for: when channels end is not.
 */
#define _GNU_SOURCE /* syscall() */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/names.h"
#include "core/policy/policy.h"
#include "nccl_profiler_abi.h"
#include "plugin/online/profile.h"

enum {
    /* Collectives that are timed, launched and have not begun: a host is up to
     * 1024 launches, CUDA's queue, ahead of its GPU. */
    N_FLIGHTS = 1024,
    EVENTS = NCCL_PROFILE_COLL | NCCL_PROFILE_KERNEL_CH,
};

/* A collective under way. */
struct flight {
    struct stp_profile *profile;
    uint32_t token;
    uint8_t n_channels;
    bool is_used; /* until it has begun */
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
    pthread_mutex_t lock;                       /* of the members below */
    struct stp_observer *observer;              /* NULL: times are of no use */
    uint64_t next_number[NCCL_NUM_TUNED_FUNCS]; /* number of each function */
    unsigned n_launches;
    struct flight *flights; /* a ring of N_FLIGHTS; with an observer */
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
    free(profile->flights);
    free(profile);
}

void stp_profile_attach(struct stp_profile *profile,
                        struct stp_observer *observer)
{
    pthread_mutex_lock(&profile->lock);
    if (profile->flights == NULL && observer != NULL)
        profile->flights = calloc(N_FLIGHTS, sizeof(*profile->flights));
    profile->observer = profile->flights != NULL ? observer : NULL;
    for (int i = 0; i < N_FLIGHTS && profile->flights != NULL; i++)
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
    const char *func = event->coll.func;
    int coll = func == NULL
                   ? -1
                   : stp_from_any_case(func, strlen(func), stp_coll_from_name);

    if (coll < 0 || event->coll.datatype == NULL)
        return false;
    launch->coll = coll;
    launch->n_bytes =
        event->coll.count * profile_type_bytes(event->coll.datatype);
    if (coll == ncclFuncAllGather || coll == ncclFuncReduceScatter)
        launch->n_bytes *= p->n_ranks; /* as a tuner counts */
    return true;
}

/* ---- events ---- */

/* NCCL does not count launches of a CUDA graph, and nobody asked about
 * them. */
static bool profile_is_counted(struct stp_profile *p, int coll, uint64_t number)
{
    bool is_next = number >= p->next_number[coll];

    if (is_next)
        p->next_number[coll] = number + 1;
    return is_next;
}

/* The oldest flight makes room: it began, or its event was lost. */
static void *profile_start_collective(struct stp_profile *p,
                                      const ncclProfilerEvent_t *event)
{
    struct stp_launch launch;
    struct flight *flight = NULL;
    uint32_t token;

    pthread_mutex_lock(&p->lock);
    if (p->observer != NULL && event->coll.nChannels > 0 &&
        profile_read_launch(p, event, &launch) &&
        profile_is_counted(p, launch.coll, event->coll.seqNumber) &&
        stp_observer_launched(p->observer, &launch, &token)) {
        flight = &p->flights[p->n_launches++ % N_FLIGHTS];
        *flight = (struct flight){p, token, event->coll.nChannels, true};
    }
    pthread_mutex_unlock(&p->lock);
    return flight;
}

static void profile_start_channel(const ncclProfilerEvent_t *event)
{
    struct flight *f = event->parentObj;

    if (f == NULL)
        return;
    pthread_mutex_lock(&f->profile->lock);
    if (f->is_used && f->profile->observer != NULL)
        stp_observer_took(f->profile->observer, f->token, f->n_channels,
                          event->kernelCh.pTimer);
    f->is_used = false;
    pthread_mutex_unlock(&f->profile->lock);
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
        profile_start_channel(event);
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

static ncclResult_t profile_record_state(void *event, int state,
                                         const void *args)
{
    (void)event;
    (void)state;
    (void)args;
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
