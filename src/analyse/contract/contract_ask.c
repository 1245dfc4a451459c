/* contract_ask.c - verdicts, communicators and questions that checks share */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/contract/contract_suite.h"
#include "core/names.h"
#include "core/text.h"

/* ---- verdicts ---- */

static void ask_set_verdict(struct stp_contract_slot *slot,
                            enum stp_contract_verdict verdict,
                            const char *about, const char *fmt, va_list args)
{
    char text[STP_CONTRACT_TEXT];

    if (slot->verdict != STP_CONTRACT_OK)
        return;
    slot->verdict = verdict;
    vsnprintf(text, sizeof(text), fmt, args);
    if (about != NULL)
        snprintf(slot->text, sizeof(slot->text), "%.64s: %.440s", about, text);
    else
        memcpy(slot->text, text, sizeof(text));
    for (char *s = slot->text; *s != '\0'; s++)
        if (*s == '\n')
            *s = ' ';
}

void stp_contract_set(struct stp_contract_slot *slot,
                      enum stp_contract_verdict verdict, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    ask_set_verdict(slot, verdict, NULL, fmt, args);
    va_end(args);
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

void stp_contract_fail(struct stp_contract_run *run, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    ask_set_verdict(run->slot, STP_CONTRACT_FAIL, run->about, fmt, args);
    va_end(args);
    stp_contract_end(run);
}

void stp_contract_skip(struct stp_contract_run *run, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    ask_set_verdict(run->slot, STP_CONTRACT_SKIP, NULL, fmt, args);
    va_end(args);
    stp_contract_end(run);
}

void stp_contract_at(struct stp_contract_run *run, const char *fmt, ...)
{
    const char *policy = getenv("NCCL_TUNER_CONFIG_FILE");
    char *at = run->slot->at;
    size_t len;
    va_list args;

    va_start(args, fmt);
    vsnprintf(at, sizeof(run->slot->at), fmt, args);
    va_end(args);
    len = strlen(at);
    if (policy != NULL && policy[0] != '\0')
        snprintf(at + len, sizeof(run->slot->at) - len, ", with policy %s",
                 stp_base_name(policy));
}

/* ---- NCCL and communicators ---- */

/* Replaces 'before' in the list of what is open; what the list has no room for
 * is not closed at the end. */
#define ASK_REPLACE(list, before, after)                                       \
    for (int i_ = 0; i_ < STP_MAX_OPEN; i_++)                                  \
        if ((list)[i_] == (before)) {                                          \
            (list)[i_] = (after);                                              \
            break;                                                             \
        }

struct mock_nccl *stp_contract_open_as(struct stp_contract_run *run,
                                       const struct stp_contract_nccl *how)
{
    /* versions that do not know the word "none" find no such library */
    const struct mock_nccl_options options = {
        .version = how->version != NULL ? how->version : run->nccl,
        .tuner_plugin = how->alone ? "none" : run->options->plugin,
        .algo = how->algo,
        .proto = how->proto};
    struct mock_nccl *nccl;

    if (mock_nccl_create(&options, &nccl) != ncclSuccess)
        stp_contract_fail(run, "%s", mock_last_error());
    ASK_REPLACE(run->nccls, NULL, nccl)
    return nccl;
}

struct mock_nccl *stp_contract_open(struct stp_contract_run *run)
{
    return stp_contract_open_as(run, &(struct stp_contract_nccl){0});
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

    stp_contract_at(run, "init on %s", info->name);
    if (mock_comm_create(nccl, machine,
                         comm_id != 0 ? comm_id : mock_new_comm_id(),
                         &comm) != ncclSuccess)
        stp_contract_fail(run, "on %s: %s", info->name, mock_last_error());
    stp_contract_adopt(run, comm);
    return comm;
}

void stp_contract_adopt(struct stp_contract_run *run, struct mock_comm *comm)
{
    ASK_REPLACE(run->comms, NULL, comm)
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
        stp_contract_fail(run, "%s", mock_last_error());
}

void stp_contract_needs_file(struct stp_contract_run *run)
{
    if (run->reads_file == STP_READS_NO_FILE)
        stp_contract_skip(run, "it does not read NCCL_TUNER_CONFIG_FILE");
    if (run->reads_file == STP_READS_UNKNOWN)
        stp_contract_skip(run,
                          "it did not survive being asked whether it reads "
                          "NCCL_TUNER_CONFIG_FILE");
}

void stp_contract_set_policy(const char *path)
{
    setenv("NCCL_TUNER_CONFIG_FILE", path, 1);
}

/* ---- words ---- */

const char *stp_contract_describe(const struct mock_call *call,
                                  char text[STP_CALL_TEXT])
{
    int n = snprintf(text, STP_CALL_TEXT, "%s of %zu bytes",
                     stp_coll_name((int)call->coll), call->n_bytes);

    if (call->n_pipe_ops > 1)
        n += snprintf(text + n, STP_CALL_TEXT - (size_t)n, ", numPipeOps %d",
                      call->n_pipe_ops);
    if (call->reg_buff)
        n += snprintf(text + n, STP_CALL_TEXT - (size_t)n, ", regBuff 1");
    if (call->fp8)
        n += snprintf(text + n, STP_CALL_TEXT - (size_t)n, ", fp8");
    if (call->no_nvls)
        snprintf(text + n, STP_CALL_TEXT - (size_t)n, ", no NVLS type");
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

/* ---- questions ---- */

struct mock_call stp_contract_question(size_t i)
{
    static const size_t sizes[] = {8,       1024,    65536,    262144,
                                   1048576, 9536512, 67108864, 1073741824};

    return (struct mock_call){.coll = (ncclFunc_t)(i % NCCL_NUM_TUNED_FUNCS),
                              .n_bytes = sizes[i / NCCL_NUM_TUNED_FUNCS]};
}

void stp_contract_ask(struct stp_contract_run *run, struct mock_comm *comm,
                      struct stp_decisions *decisions)
{
    struct mock_outcome outcome;
    char text[STP_CALL_TEXT];

    for (size_t i = 0; i < STP_N_QUESTIONS; i++) {
        struct mock_call call = stp_contract_question(i);
        ncclResult_t rc;

        if (run != NULL)
            stp_contract_at(run, "%s", stp_contract_describe(&call, text));
        rc = mock_comm_collective(comm, &call, &outcome);
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

    for (size_t i = 0; i < STP_N_QUESTIONS; i++) {
        struct mock_call call = stp_contract_question(i);

        if (memcmp(&a->of[i], &b->of[i], sizeof(a->of[i])) == 0)
            continue;
        ask_describe_decision(&a->of[i], first);
        ask_describe_decision(&b->of[i], second);
        stp_contract_fail(run, "%s: %s %s, %s %s",
                          stp_contract_describe(&call, call_text), first, when,
                          second, then);
    }
}
