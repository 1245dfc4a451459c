#include "analyse/wrong.h"

#include <stdlib.h>

#include "analyse/order.h"
#include "nccl_tuner_abi.h"

typedef const struct stp_measurement *row;

static int wrong_order_comms(row a, row b)
{
    STP_RETURN_ORDER(STP_ORDER(a->coll, b->coll));
    STP_RETURN_ORDER(STP_ORDER(a->n_nodes, b->n_nodes));
    return STP_ORDER(a->n_ranks, b->n_ranks);
}

/* Both runs of AUTO in a round are of one arm. */
static bool wrong_is_auto(row m)
{
    return m->arm.kind == STP_ARM_AUTO || m->arm.kind == STP_ARM_AUTO_AGAIN;
}

static int wrong_order_names(row a, row b)
{
    STP_RETURN_ORDER(STP_ORDER(!wrong_is_auto(a), !wrong_is_auto(b)));
    return wrong_is_auto(a) ? 0 : stp_order_arms(a, b);
}

int stp_order_checks(const void *pa, const void *pb)
{
    row a = *(const row *)pa;
    row b = *(const row *)pb;

    STP_RETURN_ORDER(wrong_order_comms(a, b));
    STP_RETURN_ORDER(STP_ORDER(a->n_bytes, b->n_bytes));
    return wrong_order_names(a, b);
}

static int wrong_order_arms(row a, row b)
{
    STP_RETURN_ORDER(wrong_order_comms(a, b));
    return wrong_order_names(a, b);
}

size_t stp_right_rows(const struct stp_dataset *data, bool keeps_auto,
                      row *rows)
{
    row auto_wrong = NULL;
    bool any_is_wrong = false;
    size_t n = 0;

    for (size_t i = 0; i < data->n_rows; i++) {
        rows[i] = &data->rows[i];
        any_is_wrong |= rows[i]->n_wrong > 0;
    }
    if (!any_is_wrong)
        return data->n_rows;
    STP_SORT(rows, data->n_rows, stp_order_checks);
    for (size_t i = 0, end; i < data->n_rows; i = end) {
        const bool is_auto = wrong_is_auto(rows[i]);
        bool is_wrong = false;

        for (end = i;
             end < data->n_rows && stp_order_checks(&rows[i], &rows[end]) == 0;
             end++)
            is_wrong |= rows[end]->n_wrong > 0;
        /* it is the first of its size */
        if (is_wrong && is_auto)
            auto_wrong = rows[i];
        is_wrong |= auto_wrong != NULL &&
                    auto_wrong->n_bytes == rows[i]->n_bytes &&
                    wrong_order_comms(auto_wrong, rows[i]) == 0;
        for (size_t k = i; k < end; k++)
            if (!is_wrong || (keeps_auto && rows[k]->arm.kind == STP_ARM_AUTO))
                rows[n++] = rows[k];
    }
    return n;
}

enum stp_bits stp_join_bits(enum stp_bits bits, row m, row other)
{
    const int coll =
        m->work.mode == STP_MODE_FSDP ? ncclFuncReduceScatter : m->coll;
    const bool is_own = wrong_is_auto(other) && other->bits == STP_BITS_OTHER;

    return other->bits > bits && other->n_bytes == m->n_bytes &&
                   other->coll == coll && other->n_nodes == m->n_nodes &&
                   other->n_ranks == m->n_ranks &&
                   (is_own || stp_order_arms(m, other) == 0)
               ? other->bits
               : bits;
}

void stp_take_wrong(const struct stp_dataset *data, struct stp_measurement *m)
{
    for (size_t i = 0; i < data->n_rows; i++) {
        row other = &data->rows[i];
        struct stp_measurement like;

        if (other->n_bytes != m->n_bytes)
            continue;
        like = *m;
        /* an iteration of fsdp has collectives of both kinds */
        if (m->work.mode == STP_MODE_FSDP &&
            other->coll == ncclFuncReduceScatter)
            like.coll = other->coll;
        if (other->n_wrong > m->n_wrong &&
            stp_order_checks(&(row){&like}, &other) == 0)
            m->n_wrong = other->n_wrong;
        m->bits = stp_join_bits(m->bits, m, other);
    }
    if (m->work.mode == STP_MODE_FSDP && m->bits != STP_BITS_SAME)
        m->bits = STP_BITS_OTHER;
}

bool stp_next_wrong(const struct stp_dataset *data, struct stp_wrong *wrong)
{
    struct stp_wrong next = {0};

    for (size_t i = 0; i < data->n_rows; i++) {
        row m = &data->rows[i];
        int order;

        if (m->n_wrong <= 0 ||
            (wrong->like != NULL && wrong_order_arms(m, wrong->like) <= 0))
            continue;
        order = next.like == NULL ? -1 : wrong_order_arms(m, next.like);
        if (order < 0)
            next = (struct stp_wrong){
                m, data->tuner, 0, 0, {m->n_bytes, m->n_bytes}};
        if (order > 0)
            continue;
        next.n_results++;
        if (m->n_wrong > next.most)
            next.most = m->n_wrong;
        if (m->n_bytes < next.bytes.min)
            next.bytes.min = m->n_bytes;
        if (m->n_bytes > next.bytes.max)
            next.bytes.max = m->n_bytes;
    }
    if (next.like != NULL)
        *wrong = next;
    return next.like != NULL;
}

bool stp_kind_is_wrong(const struct stp_dataset *data, enum stp_arm_kind kind)
{
    for (size_t i = 0; i < data->n_rows; i++) {
        row m = &data->rows[i];

        if (m->n_wrong > 0 &&
            (wrong_is_auto(m) ? kind == STP_ARM_AUTO : kind == m->arm.kind))
            return true;
    }
    return false;
}
