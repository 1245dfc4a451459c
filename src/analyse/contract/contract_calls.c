/* contract_calls.c - checks of single calls of getCollInfo
 *
 * One process makes all calls, and the judges of all checks look at each: every
 * collective and size, on machines whose tables have NVLS, or CollNet, or fp8's
 * -1024, or little else than entries that NCCL has ruled out. */
#include <stdio.h>
#include <string.h>

#include "analyse/contract/contract_suite.h"
#include "core/names.h"
#include "core/room.h"

/* ---- all calls ---- */

/* Restrictions by the user, as NCCL_ALGO and NCCL_PROTO. */
static const struct stp_contract_nccl restrictions[] = {
    {.algo = "ring"},
    {.proto = "simple"},
    {.algo = "ring", .proto = "simple"},
    {.algo = "ring", .proto = "ll"},
    {.algo = "ring;allreduce:tree", .proto = "^ll128"},
};

static const struct mock_call types[] = {
    {.element_size = 4, .no_nvls = true},
    {.element_size = 1, .fp8 = true},
};

/* Which calls are made, and where. */
struct calls {
    const struct mock_machine *machine;
    struct stp_contract_nccl how;
    size_t share, n_shares; /* of the calls beyond STP_N_LONE; n_shares 0: none
                               of them */
    struct stp_contract_slot *slot; /* of all judges; NULL: each has its own */
    bool decides_nothing; /* by its policy, as one more judge is to confirm */
};

/* One call, and what became of it. */
struct stp_asked {
    struct mock_call call;
    struct mock_outcome outcome;
    ncclResult_t rc;
    const char *why;              /* if it failed */
    struct mock_comm *comm_alone; /* NCCL without the tuner, or with the one
                                     below it; NULL: failures are compared
                                     elsewhere */
    bool is_over;                 /* there is one */
    bool sees_table;              /* the tuner does */
    const char *where;
    struct stp_contract_slot *slot;
};

#define CALLS_FAIL(asked, fmt, ...)                                            \
    do {                                                                       \
        char call_text_[STP_CALL_TEXT];                                        \
                                                                               \
        stp_contract_set((asked)->slot, STP_CONTRACT_FAIL, "%s%s: " fmt,       \
                         stp_contract_describe(&(asked)->call, call_text_),    \
                         (asked)->where, __VA_ARGS__);                         \
    } while (0)

static void calls_judge_nothing(const struct stp_asked *asked);

/* Shows an outcome to all judges that have found no fault yet; with 'slot' NULL
 * each of them has one of its own. */
static void calls_judge(struct stp_contract_run *run, struct stp_asked *asked,
                        struct stp_contract_slot *slot)
{
    asked->why = asked->rc != ncclSuccess ? mock_last_error() : "";
    for (int i = 0; i < STP_N_CONTRACT_CHECKS; i++) {
        asked->slot = slot != NULL ? slot : &run->judged[i];
        if (stp_contract_checks[i].judge != NULL &&
            asked->slot->verdict == STP_CONTRACT_OK)
            stp_contract_checks[i].judge(asked);
    }
}

void stp_contract_judge(struct stp_contract_run *run,
                        const struct mock_comm *comm,
                        const struct mock_call *call, ncclResult_t rc,
                        const struct mock_outcome *outcome)
{
    struct stp_asked asked = {.call = *call,
                              .outcome = *outcome,
                              .rc = rc,
                              .is_over = run->options->over != NULL,
                              .sees_table = mock_comm_tuner_version(comm) > 2,
                              .where = ""};

    calls_judge(run, &asked, NULL);
}

static void calls_make(struct stp_contract_run *run, struct mock_comm *comm,
                       const struct calls *calls, struct stp_asked *asked)
{
    stp_contract_begin_call(run, &asked->call);
    asked->rc = mock_comm_collective(comm, &asked->call, &asked->outcome);
    calls_judge(run, asked, calls->slot);
    asked->slot = calls->slot;
    if (calls->decides_nothing)
        calls_judge_nothing(asked);
    if (calls->slot != NULL && calls->slot->verdict != STP_CONTRACT_OK)
        stp_contract_end(run);
}

/* Calls on a rank with the tuner, beside one without; each of the first ones
 * once more with other types, in some way. */
static void calls_ask(struct stp_contract_run *run, const struct calls *calls)
{
    const struct stp_contract_nccl *how = &calls->how;
    struct stp_contract_nccl how_alone = *how;
    struct mock_nccl *nccl = stp_contract_open(run, how);
    struct mock_nccl *nccl_alone =
        (how_alone.alone = true, stp_contract_open(run, &how_alone));
    struct mock_comm *comm = stp_contract_comm(run, nccl, calls->machine, 0);
    const uint64_t seed = run->options->seed;
    struct stp_asked asked = {
        .comm_alone = stp_contract_comm(run, nccl_alone, calls->machine, 0),
        .is_over = run->options->over != NULL,
        .sees_table = mock_comm_tuner_version(comm) > 2,
        .where = run->slot->at};
    /* A v2 tuner is not shown the table, and cannot know what is ruled out in
     * it by NCCL_ALGO, NCCL_PROTO or the type. */
    const size_t n =
        !asked.sees_table && (how->algo != NULL || how->proto != NULL) ? 0
        : calls->n_shares != 0 ? STP_N_CALLS
                               : STP_N_LONE;

    stp_contract_at(run, " on %s%s%s%s%s%s%s%s",
                    mock_machine_get_info(calls->machine)->name,
                    how->algo != NULL ? ", NCCL_ALGO=" : "",
                    how->algo != NULL ? how->algo : "",
                    how->proto != NULL ? ", NCCL_PROTO=" : "",
                    how->proto != NULL ? how->proto : "",
                    how->collnet ? ", with CollNet" : "",
                    run->about != NULL ? ", " : "",
                    run->about != NULL ? run->about : "");
    for (size_t i = 0; i < n; i++) {
        asked.call = stp_contract_call(seed, i);
        if (i < STP_N_LONE || i % calls->n_shares == calls->share)
            calls_make(run, comm, calls, &asked);
        for (size_t t = 0; t < STP_N_OF(types) && i < STP_N_LONE; t++) {
            asked.call = stp_contract_question(seed, STP_N_LONE + i, t);
            asked.call.element_size = types[t].element_size;
            asked.call.no_nvls = types[t].no_nvls;
            asked.call.fp8 = types[t].fp8;
            if (!types[t].fp8 || asked.sees_table)
                calls_make(run, comm, calls, &asked);
        }
    }
    stp_contract_destroy(run, comm);
    stp_contract_close(run, asked.comm_alone);
    stp_contract_unload(run, nccl);
    stp_contract_unload(run, nccl_alone);
}

/* ---- what is looked at ---- */

void stp_judge_success(const struct stp_asked *asked)
{
    struct mock_outcome alone;

    if (asked->rc != ncclSuccess && asked->comm_alone != NULL &&
        mock_comm_collective(asked->comm_alone, &asked->call, &alone) ==
            ncclSuccess)
        CALLS_FAIL(asked, "%s", asked->why);
}

void stp_judge_inside(const struct stp_asked *asked)
{
    if (strstr(asked->why, "wrote outside the cost table") != NULL)
        CALLS_FAIL(asked, "%s", asked->why);
}

/* Entries that the tuner wrote. */
enum entries { ANY, NEGATIVE, REVIVED };

/* Describes the first of them; false if there is none. */
static bool calls_find_entry(const struct stp_asked *asked, enum entries which,
                             char text[96])
{
    const float *before = asked->outcome.cost[0];
    const float *after = asked->outcome.cost_after[0];

    for (int i = 0; i < NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS; i++)
        if (memcmp(&before[i], &after[i], sizeof(*after)) != 0 &&
            (which == ANY ||
             (which == NEGATIVE ? !(after[i] >= 0)
                                : before[i] < 0 && after[i] >= 0))) {
            snprintf(text, 96, "%g written over %g in %s/%s", (double)after[i],
                     (double)before[i], stp_algo_name(i / NCCL_NUM_PROTOCOLS),
                     stp_proto_name(i % NCCL_NUM_PROTOCOLS));
            return true;
        }
    return false;
}

static void calls_judge_entries(const struct stp_asked *asked,
                                enum entries which, const char *why)
{
    char text[96];

    if (calls_find_entry(asked, which, text))
        CALLS_FAIL(asked, "%s, %s", text, why);
}

void stp_judge_negative(const struct stp_asked *asked)
{
    calls_judge_entries(asked, NEGATIVE,
                        "which NCCL 2.31 and later would take as the cheapest");
}

void stp_judge_revived(const struct stp_asked *asked)
{
    calls_judge_entries(asked, REVIVED,
                        "which NCCL had ruled out and would crash or hang on");
}

enum { MAX_CHANNELS = 64 };

void stp_judge_channels(const struct stp_asked *asked)
{
    int n = asked->outcome.asked_channels;

    if (n < 0 || n > MAX_CHANNELS)
        CALLS_FAIL(asked,
                   "asks for %d channels, expected 0 to %d; the 8-bit field of "
                   "NCCL up to 2.30 makes that %d",
                   n, MAX_CHANNELS, (int)(int8_t)(uint8_t)n);
}

void stp_judge_unmatched(const struct stp_asked *asked)
{
    char text[96];

    if (!asked->is_over && asked->outcome.asked_channels != 0 &&
        asked->sees_table && !calls_find_entry(asked, ANY, text))
        CALLS_FAIL(asked, "sets channels to %d, though it changes no cost",
                   asked->outcome.asked_channels);
}

static void calls_judge_nothing(const struct stp_asked *asked)
{
    struct mock_outcome alone;

    if (asked->is_over) {
        mock_comm_collective(asked->comm_alone, &asked->call, &alone);
        if (alone.asked_channels != asked->outcome.asked_channels ||
            memcmp(alone.cost_after, asked->outcome.cost_after,
                   sizeof(alone.cost_after)) != 0)
            CALLS_FAIL(asked, "%s",
                       "answers otherwise than the tuner below it alone, "
                       "though its policy is empty");
        return;
    }
    if (asked->outcome.asked_channels != 0)
        CALLS_FAIL(asked, "sets channels to %d, though its policy is empty",
                   asked->outcome.asked_channels);
    calls_judge_entries(asked, ANY, "though its policy is empty");
    mock_comm_collective(asked->comm_alone, &asked->call, &alone);
    if (memcmp(alone.cost, asked->outcome.cost, sizeof(alone.cost)) != 0)
        CALLS_FAIL(asked, "%s",
                   "NCCL's costs are others than without the tuner: init "
                   "changed its constants, though its policy is empty");
}

/* ---- where ---- */

/* The machine asked for and those made up, some under each restriction. */
static void calls_ask_everywhere(struct stp_contract_run *run,
                                 struct calls calls)
{
    const struct stp_world *world = run->world;

    for (int i = -1; i < STP_N_SHAPES; i++) {
        calls.machine = i < 0 ? world->machine : world->shapes[i];
        calls.how =
            (struct stp_contract_nccl){.collnet = i == STP_SHAPE_COLLNET};
        calls.n_shares = i < 0;
        calls_ask(run, &calls);
        calls.n_shares = 0;
        for (size_t r = 0; r < STP_N_OF(restrictions); r++) {
            calls.how = restrictions[r];
            if (i < 0 || i == STP_SHAPE_NVLS || i == STP_SHAPE_2X8)
                calls_ask(run, &calls);
        }
    }
}

/* In a library that stays loaded, and in which a communicator has ended. */
void stp_check_calls(struct stp_contract_run *run)
{
    const struct mock_machine *machine = run->world->shapes[STP_SHAPE_2];
    struct mock_nccl *nccl = stp_contract_open(run, NULL);

    stp_contract_comm(run, nccl, machine, 0);
    stp_contract_destroy(run, stp_contract_comm(run, nccl, machine, 0));
    calls_ask_everywhere(run, (struct calls){0});
    stp_contract_set(run->slot, STP_CONTRACT_OK, "%d sizes", STP_N_PROBES);
}

void stp_check_empty(struct stp_contract_run *run)
{
    stp_contract_set_policy(run->world->files[STP_FILE_EMPTY]);
    if (run->reads_file == STP_READS_FILE)
        calls_ask_everywhere(
            run, (struct calls){.slot = run->slot, .decides_nothing = true});
}

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

void stp_check_policies(struct stp_contract_run *run)
{
    const char *file = run->world->files[STP_FILE_BAD];
    struct calls calls = {.slot = run->slot};

    stp_contract_needs_file(run);
    for (size_t i = 0; i < STP_N_OF(policies); i++) {
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

/* Calls beyond the first are shared by versions that take the same tuner. */
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
                              .share = n_played[tuner]++,
                              .n_shares = n_takers[tuner],
                              .slot = run->slot};

        if (tuner == 0)
            continue;
        n++;
        snprintf(about, sizeof(about), "NCCL %s (tuner v%d)", calls.how.version,
                 tuner);
        calls_ask(run, &calls);
        calls.machine = run->world->shapes[STP_SHAPE_2X8];
        calls.n_shares = 0;
        calls_ask(run, &calls);
    }
    run->about = NULL;
    stp_contract_set(run->slot, STP_CONTRACT_OK, "%d versions", n);
}
