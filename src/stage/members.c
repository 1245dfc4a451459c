#include "stage/members.h"

#include <stdlib.h>

#include "core/room.h"

struct stp_member {
    struct stp_comm *c;
    cudaStream_t stream;
};

bool stp_members_note(struct stp_members *members, struct stp_comm *c,
                      cudaStream_t stream)
{
    if (c->why != STP_STAGED)
        return true;
    for (size_t i = 0; i < members->n; i++)
        if (members->all[i].c == c && members->all[i].stream == stream)
            return true;
    if (!STP_ROOM(members->all, members->n, members->size))
        return false;
    stp_comm_retain(c);
    members->all[members->n++] = (struct stp_member){c, stream};
    return true;
}

bool stp_members_join(const struct stp_members *members)
{
    bool is_done = true, is_other;

    /* The first stream of a communicator waits for its others, then they wait
     * for that one. */
    for (size_t i = 0; i < 2 * members->n; i++) {
        const struct stp_member *m = &members->all[i % members->n];
        const struct stp_member *first = members->all;
        const bool is_back = i >= members->n;

        while (first->c != m->c)
            first++;
        if (first == m || m->c->n_used == 0) /* it stages no call */
            continue;
        is_done &= stp_comm_enter(m->c, &is_other) &&
                   stp_order_join(&stp_stage()->cuda,
                                  is_back ? m->stream : first->stream,
                                  is_back ? first->stream : m->stream);
        stp_comm_leave(is_other);
    }
    return is_done;
}

void stp_members_free(struct stp_members *members)
{
    for (size_t i = 0; i < members->n; i++)
        stp_comm_release(members->all[i].c);
    free(members->all);
    *members = (struct stp_members){0};
}
