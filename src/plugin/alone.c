/* alone.c - a plugin that decides and does nothing else */
#include "plugin/companion.h"

static struct stp_companion *alone_end(struct stp_companion *companion)
{
    return companion; /* there is none */
}

const struct stp_companion_ops stp_companion = {.end = alone_end};
