#include "core/learn/evidence.h"

#include <stdlib.h>

#include "core/csv.h"
#include "core/names.h"
#include "core/room.h"

/* A row as it is read. */
struct row {
    int algo;
    int proto;
    struct stp_evidence is;
};

struct reading {
    struct stp_evidence_list list;
    size_t room;
    struct row row;
};

static const struct stp_csv_column columns[] = {
    {"collective", "a collective such as allreduce", true, STP_CSV_WORD,
     STP_CSV_INTO(row, is.coll), .from_name = stp_coll_from_name},
    {"min_bytes", "bytes", true, STP_CSV_WHOLE, STP_CSV_INTO(row, is.bytes.min),
     .max = UINT64_MAX},
    {"max_bytes", "bytes", true, STP_CSV_WHOLE, STP_CSV_INTO(row, is.bytes.max),
     .max = UINT64_MAX},
    {"nNodes", "a number of nodes", true, STP_CSV_WHOLE,
     STP_CSV_INTO(row, is.n_nodes), .min = 1, .max = UINT64_MAX},
    {"nRanks", "a number of ranks", true, STP_CSV_WHOLE,
     STP_CSV_INTO(row, is.n_ranks), .min = 1, .max = UINT64_MAX},
    {"algorithm", "an algorithm such as ring", true, STP_CSV_WORD,
     STP_CSV_INTO(row, algo), .from_name = stp_algo_from_name},
    {"protocol", "a protocol such as ll128", true, STP_CSV_WORD,
     STP_CSV_INTO(row, proto), .from_name = stp_proto_from_name},
    {"channels", "0 to 64", true, STP_CSV_WHOLE,
     STP_CSV_INTO(row, is.arm.n_channels), .max = STP_MAX_CHANNELS},
    {"blocks", "a number from 1", true, STP_CSV_WHOLE,
     STP_CSV_INTO(row, is.n_blocks), .min = 1, .max = UINT32_MAX},
    {"log_gain", "a number", true, STP_CSV_NUMBER,
     STP_CSV_INTO(row, is.log_gain)},
    {"log_ss", "a number from 0", true, STP_CSV_FROM_0,
     STP_CSV_INTO(row, is.log_ss)},
};

static void *evidence_begin_row(void *user, unsigned line)
{
    struct reading *r = user;

    if (!STP_ROOM(r->list.all, r->list.n, r->room))
        return NULL;
    r->row = (struct row){0};
    return &r->row;
}

static enum stp_status evidence_end_row(void *user, void *row,
                                        struct stp_error *err)
{
    struct reading *r = user;
    struct row *new = row;

    new->is.arm.algo = (int8_t) new->algo;
    new->is.arm.proto = (int8_t) new->proto;
    r->list.all[r->list.n++] = new->is;
    return STP_OK;
}

enum stp_status stp_evidence_parse(const char *csv, size_t len,
                                   struct stp_evidence_list *list_ret,
                                   struct stp_error *err)
{
    static const struct stp_csv_format format = {
        .what = "evidence",
        .columns = columns,
        .n_columns = sizeof(columns) / sizeof(columns[0]),
        .begin_row = evidence_begin_row,
        .end_row = evidence_end_row,
    };
    struct reading r = {0};
    enum stp_status status = stp_csv_read(&format, &r, csv, len, err);

    if (status == STP_OK)
        *list_ret = r.list;
    else
        free(r.list.all);
    return status;
}

void stp_evidence_free(struct stp_evidence_list *list)
{
    free(list->all);
    *list = (struct stp_evidence_list){0};
}
