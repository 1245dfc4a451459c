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

/* What the user allows, as NCCL_ALGO and NCCL_PROTO. */
struct restriction {
    const char *algo;
    const char *proto;
};

static const struct restriction restrictions[] = {
    {NULL, NULL},       {"ring", NULL}, {NULL, "simple"},
    {"ring", "simple"}, {"ring", "ll"}, {"ring;allreduce:tree", "^ll128"},
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
} moods[] = {{1, 0}, {1, 1}, {2, 0}, {64, 1}};
enum { N_MOODS = sizeof(moods) / sizeof(moods[0]) };

enum { N_CALLS = N_SIZES * NCCL_NUM_TUNED_FUNCS * N_TYPES * 2 };

/* Every collective, size and type, with two of the moods each. */
static struct mock_call calls_call_at(size_t i)
{
    size_t kind = i / 2 % N_TYPES;
    size_t size = i / 2 / N_TYPES % N_SIZES;
    size_t mood = (i + size) % N_MOODS;
    struct mock_call call = types[kind];

    call.coll = (ncclFunc_t)(i / 2 / N_TYPES / N_SIZES);
    call.n_bytes = sizes[size];
    call.n_pipe_ops = moods[mood].n_pipe_ops;
    call.reg_buff = moods[mood].reg_buff;
    return call;
}

/* One call, and what became of it. */
struct asked {
    const struct mock_call *call;
    const struct mock_outcome *outcome;
    ncclResult_t rc;
    const char *why;  /* if it failed */
    bool alone_fails; /* NCCL without the tuner */
    const struct mock_outcome *alone;
    bool sees_table;                /* the tuner does */
    char text[STP_CALL_TEXT + 128]; /* the call and where it was made */
};

/* False after failing the check. */
typedef bool (*judge_fn)(struct stp_contract_run *run,
                         const struct asked *asked);

/* A rank with the tuner and one without. */
struct pair {
    struct mock_nccl *nccl, *nccl_alone;
    struct mock_comm *comm, *comm_alone;
};

static bool calls_open_pair(struct stp_contract_run *run, const char *version,
                            const struct restriction *allowed,
                            const struct mock_machine *machine,
                            struct pair *pair)
{
    memset(pair, 0, sizeof(*pair));
    pair->nccl = stp_contract_nccl(run, version, allowed->algo, allowed->proto);
    pair->nccl_alone =
        stp_contract_nccl_alone(run, version, allowed->algo, allowed->proto);
    if (pair->nccl == NULL || pair->nccl_alone == NULL)
        return false;
    pair->comm =
        stp_contract_comm(run, pair->nccl, machine, mock_new_comm_id());
    pair->comm_alone =
        stp_contract_comm(run, pair->nccl_alone, machine, mock_new_comm_id());
    return pair->comm != NULL && pair->comm_alone != NULL;
}

static void calls_close_pair(struct stp_contract_run *run, struct pair *pair)
{
    if (pair->comm != NULL)
        stp_contract_destroy(run, pair->comm);
    mock_comm_destroy(pair->comm_alone);
    mock_nccl_destroy(pair->nccl);
    mock_nccl_destroy(pair->nccl_alone);
}

static void calls_describe(struct asked *asked,
                           const struct restriction *allowed,
                           const struct mock_machine *machine)
{
    char call[STP_CALL_TEXT];
    int n = snprintf(asked->text, sizeof(asked->text), "%s on %s",
                     stp_contract_describe(asked->call, call),
                     mock_machine_get_info(machine)->name);

    if (allowed->algo != NULL)
        n += snprintf(asked->text + n, sizeof(asked->text) - (size_t)n,
                      ", NCCL_ALGO=%s", allowed->algo);
    if (allowed->proto != NULL)
        snprintf(asked->text + n, sizeof(asked->text) - (size_t)n,
                 ", NCCL_PROTO=%s", allowed->proto);
}

/* A v2 tuner is not shown the table, and cannot know what is ruled out in it by
 * NCCL_ALGO, NCCL_PROTO or the type. */
static bool calls_sees_table(const struct pair *pair)
{
    return mock_comm_tuner_version(pair->comm) > 2;
}

static bool calls_ask_one(struct stp_contract_run *run, const struct pair *pair,
                          const struct restriction *allowed,
                          const struct mock_machine *machine, size_t i,
                          judge_fn judge)
{
    struct mock_call call = calls_call_at(i);
    struct mock_outcome outcome, alone;
    struct asked asked = {.call = &call,
                          .outcome = &outcome,
                          .alone = &alone,
                          .why = "",
                          .sees_table = calls_sees_table(pair)};

    if (call.fp8 && !asked.sees_table)
        return true;
    calls_describe(&asked, allowed, machine);
    stp_contract_at(run, "%s", asked.text);
    asked.alone_fails =
        mock_comm_collective(pair->comm_alone, &call, &alone) != ncclSuccess;
    asked.rc = mock_comm_collective(pair->comm, &call, &outcome);
    if (asked.rc != ncclSuccess)
        asked.why = mock_last_error();
    return judge(run, &asked);
}

/* Calls from the first, 'stride' apart. */
static bool calls_ask_all(struct stp_contract_run *run, const char *version,
                          const struct restriction *allowed,
                          const struct mock_machine *machine, size_t stride,
                          judge_fn judge)
{
    struct pair pair;
    bool good = calls_open_pair(run, version, allowed, machine, &pair);
    bool fair =
        good && (allowed == &restrictions[0] || calls_sees_table(&pair));

    for (size_t i = 0; i < N_CALLS && good && fair; i += stride)
        good = calls_ask_one(run, &pair, allowed, machine, i, judge);
    calls_close_pair(run, &pair);
    return good;
}

static bool calls_ask_everywhere(struct stp_contract_run *run, judge_fn judge)
{
    const struct mock_machine *machines[] = {
        run->world->machine,
        run->world->shapes[STP_SHAPE_NVLS],
        run->world->shapes[STP_SHAPE_2X8],
    };

    for (int m = 0; m < 3; m++)
        for (int r = 0; r < N_RESTRICTIONS; r++)
            if (!calls_ask_all(run, NULL, &restrictions[r], machines[m],
                               r == 0 ? 1 : 7, judge))
                return false;
    return true;
}

/* ---- what is looked at ---- */

static bool calls_judge_success(struct stp_contract_run *run,
                                const struct asked *asked)
{
    if (asked->rc == ncclSuccess || asked->alone_fails)
        return true;
    return stp_contract_fail(run, "%s: %s", asked->text, asked->why);
}

void stp_check_never_fails(struct stp_contract_run *run)
{
    calls_ask_everywhere(run, calls_judge_success);
}

static bool calls_judge_inside(struct stp_contract_run *run,
                               const struct asked *asked)
{
    if (strstr(asked->why, "wrote outside the cost table") == NULL)
        return true;
    return stp_contract_fail(run, "%s: %s", asked->text, asked->why);
}

void stp_check_inside(struct stp_contract_run *run)
{
    calls_ask_everywhere(run, calls_judge_inside);
}

/* The first entry of which 'is_bad' says so; false if there is none. */
static bool calls_find_entry(const struct mock_outcome *outcome,
                             bool (*is_bad)(float before, float after),
                             int *algo_ret, int *proto_ret)
{
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            if (is_bad(outcome->cost[a][p], outcome->cost_after[a][p])) {
                *algo_ret = a;
                *proto_ret = p;
                return true;
            }
    return false;
}

static bool calls_is_new_negative(float before, float after)
{
    return !(after >= 0) && memcmp(&before, &after, sizeof(after)) != 0;
}

static bool calls_judge_negative(struct stp_contract_run *run,
                                 const struct asked *asked)
{
    int a, p;

    if (!calls_find_entry(asked->outcome, calls_is_new_negative, &a, &p))
        return true;
    return stp_contract_fail(
        run,
        "%s: %g written to %s/%s, which NCCL 2.31 would take as the cheapest",
        asked->text, (double)asked->outcome->cost_after[a][p], stp_algo_name(a),
        stp_proto_name(p));
}

void stp_check_negative(struct stp_contract_run *run)
{
    calls_ask_everywhere(run, calls_judge_negative);
}

static bool calls_is_revived(float before, float after)
{
    return before < 0 && after >= 0;
}

static bool calls_judge_revived(struct stp_contract_run *run,
                                const struct asked *asked)
{
    int a, p;

    if (!calls_find_entry(asked->outcome, calls_is_revived, &a, &p))
        return true;
    return stp_contract_fail(
        run,
        "%s: %g written to %s/%s, which NCCL had ruled out with %g and would "
        "crash or hang on",
        asked->text, (double)asked->outcome->cost_after[a][p], stp_algo_name(a),
        stp_proto_name(p), (double)asked->outcome->cost[a][p]);
}

void stp_check_revives(struct stp_contract_run *run)
{
    calls_ask_everywhere(run, calls_judge_revived);
}

enum { MAX_CHANNELS = 64 };

static bool calls_judge_channels(struct stp_contract_run *run,
                                 const struct asked *asked)
{
    int n = asked->outcome->asked_channels;

    if (n >= 0 && n <= MAX_CHANNELS)
        return true;
    return stp_contract_fail(
        run,
        "%s: asks for %d channels, expected 0 to %d; NCCL's 8-bit field "
        "makes that %d",
        asked->text, n, MAX_CHANNELS, (int)(int8_t)(uint8_t)n);
}

void stp_check_channels(struct stp_contract_run *run)
{
    calls_ask_everywhere(run, calls_judge_channels);
}

/* ---- what no rule decides ---- */

static bool calls_is_changed(float before, float after)
{
    return memcmp(&before, &after, sizeof(after)) != 0;
}

static bool calls_judge_unmatched(struct stp_contract_run *run,
                                  const struct asked *asked)
{
    int a, p;

    if (asked->outcome->asked_channels == 0 || !asked->sees_table ||
        calls_find_entry(asked->outcome, calls_is_changed, &a, &p))
        return true;
    return stp_contract_fail(
        run, "%s: sets channels to %d, though it changes no cost", asked->text,
        asked->outcome->asked_channels);
}

/* With a policy that decides nothing. */
static bool calls_judge_nothing(struct stp_contract_run *run,
                                const struct asked *asked)
{
    struct mock_outcome by_init = *asked->outcome;
    int a, p;

    if (asked->outcome->asked_channels != 0)
        return stp_contract_fail(run,
                                 "%s: sets channels to %d, though its policy "
                                 "is empty",
                                 asked->text, asked->outcome->asked_channels);
    if (calls_find_entry(asked->outcome, calls_is_changed, &a, &p))
        return stp_contract_fail(
            run, "%s: %g written to %s/%s, though its policy is empty",
            asked->text, (double)asked->outcome->cost_after[a][p],
            stp_algo_name(a), stp_proto_name(p));
    memcpy(by_init.cost, asked->alone->cost, sizeof(by_init.cost));
    if (calls_find_entry(&by_init, calls_is_changed, &a, &p))
        return stp_contract_fail(
            run,
            "%s: %s/%s costs %g, %g without the tuner: init changed NCCL's "
            "constants, though its policy is empty",
            asked->text, stp_algo_name(a), stp_proto_name(p),
            (double)asked->outcome->cost[a][p],
            (double)asked->alone->cost[a][p]);
    return true;
}

void stp_check_unmatched(struct stp_contract_run *run)
{
    if (!calls_ask_everywhere(run, calls_judge_unmatched) ||
        run->reads_file != STP_READS_FILE)
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

/* What would end the job, or corrupt it. */
static bool calls_judge_harm(struct stp_contract_run *run,
                             const struct asked *asked)
{
    return calls_judge_revived(run, asked) &&
           calls_judge_negative(run, asked) &&
           calls_judge_channels(run, asked) && calls_judge_success(run, asked);
}

/* Puts "WHAT: " before the text of a failure. */
static void calls_prefix(struct stp_contract_run *run, const char *what)
{
    char text[STP_CONTRACT_TEXT];

    snprintf(text, sizeof(text), "%s", run->slot->text);
    snprintf(run->slot->text, sizeof(run->slot->text), "%.64s: %.440s", what,
             text);
}

void stp_check_policies(struct stp_contract_run *run)
{
    const char *file = run->world->files[STP_FILE_BAD];

    if (!stp_contract_needs_file(run))
        return;
    for (int i = 0; i < N_POLICIES; i++) {
        if (policies[i].text != NULL)
            stp_write_text(file, policies[i].text);
        stp_contract_set_policy(policies[i].text != NULL ? file
                                                         : policies[i].title);
        if (calls_ask_all(run, NULL, &restrictions[0], run->world->machine, 7,
                          calls_judge_harm) &&
            calls_ask_all(run, NULL, &restrictions[0],
                          run->world->shapes[STP_SHAPE_2X8], 7,
                          calls_judge_harm))
            continue;
        calls_prefix(run, policies[i].title);
        return;
    }
}

/* ---- all versions ---- */

static bool calls_try_version(struct stp_contract_run *run, const char *version)
{
    return calls_ask_all(run, version, &restrictions[0], run->world->machine, 1,
                         calls_judge_success) &&
           calls_ask_all(run, version, &restrictions[0],
                         run->world->shapes[STP_SHAPE_2X8], 7,
                         calls_judge_success);
}

void stp_check_versions(struct stp_contract_run *run)
{
    char what[48];
    int n = 0;

    for (int v = 0; v < STP_MAX_NCCL; v++) {
        if (run->tuner_versions[v] == 0)
            continue;
        n++;
        if (calls_try_version(run, mock_release_name((size_t)v)))
            continue;
        snprintf(what, sizeof(what), "NCCL %s (tuner v%d)",
                 mock_release_name((size_t)v), run->tuner_versions[v]);
        calls_prefix(run, what);
        return;
    }
    stp_contract_note(run, "%d versions", n);
}
