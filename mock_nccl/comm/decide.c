/* decide.c - the pair of a collective, from its cost table */
#include <stdio.h>

#include "base/log.h"
#include "base/names.h"
#include "comm/comm.h"
#include "model/select.h"
#include "plugins/loader.h"

enum { LINE_SIZE = 1024 };

/* ---- lines ---- */

/* The <words> of lines on decisions. */
struct decision {
    const struct mock_call *call;
    const struct mock_outcome *outcome;
    size_t n_bytes;
    float us;
};

static void decide_report(const char *text, const struct decision *d)
{
    int algo = d->outcome->algo;
    int proto = d->outcome->proto;
    char line[LINE_SIZE];
    char numbers[6][32];
    const struct mock_blank blanks[] = {
        {"function", mock_coll_in_messages(d->call->coll)},
        {"algorithm", mock_algo_in_messages(algo)},
        {"protocol", mock_proto_in_messages(proto)},
        {"bytes", numbers[0]},
        {"us", numbers[1]},
        {"algo", numbers[2]},
        {"proto", numbers[3]},
        {"lo", numbers[4]},
        {"hi", numbers[5]},
    };

    if (!mock_log_is_heard(NCCL_LOG_INFO))
        return;
    snprintf(numbers[0], sizeof(numbers[0]), "%zu", d->n_bytes);
    snprintf(numbers[1], sizeof(numbers[1]), "%f", (double)d->us);
    snprintf(numbers[2], sizeof(numbers[2]), "%d", algo);
    snprintf(numbers[3], sizeof(numbers[3]), "%d", proto);
    snprintf(numbers[4], sizeof(numbers[4]), "%d", d->outcome->first_channel);
    snprintf(numbers[5], sizeof(numbers[5]), "%d",
             d->outcome->first_channel + d->outcome->n_channels - 1);
    mock_fill(line, sizeof(line), text, blanks,
              sizeof(blanks) / sizeof(blanks[0]));
    MOCK_INFO(NCCL_TUNING, "%s", line);
}

void mock_report_schedule(const struct mock_comm *comm,
                          const struct mock_call *call,
                          const struct mock_outcome *outcome)
{
    const char *text = comm->version->choice.scheduled;
    struct decision decision = {
        .call = call,
        .outcome = outcome,
        .n_bytes = mock_share_bytes(&comm->model, call->coll, call->n_bytes,
                                    call->element_size),
    };

    if (text != NULL && comm->listener.rank == 0)
        decide_report(text, &decision);
}

/* The sentence " NCCL_ALGO was set to ring." for a variable that is set. */
static int decide_describe(const char *name, const char *value, char *text_ret,
                           size_t size)
{
    text_ret[0] = '\0';
    if (value == NULL)
        return 0;
    return snprintf(text_ret, size, " %s was set to %s.", name, value);
}

static ncclResult_t decide_fail_no_algorithm(const struct mock_comm *comm,
                                             const struct mock_call *call)
{
    const struct mock_choice_rules *rules = &comm->version->choice;
    const struct mock_nccl_options *options = &comm->nccl->options;
    char algo[LINE_SIZE];
    char proto[LINE_SIZE];
    char line[LINE_SIZE];
    const struct mock_blank blanks[] = {
        {"function", mock_coll_in_messages(call->coll)},
        {"type",
         mock_type_in_messages(call->coll, call->element_size, call->fp8)},
        {"NCCL_ALGO", algo},
        {"NCCL_PROTO", proto},
    };
    int by_user =
        decide_describe("NCCL_ALGO", options->algo, algo, sizeof(algo)) +
        decide_describe("NCCL_PROTO", options->proto, proto, sizeof(proto));

    mock_fill(line, sizeof(line), rules->nothing, blanks,
              sizeof(blanks) / sizeof(blanks[0]));
    MOCK_WARN("%s", line);
    return mock_fail(by_user && rules->reports_variables ? ncclInvalidUsage
                                                         : ncclInternalError,
                     "%s", line);
}

/* ---- choosing ---- */

/* Fails if NCCL would use an invalid choice and crash, hang or corrupt data. */
static ncclResult_t decide_check_winner(const struct mock_call *call,
                                        const struct mock_outcome *outcome)
{
    int algo = outcome->algo;
    int proto = outcome->proto;
    const char *reason;

    if (!mock_kernel_exists(call->coll, algo, proto))
        reason = "has no kernel for it and would crash";
    else if (outcome->cost[algo][proto] < 0)
        reason = "had ruled it out on this machine and has not set it up";
    else
        return ncclSuccess;
    return mock_fail(ncclInternalError, "%s/%s was chosen for %s, but NCCL %s",
                     mock_word(&mock_algos, algo),
                     mock_word(&mock_protos, proto),
                     mock_word(&mock_colls, call->coll), reason);
}

ncclResult_t mock_decide(const struct mock_comm *comm,
                         const struct mock_question *question,
                         const struct mock_call *call, enum mock_scope scope,
                         struct mock_outcome *outcome)
{
    const struct mock_version *version = comm->version;
    const struct mock_choice_rules *rules = &version->choice;
    struct decision d = {call, outcome, call->n_bytes, rules->ceiling};
    mock_table backup;
    ncclResult_t rc = ncclSuccess;

    if (rules->selection == MOCK_SELECT_PAIR &&
        outcome->algo != NCCL_ALGO_UNDEF && outcome->proto != NCCL_PROTO_UNDEF)
        /* 2.21 runs the tuner's pair without a table */
        return outcome->algo >= 0 && outcome->algo < version->n_algos &&
                       outcome->proto >= 0 &&
                       outcome->proto < NCCL_NUM_PROTOCOLS
                   ? decide_check_winner(call, outcome)
                   : mock_fail(ncclInternalError,
                               "algorithm %d and protocol %d were chosen for "
                               "%s, and NCCL would read outside its tables",
                               outcome->algo, outcome->proto,
                               mock_word(&mock_colls, call->coll));
    if (mock_select(rules, version->n_algos, outcome, &d.us)) {
        if (scope == MOCK_SCOPE_ALL)
            rc = decide_check_winner(call, outcome);
    } else {
        /* up to 2.23 NCCL uses a ring that the user has forbidden if nothing
         * else is left */
        mock_model_backup(&comm->model, question, backup);
        if (!mock_select_first(backup, NCCL_NUM_ALGORITHMS, rules->ceiling,
                               &outcome->algo, &outcome->proto,
                               rules->selection == MOCK_SELECT_PAIR ? NULL
                                                                    : &d.us))
            rc = decide_fail_no_algorithm(comm, call);
    }
    if (rc == ncclSuccess && rules->decided != NULL && comm->listener.rank == 0)
        decide_report(rules->decided, &d);
    return rc;
}
