/* contract_life.c - checks of loading, init, finalize and contexts */
#include <stdio.h>
#include <string.h>

#include "analyse/contract/contract_suite.h"

enum { N_RANKS = 8 }; /* contexts alive together */

/* Keeps the loader's last line, which says why there is no tuner. */
static void life_keep_line(void *user, ncclDebugLogLevel level,
                           unsigned long flags, const char *line)
{
    struct stp_contract_slot *slot = user;

    if (strstr(line, "NCCL_TUNER_PLUGIN set ") == NULL)
        snprintf(slot->text, sizeof(slot->text), "%s", line);
}

void stp_check_loads(struct stp_contract_run *run)
{
    const struct mock_nccl_options options = {
        .version = run->nccl, .tuner_plugin = run->options->plugin};
    struct stp_contract_slot *slot = run->slot;
    struct mock_nccl *nccl;

    mock_set_log(life_keep_line, slot);
    if (mock_nccl_create(&options, &nccl) != ncclSuccess)
        return;
    slot->tuner_version =
        mock_nccl_find_tuner(nccl, slot->tuner_name, sizeof(slot->tuner_name));
    mock_nccl_destroy(nccl);
}

/* Makes a communicator, asks, and destroys it.  Returns whether NCCL gave it
 * the tuner, which 2.21 does not after the last one was destroyed. */
static bool life_use_comm(struct stp_contract_run *run, struct mock_nccl *nccl,
                          uint64_t comm_id, struct stp_decisions *decisions)
{
    struct mock_comm *comm =
        stp_contract_comm(run, nccl, run->world->machine, comm_id);
    bool tuned = mock_comm_tuner_version(comm) != 0;

    stp_contract_ask(run, comm, STP_N_QUESTIONS, decisions);
    stp_contract_destroy(run, comm);
    return tuned;
}

/* Uses a communicator as the first one of a process. */
static void life_use_alone(struct stp_contract_run *run, uint64_t comm_id,
                           struct stp_decisions *decisions)
{
    struct mock_nccl *nccl = stp_contract_open(run, NULL);

    life_use_comm(run, nccl, comm_id, decisions);
    stp_contract_unload(run, nccl);
}

/* Whether other checks have anything to look at: a communicator, and decisions
 * that change with the policy found in init, or later.  No verdict. */
void stp_check_probe(struct stp_contract_run *run)
{
    static const bool cases[][2] = {
        {true, true}, {false, false}, {true, false}};
    enum { N_CASES = sizeof(cases) / sizeof(cases[0]) };
    const char *path = run->world->files[STP_FILE_MOVING];
    struct stp_decisions decisions[N_CASES];
    uint64_t comm_id = mock_new_comm_id();
    bool reads = false;

    for (int i = 0; i < N_CASES; i++) {
        struct mock_nccl *nccl = stp_contract_open(run, NULL);
        struct mock_comm *comm;

        stp_write_policy(path, cases[i][0], 1);
        stp_contract_set_policy(path);
        comm = stp_contract_comm(run, nccl, run->world->machine, comm_id);
        run->slot->usable = true;
        stp_contract_ask(run, comm, STP_N_QUESTIONS,
                         &decisions[i]); /* it may look only now */
        stp_write_policy(path, cases[i][1], 2);
        stp_contract_ask(run, comm, STP_N_QUESTIONS, &decisions[i]);
        stp_contract_close(run, comm);
        stp_contract_unload(run, nccl);
        reads |= memcmp(&decisions[0], &decisions[i], sizeof(*decisions)) != 0;
    }
    run->slot->reads_file = reads ? STP_READS_FILE : STP_READS_NO_FILE;
}

void stp_check_complete(struct stp_contract_run *run)
{
    if (run->tuner_name[0] == '\0' || strcmp(run->tuner_name, "(null)") == 0)
        STP_CONTRACT_FAIL_BY(run, "it has no name, which NCCL prints");
    for (size_t v = 0; v < STP_MAX_NCCL; v++) {
        const struct stp_contract_nccl how = {.version = mock_release_name(v)};
        struct mock_nccl *nccl;
        struct mock_comm *comm;

        if (run->tuner_versions[v] == 0)
            continue;
        nccl = stp_contract_open(run, &how);
        stp_contract_at(run, "init");
        if (mock_comm_create(nccl, run->world->machine, mock_new_comm_id(),
                             &comm) == ncclSuccess) {
            stp_contract_at(run, "finalize");
            mock_comm_destroy(comm);
        } else if (strstr(mock_last_error(), "NULL function") != NULL)
            STP_CONTRACT_FAIL_BY(run, "NCCL %s (tuner v%d): %s", how.version,
                                 run->tuner_versions[v], mock_last_error());
        stp_contract_unload(run, nccl);
    }
}

void stp_check_init(struct stp_contract_run *run)
{
    for (int i = -1; i < STP_N_SHAPES; i++) {
        struct mock_nccl *nccl = stp_contract_open(run, NULL);

        stp_contract_destroy(
            run, stp_contract_comm(
                     run, nccl,
                     i < 0 ? run->world->machine : run->world->shapes[i], 0));
        stp_contract_unload(run, nccl);
    }
    stp_contract_set(run->slot, STP_CONTRACT_OK, "%d machines, 1 to 2048 ranks",
                     1 + STP_N_SHAPES);
}

enum { N_LIVES = 20 };

/* 'first' was asked before the library was loaded for 'nccl'. */
static void life_use_often(struct stp_contract_run *run, struct mock_nccl *nccl,
                           uint64_t comm_id, const struct stp_decisions *first,
                           const char *then)
{
    struct stp_decisions later;

    for (int i = 0; i < N_LIVES; i++) {
        if (!life_use_comm(run, nccl, comm_id, &later)) {
            stp_contract_set(run->slot, STP_CONTRACT_OK,
                             "NCCL %s does not load it again", run->nccl);
            return;
        }
        stp_contract_same(run, first, "at first", &later, then);
    }
}

void stp_check_reload(struct stp_contract_run *run)
{
    struct mock_nccl *nccl = stp_contract_open(run, NULL);
    struct stp_decisions first;
    uint64_t comm_id = mock_new_comm_id();

    life_use_alone(run, comm_id, &first);
    life_use_often(run, nccl, comm_id, &first, "after it was loaded again");
}

void stp_check_stays_loaded(struct stp_contract_run *run)
{
    const struct mock_machine *machine = run->world->machine;
    struct mock_nccl *nccl = stp_contract_open(run, NULL);
    struct stp_decisions first;
    uint64_t comm_id = mock_new_comm_id();
    struct mock_comm *a, *b;

    life_use_alone(run, comm_id, &first);
    a = stp_contract_comm(run, nccl, machine, comm_id);
    b = stp_contract_comm(run, nccl, machine, comm_id);
    stp_contract_destroy(run, b);
    stp_contract_destroy(run, a);
    life_use_often(run, nccl, comm_id, &first,
                   "in a later communicator of the same library");
}

/* All ranks of a communicator are made in one thread, and destroyed in the
 * order of ncclCommDestroy() in a process of many GPUs; this twice. */
void stp_check_finalize(struct stp_contract_run *run)
{
    struct mock_nccl *nccl = stp_contract_open(run, NULL);
    struct stp_decisions first, later;
    uint64_t comm_id = mock_new_comm_id();

    life_use_alone(run, comm_id, &first);
    for (int time = 0; time < 2; time++) {
        uint64_t of_many = mock_new_comm_id();
        struct mock_comm *comms[N_RANKS];

        for (int i = 0; i < N_RANKS; i++)
            comms[i] = stp_contract_comm(
                run, nccl, run->world->shapes[STP_SHAPE_NVLS], of_many);
        stp_contract_destroy(run, comms[0]);
        for (int i = N_RANKS - 1; i > 0; i--)
            stp_contract_destroy(run, comms[i]);
    }
    if (life_use_comm(run, nccl, comm_id, &later))
        stp_contract_same(run, &first, "before", &later,
                          "after 16 contexts were finalized");
}

static void life_ask_and_compare(struct stp_contract_run *run,
                                 struct mock_comm *comm,
                                 const struct stp_decisions *alone,
                                 const char *then)
{
    struct stp_decisions now;

    stp_contract_ask(run, comm, STP_N_QUESTIONS, &now);
    stp_contract_same(run, alone, "as the only communicator", &now, then);
}

void stp_check_contexts(struct stp_contract_run *run)
{
    struct mock_nccl *nccl = stp_contract_open(run, NULL);
    struct stp_decisions alone, ignored;
    uint64_t comm_id = mock_new_comm_id();
    struct mock_comm *comm;

    life_use_alone(run, comm_id, &alone);
    comm = stp_contract_comm(run, nccl, run->world->machine, comm_id);
    for (int i = 0; i < STP_N_SHAPES; i++) {
        const struct mock_machine *machine = run->world->shapes[i];
        const char *name = mock_machine_get_info(machine)->name;
        struct mock_comm *other;
        char then[96];

        snprintf(then, sizeof(then), "beside one of %.60s", name);
        other = stp_contract_comm(run, nccl, machine, 0);
        life_ask_and_compare(run, comm, &alone, then);
        stp_contract_ask(run, other, STP_N_QUESTIONS, &ignored);
        life_ask_and_compare(run, comm, &alone, then);
        stp_contract_destroy(run, other);
        snprintf(then, sizeof(then), "after one of %.60s was finalized", name);
        life_ask_and_compare(run, comm, &alone, then);
    }
}
