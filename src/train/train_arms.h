/*
 * train_arms.h - the arms that take turns in a training
 */
#ifndef STP_TRAIN_ARMS_H
#define STP_TRAIN_ARMS_H

#include "train/trainer.h"

/* Has all collectives from now on run as the arm says.  The arm is the
 * process's: no rank may still ask NCCL for what came before, nor already for
 * what comes.  All ranks call it; none fails alone. */
enum stp_status stp_train_select_arm(const struct stp_engine *engine,
                                     const struct stp_arm *arm,
                                     struct stp_error *err);

/* The same of the arm of this number, if there are rounds. */
void stp_train_use_arm(struct stp_trainer *t, unsigned number);

/*
 * Runs the collectives of a step once under each arm of rounds, compares their
 * results with what must come out, and notes in result_ret->arms and ->ran
 * which arms NCCL ran, and how.  All ranks call it before gradients and weights
 * are filled in.  STP_ERR_LIMIT for a wrong result, STP_ERR_RANGE for an arm
 * that the engine lacks.
 */
void stp_train_try_arms(struct stp_trainer *t,
                        struct stp_train_result *result_ret);

#endif /* STP_TRAIN_ARMS_H */
