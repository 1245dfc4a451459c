/* contract_suite.h - inputs of contract checks, and functions they share */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "analyse/contract/contract.h"
#include "analyse/probes.h"
#include "mock_nccl.h"
#include "mock_ranks.h"

enum {
    STP_MAX_NCCL = 16, /* versions that a tuner is tried with */
    STP_PATH = 4096,
};

/* Machines that are made up, so that every tuner meets them, whatever machine
 * was asked for. */
enum stp_shape_index {
    STP_SHAPE_1,       /* one rank: NCCL asks no tuner */
    STP_SHAPE_2,       /* two ranks */
    STP_SHAPE_4,       /* four */
    STP_SHAPE_NVLS,    /* eight, with NVLS */
    STP_SHAPE_2X8,     /* two nodes: fp8 makes entries of -1024 */
    STP_SHAPE_4X8,     /* four nodes */
    STP_SHAPE_COLLNET, /* two nodes whose network reduces, which few tuners
                          have met */
    STP_SHAPE_OTHERS,  /* other numbers of ranks and nodes */
    STP_N_SHAPES = STP_SHAPE_OTHERS + 10,
};

/* Files of a run, all in one temporary folder. */
enum stp_world_file {
    STP_FILE_BASE,   /* decides everything; the default policy */
    STP_FILE_TREE,   /* all-reduce by tree/simple, the rest by ring/simple */
    STP_FILE_RING,   /* everything by ring/ll */
    STP_FILE_EMPTY,  /* decides nothing */
    STP_FILE_MOVING, /* not there; one check writes it */
    STP_FILE_BAD,    /* not there; one check writes it */
    STP_N_FILES,
};

struct stp_world {
    char folder[STP_PATH];
    char files[STP_N_FILES][STP_PATH + 32];
    struct mock_machine *machine; /* the one asked for */
    struct mock_machine *shapes[STP_N_SHAPES];
};

/* With 'n_ranks' other than 0, the machine asked for gets as many. */
enum stp_status stp_world_open(struct stp_world *world,
                               const char *machine_path, unsigned n_ranks,
                               struct stp_error *err);
void stp_world_close(struct stp_world *world);

/* Writes a policy by which tree/simple, or else ring/simple, runs every
 * all-reduce.  'now' becomes the file's time, so that the parent process
 * notices. */
bool stp_write_policy(const char *path, bool tree, long now);
bool stp_write_text(const char *path, const char *text);

/* Whether NCCL_TUNER_CONFIG_FILE changes what the tuner decides. */
enum stp_reads_file {
    STP_READS_UNKNOWN, /* it did not survive the question */
    STP_READS_NO_FILE,
    STP_READS_FILE,
};

/* The results of a check's process, in memory that it shares with the one that
 * runs the suite. */
struct stp_contract_slot {
    enum stp_contract_verdict verdict;
    char text[STP_CONTRACT_TEXT];
    char at[STP_CONTRACT_TEXT]; /* the attempt under way */
    struct mock_call call;      /* of it; n_bytes 0: none */
    atomic_uint n_attempts;     /* so far: a check without new ones hangs */
    bool done;
    /* of single stages */
    int tuner_version;
    char tuner_name[64];
    bool usable; /* a communicator could be made */
    enum stp_reads_file reads_file;
};

enum { STP_MAX_CALL_MS = 3000 }; /* of which others may take the processor */

/* Room for what a check has open at a time. */
enum { STP_MAX_OPEN = 64 };

/* The state of a check, private to its process but for the slot. */
struct stp_contract_run {
    const struct stp_contract_options *options;
    const struct stp_world *world;
    const struct stp_contract_entry *entry; /* of a check with a verdict */
    const char *nccl;                       /* that takes the tuner */
    const char *policy; /* under NCCL_TUNER_CONFIG_FILE when a check begins */
    int tuner_versions[STP_MAX_NCCL]; /* by mock_release_name(); 0 where NCCL
                                         does not take it */
    char tuner_name[64];
    enum stp_reads_file reads_file;
    bool inits_race; /* inits at once are not safe, which one check has found:
                        to others whatever they do is chance */
    int number;      /* of the check */
    struct stp_contract_slot *slot;
    struct stp_contract_slot *judged; /* by number of the check, what judges
                                         say of the calls of this process */

    const char *about;   /* goes with the machine's name; NULL: nothing */
    bool flips_reg_buff; /* of the questions */
    struct mock_comm *comms[STP_MAX_OPEN]; /* open, and closed at the end */
    struct mock_nccl *nccls[STP_MAX_OPEN];
};

typedef void stp_contract_fn(struct stp_contract_run *run);

/* The slot's verdict, unless it has another than OK. */
void stp_contract_set(struct stp_contract_slot *slot,
                      enum stp_contract_verdict verdict, const char *fmt, ...)
    STP_PRINTF(3, 4);

/* ---- for checks ---- */

/* Closes what is open, and ends the process of the check. */
_Noreturn void stp_contract_end(struct stp_contract_run *run);

/* Likewise, with a verdict if there is none yet. */
#define STP_CONTRACT_FAIL_BY(run, ...)                                         \
    (stp_contract_set((run)->slot, STP_CONTRACT_FAIL, __VA_ARGS__),            \
     stp_contract_end(run))

/* Notes the attempt under way, should the tuner crash or hang: what is done, or
 * what follows the words on a call. */
void stp_contract_at(struct stp_contract_run *run, const char *fmt, ...)
    STP_PRINTF(2, 3);

/* Notes the call that begins: it has STP_MAX_CALL_MS until the next note. */
void stp_contract_begin_call(struct stp_contract_run *run,
                             const struct mock_call *call);

/* Skips the check if the tuner reads no policies. */
void stp_contract_needs_file(struct stp_contract_run *run);

void stp_contract_set_policy(const char *path);

/* How NCCL is opened; NULL for run->nccl and for variables that are not set. */
struct stp_contract_nccl {
    const char *version;
    const char *algo;
    const char *proto;
    bool collnet;
    bool alone; /* without the tuner, or with the one below it */
};

/* NCCL with the tuner, and as 'how' says unless NULL; fails the check if it
 * cannot be had. */
struct mock_nccl *stp_contract_open(struct stp_contract_run *run,
                                    const struct stp_contract_nccl *how);
void stp_contract_unload(struct stp_contract_run *run, struct mock_nccl *nccl);

/* One rank of a communicator, with a new commId if 'comm_id' is 0; fails the
 * check if it cannot be had. */
struct mock_comm *stp_contract_comm(struct stp_contract_run *run,
                                    struct mock_nccl *nccl,
                                    const struct mock_machine *machine,
                                    uint64_t comm_id);
void stp_contract_close(struct stp_contract_run *run, struct mock_comm *comm);
/* The same, and fails the check if finalize returned an error. */
void stp_contract_destroy(struct stp_contract_run *run, struct mock_comm *comm);

struct stp_decision {
    ncclResult_t rc;
    int algo;
    int proto;
    int asked_channels;
    int n_channels;
};

/* The calls, by number: each collective of each size by itself, with plain
 * buffers, of which every check asks STP_N_LONE, those of the first sizes; then
 * in other ways: numPipeOps and regBuff, to STP_N_MORE in 17 of them. */
enum {
    STP_N_WAYS = 40,
    STP_N_LONE = STP_N_FIRST_PROBES * NCCL_NUM_TUNED_FUNCS,
    STP_N_SIZED = STP_N_PROBES * NCCL_NUM_TUNED_FUNCS,
    STP_N_MORE = STP_N_SIZED + 17 * STP_N_LONE,
    STP_N_CALLS = STP_N_SIZED + (STP_N_WAYS - 1) * STP_N_LONE,
};
struct mock_call stp_contract_call(uint64_t seed, size_t i);

/* Questions: the STP_N_LONE, and each again in a way that 'turn' changes. */
enum { STP_N_QUESTIONS = 2 * STP_N_LONE };
struct mock_call stp_contract_question(uint64_t seed, size_t i, size_t turn);

/* The decisions of one rank on the first 'n' questions. */
struct stp_decisions {
    size_t n;
    struct stp_decision of[STP_N_QUESTIONS];
};

/* Asks the first 'n' questions. All judges look at the answers. */
void stp_contract_ask(struct stp_contract_run *run, struct mock_comm *comm,
                      size_t n, struct stp_decisions *decisions);

/* 'when' and 'then' say how decisions came about: "at first". */
void stp_contract_same(struct stp_contract_run *run,
                       const struct stp_decisions *a, const char *when,
                       const struct stp_decisions *b, const char *then);

enum { STP_CALL_TEXT = 160 };

/* "allreduce of 8192 bytes", and any other property of the call. */
const char *stp_contract_describe(const struct mock_call *call,
                                  char text[STP_CALL_TEXT]);

/* ---- the checks ---- */

/* Not verdicts: whether one NCCL version (run->nccl) takes the tuner, and
 * whether a communicator can be made and the policy changes decisions. */
stp_contract_fn stp_check_loads, stp_check_probe;

/* contract_life.c and contract_threads.c */
stp_contract_fn stp_check_complete, stp_check_init, stp_check_reload,
    stp_check_stays_loaded, stp_check_finalize, stp_check_contexts,
    stp_check_threads;

/* contract_calls.c: all calls, which all judges of the list of checks judge */
stp_contract_fn stp_check_calls, stp_check_empty, stp_check_policies,
    stp_check_versions;

struct stp_asked;
/* Says by stp_contract_set() of asked->slot if the call did wrong. */
typedef void stp_judge_fn(const struct stp_asked *asked);
stp_judge_fn stp_judge_success, stp_judge_inside, stp_judge_negative,
    stp_judge_revived, stp_judge_channels, stp_judge_unmatched;

/* Shows the outcome of a call to all judges. */
void stp_contract_judge(struct stp_contract_run *run,
                        const struct mock_comm *comm,
                        const struct mock_call *call, ncclResult_t rc,
                        const struct mock_outcome *outcome);

/* contract_agree.c: the communicators of the check's scenarios, each in a
 * schedule of each kind that mock_ranks_play() has */
stp_contract_fn stp_check_scenarios, stp_check_agree_children;

/* Which rank finds another file than the others. */
enum stp_odd_rank { STP_FIRST_RANK, STP_SECOND_RANK, STP_LAST_RANK };

/* How a communicator is made and played. */
struct stp_scenario {
    const char *check; /* its name */
    const char *title; /* for messages, e.g. "processes" */
    enum mock_layout layout;
    bool init_at_once;
    bool play_at_once;
    bool in_processes_too; /* likewise with a process for each rank */
    bool takes_seeds;      /* as many as the options say */
    bool asks_more;        /* on a machine of four ranks, all sizes and ways */
    bool asks_pairs; /* two ranks of each machine that is made up: what a rank
                        learns of its peers does not matter */
    void (*before_init)(void *play, int rank);
    void (*before_step)(void *play, int rank, size_t step);
    void (*vary)(void *play, int rank, size_t step, struct mock_call *call);
    const struct mock_death *death;
    bool then_another; /* communicator, with nobody dead in it */

    /* enum stp_world_file; STP_N_FILES: a file that is not there */
    int ours, theirs;
    enum stp_odd_rank odd_rank; /* the rank that finds 'theirs' */
};

/* contract_process.c */
stp_contract_fn stp_check_process, stp_check_quiet;

/* When a check runs. */
enum stp_contract_stage {
    STP_STAGE_MOST,  /* with others at the same time */
    STP_STAGE_BASIC, /* before all others, and without them if it fails */
    STP_STAGE_INITS, /* then: whether inits race */
};

/* A check of the suite, in contract.c. */
struct stp_contract_entry {
    const char *name;
    const char *meaning;
    stp_contract_fn *fn;
    stp_judge_fn *judge; /* in the process of stp_check_calls() */
    enum stp_contract_stage stage;
};

enum {
    STP_CONTRACT_LOADS = 0,
    STP_N_CONTRACT_CHECKS = 27,
};
extern const struct stp_contract_entry
    stp_contract_checks[STP_N_CONTRACT_CHECKS];
