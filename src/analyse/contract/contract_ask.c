/* contract_ask.c - verdicts, communicators and questions that checks share */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/contract/contract_suite.h"
#include "core/names.h"
#include "core/rng.h"
#include "core/text.h"

void stp_contract_set(struct stp_contract_slot *slot,
                      enum stp_contract_verdict verdict, const char *fmt, ...)
{
    va_list args;

    if (slot->verdict != STP_CONTRACT_OK)
        return;
    slot->verdict = verdict;
    va_start(args, fmt);
    vsnprintf(slot->text, sizeof(slot->text), fmt, args);
    va_end(args);
    for (char *s = slot->text; *s != '\0'; s++)
        if (*s == '\n')
            *s = ' ';
}

/* A build that counts what ran would lose it with _exit(). */
extern void __gcov_dump(void) __attribute__((weak));

_Noreturn void stp_contract_end(struct stp_contract_run *run)
{
    for (int i = 0; i < STP_MAX_OPEN; i++)
        if (run->comms[i] != NULL)
            stp_contract_destroy(run, run->comms[i]);
    for (int i = 0; i < STP_MAX_OPEN; i++)
        mock_nccl_destroy(run->nccls[i]);
    run->slot->done = true;
    if (__gcov_dump != NULL)
        __gcov_dump();
    _exit(0);
}

void stp_contract_at(struct stp_contract_run *run, const char *fmt, ...)
{
    const char *policy = getenv("NCCL_TUNER_CONFIG_FILE");
    va_list args;

    run->slot->call.n_bytes = 0;
    atomic_fetch_add(&run->slot->n_attempts, 1);
    va_start(args, fmt);
    vsnprintf(run->slot->at, sizeof(run->slot->at), fmt, args);
    va_end(args);
    if (policy != NULL && policy[0] != '\0')
        stp_append(run->slot->at, sizeof(run->slot->at), ", with policy %s",
                   stp_base_name(policy));
}

void stp_contract_begin_call(struct stp_contract_run *run,
                             const struct mock_call *call)
{
    run->slot->call = *call;
    atomic_fetch_add(&run->slot->n_attempts, 1);
}

/* Replaces 'before' in the list of what is open; what the list has no room for
 * is not closed at the end. */
#define ASK_REPLACE(list, before, after)                                       \
    for (int i_ = 0; i_ < STP_MAX_OPEN; i_++)                                  \
        if ((list)[i_] == (before)) {                                          \
            (list)[i_] = (after);                                              \
            break;                                                             \
        }

struct mock_nccl *stp_contract_open(struct stp_contract_run *run,
                                    const struct stp_contract_nccl *how)
{
    static const struct stp_contract_nccl plain;
    const struct stp_contract_nccl *h = how != NULL ? how : &plain;
    /* versions that do not know the word "none" find no such library */
    const char *below =
        run->options->over != NULL ? run->options->over : "none";
    const struct mock_nccl_options options = {
        .version = h->version != NULL ? h->version : run->nccl,
        .tuner_plugin = h->alone ? below : run->options->plugin,
        .algo = h->algo,
        .proto = h->proto,
        .collnet = h->collnet};
    struct mock_nccl *nccl;

    if (mock_nccl_create(&options, &nccl) != ncclSuccess)
        STP_CONTRACT_FAIL_BY(run, "%s", mock_last_error());
    ASK_REPLACE(run->nccls, NULL, nccl)
    return nccl;
}

void stp_contract_unload(struct stp_contract_run *run, struct mock_nccl *nccl)
{
    ASK_REPLACE(run->nccls, nccl, NULL)
    mock_nccl_destroy(nccl);
}

struct mock_comm *stp_contract_comm(struct stp_contract_run *run,
                                    struct mock_nccl *nccl,
                                    const struct mock_machine *machine,
                                    uint64_t comm_id)
{
    const struct mock_machine_info *info = mock_machine_get_info(machine);
    struct mock_comm *comm;

    stp_contract_at(run, "init on %s%s%s", info->name,
                    run->about != NULL ? ", " : "",
                    run->about != NULL ? run->about : "");
    if (mock_comm_create(nccl, machine,
                         comm_id != 0 ? comm_id : mock_new_comm_id(),
                         &comm) != ncclSuccess)
        STP_CONTRACT_FAIL_BY(run, "%s: %s", run->slot->at, mock_last_error());
    ASK_REPLACE(run->comms, NULL, comm)
    return comm;
}

void stp_contract_close(struct stp_contract_run *run, struct mock_comm *comm)
{
    stp_contract_at(run, "finalize");
    ASK_REPLACE(run->comms, comm, NULL)
    mock_comm_destroy(comm);
}

void stp_contract_destroy(struct stp_contract_run *run, struct mock_comm *comm)
{
    stp_contract_close(run, comm);
    /* it returns nothing, but leaves this behind */
    if (strstr(mock_last_error(), ": finalize returned") != NULL)
        STP_CONTRACT_FAIL_BY(run, "%s", mock_last_error());
}

void stp_contract_needs_file(struct stp_contract_run *run)
{
    if (run->reads_file == STP_READS_FILE)
        return;
    stp_contract_set(run->slot, STP_CONTRACT_SKIP,
                     run->reads_file == STP_READS_NO_FILE
                         ? "no answer changed with NCCL_TUNER_CONFIG_FILE"
                         : "it did not survive being asked whether it reads "
                           "NCCL_TUNER_CONFIG_FILE");
    stp_contract_end(run);
}

void stp_contract_set_policy(const char *path)
{
    setenv("NCCL_TUNER_CONFIG_FILE", path, 1);
}

const char *stp_contract_describe(const struct mock_call *call,
                                  char text[STP_CALL_TEXT])
{
    snprintf(text, STP_CALL_TEXT, "%s of %zu bytes",
             stp_coll_name((int)call->coll), call->n_bytes);
    if (call->n_pipe_ops > 1)
        stp_append(text, STP_CALL_TEXT, ", numPipeOps %d", call->n_pipe_ops);
    stp_append(text, STP_CALL_TEXT, "%s%s%s",
               call->reg_buff ? ", regBuff 1" : "", call->fp8 ? ", fp8" : "",
               call->no_nvls ? ", no NVLS type" : "");
    return text;
}

static void ask_describe_decision(const struct stp_decision *d, char text[96])
{
    if (d->rc != ncclSuccess)
        snprintf(text, 96, "failed with %d", (int)d->rc);
    else
        snprintf(text, 96, "%s/%s on %d channels (asked for %d)",
                 stp_algo_name(d->algo), stp_proto_name(d->proto),
                 d->n_channels, d->asked_channels);
}

struct mock_call stp_contract_call(uint64_t seed, size_t i)
{
    static const int n_pipe_ops[STP_N_WAYS / 2] = {
        1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 9, 10, 11, 12, 13, 14, 15, 24};
    const size_t n = i < STP_N_SIZED ? i : (i - STP_N_SIZED) % STP_N_LONE;
    const size_t way = i < STP_N_SIZED ? 0 : 1 + (i - STP_N_SIZED) / STP_N_LONE;

    return (struct mock_call){.coll = (ncclFunc_t)(n % NCCL_NUM_TUNED_FUNCS),
                              .n_bytes =
                                  stp_probe(seed, n / NCCL_NUM_TUNED_FUNCS),
                              .n_pipe_ops = n_pipe_ops[way / 2],
                              .reg_buff = way % 2};
}

struct mock_call stp_contract_question(uint64_t seed, size_t i, size_t turn)
{
    const size_t way = stp_rng(seed + turn, i) % (STP_N_WAYS - 1);

    return stp_contract_call(
        seed, i < STP_N_LONE ? i : STP_N_SIZED + (way - 1) * STP_N_LONE + i);
}

void stp_contract_ask(struct stp_contract_run *run, struct mock_comm *comm,
                      size_t n, struct stp_decisions *decisions)
{
    struct mock_outcome outcome;

    stp_contract_at(run, "%s", "");
    decisions->n = n;
    for (size_t i = 0; i < n; i++) {
        struct mock_call call = stp_contract_question(run->options->seed, i, 0);
        ncclResult_t rc;

        call.reg_buff ^= run->flips_reg_buff;
        stp_contract_begin_call(run, &call);
        rc = mock_comm_collective(comm, &call, &outcome);
        stp_contract_judge(run, comm, &call, rc, &outcome);
        decisions->of[i] =
            (struct stp_decision){.rc = rc,
                                  .algo = outcome.algo,
                                  .proto = outcome.proto,
                                  .asked_channels = outcome.asked_channels,
                                  .n_channels = outcome.n_channels};
    }
}

void stp_contract_same(struct stp_contract_run *run,
                       const struct stp_decisions *a, const char *when,
                       const struct stp_decisions *b, const char *then)
{
    char call_text[STP_CALL_TEXT], first[96], second[96];

    for (size_t i = 0; i < a->n; i++) {
        struct mock_call call = stp_contract_question(run->options->seed, i, 0);

        if (memcmp(&a->of[i], &b->of[i], sizeof(a->of[i])) == 0)
            continue;
        ask_describe_decision(&a->of[i], first);
        ask_describe_decision(&b->of[i], second);
        STP_CONTRACT_FAIL_BY(run, "%s: %s %s, %s %s",
                             stp_contract_describe(&call, call_text), first,
                             when, second, then);
    }
}
