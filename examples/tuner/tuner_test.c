/*
 * tuner_test.c - loads a tuner as NCCL would, on every rank of a recorded
 * machine, and looks at the cost table that it leaves
 *
 *   tuner_test TUNER MACHINE
 */
#include <stdio.h>
#include <string.h>

#include "mock_nccl.h"
#include "mock_ranks.h"

static const struct {
    const char *name;
    struct mock_call call;
    bool is_tuned;
} cases[] = {
    {"all-gather of 1 MiB",
     {.coll = ncclFuncAllGather, .n_bytes = 1 << 20},
     false},
    {"all-gather of 2 MiB",
     {.coll = ncclFuncAllGather, .n_bytes = 2 << 20},
     true},
    {"all-gather of 16 MiB",
     {.coll = ncclFuncAllGather, .n_bytes = 16 << 20},
     true},
    {"all-gather of 32 MiB",
     {.coll = ncclFuncAllGather, .n_bytes = 32 << 20},
     false},
    {"all-reduce of 4 MiB",
     {.coll = ncclFuncAllReduce, .n_bytes = 4 << 20},
     false},
};
enum { N_CASES = sizeof(cases) / sizeof(cases[0]) };

static const char *const versions[] = {"2.28", "2.30", "2.32"};
enum { N_VERSIONS = sizeof(versions) / sizeof(versions[0]) };

struct seen {
    const char *version;
    size_t n_decided;
    int n_wrong;
};

static void expect(struct seen *seen, bool is_true, size_t i, const char *what)
{
    if (is_true)
        return;
    seen->n_wrong++;
    printf("NCCL %s, %s: expected %s\n", seen->version, cases[i].name, what);
}

/* The decision on a case, from the rank that came first; mock NCCL compares
 * the others with it. */
static void check_decision(void *user, size_t step, size_t i,
                           const struct mock_outcome *outcome)
{
    struct seen *seen = user;
    mock_table wanted;

    (void)i;
    seen->n_decided++;
    memcpy(wanted, outcome->cost, sizeof(wanted));
    expect(seen, outcome->asked, step, "NCCL to ask the tuner");
    expect(seen, outcome->asked_channels == 0, step, "NCCL's own channels");
    if (cases[step].is_tuned) {
        expect(seen,
               outcome->algo == NCCL_ALGO_RING &&
                   outcome->proto == NCCL_PROTO_LL128,
               step, "ring/ll128");
        wanted[NCCL_ALGO_RING][NCCL_PROTO_LL128] =
            outcome->cost_after[NCCL_ALGO_RING][NCCL_PROTO_LL128];
    }
    expect(seen, memcmp(wanted, outcome->cost_after, sizeof(wanted)) == 0, step,
           "all other entries of the cost table as they were");
}

static bool is_ok(ncclResult_t result)
{
    if (result != ncclSuccess)
        printf("mock NCCL: %s\n", mock_last_error());
    return result == ncclSuccess;
}

/* Plays all cases on all ranks, a thread each. */
static bool play(struct mock_ranks *ranks, const char *version)
{
    struct mock_step steps[N_CASES];
    struct seen seen = {.version = version};
    const struct mock_script script = {.steps = steps,
                                       .n_steps = N_CASES,
                                       .decided = check_decision,
                                       .user = &seen};

    for (size_t i = 0; i < N_CASES; i++)
        steps[i] = (struct mock_step){&cases[i].call, 1};
    return is_ok(mock_ranks_play(ranks, &script, 1)) &&
           seen.n_decided == N_CASES && seen.n_wrong == 0;
}

static bool test_version(const char *version, const char *tuner,
                         const struct mock_machine *machine)
{
    const struct mock_nccl_options options = {.version = version,
                                              .tuner_plugin = tuner};
    const struct mock_ranks_options layout = {.layout = MOCK_THREADS,
                                              .comm_id = mock_new_comm_id()};
    struct mock_nccl *nccl;
    struct mock_ranks *ranks;
    char name[32] = "";
    bool passes = false;

    if (!is_ok(mock_nccl_create(&options, &nccl)))
        return false;
    if (mock_nccl_find_tuner(nccl, name, sizeof(name)) != 5 ||
        strcmp(name, "example") != 0) {
        printf("NCCL %s: loads '%s', expected tuner v5 'example'\n", version,
               name);
    } else if (is_ok(mock_ranks_create(nccl, machine, &layout, &ranks))) {
        passes = play(ranks, version);
        mock_ranks_destroy(ranks);
    }
    mock_nccl_destroy(nccl);
    return passes;
}

int main(int argc, char **argv)
{
    struct mock_machine *machine;
    int n_failed = 0;

    if (argc != 3) {
        fprintf(stderr, "Usage: %s TUNER MACHINE\n", argv[0]);
        return 2;
    }
    if (!is_ok(mock_machine_load(argv[2], &machine)))
        return 1;
    for (size_t i = 0; i < N_VERSIONS; i++)
        n_failed += !test_version(versions[i], argv[1], machine);
    mock_machine_free(machine);
    printf("%d of %d versions of NCCL failed\n", n_failed, N_VERSIONS);
    return n_failed > 0;
}
