#include "agree/agreement.h"

enum stp_status stp_agreement_join(const struct stp_agreement_rank *rank,
                                   struct stp_agreement **agreement_ret,
                                   struct stp_error *err)
{
    const unsigned fewer[] = {rank->parts, rank->parts & STP_AGREE_PROPOSALS,
                              0};
    struct stp_agreement_rank with = *rank;
    enum stp_status status = STP_ERR_LIMIT;

    for (size_t i = 0; i < 3 && status != STP_OK; i++) {
        with.parts = fewer[i];
        if (i == 0 || fewer[i] != fewer[i - 1])
            status = stp_agreement_shm.join(&with, agreement_ret, err);
    }
    return status;
}

void stp_agreement_leave(struct stp_agreement *agreement)
{
    if (agreement != NULL)
        agreement->ops->leave(agreement);
}
