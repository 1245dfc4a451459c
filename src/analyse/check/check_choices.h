/*
 * check_choices.h - whether mock NCCL is the machine that was recorded
 *
 * Asks mock NCCL, from the folder's search graphs, all that choices.csv has of
 * NCCL, and compares cost tables, choices and channels.
 */
#ifndef STP_CHECK_CHOICES_H
#define STP_CHECK_CHOICES_H

#include "core/status.h"

enum { STP_CHOICES_SHOWN = 5, STP_CHOICES_TEXT = 320 };

struct stp_choices_check {
    char nccl[16]; /* of the machine */
    size_t n_rows; /* 0: there is no choices.csv */
    size_t n_alike;
    /* what differs in the first rows that do */
    char differences[STP_CHOICES_SHOWN][STP_CHOICES_TEXT];
    size_t n_differences;
};

/*
 * 'machine_path' is an absolute folder.  STP_ERR_DEVICE if mock NCCL cannot
 * play it, STP_ERR_SYNTAX and others, with the path in *err, if choices.csv
 * cannot be read; *check_ret is not to be used then.
 */
enum stp_status stp_check_choices(const char *machine_path,
                                  struct stp_choices_check *check_ret,
                                  struct stp_error *err);

#endif /* STP_CHECK_CHOICES_H */
