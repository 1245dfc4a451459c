#include "train/train_scale.h"

void stp_loss_scale_begin(struct stp_loss_scale *s)
{
    *s = (struct stp_loss_scale){.scale = STP_LOSS_SCALE_START};
}

void stp_loss_scale_tell(struct stp_loss_scale *s, bool overflow)
{
    if (overflow) {
        s->scale /= 2;
        s->n_good = 0;
        s->n_skipped++;
    } else if (++s->n_good == STP_LOSS_SCALE_PATIENCE) {
        s->scale *= 2;
        s->n_good = 0;
    }
}
