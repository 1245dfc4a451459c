/*
 * contract_calls.c - checks of single calls of getCollInfo
 *
 * One process makes all calls, and all judges of the list of checks look at
 * each: every collective and size, on machines whose tables have NVLS, or
 * CollNet, or fp8's -1024, or little else than entries that NCCL has ruled out.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyse/contract/contract_suite.h"
#include "core/names.h"
#include "core/rng.h"

/* ---- all calls ---- */

/* Restrictions by the user, as NCCL_ALGO and NCCL_PROTO. */
static const struct stp_contract_nccl restrictions[] = {
    {.algo = "ring"},
    {.proto = "simple"},
    {.algo = "ring", .proto = "simple"},
    {.algo = "ring", .proto = "ll"},
    {.algo = "ring;allreduce:tree", .proto = "^ll128"},
};
enum { N_RESTRICTIONS = sizeof(restrictions) / sizeof(restrictions[0]) };

static const struct mock_call types[] = {
    {.element_size = 2},
    {.element_size = 4, .no_nvls = true},
    {.element_size = 1, .fp8 = true},
};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

/* Which calls are made, and who judges them. */
struct calls {
    const struct mock_machine *machine;
    struct stp_contract_nccl how;
    bool all_sizes;     /* not only the first ones */
    size_t way, n_ways; /* the first ones also in this way, and in each so many
                           on; 0: in none */
    /* NULL: the list of checks, each with its own slot */
    stp_judge_fn *const *judges;
    struct stp_contract_slot *slot; /* theirs */
};

/* One call, and what became of it. */
struct stp_asked {
    const struct calls *calls;
    const char *about;
    struct mock_call call;
    struct mock_outcome outcome;
    ncclResult_t rc;
    const char *why;              /* if it failed */
    struct mock_comm *comm_alone; /* NCCL without the tuner */
    bool sees_table;              /* the tuner does */
    struct stp_contract_slot *slot;
};

/* Fails the check, with the call and where it was made. */
STP_PRINTF(2, 3)
static void calls_fail(const struct stp_asked *asked, const char *fmt, ...)
{
    const struct stp_contract_nccl *how = &asked->calls->how;
    char call[STP_CALL_TEXT], about[STP_CALL_TEXT + 192];
    va_list args;

    snprintf(about, sizeof(about), "%s%s%s on %s%s%s%s%s%s",
             asked->about != NULL ? asked->about : "",
             asked->about != NULL ? ": " : "",
             stp_contract_describe(&asked->call, call),
             mock_machine_get_info(asked->calls->machine)->name,
             how->algo != NULL ? ", NCCL_ALGO=" : "",
             how->algo != NULL ? how->algo : "",
             how->proto != NULL ? ", NCCL_PROTO=" : "",
             how->proto != NULL ? how->proto : "",
             how->collnet ? ", with CollNet" : "");
    va_start(args, fmt);
    stp_contract_vset(asked->slot, STP_CONTRACT_FAIL, about, fmt, args);
    va_end(args);
}

/* Shows the call to all judges that have found no fault yet. */
static void calls_judge(struct stp_contract_run *run, struct stp_asked *asked)
{
    const struct calls *calls = asked->calls;

    for (int i = 0; i < STP_N_CONTRACT_CHECKS && calls->judges == NULL; i++) {
        asked->slot = &run->judged[i];
        if (stp_contract_checks[i].judge != NULL &&
            asked->slot->verdict == STP_CONTRACT_OK)
            stp_contract_checks[i].judge(asked);
    }
    asked->slot = calls->slot;
    for (int i = 0; calls->judges != NULL && calls->judges[i] != NULL; i++)
        calls->judges[i](asked);
    if (calls->judges != NULL && calls->slot->verdict != STP_CONTRACT_OK)
        stp_contract_end(run);
}

static void calls_make(struct stp_contract_run *run, struct mock_comm *comm,
                       struct stp_asked *asked)
{
    asked->why = "";
    stp_contract_begin_call(run, &asked->call);
    asked->rc = mock_comm_collective(comm, &asked->call, &asked->outcome);
    if (asked->rc != ncclSuccess)
        asked->why = mock_last_error();
    calls_judge(run, asked);
}

/* Each collective and size by a lone call; the first sizes also by a call of
 * each other type and in the ways that are wanted, the rest by some other. */
static void calls_make_all(struct stp_contract_run *run, struct mock_comm *comm,
                           struct stp_asked *asked)
{
    const struct calls *calls = asked->calls;
    const uint64_t seed = run->options->seed;
    const size_t n = calls->all_sizes ? STP_N_SIZES : STP_N_SIZES_FIRST;

    for (size_t i = 0; i < n * NCCL_NUM_TUNED_FUNCS; i++) {
        const size_t size = i / NCCL_NUM_TUNED_FUNCS;
        const bool is_first = size < STP_N_SIZES_FIRST;
        const size_t n_ways = is_first && calls->n_ways != 0 ? STP_N_WAYS : 0;
        size_t way = 0;

        for (size_t t = 0; t < N_TYPES + n_ways; t++) {
            const uint64_t random = stp_rng(seed, i * N_TYPES + t);

            if (t >= N_TYPES && (t - N_TYPES) % calls->n_ways != calls->way)
                continue;
            way = t == 0 ? 0 : t < N_TYPES ? random % STP_N_WAYS : t - N_TYPES;
            asked->call = types[t < N_TYPES ? t : 0];
            if (asked->call.fp8 && !asked->sees_table)
                continue;
            asked->call.coll = (ncclFunc_t)(i % NCCL_NUM_TUNED_FUNCS);
            asked->call.n_bytes = stp_contract_size(seed, size);
            stp_contract_set_way(&asked->call, way);
            calls_make(run, comm, asked);
            if (!is_first && t == random % (N_TYPES - 1))
                break;
        }
    }
}

/* On a rank with the tuner, beside one without. */
static void calls_ask(struct stp_contract_run *run, const struct calls *calls)
{
    struct stp_contract_nccl how_alone = calls->how;
    struct mock_nccl *nccl = stp_contract_open_as(run, &calls->how);
    struct mock_nccl *nccl_alone =
        (how_alone.alone = true, stp_contract_open_as(run, &how_alone));
    struct mock_comm *comm = stp_contract_comm(run, nccl, calls->machine, 0);
    struct stp_asked asked = {
        .calls = calls,
        .about = run->about,
        .comm_alone = stp_contract_comm(run, nccl_alone, calls->machine, 0),
        .sees_table = mock_comm_tuner_version(comm) > 2};

    /* A v2 tuner is not shown the table, and cannot know what is ruled out in
     * it by NCCL_ALGO, NCCL_PROTO or the type. */
    stp_contract_at(
        run, " on %s%s%s", mock_machine_get_info(calls->machine)->name,
        run->about != NULL ? ", " : "", run->about != NULL ? run->about : "");
    if (asked.sees_table ||
        (calls->how.algo == NULL && calls->how.proto == NULL))
        calls_make_all(run, comm, &asked);
    stp_contract_destroy(run, comm);
    stp_contract_close(run, asked.comm_alone);
    stp_contract_unload(run, nccl);
    stp_contract_unload(run, nccl_alone);
}

/* ---- what is looked at ---- */

void stp_judge_success(const struct stp_asked *asked)
{
    struct mock_outcome alone;

    if (asked->rc != ncclSuccess &&
        mock_comm_collective(asked->comm_alone, &asked->call, &alone) ==
            ncclSuccess)
        calls_fail(asked, "%s", asked->why);
}

void stp_judge_inside(const struct stp_asked *asked)
{
    if (strstr(asked->why, "wrote outside the cost table") != NULL)
        calls_fail(asked, "%s", asked->why);
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
    calls_find_entry((asked)->outcome.cost, (asked)->outcome.cost_after,       \
                     is_bad, entry)

void stp_judge_negative(const struct stp_asked *asked)
{
    struct entry e;

    if (FIND_WRITTEN(asked, calls_is_new_negative, &e))
        calls_fail(asked,
                   "%g written to %s/%s, which NCCL 2.31 and later would take "
                   "as the cheapest",
                   (double)e.after, e.algo, e.proto);
}

void stp_judge_revived(const struct stp_asked *asked)
{
    struct entry e;

    if (FIND_WRITTEN(asked, calls_is_revived, &e))
        calls_fail(asked,
                   "%g written to %s/%s, which NCCL had ruled out with %g and "
                   "would crash or hang on",
                   (double)e.after, e.algo, e.proto, (double)e.before);
}

enum { MAX_CHANNELS = 64 };

void stp_judge_channels(const struct stp_asked *asked)
{
    int n = asked->outcome.asked_channels;

    if (n < 0 || n > MAX_CHANNELS)
        calls_fail(asked,
                   "asks for %d channels, expected 0 to %d; the 8-bit field of "
                   "NCCL up to 2.30 makes that %d",
                   n, MAX_CHANNELS, (int)(int8_t)(uint8_t)n);
}

/* ---- what no rule decides ---- */

void stp_judge_unmatched(const struct stp_asked *asked)
{
    struct entry e;

    if (asked->outcome.asked_channels != 0 && asked->sees_table &&
        !FIND_WRITTEN(asked, calls_is_changed, &e))
        calls_fail(asked, "sets channels to %d, though it changes no cost",
                   asked->outcome.asked_channels);
}

/* Judges calls under a policy that decides nothing. */
static void calls_judge_nothing(const struct stp_asked *asked)
{
    struct mock_outcome alone;
    struct entry e;

    if (asked->outcome.asked_channels != 0)
        calls_fail(asked, "sets channels to %d, though its policy is empty",
                   asked->outcome.asked_channels);
    if (FIND_WRITTEN(asked, calls_is_changed, &e))
        calls_fail(asked, "%g written to %s/%s, though its policy is empty",
                   (double)e.after, e.algo, e.proto);
    mock_comm_collective(asked->comm_alone, &asked->call, &alone);
    if (calls_find_entry(alone.cost, asked->outcome.cost, calls_is_changed, &e))
        calls_fail(asked,
                   "%s/%s costs %g, %g without the tuner: init changed NCCL's "
                   "constants, though its policy is empty",
                   e.algo, e.proto, (double)e.after, (double)e.before);
}

/* ---- where ---- */

/* The machine that was asked for and those that are made up, some of them under
 * each restriction. */
static void calls_ask_everywhere(struct stp_contract_run *run,
                                 stp_judge_fn *const *judges,
                                 struct stp_contract_slot *slot)
{
    const struct stp_world *world = run->world;

    for (int i = -1; i < STP_N_SHAPES; i++) {
        struct calls calls = {.machine =
                                  i < 0 ? world->machine : world->shapes[i],
                              .all_sizes = i < 0,
                              .n_ways = i < 0,
                              .how.collnet = i == STP_SHAPE_COLLNET,
                              .judges = judges,
                              .slot = slot};

        calls_ask(run, &calls);
        calls.n_ways = 0;
        calls.all_sizes = false;
        for (int r = 0; r < N_RESTRICTIONS; r++) {
            calls.how = restrictions[r];
            if (i < 0 || i == STP_SHAPE_NVLS || i == STP_SHAPE_2X8)
                calls_ask(run, &calls);
        }
    }
}

void stp_check_calls(struct stp_contract_run *run)
{
    calls_ask_everywhere(run, NULL, NULL);
    stp_contract_set(run->slot, STP_CONTRACT_OK, "%d sizes", STP_N_SIZES);
}

void stp_check_empty(struct stp_contract_run *run)
{
    stp_judge_fn *const nothing[] = {calls_judge_nothing, NULL};

    if (run->reads_file != STP_READS_FILE)
        return;
    stp_contract_set_policy(run->world->files[STP_FILE_EMPTY]);
    calls_ask_everywhere(run, nothing, run->slot);
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

/* Judges of answers that would end the job, or corrupt it. */
static stp_judge_fn *const calls_harm[] = {
    stp_judge_revived, stp_judge_negative, stp_judge_channels,
    stp_judge_success, NULL};

void stp_check_policies(struct stp_contract_run *run)
{
    const char *file = run->world->files[STP_FILE_BAD];
    struct calls calls = {.judges = calls_harm, .slot = run->slot};

    stp_contract_needs_file(run);
    for (int i = 0; i < N_POLICIES; i++) {
        if (policies[i].text != NULL)
            stp_write_text(file, policies[i].text);
        stp_contract_set_policy(policies[i].text != NULL ? file
                                                         : policies[i].title);
        run->about = policies[i].title;
        calls.machine = run->world->machine;
        calls_ask(run, &calls);
        calls.machine = run->world->shapes[STP_SHAPE_2X8];
        calls_ask(run, &calls);
    }
}

/* ---- all versions ---- */

/* The ways are dealt out to the versions that take the same tuner. */
void stp_check_versions(struct stp_contract_run *run)
{
    size_t n_takers[STP_MAX_NCCL] = {0}, n_played[STP_MAX_NCCL] = {0};
    char about[48];
    int n = 0;

    for (size_t v = 0; v < STP_MAX_NCCL; v++)
        n_takers[run->tuner_versions[v]]++;
    run->about = about;
    for (size_t v = 0; v < STP_MAX_NCCL; v++) {
        const int tuner = run->tuner_versions[v];
        struct calls calls = {.machine = run->world->machine,
                              .how.version = mock_release_name(v),
                              .all_sizes = n_played[tuner] == 0,
                              .way = n_played[tuner],
                              .n_ways = n_takers[tuner],
                              .judges = calls_harm,
                              .slot = run->slot};

        if (tuner == 0)
            continue;
        n++;
        n_played[tuner]++;
        snprintf(about, sizeof(about), "NCCL %s (tuner v%d)", calls.how.version,
                 tuner);
        calls_ask(run, &calls);
        calls.machine = run->world->shapes[STP_SHAPE_2X8];
        calls.n_ways = 0;
        calls.all_sizes = false;
        calls_ask(run, &calls);
    }
    run->about = NULL;
    stp_contract_set(run->slot, STP_CONTRACT_OK, "%d versions", n);
}
