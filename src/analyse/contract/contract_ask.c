/* contract_ask.c - verdicts, communicators and questions that checks share */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/contract/contract_suite.h"
#include "core/names.h"

/* ---- verdicts ---- */

static void ask_set_verdict(struct stp_contract_slot *slot,
                            enum stp_contract_verdict verdict, const char *fmt,
                            va_list args)
{
    if (slot->verdict != STP_CONTRACT_OK)
        return;
    slot->verdict = verdict;
    vsnprintf(slot->text, sizeof(slot->text), fmt, args);
    for (char *s = slot->text; *s != '\0'; s++)
        if (*s == '\n')
            *s = ' ';
}

bool stp_contract_fail(struct stp_contract_run *run, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    ask_set_verdict(run->slot, STP_CONTRACT_FAIL, fmt, args);
    va_end(args);
    return false;
}

void stp_contract_skip(struct stp_contract_run *run, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    ask_set_verdict(run->slot, STP_CONTRACT_SKIP, fmt, args);
    va_end(args);
}

void stp_contract_note(struct stp_contract_run *run, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    ask_set_verdict(run->slot, STP_CONTRACT_OK, fmt, args);
    va_end(args);
}

void stp_contract_at(struct stp_contract_run *run, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(run->slot->at, sizeof(run->slot->at), fmt, args);
    va_end(args);
}

/* ---- NCCL and communicators ---- */

static struct mock_nccl *ask_open_nccl(struct stp_contract_run *run,
                                       const char *plugin, const char *version,
                                       const char *algo, const char *proto)
{
    const struct mock_nccl_options options = {
        .version = version != NULL ? version : run->nccl,
        .tuner_plugin = plugin,
        .algo = algo,
        .proto = proto};
    struct mock_nccl *nccl;

    if (mock_nccl_create(&options, &nccl) == ncclSuccess)
        return nccl;
    stp_contract_fail(run, "%s", mock_last_error());
    return NULL;
}

struct mock_nccl *stp_contract_nccl(struct stp_contract_run *run,
                                    const char *version, const char *algo,
                                    const char *proto)
{
    return ask_open_nccl(run, run->options->plugin, version, algo, proto);
}

struct mock_nccl *stp_contract_nccl_alone(struct stp_contract_run *run,
                                          const char *version, const char *algo,
                                          const char *proto)
{
    /* versions that do not know the word find no such library */
    return ask_open_nccl(run, "none", version, algo, proto);
}

struct mock_comm *stp_contract_comm(struct stp_contract_run *run,
                                    struct mock_nccl *nccl,
                                    const struct mock_machine *machine,
                                    uint64_t comm_id)
{
    const struct mock_machine_info *info = mock_machine_get_info(machine);
    struct mock_comm *comm;

    stp_contract_at(run, "init on %s", info->name);
    if (mock_comm_create(nccl, machine, comm_id, &comm) == ncclSuccess)
        return comm;
    stp_contract_fail(run, "on %s: %s", info->name, mock_last_error());
    return NULL;
}

struct mock_comm *stp_contract_open(struct stp_contract_run *run,
                                    const struct mock_machine *machine,
                                    struct mock_nccl **nccl_ret)
{
    struct mock_nccl *nccl = stp_contract_nccl(run, NULL, NULL, NULL);

    *nccl_ret = nccl;
    return nccl != NULL
               ? stp_contract_comm(run, nccl, machine, mock_new_comm_id())
               : NULL;
}

bool stp_contract_destroy(struct stp_contract_run *run, struct mock_comm *comm)
{
    stp_contract_at(run, "finalize");
    mock_comm_destroy(comm);
    /* it returns nothing, but leaves this behind */
    if (strstr(mock_last_error(), ": finalize returned") == NULL)
        return true;
    return stp_contract_fail(run, "%s", mock_last_error());
}

bool stp_contract_needs_file(struct stp_contract_run *run)
{
    if (run->reads_file == STP_READS_NO_FILE)
        stp_contract_skip(run, "it does not read NCCL_TUNER_CONFIG_FILE");
    if (run->reads_file == STP_READS_UNKNOWN)
        stp_contract_skip(run,
                          "it did not survive being asked whether it reads "
                          "NCCL_TUNER_CONFIG_FILE");
    return run->reads_file == STP_READS_FILE;
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

static struct stp_decision ask_get_decision(ncclResult_t rc,
                                            const struct mock_outcome *outcome)
{
    return (struct stp_decision){.rc = rc,
                                 .algo = outcome->algo,
                                 .proto = outcome->proto,
                                 .asked_channels = outcome->asked_channels,
                                 .n_channels = outcome->n_channels};
}

void stp_contract_ask(struct stp_contract_run *run, struct mock_comm *comm,
                      struct stp_decision decisions[STP_N_QUESTIONS])
{
    struct mock_outcome outcome;
    char text[STP_CALL_TEXT];

    for (size_t i = 0; i < STP_N_QUESTIONS; i++) {
        struct mock_call call = stp_contract_question(i);
        ncclResult_t rc;

        if (run != NULL)
            stp_contract_at(run, "%s", stp_contract_describe(&call, text));
        rc = mock_comm_collective(comm, &call, &outcome);
        decisions[i] = ask_get_decision(rc, &outcome);
    }
}

static bool ask_same_decision(const struct stp_decision *a,
                              const struct stp_decision *b)
{
    return a->rc == b->rc && a->algo == b->algo && a->proto == b->proto &&
           a->asked_channels == b->asked_channels &&
           a->n_channels == b->n_channels;
}

bool stp_contract_same(struct stp_contract_run *run,
                       const struct stp_decision *a, const char *when,
                       const struct stp_decision *b, const char *then)
{
    char call_text[STP_CALL_TEXT], first[96], second[96];

    for (size_t i = 0; i < STP_N_QUESTIONS; i++) {
        struct mock_call call = stp_contract_question(i);

        if (ask_same_decision(&a[i], &b[i]))
            continue;
        ask_describe_decision(&a[i], first);
        ask_describe_decision(&b[i], second);
        return stp_contract_fail(run, "%s: %s %s, %s %s",
                                 stp_contract_describe(&call, call_text), first,
                                 when, second, then);
    }
    return true;
}
