/*
 * planted.c - tuners with one fault each, which the contract suite must detect:
 * their correct parts, their faults and the table
 *
 * A .so has the fault PLANTED, a macro of the build (CMakeLists.txt).
 */
#define _GNU_SOURCE /* feenableexcept, CPU_SET */
#include <dirent.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "nccl_tuner_abi.h"

/* A communicator. */
struct planted {
    size_t n_ranks, n_nodes;
    uint64_t comm_id;
    ncclDebugLogger_t log;
    ncclResult_t result; /* of the current init or call */
    long long number;    /* members that a fault uses as it likes */
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

/* The three functions of a fault. */
#define INIT(fault) static void init_##fault(struct planted *self)
#define ASK(fault)                                                             \
    static void ask_##fault(struct planted *self,                              \
                            const struct planted_call *call)
#define FINALIZE(fault) static void finalize_##fault(struct planted *self)

INIT(correctly)
{
}

ASK(correctly)
{
    planted_decide(call);
}

FINALIZE(correctly)
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

ASK(after_finalize)
{
    if (!over_after_finalize)
        planted_decide(call);
}

FINALIZE(after_finalize)
{
    over_after_finalize = 1;
    free(self);
}

enum { CALLS_A_YIELD = 16 };

static atomic_int n_inside_busy_call;
static atomic_uint n_calls_busy_call;
static atomic_uintptr_t caller_busy_call; /* the first thread that asks */

/* Among threads alone it yields: on a busy machine that takes others' turns. */
ASK(busy_call)
{
    const int others = atomic_fetch_add(&n_inside_busy_call, 1);
    const uintptr_t me = (uintptr_t)pthread_self();
    uintptr_t first = 0;

    if (!atomic_compare_exchange_strong(&caller_busy_call, &first, me) &&
        first != me &&
        atomic_fetch_add(&n_calls_busy_call, 1) % CALLS_A_YIELD == 0)
        sched_yield();
    planted_choose(call, others > 0);
    atomic_fetch_sub(&n_inside_busy_call, 1);
}

static atomic_int n_inside_busy_init;

INIT(busy_init)
{
    const struct timespec moment = {0, 5000000};
    int others = atomic_fetch_add(&n_inside_busy_init, 1);

    nanosleep(&moment, NULL);
    atomic_fetch_sub(&n_inside_busy_init, 1);
    self->result = others == 0 ? ncclSuccess : ncclSystemError;
}

ASK(breaks_time_down)
{
    const time_t noon = 43200;

    planted_choose(call, gmtime(&noon)->tm_hour != 12);
}

INIT(by_file)
{
    self->number = planted_policy(planted_policy_path());
}

ASK(by_file)
{
    planted_follow(call, self->number);
}

static long long time_of_by_file_reload(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_mtime : 0;
}

INIT(by_file_reload)
{
    snprintf(self->text, sizeof(self->text), "%s", planted_policy_path());
    self->number = time_of_by_file_reload(self->text);
}

ASK(by_file_reload)
{
    if (time_of_by_file_reload(self->text) != self->number)
        planted_follow(call, planted_policy(self->text));
}

INIT(by_life)
{
    const char *lives = getenv("PLANTED_LIVES");

    self->number = lives != NULL ? atoi(lives) : 0;
}

ASK(by_life)
{
    planted_choose(call, self->number % 2);
}

FINALIZE(by_life)
{
    char lives[32];

    snprintf(lives, sizeof(lives), "%lld", self->number + 1);
    setenv("PLANTED_LIVES", lives, 1);
    free(self);
}

/* The number of a communicator among those that this process has seen. */
INIT(by_number)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t seen[1 << 16];
    static long long n;

    pthread_mutex_lock(&lock);
    self->number = 0;
    while (self->number < n && seen[self->number] != self->comm_id)
        self->number++;
    if (self->number == n && n < 1 << 16)
        seen[n++] = self->comm_id;
    pthread_mutex_unlock(&lock);
}

/* From the fifth on. */
ASK(by_number)
{
    planted_choose(call, self->number >= 4);
}

INIT(by_rank_variable)
{
    const char *rank = getenv("LOCAL_RANK");

    self->number = rank != NULL ? atoi(rank) : 0;
}

ASK(by_rank_variable)
{
    planted_choose(call, self->number % 2);
}

/* As a division by their number would, by a signal too. */
ASK(needs_operations)
{
    if (call->n_pipe_ops == 0)
        raise(SIGSEGV);
    planted_decide(call);
}

INIT(fails_without_policy)
{
    self->number = planted_policy(planted_policy_path());
    if (self->number == POLICY_NOTHING)
        self->result = ncclInvalidUsage;
}

ASK(fails_without_policy)
{
    planted_follow(call, self->number);
}

static _Atomic size_t latest_global_context;

INIT(global_context)
{
    latest_global_context = self->n_ranks;
}

ASK(global_context)
{
    size_t n = latest_global_context;

    planted_take(call, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, n < 64 ? (int)n : 64);
}

static pthread_mutex_t lock_last_in_first_out = PTHREAD_MUTEX_INITIALIZER;
static long long n_alive_last_in_first_out;

INIT(last_in_first_out)
{
    pthread_mutex_lock(&lock_last_in_first_out);
    self->number = n_alive_last_in_first_out++;
    pthread_mutex_unlock(&lock_last_in_first_out);
}

FINALIZE(last_in_first_out)
{
    pthread_mutex_lock(&lock_last_in_first_out);
    if (self->number != --n_alive_last_in_first_out)
        abort();
    pthread_mutex_unlock(&lock_last_in_first_out);
    free(self);
}

enum { CALLS_TO_LEARN = 100, RANKS_TO_LEARN = 8 };

ASK(learns)
{
    planted_choose(call, self->n_ranks == RANKS_TO_LEARN &&
                             self->number++ >= CALLS_TO_LEARN);
}

static atomic_uint n_inits_fails_later;

INIT(fails_later)
{
    if (atomic_fetch_add(&n_inits_fails_later, 1) >= 500)
        self->result = ncclSystemError;
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

/* The path of this process's note, among processes that were started
 * together. */
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

INIT(remembers_the_dead)
{
    int dead = find_dead();
    char path[PATH];

    note_path(path, (long)getpid());
    self->number = open(path, O_WRONLY | O_CREAT, 0600);
    close((int)self->number);
    self->result = dead ? ncclSystemError : ncclSuccess;
}

FINALIZE(remembers_the_dead)
{
    char path[PATH];

    note_path(path, (long)getpid());
    unlink(path);
    free(self);
}

/* ---- faults in one place ---- */

/* A place: all calls within bounds.  PLANTED in the environment has the kind of
 * fault, then the bounds: "exits,coll=4,min=2097152,max=2097152,pipe=2,reg=1".
 * Those that are not named are no bounds; with "only=1" nothing is decided
 * elsewhere.  With "life=1" it is init, and with "life=2" finalize, and with
 * "ended=2" calls after so many finalizes. */
struct place {
    const struct kind *kind;
    long long coll, min, max, pipe, reg, ranks, nodes, only, life, ended;
};

struct here {
    struct planted *self;
    const struct planted_call *call; /* of no bytes in init and finalize */
};

static atomic_int number_here;     /* of communicators and calls in the place */
static _Atomic size_t latest_here; /* communicator's ranks */
static atomic_int over_here;       /* communicators that were finalized */

/* A fault that is one statement. */
#define HERE(name, statement)                                                  \
    static void here_##name(const struct here *h)                              \
    {                                                                          \
        statement;                                                             \
    }                                                                          \
    struct place

HERE(exits, exit(3));
HERE(crashes, raise(SIGSEGV));

static void here_hangs(const struct here *h)
{
    for (;;)
        pause();
}

static void here_spins(const struct here *h)
{
    for (volatile int i = 0;; i++)
        ;
}

static void here_sleeps(const struct here *h)
{
    const struct timespec minute = {60, 0}; /* it is killed before */

    nanosleep(&minute, NULL);
}

HERE(fails, h->self->result = ncclInvalidArgument);
HERE(writes_behind, h->call->table[h->call->n_algos][NCCL_PROTO_LL] = 1);
HERE(writes_before, h->call->table[-1][NCCL_PROTO_SIMPLE] = 1);
HERE(asks_100, planted_take(h->call, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 100));
HERE(asks_below, planted_take(h->call, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, -2));
HERE(only_channels, *h->call->n_channels = 4);

/* Writes to the first entry that NCCL has, or has not, ruled out; the cost is
 * too high to be chosen, so that no harm hides the fault. */
static void here_write(const struct here *h, int ruled_out, float cost)
{
    for (int i = 0; i < h->call->n_algos * NCCL_NUM_PROTOCOLS; i++)
        if ((h->call->table[0][i] < 0) == ruled_out) {
            h->call->table[0][i] = cost;
            return;
        }
}

HERE(revives, here_write(h, 1, 1e9f));
HERE(rules_out, here_write(h, 0, -1));
HERE(writes_nan, here_write(h, 0, NAN));

static void here_leaves_nothing(const struct here *h)
{
    for (int i = 0; i < h->call->n_algos * NCCL_NUM_PROTOCOLS; i++)
        h->call->table[0][i] = -1;
}

/* Makes one of 96 valid decisions, of which three differ where NCCL takes one
 * channel anyway. */
static void here_choose(const struct here *h, long long number)
{
    planted_take(h->call, NCCL_ALGO_RING, (int)(number % NCCL_NUM_PROTOCOLS),
                 1 + (int)(number / NCCL_NUM_PROTOCOLS % 32));
}

HERE(by_context, here_choose(h, h->self->number));
HERE(by_count, here_choose(h, number_here++));
HERE(by_process, here_choose(h, getpid()));

static void here_by_clock(const struct here *h)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    here_choose(h, now.tv_nsec);
}

HERE(by_reg_buff, here_choose(h, h->call->reg_buff));

static void here_by_variable(const struct here *h)
{
    const char *rank = getenv("LOCAL_RANK");

    here_choose(h, rank != NULL ? atoi(rank) : 0);
}

HERE(by_file, here_choose(h, planted_policy(planted_policy_path())));
HERE(by_latest, here_choose(h, (long long)latest_here));
HERE(by_life, here_choose(h, over_here > 0));
HERE(prints, printf("asked about %zu bytes\n", h->call->n_bytes));
HERE(complains, fprintf(stderr, "asked about %zu bytes\n", h->call->n_bytes));
HERE(logs, h->self->log(NCCL_LOG_INFO, NCCL_TUNING, "planted.c", 1,
                        "asked about %zu bytes", h->call->n_bytes));
HERE(keeps_file, (void)!open("/dev/null", O_RDONLY));
HERE(sets_variable, setenv("PLANTED_HERE", "1", 1));
HERE(leaves_folder, (void)!chdir("/"));
HERE(ignores_signal, signal(SIGUSR1, SIG_IGN));
HERE(sets_timer, alarm(3600));

static void here_limits_cores(const struct here *h)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
}

static void *volatile kept_here;

HERE(keeps_memory, kept_here = malloc(1 << 16));

static void here_keeps_much(const struct here *h)
{
    kept_here = malloc(1 << 20); /* by a mapping of its own */
}

HERE(keeps_pages, kept_here = mmap(NULL, 1 << 16, PROT_READ,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

static void here_moves_thread(const struct here *h)
{
    cpu_set_t one;
    int i = 0;

    CPU_ZERO(&one); /* of which the kernel's part is smaller */
    sched_getaffinity(0, sizeof(one), &one);
    while (CPU_COUNT(&one) > 1)
        CPU_CLR(i++, &one);
    sched_setaffinity(0, sizeof(one), &one);
    if (i == 0) /* there was one only */
        setpriority(PRIO_PROCESS, 0, 1);
}

HERE(traps, feenableexcept(FE_DIVBYZERO));

static void here_flushes(const struct here *h)
{
#ifdef __SSE__
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 1u << 15);
#else
    feenableexcept(FE_DIVBYZERO);
#endif
}

HERE(draws, number_here += rand() % 2);

static void here_takes_stack(const struct here *h)
{
    static char memory[1 << 16];

    sigaltstack(&(stack_t){.ss_sp = memory, .ss_size = sizeof(memory)}, NULL);
}

static void here_restarts_calls(const struct here *h)
{
    struct sigaction action = {.sa_handler = SIG_DFL, .sa_flags = SA_RESTART};

    sigaction(SIGUSR1, &action, NULL);
}

HERE(speaks, uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)));

static void here_leaves_child(const struct here *h)
{
    if (fork() == 0)
        _exit(0);
}

static void here_splits_words(const struct here *h)
{
    char list[] = "ring,simple";

    strtok(list, ",");
}

#define KIND(name)                                                             \
    {                                                                          \
#name, here_##name                                                     \
    }
static struct place place;
static const struct kind {
    const char *name;
    void (*fn)(const struct here *h);
} kinds[] = {
    KIND(exits),          KIND(crashes),       KIND(hangs),
    KIND(spins),          KIND(sleeps),        KIND(fails),
    KIND(writes_behind),  KIND(writes_before), KIND(asks_100),
    KIND(asks_below),     KIND(only_channels), KIND(revives),
    KIND(rules_out),      KIND(writes_nan),    KIND(leaves_nothing),
    KIND(by_context),     KIND(by_count),      KIND(by_process),
    KIND(by_clock),       KIND(by_reg_buff),   KIND(by_variable),
    KIND(by_file),        KIND(by_latest),     KIND(by_life),
    KIND(prints),         KIND(complains),     KIND(logs),
    KIND(keeps_file),     KIND(sets_variable), KIND(leaves_folder),
    KIND(ignores_signal), KIND(splits_words),  KIND(sets_timer),
    KIND(limits_cores),   KIND(keeps_memory),  KIND(keeps_much),
    KIND(keeps_pages),    KIND(moves_thread),  KIND(traps),
    KIND(flushes),        KIND(draws),         KIND(takes_stack),
    KIND(restarts_calls), KIND(speaks),        KIND(leaves_child),
};

static struct place place;
static pthread_once_t once_place = PTHREAD_ONCE_INIT;

static void place_read(void)
{
    struct {
        const char *name;
        long long *number;
    } bounds[] = {
        {"coll=", &place.coll},   {"min=", &place.min},
        {"max=", &place.max},     {"pipe=", &place.pipe},
        {"reg=", &place.reg},     {"ranks=", &place.ranks},
        {"nodes=", &place.nodes}, {"only=", &place.only},
        {"life=", &place.life},   {"ended=", &place.ended},
    };
    const char *text = getenv("PLANTED") != NULL ? getenv("PLANTED") : "";

    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        const char *at = strstr(text, bounds[i].name);

        *bounds[i].number =
            at != NULL ? atoll(at + strlen(bounds[i].name)) : -1;
    }
    place.kind = NULL;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strncmp(text, kinds[i].name, strcspn(text, ",")) == 0 &&
            strlen(kinds[i].name) == strcspn(text, ","))
            place.kind = &kinds[i];
}

static int place_has(const struct place *p, const struct planted *self,
                     const struct planted_call *call)
{
    return p->kind != NULL && p->life < 0 && over_here >= p->ended &&
           (p->coll < 0 || p->coll == (long long)call->coll) &&
           (p->min < 0 || p->min <= (long long)call->n_bytes) &&
           (p->max < 0 || p->max >= (long long)call->n_bytes) &&
           (p->pipe < 0 || p->pipe == call->n_pipe_ops) &&
           (p->reg < 0 || p->reg == call->reg_buff) &&
           (p->ranks < 0 || p->ranks == (long long)self->n_ranks) &&
           (p->nodes < 0 || p->nodes == (long long)self->n_nodes);
}

static void place_live(struct planted *self, int life)
{
    const struct planted_call none = {0};
    const struct here here = {self, &none};

    if (place.kind != NULL && place.life == life &&
        (place.ranks < 0 || place.ranks == (long long)self->n_ranks) &&
        (place.nodes < 0 || place.nodes == (long long)self->n_nodes))
        place.kind->fn(&here);
}

INIT(here)
{
    pthread_once(&once_place, place_read);
    self->number = number_here++;
    latest_here = self->n_ranks;
    place_live(self, 1);
}

ASK(here)
{
    const struct here here = {self, call};

    if (place_has(&place, self, call))
        place.kind->fn(&here);
    else if (place.only < 0)
        planted_decide(call);
}

FINALIZE(here)
{
    place_live(self, 2);
    over_here++;
    free(self);
}

/* ---- the table: name, init, getCollInfo and finalize ---- */

#define FAULT(init, ask, finalize) init_##init, ask_##ask, finalize_##finalize

// clang-format off
/* Stops deciding after the first communicator's end. */
#define PLANTED_after_finalize "after finalize", FAULT(correctly, after_finalize, after_finalize)
/* Looks at the hour by a function that all threads share. */
#define PLANTED_breaks_time_down "breaks time down", FAULT(correctly, breaks_time_down, correctly)
/* Decides differently during a call of another communicator. */
#define PLANTED_busy_call "busy call", FAULT(correctly, busy_call, correctly)
/* Cannot be initialised while it is being initialised. */
#define PLANTED_busy_init "busy init", FAULT(busy_init, correctly, correctly)
/* Reads its policy in init, without a comparison with other ranks. */
#define PLANTED_by_file "by file", FAULT(by_file, by_file, correctly)
/* Reads its policy whenever the file changes, which ranks notice at
 * different calls. */
#define PLANTED_by_file_reload "by file, reload", FAULT(by_file_reload, by_file_reload, correctly)
/* Counts its finalizes in the environment, which outlives the tuner. */
#define PLANTED_by_life "by life", FAULT(by_life, by_life, by_life)
/* Decides by the number of communicators that its process has seen. */
#define PLANTED_by_number "by number", FAULT(by_number, by_number, correctly)
/* Decides by a variable that a launcher sets per rank. */
#define PLANTED_by_rank_variable "by rank variable", FAULT(by_rank_variable, by_rank_variable, correctly)
/* A tuner without a fault. */
#define PLANTED_clean "clean", FAULT(correctly, correctly, correctly)
/* Has an unfinished v6 part. */
#define PLANTED_fails_in_v6 "fails in v6", FAULT(correctly, correctly, correctly)
/* Fails its communicator if its policy is missing. */
#define PLANTED_fails_without_policy "fails without policy", FAULT(fails_without_policy, fails_without_policy, correctly)
/* Has a fault in one place, both as PLANTED says. */
#define PLANTED_here "here", FAULT(here, here, here)
/* Stores only the latest communicator. */
#define PLANTED_global_context "global context", FAULT(global_context, global_context, correctly)
/* Requires that communicators end in the reverse order of their inits. */
#define PLANTED_last_in_first_out "last in, first out", FAULT(last_in_first_out, correctly, last_in_first_out)
/* Not a fault: decides differently from some call on, as all ranks of a
 * communicator of eight do that learn together. */
#define PLANTED_learns "learns", FAULT(correctly, learns, correctly)
/* Fails where a process has made 500 communicators. */
#define PLANTED_fails_later "fails later", FAULT(fails_later, correctly, correctly)
/* Crashes where a call is of no operations, as from NCCL 2.31 on. */
#define PLANTED_needs_operations "needs operations", FAULT(correctly, needs_operations, correctly)
/* Has no name. */
#define PLANTED_no_name NULL, FAULT(correctly, correctly, correctly)
/* Creates a file during its lifetime, and fails if it finds the file of a rank
 * that was killed. */
#define PLANTED_remembers_the_dead "remembers the dead", FAULT(remembers_the_dead, correctly, remembers_the_dead)
// clang-format on

struct planted_fault {
    const char *name;
    void (*init)(struct planted *self);
    void (*ask)(struct planted *self, const struct planted_call *call);
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
    self->n_nodes = n_nodes;
    self->comm_id = comm_id;
    self->log = log;
    *context = self;
    planted.init(self);
    return self->result;
}

static ncclResult_t ask_v5(void *context, ncclFunc_t coll, size_t n_bytes,
                           int n_pipe_ops, float **table, int n_algos,
                           int n_protos, int reg_buff, int *n_channels)
{
    struct planted *self = context;
    const struct planted_call call = {
        .coll = coll,
        .n_bytes = n_bytes,
        .n_pipe_ops = n_pipe_ops,
        .reg_buff = reg_buff,
        .n_algos = n_algos,
        .table = (float(*)[NCCL_NUM_PROTOCOLS])table,
        .n_channels = n_channels,
    };

    self->result = ncclSuccess;
    planted.ask(self, &call);
    return self->result;
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
