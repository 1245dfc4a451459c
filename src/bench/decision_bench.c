/*
 * decision_bench.c - how long the plugins take to decide
 *
 * Loads a plugin as NCCL does, with a logger attached, and asks it for choices
 * as NCCL's launch path would.  Prints p50 and p99 of single calls, less the
 * time of reading the clock, and the mean of calls back to back.
 *
 * The static plugin has policies of 10 to 100,000 rules of distinct size
 * ranges, and is asked once about the sizes of a training step, which repeat,
 * and once about sizes all over the range.  The learning one is asked about
 * those of a training step: on a rank that follows, and on the one that
 * observes, while something is tried by the GPU's times or by steps, whose
 * calls all are timed, and when all is settled.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/rng.h"
#include "core/stats.h"
#include "nccl_profiler_abi.h"
#include "nccl_tuner_abi.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum {
    N_CALLS = 200000,
    N_STEP_SIZES = 16,
    N_BLOCK = 400,     /* calls of a rank in a row: a plugin's thread can be
                          two of these behind */
    N_BLOCKS = 100,    /* of those that are measured */
    BLOCK_MS = 12,     /* until its thread has looked */
    N_SETTLING = 1000, /* blocks in which all must settle */
};

typedef float cost_table[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];

/* Lines that say that a kind of message is settled, of any thread. */
static atomic_size_t n_settled;

/* NCCL's own logger formats only what NCCL_DEBUG lets through. */
static void logger(ncclDebugLogLevel level, unsigned long flags,
                   const char *file, int line, const char *fmt, ...)
{
    va_list va;

    (void)flags;
    (void)file;
    (void)line;
    if (strstr(fmt, "settled after") != NULL)
        atomic_fetch_add(&n_settled, 1);
    if (level > NCCL_LOG_WARN)
        return;
    va_start(va, fmt);
    vfprintf(stderr, fmt, va);
    va_end(va);
    fputc('\n', stderr);
}

static double clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* A clock that two calls can be told apart by: cycles where there are any. */
static uint64_t ticks(void)
{
#if defined(__x86_64__)
    unsigned cpu;
    uint64_t t = __rdtscp(&cpu);

    _mm_lfence();
    return t;
#else
    return (uint64_t)clock_ns();
#endif
}

static double ns_per_tick(void)
{
    double ns = clock_ns();
    uint64_t t = ticks();

    while (clock_ns() - ns < 2e8)
        ;
    return (clock_ns() - ns) / (double)(ticks() - t);
}

/* Rules that touch each other, from 64 bytes to 4 GiB, evenly on a logarithmic
 * scale; neighbours differ, so that none can be merged. */
static bool write_policy(const char *path, size_t n_rules)
{
    static const char *const choices[] = {"ring,ll", "ring,ll128",
                                          "ring,simple", "tree,simple"};
    FILE *fp = fopen(path, "w");
    double size = 64;
    double factor = 67108864.0;
    uint64_t from = 64;

    if (fp == NULL)
        return false;
    for (size_t i = 0; i < n_rules; i++) {
        double share = (double)(i + 1) / (double)n_rules;
        uint64_t to = (uint64_t)(size * pow(factor, share));

        if (to <= from)
            to = from + 1;
        fprintf(fp, "allreduce,%" PRIu64 ",%" PRIu64 ",%s,-1,-1,-1\n", from, to,
                choices[i % 4]);
        from = to + 1;
    }
    return fclose(fp) == 0;
}

static uint64_t size_of_call(uint64_t call, bool repeat)
{
    double at = stp_rng_unit(7, repeat ? call % N_STEP_SIZES : call);

    return (uint64_t)(64 * pow(67108864.0, at));
}

static const cost_table fresh = {{30, 28, 45}, {20, 25, 24}};

static void ask(const ncclTuner_v5_t *tuner, void *ctx, uint64_t n_bytes,
                cost_table table)
{
    int n_channels = 0;

    memcpy(table, fresh, sizeof(fresh));
    tuner->getCollInfo(ctx, ncclFuncAllReduce, n_bytes, 1, (float **)table,
                       NCCL_NUM_ALGORITHMS, NCCL_NUM_PROTOCOLS, 0, &n_channels);
}

struct result {
    struct stp_summary call;
    double back_to_back_ns;
};

/* What a call that decides nothing takes. */
static double measure_nothing(double tick_ns, double *ns)
{
    struct stp_summary summary;
    cost_table table;

    for (size_t i = 0; i < N_CALLS; i++) {
        uint64_t t = ticks();

        memcpy(table, fresh, sizeof(fresh));
        ns[i] = (double)(ticks() - t) * tick_ns;
    }
    stp_summarise(ns, N_CALLS, &summary);
    return summary.median;
}

static void measure(const ncclTuner_v5_t *tuner, void *ctx, bool repeat,
                    double tick_ns, double *ns, struct result *result)
{
    static uint64_t sizes[N_CALLS];
    cost_table table;
    double overhead = measure_nothing(tick_ns, ns);
    double begin;

    for (size_t i = 0; i < N_CALLS; i++)
        sizes[i] = size_of_call(i, repeat);
    for (size_t i = 0; i < N_CALLS; i++) {
        uint64_t t = ticks();

        ask(tuner, ctx, sizes[i], table);
        ns[i] = (double)(ticks() - t) * tick_ns - overhead;
    }
    stp_summarise(ns, N_CALLS, &result->call);
    begin = clock_ns();
    for (size_t i = 0; i < N_CALLS; i++)
        ask(tuner, ctx, sizes[i], table);
    result->back_to_back_ns = (clock_ns() - begin) / N_CALLS;
}

static int bench_rules(const ncclTuner_v5_t *tuner, const char *path,
                       size_t n_rules, double tick_ns, double *ns)
{
    ncclTunerConstants_v5_t constants = {0};
    ncclNvlDomainInfo_v5_t nvl = {1, 8, 8};
    void *ctx = NULL;
    double begin;
    double load_ms;

    if (!write_policy(path, n_rules)) {
        perror(path);
        return 1;
    }
    begin = clock_ns();
    tuner->init(&ctx, 1, 8, 1, logger, &nvl, &constants);
    load_ms = (clock_ns() - begin) / 1e6;
    for (int repeat = 1; repeat >= 0; repeat--) {
        struct result r;

        measure(tuner, ctx, repeat, tick_ns, ns, &r);
        printf("%8zu  %9.2f  %-8s  %8.1f  %8.1f  %12.1f\n", n_rules, load_ms,
               repeat ? "repeat" : "random", r.call.median, r.call.p99,
               r.back_to_back_ns);
    }
    tuner->finalize(ctx);
    return 0;
}

/* ---- the one that learns ---- */

/* The halves of a plugin that learns. */
struct online {
    const ncclTuner_v5_t *tuner;
    const ncclProfiler_v5_t *profiler;
};

/* A communicator of two ranks, of which the first one observes. */
struct pair {
    struct online plugin;
    void *ctx[2];
    void *profile[2]; /* NULL: NCCL has no profiler */
    uint64_t sizes[N_STEP_SIZES];
    size_t n_asked; /* of each rank */
};

static void open_pair(struct pair *pair, const struct online *plugin,
                      bool has_profiler)
{
    static uint64_t number = 0x5ec0de00;
    const uint64_t id = ++number * (uint64_t)getpid();
    ncclTunerConstants_v5_t constants = {0};
    ncclNvlDomainInfo_v5_t nvl = {1, 2, 2};

    int mask[2];

    *pair = (struct pair){.plugin = *plugin};
    for (size_t i = 0; i < N_STEP_SIZES; i++)
        pair->sizes[i] = size_of_call(i, true);
    for (int r = 0; r < 2; r++) {
        if (has_profiler)
            plugin->profiler->init(&pair->profile[r], id, &mask[r], "bench", 1,
                                   2, r, logger);
        plugin->tuner->init(&pair->ctx[r], id, 2, 1, logger, &nvl, &constants);
    }
}

static void close_pair(const struct pair *pair)
{
    for (int r = 0; r < 2; r++) {
        pair->plugin.tuner->finalize(pair->ctx[r]);
        pair->plugin.profiler->finalize(pair->profile[r]);
    }
}

/* A block of calls of one rank, each into 'ns' unless that is NULL. */
static void ask_block(const struct pair *pair, int rank, double tick_ns,
                      double overhead, double *ns)
{
    cost_table table;

    for (size_t i = 0; i < N_BLOCK; i++) {
        uint64_t t = ns != NULL ? ticks() : 0;

        ask(pair->plugin.tuner, pair->ctx[rank],
            pair->sizes[(pair->n_asked + i) % N_STEP_SIZES], table);
        if (ns != NULL)
            ns[i] = (double)(ticks() - t) * tick_ns - overhead;
    }
}

static void let_it_think(void)
{
    const struct timespec nap = {.tv_nsec = BLOCK_MS * 1000000L};

    nanosleep(&nap, NULL);
}

/* A nap leaves nothing in the caches, which a job has between calls. */
static void warm_up(struct pair *pair, int rank)
{
    ask_block(pair, !rank, 0, 0, NULL);
    ask_block(pair, rank, 0, 0, NULL);
    pair->n_asked += N_BLOCK;
    ask_block(pair, !rank, 0, 0, NULL);
}

static void measure_rank(struct pair *pair, int rank, double tick_ns,
                         double *ns, struct result *result)
{
    double overhead = measure_nothing(tick_ns, ns);
    double begin, spent = 0;

    for (size_t b = 0; b < N_BLOCKS; b++) {
        warm_up(pair, rank);
        ask_block(pair, rank, tick_ns, overhead, &ns[b * N_BLOCK]);
        pair->n_asked += N_BLOCK;
        let_it_think();
    }
    stp_summarise(ns, (size_t)N_BLOCKS * N_BLOCK, &result->call);
    for (size_t b = 0; b < N_BLOCKS; b++) {
        warm_up(pair, rank);
        begin = clock_ns();
        ask_block(pair, rank, 0, 0, NULL);
        spent += clock_ns() - begin;
        pair->n_asked += N_BLOCK;
        let_it_think();
    }
    result->back_to_back_ns = spent / N_BLOCKS / N_BLOCK;
}

static void bench_role(struct pair *pair, int rank, const char *role,
                       double tick_ns, double *ns)
{
    struct result r;

    measure_rank(pair, rank, tick_ns, ns, &r);
    printf("%-21s  %8.1f  %8.1f  %12.1f\n", role, r.call.median, r.call.p99,
           r.back_to_back_ns);
}

static bool append_rewards(const struct pair *pair, const char *path)
{
    FILE *fp = fopen(path, "a");

    if (fp == NULL)
        return false;
    for (size_t i = 0; i < N_STEP_SIZES; i++)
        fprintf(fp, "allreduce,%" PRIu64 ",1,2,1.0\n", pair->sizes[i]);
    return fclose(fp) == 0;
}

/* Until all sizes are settled: each arm has a reward. */
static bool settle(struct pair *pair, const char *rewards)
{
    size_t before = 0;

    for (int b = 0, quiet = 0; b < N_SETTLING; b++) {
        if (!append_rewards(pair, rewards))
            return false;
        ask_block(pair, 0, 0, 0, NULL);
        ask_block(pair, 1, 0, 0, NULL);
        pair->n_asked += N_BLOCK;
        let_it_think();
        quiet = n_settled > before ? 0 : quiet + 1;
        before = n_settled;
        if (before > 0 && quiet > 50)
            return true;
    }
    return false;
}

static int bench_online(const struct online *plugin, const char *rewards,
                        double tick_ns, double *ns)
{
    char learned[64];
    struct pair pair;

    printf("\nlearning                 p50 ns    p99 ns  back-to-back\n");
    unsetenv("NCCL_TUNER_CONFIG_FILE");
    snprintf(learned, sizeof(learned), "%s.learned", rewards);
    setenv("STEPTUNE_LEARNED", learned, 1);
    setenv("STEPTUNE_OBJECTIVE", "gpu", 1); /* of which it hears nothing */
    open_pair(&pair, plugin, true);
    bench_role(&pair, 1, "follows", tick_ns, ns);
    bench_role(&pair, 0, "explores by GPU times", tick_ns, ns);
    close_pair(&pair);

    setenv("STEPTUNE_OBJECTIVE", "step", 1);
    open_pair(&pair, plugin, false);
    bench_role(&pair, 0, "explores by steps", tick_ns, ns);
    close_pair(&pair);

    setenv("STEPTUNE_OBJECTIVE", "file", 1);
    setenv("STEPTUNE_STRATEGY", "epsilon", 1);
    setenv("STEPTUNE_ARMS", "ring/simple", 1);
    setenv("NCCL_TUNER_EPS", "0", 1);
    setenv("NCCL_TUNER_REWARD_FILE", rewards, 1);
    open_pair(&pair, plugin, false);
    if (settle(&pair, rewards))
        bench_role(&pair, 0, "settled", tick_ns, ns);
    else
        fprintf(stderr, "decision_bench: it does not settle\n");
    close_pair(&pair);
    unlink(learned);
    return n_settled == 0;
}

static const void *load(const char *path, const char *name)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const void *symbol = lib != NULL ? dlsym(lib, name) : NULL;

    if (symbol == NULL)
        fprintf(stderr, "decision_bench: %s\n", dlerror());
    return symbol;
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {10, 100, 1000, 10000, 100000};
    char path[] = "/tmp/steptune-decision-bench.XXXXXX";
    const ncclTuner_v5_t *tuner =
        load(argc > 1 ? argv[1] : STP_PLUGIN, "ncclTunerPlugin_v5");
    const char *learns = argc > 2 ? argv[2] : STP_ONLINE;
    const struct online online = {load(learns, "ncclTunerPlugin_v5"),
                                  load(learns, "ncclProfiler_v5")};
    double *ns = calloc(N_CALLS, sizeof(*ns));
    double tick_ns;
    int failed = 0;
    int fd;

    if (tuner == NULL || online.tuner == NULL || online.profiler == NULL ||
        ns == NULL)
        return 1;
    fd = mkstemp(path);
    if (fd < 0) {
        perror(path);
        return 1;
    }
    close(fd);
    setenv("NCCL_TUNER_CONFIG_FILE", path, 1);
    tick_ns = ns_per_tick();
    printf("   rules    load ms  sizes       p50 ns    p99 ns  back-to-back\n");
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]) && !failed; i++)
        failed = bench_rules(tuner, path, counts[i], tick_ns, ns);
    if (!failed && truncate(path, 0) == 0)
        failed = bench_online(&online, path, tick_ns, ns);
    unlink(path);
    free(ns);
    return failed;
}
