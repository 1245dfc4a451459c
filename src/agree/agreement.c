#include "agree/agreement.h"

enum stp_status stp_agreement_join(const struct stp_agreement_rank *rank,
                                   struct stp_agreement **agreement_ret,
                                   struct stp_error *err)
{
    struct stp_agreement_rank with = *rank;
    enum stp_status status = stp_agreement_shm.join(&with, agreement_ret, err);

    if (status == STP_OK || !with.proposes)
        return status;
    with.proposes = false;
    return stp_agreement_shm.join(&with, agreement_ret, err);
}

void stp_agreement_leave(struct stp_agreement *agreement)
{
    if (agreement != NULL)
        agreement->ops->leave(agreement);
}
