#include "analyse/check/check_choices.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/csv.h"
#include "core/dtype.h"
#include "core/names.h"
#include "device/mock/operation.h"
#include "mock_nccl.h"

enum {
    N_COSTS = NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS,
    N_OWN = 11, /* columns before the costs */
    MAX_OPS = 64,
    MAX_FILE = 64 << 20,
    COLUMN_NAME = 32,
    PATH = 4096,
};

/* A row of choices.csv.  A number is equal if it is printed alike, with three
 * digits or all of them. */
struct row {
    unsigned line;
    int coll; /* of all of the group */
    int type;
    int n_ops;
    int reg_buff;
    int n_ranks;
    int n_nodes;
    int algo;
    int proto;
    uint64_t n_bytes;
    struct stp_field cost[N_COSTS];
    struct stp_field channels; /* "24", of a group "12+12" */
};

struct choices {
    struct mock_machine *machine;
    struct mock_nccl *nccl;
    struct mock_comm *comm;
    struct row row;
    struct stp_choices_check *check;
};

/* ---- asking ---- */

static ncclResult_t choices_ask(const struct choices *c, const struct row *row,
                                struct mock_outcome outcomes[MAX_OPS])
{
    struct mock_call calls[MAX_OPS];

    for (int i = 0; i < row->n_ops; i++) {
        calls[i] = (struct mock_call){
            .coll = (ncclFunc_t)row->coll,
            .n_bytes = row->n_bytes / (uint64_t)row->n_ops,
            .reg_buff = row->reg_buff,
        };
        stp_set_operation(&calls[i], row->type, STP_OP_SUM);
    }
    return mock_comm_group(c->comm, calls, (size_t)row->n_ops, outcomes);
}

/* ---- comparing ---- */

static bool choices_same_cost(const struct stp_field *recorded, float us)
{
    char text[64];

    snprintf(text, sizeof(text), "%.9g", (double)us);
    if (stp_field_is(recorded, text))
        return true;
    snprintf(text, sizeof(text), "%.3f", (double)us);
    return stp_field_is(recorded, text);
}

static int choices_find_cost(const struct row *row,
                             const struct mock_outcome *out)
{
    for (int i = 0; i < N_COSTS; i++)
        if (!choices_same_cost(&row->cost[i], (&out->cost[0][0])[i]))
            return i;
    return -1;
}

static void choices_print_channels(const struct mock_outcome *outcomes, int n,
                                   char text[STP_CHOICES_TEXT])
{
    int len = 0;

    for (int i = 0; i < n && len < STP_CHOICES_TEXT; i++)
        len += snprintf(text + len, (size_t)(STP_CHOICES_TEXT - len), "%s%d",
                        i > 0 ? "+" : "", outcomes[i].n_channels);
}

static void choices_describe(const struct row *row,
                             const struct mock_outcome *out,
                             const char *channels, int cost,
                             char text[STP_CHOICES_TEXT])
{
    int n = snprintf(text, STP_CHOICES_TEXT,
                     "choices.csv:%u: %s of %" PRIu64 " bytes of %s: NCCL runs "
                     "%s/%s/%.*s, mock NCCL %s/%s/%s",
                     row->line, stp_coll_name(row->coll), row->n_bytes,
                     stp_type_name(row->type), stp_algo_name(row->algo),
                     stp_proto_name(row->proto), STP_SHOWN(&row->channels),
                     stp_algo_name(out->algo), stp_proto_name(out->proto),
                     channels);

    if (cost >= 0 && n > 0 && n < STP_CHOICES_TEXT)
        snprintf(text + n, (size_t)(STP_CHOICES_TEXT - n),
                 "; cost of %s/%s %.*s us, mock NCCL %.9g",
                 stp_algo_name(cost / NCCL_NUM_PROTOCOLS),
                 stp_proto_name(cost % NCCL_NUM_PROTOCOLS),
                 STP_SHOWN(&row->cost[cost]), (double)(&out->cost[0][0])[cost]);
}

/* The outcomes of a group differ in channels alone. */
static void choices_compare(struct stp_choices_check *check,
                            const struct row *row,
                            const struct mock_outcome *outcomes)
{
    const int cost = choices_find_cost(row, &outcomes[0]);
    char channels[STP_CHOICES_TEXT];

    choices_print_channels(outcomes, row->n_ops, channels);
    check->n_rows++;
    if (cost < 0 && row->algo == outcomes[0].algo &&
        row->proto == outcomes[0].proto &&
        stp_field_is(&row->channels, channels))
        check->n_alike++;
    else if (check->n_differences < STP_CHOICES_SHOWN)
        choices_describe(row, &outcomes[0], channels, cost,
                         check->differences[check->n_differences++]);
}

/* ---- choices.csv ---- */

static void *choices_begin_row(void *user, unsigned line)
{
    struct choices *c = user;

    c->row = (struct row){.line = line, .type = STP_TYPE_BF16};
    return &c->row;
}

static enum stp_status choices_end_row(void *user, void *data,
                                       struct stp_error *err)
{
    struct choices *c = user;
    const struct row *row = data;
    const struct mock_machine_info *m = mock_machine_get_info(c->machine);
    struct mock_outcome outcomes[MAX_OPS];

    if (row->n_ranks != m->n_ranks || row->n_nodes != m->n_nodes)
        return stp_fail_at(err, STP_ERR_SYNTAX, row->line, 1,
                           "%d ranks on %d nodes, expected %d on %d, as the "
                           "machine has them",
                           row->n_ranks, row->n_nodes, m->n_ranks, m->n_nodes);
    if (choices_ask(c, row, outcomes) != ncclSuccess)
        return stp_fail_at(err, STP_ERR_SYNTAX, row->line, 1, "%s",
                           mock_last_error());
    choices_compare(c->check, row, outcomes);
    return STP_OK;
}

#define WHOLE(name_, member, min_, max_)                                       \
    {                                                                          \
        .name = (name_), .expected = "a whole number", .required = true,       \
        .kind = STP_CSV_WHOLE, STP_CSV_INTO(row, member), .min = (min_),       \
        .max = (max_)                                                          \
    }
#define WORD(name_, expected_, member, from_name_)                             \
    {                                                                          \
        .name = (name_), .expected = (expected_), .required = true,            \
        .kind = STP_CSV_WORD, STP_CSV_INTO(row, member),                       \
        .from_name = (from_name_)                                              \
    }

static const struct stp_csv_column choices_columns[N_OWN] = {
    WORD("collective", "a collective", coll, stp_coll_from_name),
    WHOLE("bytes", n_bytes, 1, INT64_MAX),
    WHOLE("group_ops", n_ops, 1, MAX_OPS),
    {.name = "type",
     .expected = STP_TYPE_WORDS,
     .kind = STP_CSV_WORD,
     STP_CSV_INTO(row, type),
     .from_name = stp_type_from_name},
    WHOLE("nNodes", n_nodes, 1, INT32_MAX),
    WHOLE("nRanks", n_ranks, 1, INT32_MAX),
    {.name = "numPipeOps", .kind = STP_CSV_SKIP},
    WHOLE("regBuff", reg_buff, 0, 1),
    WORD("algo", "an algorithm", algo, stp_algo_from_name),
    WORD("proto", "a protocol", proto, stp_proto_from_name),
    {.name = "channels",
     .required = true,
     .kind = STP_CSV_FIELD,
     STP_CSV_INTO(row, channels)},
};

static enum stp_status choices_read(struct choices *c, const char *path,
                                    struct stp_error *err)
{
    struct stp_csv_column columns[N_OWN + N_COSTS];
    char names[N_COSTS][COLUMN_NAME];
    const struct stp_csv_format format = {
        .what = "choices",
        .columns = columns,
        .n_columns = N_OWN + N_COSTS,
        .begin_row = choices_begin_row,
        .end_row = choices_end_row,
    };

    memcpy(columns, choices_columns, sizeof(choices_columns));
    for (int i = 0; i < N_COSTS; i++) {
        snprintf(names[i], sizeof(names[i]), "cost_%s_%s",
                 stp_algo_name(i / NCCL_NUM_PROTOCOLS),
                 stp_proto_name(i % NCCL_NUM_PROTOCOLS));
        columns[N_OWN + i] = (struct stp_csv_column){
            .name = names[i],
            .required = true,
            .kind = STP_CSV_FIELD,
            .offset = offsetof(struct row, cost) +
                      (size_t)i * sizeof(struct stp_field),
        };
    }
    return stp_csv_load(&format, c, path, MAX_FILE, err);
}

/* ---- the machine ---- */

static enum stp_status choices_open(struct choices *c, const char *machine_path,
                                    struct stp_error *err)
{
    struct mock_nccl_options alone = {.tuner_plugin = "none"};

    if (mock_machine_load(machine_path, &c->machine) != ncclSuccess)
        return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    alone.version = mock_machine_get_info(c->machine)->nccl;
    snprintf(c->check->nccl, sizeof(c->check->nccl), "%s", alone.version);
    if (mock_nccl_create(&alone, &c->nccl) != ncclSuccess ||
        mock_comm_create(c->nccl, c->machine, mock_new_comm_id(), &c->comm) !=
            ncclSuccess)
        return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    return STP_OK;
}

static void choices_close(struct choices *c)
{
    if (c->comm != NULL)
        mock_comm_destroy(c->comm);
    if (c->nccl != NULL)
        mock_nccl_destroy(c->nccl);
    mock_machine_free(c->machine);
}

static enum stp_status choices_check_file(struct choices *c, const char *path,
                                          struct stp_error *err)
{
    char text[PATH + STP_ERROR_TEXT];
    struct stp_error why;
    enum stp_status status;

    if (access(path, F_OK) != 0)
        return STP_OK;
    status = choices_read(c, path, &why);
    if (status == STP_OK)
        return STP_OK;
    stp_error_string(&why, path, text, sizeof(text));
    return stp_fail(err, status, "%s", text);
}

enum stp_status stp_check_choices(const char *machine_path,
                                  struct stp_choices_check *check_ret,
                                  struct stp_error *err)
{
    struct choices c = {.check = check_ret};
    char path[PATH];
    enum stp_status status;
    int n = snprintf(path, sizeof(path), "%s/choices.csv", machine_path);

    if (n < 0 || n >= PATH)
        return stp_fail(err, STP_ERR_IO, "the path '%.60s...' is too long",
                        machine_path);
    memset(check_ret, 0, sizeof(*check_ret));
    status = choices_open(&c, machine_path, err);
    STP_THEN(status, choices_check_file(&c, path, err));
    choices_close(&c);
    return status;
}
