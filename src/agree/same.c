#include "agree/same.h"

#include "agree/segment.h"

/* A segment with nothing in it but what each compares: 'struct stp_same' is no
 * more than another name for it. */
static struct stp_segment *segment_of(const struct stp_same *same)
{
    return (struct stp_segment *)same;
}

enum stp_status stp_same_join(uint64_t comm_id, size_t n_ranks, uint64_t value,
                              struct stp_same **same_ret, struct stp_error *err)
{
    const struct stp_segment_key key = {
        .suffix = "", .comm_id = comm_id, .n_ranks = n_ranks};
    struct stp_segment *segment;
    uint32_t index;
    enum stp_status status =
        stp_segment_join(&key, value, &segment, &index, err);

    if (status == STP_OK)
        *same_ret = (struct stp_same *)segment;
    return status;
}

uint64_t stp_same_differing(const struct stp_same *same)
{
    return stp_segment_differing(segment_of(same));
}

bool stp_same_all(const struct stp_same *same)
{
    return stp_same_differing(same) == 0;
}

void stp_same_leave(struct stp_same *same)
{
    stp_segment_leave(segment_of(same));
}
