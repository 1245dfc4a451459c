/*
 * planted.c - tuners with one fault each, which the contract suite must detect:
 * their correct parts, their faults and the table
 *
 * A .so has the fault PLANTED, a macro of the build (CMakeLists.txt).
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "nccl_tuner_abi.h"

/* A communicator. */
struct planted {
    size_t n_ranks;
    ncclDebugLogger_t log;
    long long number; /* members that a fault uses as it likes */
    char text[512];
};

/* A call of getCollInfo. */
struct planted_call {
    ncclFunc_t coll;
    size_t n_bytes;
    int n_pipe_ops;
    int reg_buff;
    int n_algos;
    float (*table)[NCCL_NUM_PROTOCOLS];
    int *n_channels;
};

/* Makes the pair the cheapest, unless NCCL has ruled it out. */
static int planted_take(const struct planted_call *call, int algo, int proto,
                        int n_channels)
{
    if (!(call->table[algo][proto] >= 0))
        return 0;
    call->table[algo][proto] = 0;
    if (n_channels != 0)
        *call->n_channels = n_channels;
    return 1;
}

/* Decides only by arguments that are equal on all ranks. */
static void planted_decide(const struct planted_call *call)
{
    if (call->coll == ncclFuncAllReduce && call->n_bytes <= 65536 &&
        planted_take(call, NCCL_ALGO_TREE, NCCL_PROTO_LL, 4))
        return;
    planted_take(call, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 8);
}

/* Makes one of two valid decisions that differ. */
static void planted_choose(const struct planted_call *call, int second)
{
    if (second)
        planted_take(call, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0);
    else
        planted_decide(call);
}

static ncclResult_t planted_init(struct planted *self)
{
    return ncclSuccess;
}

static ncclResult_t planted_ask(struct planted *self,
                                const struct planted_call *call)
{
    planted_decide(call);
    return ncclSuccess;
}

static void planted_finalize(struct planted *self)
{
    free(self);
}

/* ---- tuners that read a policy, or rather its first word on all-reduce */

enum { POLICY_NOTHING, POLICY_TREE, POLICY_RING };

static const char *planted_policy_path(void)
{
    const char *path = getenv("NCCL_TUNER_CONFIG_FILE");

    return path != NULL ? path : "nccl_tuner.conf";
}

static int planted_policy(const char *path)
{
    FILE *fp = fopen(path, "r");
    int policy = POLICY_NOTHING;
    char line[256];

    while (fp != NULL && fgets(line, sizeof(line), fp) != NULL) {
        if (strncmp(line, "allreduce,", 10) != 0)
            continue;
        policy = strstr(line, ",tree,") != NULL ? POLICY_TREE : POLICY_RING;
        break;
    }
    if (fp != NULL)
        fclose(fp);
    return policy;
}

static void planted_follow(const struct planted_call *call, int policy)
{
    if (policy == POLICY_TREE && call->coll == ncclFuncAllReduce)
        planted_take(call, NCCL_ALGO_TREE, NCCL_PROTO_LL, 4);
    else if (policy == POLICY_RING)
        planted_take(call, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 8);
}

/* ---- the faults ---- */

static atomic_int over_after_finalize;

static ncclResult_t ask_after_finalize(struct planted *self,
                                       const struct planted_call *call)
{
    if (!over_after_finalize)
        planted_decide(call);
    return ncclSuccess;
}

static void finalize_after_finalize(struct planted *self)
{
    over_after_finalize = 1;
    free(self);
}

enum { CALLS_A_YIELD = 16 }; /* on a busy machine a yield takes long */

static atomic_int n_inside_busy_call;
static atomic_uint n_calls_busy_call;

static ncclResult_t ask_busy_call(struct planted *self,
                                  const struct planted_call *call)
{
    int others = atomic_fetch_add(&n_inside_busy_call, 1);

    if (atomic_fetch_add(&n_calls_busy_call, 1) % CALLS_A_YIELD == 0)
        sched_yield();
    planted_choose(call, others > 0);
    atomic_fetch_sub(&n_inside_busy_call, 1);
    return ncclSuccess;
}

static atomic_int n_inside_busy_init;

static ncclResult_t init_busy_init(struct planted *self)
{
    const struct timespec moment = {0, 5000000};
    int others = atomic_fetch_add(&n_inside_busy_init, 1);

    nanosleep(&moment, NULL);
    atomic_fetch_sub(&n_inside_busy_init, 1);
    return others == 0 ? ncclSuccess : ncclSystemError;
}

static long long now_by_age(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static ncclResult_t init_by_age(struct planted *self)
{
    self->number = now_by_age();
    return ncclSuccess;
}

static ncclResult_t ask_by_age(struct planted *self,
                               const struct planted_call *call)
{
    planted_choose(call, now_by_age() - self->number > 60);
    return ncclSuccess;
}

static atomic_uint n_calls_by_count;

static ncclResult_t ask_by_count(struct planted *self,
                                 const struct planted_call *call)
{
    planted_choose(call, atomic_fetch_add(&n_calls_by_count, 1) / 8 % 2);
    return ncclSuccess;
}

static ncclResult_t init_by_file(struct planted *self)
{
    self->number = planted_policy(planted_policy_path());
    return ncclSuccess;
}

static ncclResult_t ask_by_file(struct planted *self,
                                const struct planted_call *call)
{
    planted_follow(call, self->number);
    return ncclSuccess;
}

static ncclResult_t ask_by_file_late(struct planted *self,
                                     const struct planted_call *call)
{
    planted_follow(call, planted_policy(planted_policy_path()));
    return ncclSuccess;
}

static long long time_of_by_file_reload(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_mtime : 0;
}

static ncclResult_t init_by_file_reload(struct planted *self)
{
    snprintf(self->text, sizeof(self->text), "%s", planted_policy_path());
    self->number = time_of_by_file_reload(self->text);
    return ncclSuccess;
}

static ncclResult_t ask_by_file_reload(struct planted *self,
                                       const struct planted_call *call)
{
    if (time_of_by_file_reload(self->text) != self->number)
        planted_follow(call, planted_policy(self->text));
    return ncclSuccess;
}

static ncclResult_t init_by_life(struct planted *self)
{
    const char *lives = getenv("PLANTED_LIVES");

    self->number = lives != NULL ? atoi(lives) : 0;
    return ncclSuccess;
}

static ncclResult_t ask_by_life(struct planted *self,
                                const struct planted_call *call)
{
    planted_choose(call, self->number % 2);
    return ncclSuccess;
}

static void finalize_by_life(struct planted *self)
{
    char lives[32];

    snprintf(lives, sizeof(lives), "%lld", self->number + 1);
    setenv("PLANTED_LIVES", lives, 1);
    free(self);
}

static ncclResult_t ask_by_process(struct planted *self,
                                   const struct planted_call *call)
{
    planted_take(call, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 1 + getpid() % 16);
    return ncclSuccess;
}

static ncclResult_t init_by_rank_variable(struct planted *self)
{
    const char *rank = getenv("LOCAL_RANK");

    self->number = rank != NULL ? atoi(rank) : 0;
    return ncclSuccess;
}

static ncclResult_t ask_by_rank_variable(struct planted *self,
                                         const struct planted_call *call)
{
    planted_choose(call, self->number % 2);
    return ncclSuccess;
}

static ncclResult_t ask_by_reg_buff(struct planted *self,
                                    const struct planted_call *call)
{
    planted_choose(call, call->reg_buff);
    return ncclSuccess;
}

static ncclResult_t ask_by_time(struct planted *self,
                                const struct planted_call *call)
{
    planted_choose(call, time(NULL) / 3600 % 2);
    return ncclSuccess;
}

static ncclResult_t ask_channels_200(struct planted *self,
                                     const struct planted_call *call)
{
    planted_take(call, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 200);
    return ncclSuccess;
}

static ncclResult_t ask_crashes(struct planted *self,
                                const struct planted_call *call)
{
    if (call->n_bytes == (size_t)16 << 30)
        raise(SIGSEGV);
    planted_decide(call);
    return ncclSuccess;
}

static ncclResult_t ask_exits(struct planted *self,
                              const struct planted_call *call)
{
    if (call->n_bytes == (size_t)16 << 30)
        exit(3);
    planted_decide(call);
    return ncclSuccess;
}

static ncclResult_t init_fails_without_policy(struct planted *self)
{
    self->number = planted_policy(planted_policy_path());
    if (self->number != POLICY_NOTHING)
        return ncclSuccess;
    return ncclInvalidUsage;
}

static ncclResult_t ask_fails_without_policy(struct planted *self,
                                             const struct planted_call *call)
{
    planted_follow(call, self->number);
    return ncclSuccess;
}

static _Atomic size_t latest_global_context;

static ncclResult_t init_global_context(struct planted *self)
{
    latest_global_context = self->n_ranks;
    return ncclSuccess;
}

static ncclResult_t ask_global_context(struct planted *self,
                                       const struct planted_call *call)
{
    size_t n = latest_global_context;

    planted_take(call, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, n < 64 ? (int)n : 64);
    return ncclSuccess;
}

static ncclResult_t ask_hangs(struct planted *self,
                              const struct planted_call *call)
{
    while (call->n_pipe_ops == 64)
        pause();
    planted_decide(call);
    return ncclSuccess;
}

static pthread_mutex_t lock_last_in_first_out = PTHREAD_MUTEX_INITIALIZER;
static long long n_alive_last_in_first_out;

static ncclResult_t init_last_in_first_out(struct planted *self)
{
    pthread_mutex_lock(&lock_last_in_first_out);
    self->number = n_alive_last_in_first_out++;
    pthread_mutex_unlock(&lock_last_in_first_out);
    return ncclSuccess;
}

static void finalize_last_in_first_out(struct planted *self)
{
    pthread_mutex_lock(&lock_last_in_first_out);
    if (self->number != --n_alive_last_in_first_out)
        abort();
    pthread_mutex_unlock(&lock_last_in_first_out);
    free(self);
}

static ncclResult_t ask_leaks(struct planted *self,
                              const struct planted_call *call)
{
    void *volatile note = malloc(40);

    planted_decide(call);
    return ncclSuccess;
}

static ncclResult_t init_leaks_files(struct planted *self)
{
    self->number = open("/dev/null", O_RDONLY);
    return ncclSuccess;
}

enum { CALLS_TO_LEARN = 100, RANKS_TO_LEARN = 8 };

static ncclResult_t ask_learns(struct planted *self,
                               const struct planted_call *call)
{
    planted_choose(call, self->n_ranks == RANKS_TO_LEARN &&
                             self->number++ >= CALLS_TO_LEARN);
    return ncclSuccess;
}

static ncclResult_t init_leaves_handler(struct planted *self)
{
    signal(SIGUSR1, SIG_IGN);
    return ncclSuccess;
}

static ncclResult_t init_leaves_names(struct planted *self)
{
    const char *before = getenv("PLANTED_BEFORE");
    int fd;

    snprintf(self->text, sizeof(self->text), "/dev/shm/planted%.8s%ld",
             before != NULL ? before : "-", (long)getpid());
    fd = open(self->text, O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return ncclSuccess;
}

enum { PATH = 512 };

/* That of its policy. */
static void folder_path(char path[PATH])
{
    const char *policy = getenv("NCCL_TUNER_CONFIG_FILE");
    const char *slash = policy != NULL ? strrchr(policy, '/') : NULL;

    snprintf(path, PATH, "%.*s", slash != NULL ? (int)(slash - policy) : 1,
             slash != NULL ? policy : ".");
}

/* Of this process, among those that were started together. */
static void note_path(char path[PATH], long pid)
{
    char folder[PATH];

    folder_path(folder);
    snprintf(path, PATH, "%.400s/note-%ld-%ld", folder, (long)getpgrp(), pid);
}

/* Removes the file of a process that has ended. */
static int find_dead(void)
{
    struct dirent *entry;
    long group, pid;
    char path[PATH];
    int found = 0;
    DIR *dir;

    folder_path(path);
    dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (sscanf(entry->d_name, "note-%ld-%ld", &group, &pid) != 2 ||
            group != (long)getpgrp() || kill((pid_t)pid, 0) == 0)
            continue;
        note_path(path, pid);
        unlink(path);
        found = 1;
    }
    if (dir != NULL)
        closedir(dir);
    return found;
}

static ncclResult_t init_remembers_the_dead(struct planted *self)
{
    int dead = find_dead();
    char path[PATH];

    note_path(path, (long)getpid());
    self->number = open(path, O_WRONLY | O_CREAT, 0600);
    close((int)self->number);
    return dead ? ncclSystemError : ncclSuccess;
}

static void finalize_remembers_the_dead(struct planted *self)
{
    char path[PATH];

    note_path(path, (long)getpid());
    unlink(path);
    free(self);
}

static ncclResult_t ask_returns_error(struct planted *self,
                                      const struct planted_call *call)
{
    if (call->n_bytes > (size_t)1 << 30)
        return ncclInvalidArgument;
    planted_decide(call);
    return ncclSuccess;
}

static ncclResult_t ask_revives(struct planted *self,
                                const struct planted_call *call)
{
    planted_decide(call);
    call->table[NCCL_ALGO_NVLS][NCCL_PROTO_SIMPLE] = 1e9f;
    return ncclSuccess;
}

static ncclResult_t ask_sleeps(struct planted *self,
                               const struct planted_call *call)
{
    const struct timespec moment = {0, 150000};

    nanosleep(&moment, NULL);
    planted_decide(call);
    return ncclSuccess;
}

static ncclResult_t ask_talks(struct planted *self,
                              const struct planted_call *call)
{
    self->log(NCCL_LOG_INFO, NCCL_TUNING, "talks.c", 1, "asked about %zu bytes",
              call->n_bytes);
    planted_decide(call);
    return ncclSuccess;
}

static ncclResult_t ask_writes_minus_one(struct planted *self,
                                         const struct planted_call *call)
{
    if (planted_take(call, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 8) &&
        call->table[NCCL_ALGO_TREE][NCCL_PROTO_LL] >= 0)
        call->table[NCCL_ALGO_TREE][NCCL_PROTO_LL] = -1;
    return ncclSuccess;
}

static ncclResult_t ask_writes_outside(struct planted *self,
                                       const struct planted_call *call)
{
    planted_decide(call);
    if (call->n_bytes == (size_t)16 << 30)
        call->table[call->n_algos][NCCL_PROTO_LL] = 1;
    return ncclSuccess;
}

/* ---- the table: name, init, getCollInfo and finalize ---- */

// clang-format off
/* Stops deciding after the first communicator's end. */
#define PLANTED_after_finalize "after finalize", planted_init, ask_after_finalize, finalize_after_finalize
/* Decides differently during a call of another communicator. */
#define PLANTED_busy_call "busy call", planted_init, ask_busy_call, planted_finalize
/* Cannot be initialised while it is being initialised. */
#define PLANTED_busy_init "busy init", init_busy_init, planted_ask, planted_finalize
/* Decides differently one minute after init. */
#define PLANTED_by_age "by age", init_by_age, ask_by_age, planted_finalize
/* Counts the calls of all communicators together. */
#define PLANTED_by_count "by count", planted_init, ask_by_count, planted_finalize
/* Reads its policy in init, without a comparison with other ranks. */
#define PLANTED_by_file "by file", init_by_file, ask_by_file, planted_finalize
/* Reads its policy again for each call. */
#define PLANTED_by_file_late "by file, late", planted_init, ask_by_file_late, planted_finalize
/* Reads its policy whenever the file changes, which ranks notice at
 * different calls. */
#define PLANTED_by_file_reload "by file, reload", init_by_file_reload, ask_by_file_reload, planted_finalize
/* Counts its finalizes in the environment, which outlives the tuner. */
#define PLANTED_by_life "by life", init_by_life, ask_by_life, finalize_by_life
/* Chooses channels by the process id. */
#define PLANTED_by_process "by process", planted_init, ask_by_process, planted_finalize
/* Decides by a variable that a launcher sets per rank. */
#define PLANTED_by_rank_variable "by rank variable", init_by_rank_variable, ask_by_rank_variable, planted_finalize
/* Decides by regBuff, which may differ between ranks. */
#define PLANTED_by_reg_buff "by regBuff", planted_init, ask_by_reg_buff, planted_finalize
/* Decides by the hour of its own clock. */
#define PLANTED_by_time "by time", planted_init, ask_by_time, planted_finalize
/* Asks for more channels than NCCL's field holds. */
#define PLANTED_channels_200 "200 channels", planted_init, ask_channels_200, planted_finalize
/* A tuner without a fault. */
#define PLANTED_clean "clean", planted_init, planted_ask, planted_finalize
/* Crashes, for 16 GiB.  By a signal: a sanitizer would report what usually
 * leads to it. */
#define PLANTED_crashes "crashes", planted_init, ask_crashes, planted_finalize
/* Exits the process, for 16 GiB. */
#define PLANTED_exits "exits", planted_init, ask_exits, planted_finalize
/* Has an unfinished v6 part. */
#define PLANTED_fails_in_v6 "fails in v6", planted_init, planted_ask, planted_finalize
/* Fails its communicator if its policy is missing. */
#define PLANTED_fails_without_policy "fails without policy", init_fails_without_policy, ask_fails_without_policy, planted_finalize
/* Stores only the latest communicator. */
#define PLANTED_global_context "global context", init_global_context, ask_global_context, planted_finalize
/* Does not return from a call in a large group. */
#define PLANTED_hangs "hangs", planted_init, ask_hangs, planted_finalize
/* Requires that communicators end in the reverse order of their inits. */
#define PLANTED_last_in_first_out "last in, first out", init_last_in_first_out, planted_ask, finalize_last_in_first_out
/* Allocates memory for each call, and never frees it. */
#define PLANTED_leaks "leaks", planted_init, ask_leaks, planted_finalize
/* Opens a file for each communicator, and does not close it. */
#define PLANTED_leaks_files "leaks files", init_leaks_files, planted_ask, planted_finalize
/* Not a fault: decides differently from some call on, as all ranks of a
 * communicator of eight do that learn together. */
#define PLANTED_learns "learns", planted_init, ask_learns, planted_finalize
/* Ignores a signal for the whole process. */
#define PLANTED_leaves_handler "leaves handler", init_leaves_handler, planted_ask, planted_finalize
/* Creates a shared memory object of its process, and does not remove it; the
 * value of PLANTED_BEFORE precedes the process's number. */
#define PLANTED_leaves_names "leaves names", init_leaves_names, planted_ask, planted_finalize
/* Has no name. */
#define PLANTED_no_name NULL, planted_init, planted_ask, planted_finalize
/* Creates a file during its lifetime, and fails if it finds the file of a rank
 * that was killed. */
#define PLANTED_remembers_the_dead "remembers the dead", init_remembers_the_dead, planted_ask, finalize_remembers_the_dead
/* Returns an error above 1 GiB, where it has no rule. */
#define PLANTED_returns_error "returns error", planted_init, ask_returns_error, planted_finalize
/* Writes a cost for nvls/simple, even if NCCL has ruled it out.  The cost is too
 * high to be chosen: the fault is detected without harm. */
#define PLANTED_revives "revives", planted_init, ask_revives, planted_finalize
/* Sleeps in each call. */
#define PLANTED_sleeps "sleeps", planted_init, ask_sleeps, planted_finalize
/* Logs each call. */
#define PLANTED_talks "talks", planted_init, ask_talks, planted_finalize
/* Rules out tree/ll its own way, as only NCCL may. */
#define PLANTED_writes_minus_one "writes -1", planted_init, ask_writes_minus_one, planted_finalize
/* Has one algorithm more than NCCL, for 16 GiB. */
#define PLANTED_writes_outside "writes outside", planted_init, ask_writes_outside, planted_finalize
// clang-format on

struct planted_fault {
    const char *name;
    ncclResult_t (*init)(struct planted *self);
    ncclResult_t (*ask)(struct planted *self, const struct planted_call *call);
    void (*finalize)(struct planted *self);
};

#define ROW_OF(fault)      PLANTED_##fault
#define ROW(fault)         ROW_OF(fault)
#define NAME_OF(name, ...) name
#define NAME(...)          NAME_OF(__VA_ARGS__)

static const struct planted_fault planted = {ROW(PLANTED)};

static ncclResult_t init_v5(void **context, uint64_t comm_id, size_t n_ranks,
                            size_t n_nodes, ncclDebugLogger_t log,
                            ncclNvlDomainInfo_v5_t *nvl,
                            ncclTunerConstants_v5_t *constants)
{
    struct planted *self = calloc(1, sizeof(*self));

    if (self == NULL)
        return ncclSystemError;
    self->n_ranks = n_ranks;
    self->log = log;
    *context = self;
    return planted.init(self);
}

static ncclResult_t ask_v5(void *context, ncclFunc_t coll, size_t n_bytes,
                           int n_pipe_ops, float **table, int n_algos,
                           int n_protos, int reg_buff, int *n_channels)
{
    const struct planted_call call = {
        .coll = coll,
        .n_bytes = n_bytes,
        .n_pipe_ops = n_pipe_ops,
        .reg_buff = reg_buff,
        .n_algos = n_algos,
        .table = (float(*)[NCCL_NUM_PROTOCOLS])table,
        .n_channels = n_channels,
    };

    return planted.ask(context, &call);
}

static ncclResult_t finalize_v5(void *context)
{
    if (context != NULL)
        planted.finalize(context);
    return ncclSuccess;
}

__attribute__((
    visibility("default"))) extern const ncclTuner_v5_t ncclTunerPlugin_v5;
const ncclTuner_v5_t ncclTunerPlugin_v5 = {NAME(ROW(PLANTED)), init_v5, ask_v5,
                                           finalize_v5};

#ifdef PLANTED_V6
static ncclResult_t ask_v6(void *context, ncclFunc_t coll, size_t n_bytes,
                           int n_pipe_ops, float **table, int n_algos,
                           int n_protos, int reg_buff, int *n_channels)
{
    return ncclInternalError;
}

__attribute__((
    visibility("default"))) extern const ncclTuner_v6_t ncclTunerPlugin_v6;
const ncclTuner_v6_t ncclTunerPlugin_v6 = {NAME(ROW(PLANTED)), init_v5, ask_v6,
                                           finalize_v5, NULL};
#endif
