/*
 * train_scale.h - dynamic loss scaling
 *
 * Gradients of fp16 are computed of a loss times a factor, so that small ones
 * are not 0.  It halves with each overflow, and doubles after many steps
 * without (Micikevicius et al., Mixed Precision Training, ICLR 2018), by the
 * numbers of PyTorch's GradScaler.
 */
#ifndef STP_TRAIN_SCALE_H
#define STP_TRAIN_SCALE_H

#include <stdbool.h>

enum { STP_LOSS_SCALE_START = 65536, STP_LOSS_SCALE_PATIENCE = 2000 };

struct stp_loss_scale {
    double scale;       /* a power of 2 */
    unsigned n_good;    /* steps in a row since it last changed */
    unsigned n_skipped; /* steps, in all */
};

void stp_loss_scale_begin(struct stp_loss_scale *s);

/* A step is over, whose gradients were all finite or not: then it must not
 * have changed any weight. */
void stp_loss_scale_tell(struct stp_loss_scale *s, bool overflow);

#endif /* STP_TRAIN_SCALE_H */
