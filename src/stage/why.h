/*
 * why.h - why a call or a communicator is handed on unchanged
 */
#ifndef STP_STAGE_WHY_H
#define STP_STAGE_WHY_H

enum stp_stage_why {
    STP_STAGE_STAGED, /* it is not */
    /* calls */
    STP_STAGE_NO_RULE,
    STP_STAGE_NO_KERNEL,
    STP_STAGE_UNALIGNED,
    STP_STAGE_NO_PLACE,
    /* communicators */
    STP_STAGE_OWN_WINDOWS,
    STP_STAGE_ENDED,
    STP_STAGE_NO_MATCH,
    STP_STAGE_IN_GROUP,
    STP_STAGE_NO_WAIT,
    STP_STAGE_LIMITED,
    STP_STAGE_NO_CONTEXT,
    STP_STAGE_NO_MEETING,
    STP_STAGE_NOT_AGREED,
    /* processes */
    STP_STAGE_BEHIND,
    STP_STAGE_OLD_NCCL,
    STP_STAGE_NO_CUDA,
    STP_STAGE_SWITCHED_OFF,
    STP_STAGE_REFUSED,
    STP_STAGE_N_WHYS,
};

/* The word in reports, "" for STP_STAGE_STAGED, and the sentence in logs.
 * Static.
 */
const char *stp_stage_why_word(enum stp_stage_why why);
const char *stp_stage_why_text(enum stp_stage_why why);

#endif /* STP_STAGE_WHY_H */
