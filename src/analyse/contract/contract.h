/* contract.h - what any tuner must do, and must not do, for a job to survive it
 *
 * A tuner plugin of any vendor is put through a table of checks in mock NCCL.
 * Each check has a process of its own and a time limit, so that a tuner that
 * crashes or hangs fails that check and the others go on. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum stp_contract_verdict {
    STP_CONTRACT_OK,
    STP_CONTRACT_FAIL,
    STP_CONTRACT_SKIP, /* does not apply, or could not be tried; the text says
                          why */
};

enum { STP_CONTRACT_TEXT = 512 };

struct stp_contract_check {
    const char *name;    /* static, e.g. "never negative" */
    const char *meaning; /* static, one line */
    enum stp_contract_verdict verdict;
    char text[STP_CONTRACT_TEXT]; /* one line; "" for an OK without figures */
};

struct stp_contract_options {
    const char *plugin;       /* as NCCL_TUNER_PLUGIN */
    const char *machine_path; /* as mock_machine_load() takes it */
    const char *nccl;         /* version, or NULL for the machine's, or the
                                 newest that takes the tuner */
    const char *over;         /* a tuner that the plugin asks first, as the
                                 environment tells it; NULL: none */
    const char *policy;       /* as NCCL_TUNER_CONFIG_FILE; NULL for one that
                                 decides all collectives, in the format of
                                 NVIDIA's example tuner */
    unsigned n_ranks;         /* of the machine; 0 for as many as it has */
    unsigned n_seeds;         /* random schedules of the ranks, >= 1 */
    uint64_t seed;            /* of random sizes */
    const char *only;         /* NULL, or the name of the one check to run */
    unsigned time_limit_s;    /* for each check, >= 1 */
    /* called while checks run, with the name of the one that has run longest
     * and for how long, and at most each 'tell_s' seconds; NULL: nothing is */
    void (*tell)(const char *check, double s);
    double tell_s;
};

struct stp_contract {
    struct stp_contract_check *checks;
    size_t n_checks;
    char name[64]; /* that the tuner gives itself; "" if it did not load */
    char nccl[16]; /* the version that most checks played */
    char machine[64];
    uint64_t seed; /* of the options */
};

/* Runs all checks, several at a time, and fills *contract_ret, to be freed with
 * stp_contract_free().  A tuner that fails checks is no error: STP_ERR_DEVICE
 * is for a machine that cannot be read, STP_ERR_IO for temporary files or
 * processes that cannot be had, STP_ERR_RANGE for no check of the name.  On
 * SIGINT and SIGTERM its processes and files go away, and then the caller as if
 * it had not caught the signal.
 *
 * The caller must have no other threads, and no child processes. */
enum stp_status stp_contract_run(const struct stp_contract_options *options,
                                 struct stp_contract *contract_ret,
                                 struct stp_error *err);

void stp_contract_free(struct stp_contract *contract);

/* How many checks came out like this. */
size_t stp_contract_count(const struct stp_contract *contract,
                          enum stp_contract_verdict verdict);

/* "ok", "FAIL" or "skip". */
const char *stp_contract_verdict_name(enum stp_contract_verdict verdict);
