/*
 * decision_bench.c - how long the static plugin takes to decide
 *
 * Loads the plugin as NCCL does, with a logger attached, and asks it for
 * choices as NCCL's launch path would, with policies of 10 to 100,000 rules of
 * distinct size ranges.  Prints p50 and p99 of single calls, less the time of
 * reading the clock, and the mean of calls back to back; once with the sizes of
 * a training step, which repeat, and once with sizes all over the range.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/rng.h"
#include "core/stats.h"
#include "nccl_tuner_abi.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum { N_CALLS = 200000, N_STEP_SIZES = 16 };

typedef float cost_table[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];

/* NCCL's own logger formats only what NCCL_DEBUG lets through. */
static void logger(ncclDebugLogLevel level, unsigned long flags,
                   const char *file, int line, const char *fmt, ...)
{
    va_list va;

    (void)flags;
    (void)file;
    (void)line;
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

static void measure(const ncclTuner_v5_t *tuner, void *ctx, bool repeat,
                    double tick_ns, double *ns, struct result *result)
{
    static uint64_t sizes[N_CALLS];
    cost_table table;
    double overhead;
    double begin;

    for (size_t i = 0; i < N_CALLS; i++)
        sizes[i] = size_of_call(i, repeat);
    for (size_t i = 0; i < N_CALLS; i++) {
        uint64_t t = ticks();

        memcpy(table, fresh, sizeof(fresh));
        ns[i] = (double)(ticks() - t) * tick_ns;
    }
    stp_summarise(ns, N_CALLS, &result->call);
    overhead = result->call.median;
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

static const ncclTuner_v5_t *load_plugin(const char *path)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const void *symbol = lib != NULL ? dlsym(lib, "ncclTunerPlugin_v5") : NULL;

    if (symbol == NULL)
        fprintf(stderr, "decision_bench: %s\n", dlerror());
    return symbol;
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {10, 100, 1000, 10000, 100000};
    char path[] = "/tmp/steptune-decision-bench.XXXXXX";
    const ncclTuner_v5_t *tuner = load_plugin(argc > 1 ? argv[1] : STP_PLUGIN);
    double *ns = calloc(N_CALLS, sizeof(*ns));
    double tick_ns;
    int failed = 0;
    int fd;

    if (tuner == NULL || ns == NULL)
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
    unlink(path);
    free(ns);
    return failed;
}
