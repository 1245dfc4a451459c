/*
 * contract_calls.c - checks of single calls of getCollInfo
 *
 * All of them look at the same calls: every collective, from 8 bytes to 16 GiB,
 * on machines whose tables have NVLS, or fp8's -1024, or little else than
 * entries that NCCL has ruled out.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyse/contract/contract_suite.h"
#include "core/names.h"

/* ---- all calls ---- */

/* Restrictions by the user, as NCCL_ALGO and NCCL_PROTO. */
static const struct stp_contract_nccl restrictions[] = {
    {0},
    {.algo = "ring"},
    {.proto = "simple"},
    {.algo = "ring", .proto = "simple"},
    {.algo = "ring", .proto = "ll"},
    {.algo = "ring;allreduce:tree", .proto = "^ll128"},
};
enum { N_RESTRICTIONS = sizeof(restrictions) / sizeof(restrictions[0]) };

#define KI 1024ull
#define MI (1024 * KI)
#define GI (1024 * MI)
static const size_t sizes[] = {
    8,           10,       24,      1000,       1 * KI, 4098,       64 * KI,
    64 * KI + 2, 100000,   1000002, 1 * MI,     4 * MI, 9536512,    32 * MI,
    100000002,   256 * MI, 1 * GI,  4 * GI - 2, 4 * GI, 4 * GI + 2, 16 * GI,
};
enum { N_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static const struct mock_call types[] = {
    {.element_size = 2},
    {.element_size = 4, .no_nvls = true},
    {.element_size = 1, .fp8 = true},
};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

static const struct {
    int n_pipe_ops;
    int reg_buff;
} ways[] = {{1, 0}, {1, 1}, {2, 0}, {64, 1}};
enum { N_WAYS = sizeof(ways) / sizeof(ways[0]) };

/* Every collective, size and type, twice. */
enum { N_CALLS = N_SIZES * NCCL_NUM_TUNED_FUNCS * N_TYPES * 2 };

/* One call, and what became of it. */
struct stp_asked {
    const struct mock_call *call;
    const struct mock_outcome *outcome;
    ncclResult_t rc;
    const char *why;  /* if it failed */
    bool alone_fails; /* NCCL without the tuner */
    const struct mock_outcome *alone;
    bool sees_table;                /* the tuner does */
    char text[STP_CALL_TEXT + 128]; /* the call and where it was made */
};

/* Every collective, size and type, in two of the ways each: calls from the
 * first, 'stride' apart, on a rank with the tuner and on one without. */
static void calls_ask_all(struct stp_contract_run *run,
                          const struct stp_contract_nccl *how,
                          const struct mock_machine *machine, size_t stride,
                          stp_judge_fn *judge)
{
    struct stp_contract_nccl how_alone = *how;
    struct mock_nccl *nccl = stp_contract_open_as(run, how);
    struct mock_nccl *nccl_alone =
        (how_alone.alone = true, stp_contract_open_as(run, &how_alone));
    struct mock_comm *comm = stp_contract_comm(run, nccl, machine, 0);
    struct mock_comm *comm_alone =
        stp_contract_comm(run, nccl_alone, machine, 0);
    struct mock_outcome outcome, alone;
    /* A v2 tuner is not shown the table, and cannot know what is ruled out in
     * it by NCCL_ALGO, NCCL_PROTO or the type. */
    bool sees_table = mock_comm_tuner_version(comm) > 2;
    bool fair = sees_table || (how->algo == NULL && how->proto == NULL);

    for (size_t i = 0; i < N_CALLS && fair; i += stride) {
        const size_t kind = i / 2 % N_TYPES;
        const size_t size = i / 2 / N_TYPES % N_SIZES;
        const size_t way = (i + size) % N_WAYS;
        struct mock_call call = types[kind];
        char text[STP_CALL_TEXT];
        struct stp_asked asked = {.call = &call,
                                  .outcome = &outcome,
                                  .alone = &alone,
                                  .why = "",
                                  .sees_table = sees_table};

        if (call.fp8 && !sees_table)
            continue;
        call.coll = (ncclFunc_t)(i / 2 / N_TYPES / N_SIZES);
        call.n_bytes = sizes[size];
        call.n_pipe_ops = ways[way].n_pipe_ops;
        call.reg_buff = ways[way].reg_buff;
        snprintf(asked.text, sizeof(asked.text), "%s on %s%s%s%s%s",
                 stp_contract_describe(&call, text),
                 mock_machine_get_info(machine)->name,
                 how->algo != NULL ? ", NCCL_ALGO=" : "",
                 how->algo != NULL ? how->algo : "",
                 how->proto != NULL ? ", NCCL_PROTO=" : "",
                 how->proto != NULL ? how->proto : "");
        stp_contract_at(run, "%s%s%s", run->about != NULL ? run->about : "",
                        run->about != NULL ? ": " : "", asked.text);
        asked.alone_fails =
            mock_comm_collective(comm_alone, &call, &alone) != ncclSuccess;
        asked.rc = mock_comm_collective(comm, &call, &outcome);
        if (asked.rc != ncclSuccess)
            asked.why = mock_last_error();
        judge(run, &asked);
    }
    stp_contract_destroy(run, comm);
    stp_contract_close(run, comm_alone);
    stp_contract_unload(run, nccl);
    stp_contract_unload(run, nccl_alone);
}

static void calls_ask_everywhere(struct stp_contract_run *run,
                                 stp_judge_fn *judge)
{
    const struct mock_machine *machines[] = {
        run->world->machine,
        run->world->shapes[STP_SHAPE_NVLS],
        run->world->shapes[STP_SHAPE_2X8],
    };

    for (int m = 0; m < 3; m++)
        for (int r = 0; r < N_RESTRICTIONS; r++)
            calls_ask_all(run, &restrictions[r], machines[m], r == 0 ? 1 : 7,
                          judge);
}

void stp_check_calls(struct stp_contract_run *run)
{
    calls_ask_everywhere(run, run->entry->judge);
}

/* ---- what is looked at ---- */

void stp_judge_success(struct stp_contract_run *run,
                       const struct stp_asked *asked)
{
    if (asked->rc != ncclSuccess && !asked->alone_fails)
        stp_contract_fail(run, "%s: %s", asked->text, asked->why);
}

void stp_judge_inside(struct stp_contract_run *run,
                      const struct stp_asked *asked)
{
    if (strstr(asked->why, "wrote outside the cost table") != NULL)
        stp_contract_fail(run, "%s: %s", asked->text, asked->why);
}

/* An entry of the cost table before and after the tuner. */
struct entry {
    float before, after;
    const char *algo, *proto;
};

static bool calls_is_new_negative(float before, float after)
{
    return !(after >= 0) && memcmp(&before, &after, sizeof(after)) != 0;
}

static bool calls_is_revived(float before, float after)
{
    return before < 0 && after >= 0;
}

static bool calls_is_changed(float before, float after)
{
    return memcmp(&before, &after, sizeof(after)) != 0;
}

/* The first entry of which 'is_bad' says so; false if there is none. */
static bool
calls_find_entry(const float before[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS],
                 const float after[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS],
                 bool (*is_bad)(float before, float after), struct entry *entry)
{
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            if (is_bad(before[a][p], after[a][p])) {
                *entry = (struct entry){before[a][p], after[a][p],
                                        stp_algo_name(a), stp_proto_name(p)};
                return true;
            }
    return false;
}

#define FIND_WRITTEN(asked, is_bad, entry)                                     \
    calls_find_entry((asked)->outcome->cost, (asked)->outcome->cost_after,     \
                     is_bad, entry)

void stp_judge_negative(struct stp_contract_run *run,
                        const struct stp_asked *asked)
{
    struct entry e;

    if (FIND_WRITTEN(asked, calls_is_new_negative, &e))
        stp_contract_fail(run,
                          "%s: %g written to %s/%s, which NCCL 2.31 and later "
                          "would take as the cheapest",
                          asked->text, (double)e.after, e.algo, e.proto);
}

void stp_judge_revived(struct stp_contract_run *run,
                       const struct stp_asked *asked)
{
    struct entry e;

    if (FIND_WRITTEN(asked, calls_is_revived, &e))
        stp_contract_fail(
            run,
            "%s: %g written to %s/%s, which NCCL had ruled out with %g and "
            "would crash or hang on",
            asked->text, (double)e.after, e.algo, e.proto, (double)e.before);
}

enum { MAX_CHANNELS = 64 };

void stp_judge_channels(struct stp_contract_run *run,
                        const struct stp_asked *asked)
{
    int n = asked->outcome->asked_channels;

    if (n < 0 || n > MAX_CHANNELS)
        stp_contract_fail(
            run,
            "%s: asks for %d channels, expected 0 to %d; the 8-bit field of "
            "NCCL up to 2.30 makes that %d",
            asked->text, n, MAX_CHANNELS, (int)(int8_t)(uint8_t)n);
}

/* ---- what no rule decides ---- */

void stp_judge_unmatched(struct stp_contract_run *run,
                         const struct stp_asked *asked)
{
    struct entry e;

    if (asked->outcome->asked_channels != 0 && asked->sees_table &&
        !FIND_WRITTEN(asked, calls_is_changed, &e))
        stp_contract_fail(run,
                          "%s: sets channels to %d, though it changes no cost",
                          asked->text, asked->outcome->asked_channels);
}

/* Judges calls under a policy that decides nothing. */
static void calls_judge_nothing(struct stp_contract_run *run,
                                const struct stp_asked *asked)
{
    struct entry e;

    if (asked->outcome->asked_channels != 0)
        stp_contract_fail(run,
                          "%s: sets channels to %d, though its policy is empty",
                          asked->text, asked->outcome->asked_channels);
    if (FIND_WRITTEN(asked, calls_is_changed, &e))
        stp_contract_fail(run,
                          "%s: %g written to %s/%s, though its policy is empty",
                          asked->text, (double)e.after, e.algo, e.proto);
    if (calls_find_entry(asked->alone->cost, asked->outcome->cost,
                         calls_is_changed, &e))
        stp_contract_fail(
            run,
            "%s: %s/%s costs %g, %g without the tuner: init changed NCCL's "
            "constants, though its policy is empty",
            asked->text, e.algo, e.proto, (double)e.after, (double)e.before);
}

void stp_check_unmatched(struct stp_contract_run *run)
{
    stp_check_calls(run);
    if (run->reads_file != STP_READS_FILE)
        return;
    stp_contract_set_policy(run->world->files[STP_FILE_EMPTY]);
    calls_ask_everywhere(run, calls_judge_nothing);
}

/* ---- policies that nobody should write ---- */

static const struct {
    const char *title;
    const char *text; /* NULL: 'title' is the path */
} policies[] = {
    {"/nonexistent/policy.conf", NULL},
    {"/", NULL},
    {"garbage", "\x7f"
                "ELF\x01\x02,,,,\n,,,,,,,,,,,,,,\n\xff\xfe\n%n%s%d\n"},
    {"short lines", "allreduce\nallreduce,0\nallreduce,0,1024,tree\n"},
    {"unknown words", "allreduze,0,1024,tree,ll,1,-1,-1\n"
                      "allreduce,0,1024,treee,ll,1,-1,-1\n"
                      "allreduce,0,1024,tree,lll,1,-1,-1\n"},
    {"numbers out of range",
     "allreduce,-5,99999999999999999999999,ring,ll,-7,-1,-1\n"
     "broadcast,1024,8,ring,ll,200,-1,-1\n"
     "reduce,0,1099511627776,ring,ll,128,-1,-1\n"
     "allgather,0,1099511627776,ring,simple,256,-1,-1\n"},
    {"pairs that NCCL rules out",
     "allreduce,0,1099511627776,pat,simple,-1,-1,-1\n"
     "allreduce,0,1099511627776,nvls,ll,-1,-1,-1\n"
     "allreduce,0,1099511627776,collnet_direct,simple,-1,-1,-1\n"
     "allreduce,0,1099511627776,nvls,simple,-1,-1,-1\n"
     "broadcast,0,1099511627776,tree,ll,-1,-1,-1\n"
     "reduce,0,1099511627776,nvls,simple,-1,-1,-1\n"
     "allgather,0,1099511627776,tree,simple,-1,-1,-1\n"
     "reducescatter,0,1099511627776,collnet_chain,simple,-1,-1,-1\n"},
};
enum { N_POLICIES = sizeof(policies) / sizeof(policies[0]) };

/* Judges answers that would end the job, or corrupt it. */
static void calls_judge_harm(struct stp_contract_run *run,
                             const struct stp_asked *asked)
{
    stp_judge_revived(run, asked);
    stp_judge_negative(run, asked);
    stp_judge_channels(run, asked);
    stp_judge_success(run, asked);
}

void stp_check_policies(struct stp_contract_run *run)
{
    const char *file = run->world->files[STP_FILE_BAD];

    stp_contract_needs_file(run);
    for (int i = 0; i < N_POLICIES; i++) {
        if (policies[i].text != NULL)
            stp_write_text(file, policies[i].text);
        stp_contract_set_policy(policies[i].text != NULL ? file
                                                         : policies[i].title);
        run->about = policies[i].title;
        calls_ask_all(run, &restrictions[0], run->world->machine, 7,
                      calls_judge_harm);
        calls_ask_all(run, &restrictions[0], run->world->shapes[STP_SHAPE_2X8],
                      7, calls_judge_harm);
    }
}

/* ---- all versions ---- */

void stp_check_versions(struct stp_contract_run *run)
{
    char about[48];
    int n = 0;

    run->about = about;
    for (size_t v = 0; v < STP_MAX_NCCL; v++) {
        const struct stp_contract_nccl how = {.version = mock_release_name(v)};

        if (run->tuner_versions[v] == 0)
            continue;
        n++;
        snprintf(about, sizeof(about), "NCCL %s (tuner v%d)", how.version,
                 run->tuner_versions[v]);
        calls_ask_all(run, &how, run->world->machine, 1, stp_judge_success);
        calls_ask_all(run, &how, run->world->shapes[STP_SHAPE_2X8], 7,
                      stp_judge_success);
    }
    run->about = NULL;
    stp_contract_set(run->slot, STP_CONTRACT_OK, "%d versions", n);
}
