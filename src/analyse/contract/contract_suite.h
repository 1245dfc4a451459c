/*
 * contract_suite.h - what the checks of the contract suite are given and share
 */
#ifndef STP_CONTRACT_SUITE_H
#define STP_CONTRACT_SUITE_H

#include <signal.h>
#include <stdint.h>

#include "analyse/contract/contract.h"
#include "mock_nccl.h"

enum {
    STP_MAX_NCCL = 16,   /* versions that a tuner is tried with */
    STP_MAX_BESIDE = 64, /* machines in the folder of the one asked for */
    STP_PATH = 4096,
};

/* Machines that are made up, so that every tuner meets them, whatever machine
 * was asked for. */
enum stp_shape_index {
    STP_SHAPE_1,    /* one rank: NCCL asks no tuner */
    STP_SHAPE_2,    /* two ranks */
    STP_SHAPE_4,    /* four */
    STP_SHAPE_NVLS, /* eight, with NVLS */
    STP_SHAPE_2X8,  /* two nodes: fp8 makes entries of -1024 */
    STP_SHAPE_4X8,  /* four nodes */
    STP_N_SHAPES,
};

/* Files of a run, all in one temporary folder. */
enum stp_world_file {
    STP_FILE_BASE,   /* decides everything; what checks use without a policy */
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
    struct mock_machine *beside[STP_MAX_BESIDE];
    size_t n_beside;
};

/* Makes the folder and its files, and loads the machines.  With 'n_ranks' other
 * than 0, the one asked for gets as many. */
enum stp_status stp_world_open(struct stp_world *world,
                               const char *machine_path, unsigned n_ranks,
                               struct stp_error *err);
/* Removes and frees what was made. */
void stp_world_close(struct stp_world *world);

/*
 * Writes a policy by which tree/simple, or else ring/simple, runs every
 * all-reduce, and NCCL decides the rest.  'now' becomes the file's time, in
 * seconds since some day long ago, so that whoever watches it notices.  False
 * if it cannot be written.
 */
bool stp_write_policy(const char *path, bool tree, long now);
bool stp_write_text(const char *path, const char *text);

/* Whether NCCL_TUNER_CONFIG_FILE changes what the tuner decides. */
enum stp_reads_file {
    STP_READS_UNKNOWN, /* it did not survive the question */
    STP_READS_NO_FILE,
    STP_READS_FILE,
};

/* What a check's process leaves to the one that runs the suite, in memory that
 * both share. */
struct stp_contract_slot {
    enum stp_contract_verdict verdict;
    char text[STP_CONTRACT_TEXT];
    char at[STP_CONTRACT_TEXT]; /* what is being tried */
    bool done;
    /* of single stages */
    int tuner_version;
    char tuner_name[64];
    bool usable; /* a communicator could be made */
    enum stp_reads_file reads_file;
};

/* What a check knows.  Its process has it for itself, but for the slot. */
struct stp_contract_run {
    const struct stp_contract_options *options;
    const struct stp_world *world;
    const char *nccl;   /* that takes the tuner */
    const char *policy; /* under NCCL_TUNER_CONFIG_FILE when a check begins */
    int tuner_versions[STP_MAX_NCCL]; /* by mock_release_name(); 0 where NCCL
                                         does not take it */
    char tuner_name[64];
    enum stp_reads_file reads_file;
    int number; /* of the check */
    struct stp_contract_slot *slot;
};

typedef void (*stp_contract_fn)(struct stp_contract_run *run);

/* ---- processes ---- */

/* One to run, and what became of it. */
struct stp_contract_job {
    stp_contract_fn fn;
    struct stp_contract_run run;
    int pid; /* 0 if it does not run */
    int64_t deadline_ns;
};

/*
 * Runs all jobs, several at a time unless 'one_by_one', and leaves verdicts in
 * their slots, those of crashes, hangs and exits included.  False if a signal
 * came (*signal_ret; the mask of the caller must block it) or no process could
 * be had (*signal_ret 0); then none is left running.
 */
bool stp_contract_run_jobs(struct stp_contract_job *jobs, size_t n,
                           bool one_by_one, const sigset_t *blocked,
                           const sigset_t *unblocked, int *signal_ret);

/* ---- for checks ---- */

/* The verdict, unless there is one already.  Always false. */
bool stp_contract_fail(struct stp_contract_run *run, const char *fmt, ...)
    STP_PRINTF(2, 3);
void stp_contract_skip(struct stp_contract_run *run, const char *fmt, ...)
    STP_PRINTF(2, 3);
/* Figures of a check that is OK. */
void stp_contract_note(struct stp_contract_run *run, const char *fmt, ...)
    STP_PRINTF(2, 3);
/* What is being tried, should the tuner crash or hang. */
void stp_contract_at(struct stp_contract_run *run, const char *fmt, ...)
    STP_PRINTF(2, 3);

/* False after skipping the check: the tuner reads no policies. */
bool stp_contract_needs_file(struct stp_contract_run *run);

/* The policy that communicators made from now on find. */
void stp_contract_set_policy(const char *path);

/* NCCL with the tuner, or alone.  NULL for run->nccl and for variables that are
 * not set.  NULL after failing the check. */
struct mock_nccl *stp_contract_nccl(struct stp_contract_run *run,
                                    const char *version, const char *algo,
                                    const char *proto);
struct mock_nccl *stp_contract_nccl_alone(struct stp_contract_run *run,
                                          const char *version, const char *algo,
                                          const char *proto);

/* One rank of a communicator; NULL after failing the check. */
struct mock_comm *stp_contract_comm(struct stp_contract_run *run,
                                    struct mock_nccl *nccl,
                                    const struct mock_machine *machine,
                                    uint64_t comm_id);
/* False after failing the check: finalize returned an error. */
bool stp_contract_destroy(struct stp_contract_run *run, struct mock_comm *comm);

/* What one rank decided. */
struct stp_decision {
    ncclResult_t rc;
    int algo;
    int proto;
    int asked_channels;
    int n_channels;
};

enum { STP_N_QUESTIONS = 40 };

/* A few calls of each kind and size, the same at each call of it. */
struct mock_call stp_contract_question(size_t i);

/* Asks all of them.  'run' is NULL in threads, which cannot say what they are
 * trying. */
void stp_contract_ask(struct stp_contract_run *run, struct mock_comm *comm,
                      struct stp_decision decisions[STP_N_QUESTIONS]);

/* False after failing the check: the decisions differ.  'when' and 'then' say
 * how they came about: "at first", "after a reload". */
bool stp_contract_same(struct stp_contract_run *run,
                       const struct stp_decision *a, const char *when,
                       const struct stp_decision *b, const char *then);

enum { STP_CALL_TEXT = 160 };

/* "allreduce of 8192 bytes", and what else is special about it. */
const char *stp_contract_describe(const struct mock_call *call,
                                  char text[STP_CALL_TEXT]);

/* ---- the checks ---- */

void stp_check_loads(struct stp_contract_run *run); /* one version: number */
void stp_check_probe(struct stp_contract_run *run);

void stp_check_complete(struct stp_contract_run *run);
void stp_check_init(struct stp_contract_run *run);
void stp_check_reload(struct stp_contract_run *run);
void stp_check_stays_loaded(struct stp_contract_run *run);
void stp_check_finalize(struct stp_contract_run *run);
void stp_check_threads_init(struct stp_contract_run *run);
void stp_check_threads_ask(struct stp_contract_run *run);
void stp_check_contexts(struct stp_contract_run *run);

void stp_check_never_fails(struct stp_contract_run *run);
void stp_check_inside(struct stp_contract_run *run);
void stp_check_negative(struct stp_contract_run *run);
void stp_check_revives(struct stp_contract_run *run);
void stp_check_channels(struct stp_contract_run *run);
void stp_check_unmatched(struct stp_contract_run *run);
void stp_check_policies(struct stp_contract_run *run);
void stp_check_versions(struct stp_contract_run *run);

void stp_check_agree(struct stp_contract_run *run);
void stp_check_agree_threads(struct stp_contract_run *run);
void stp_check_agree_processes(struct stp_contract_run *run);
void stp_check_agree_children(struct stp_contract_run *run);
void stp_check_agree_reg_buff(struct stp_contract_run *run);
void stp_check_agree_clocks(struct stp_contract_run *run);
void stp_check_agree_environment(struct stp_contract_run *run);
void stp_check_agree_files(struct stp_contract_run *run);
void stp_check_agree_stall(struct stp_contract_run *run);
void stp_check_agree_death(struct stp_contract_run *run);

void stp_check_leak_call(struct stp_contract_run *run);
void stp_check_leak_comm(struct stp_contract_run *run);
void stp_check_process(struct stp_contract_run *run);
void stp_check_fast(struct stp_contract_run *run);
void stp_check_quiet(struct stp_contract_run *run);

#endif /* STP_CONTRACT_SUITE_H */
