/*
 * launch.h - the launcher of this process, and restarting it under mpirun
 */
#ifndef STP_LAUNCH_H
#define STP_LAUNCH_H

#include <stdbool.h>

#include "core/status.h"

enum stp_launched {
    STP_LAUNCHED_BY_HAND,
    STP_LAUNCHED_BY_TORCHRUN, /* RANK and WORLD_SIZE are set */
    STP_LAUNCHED_BY_SRUN,     /* with more than one task, with or without MPI */
    STP_LAUNCHED_BY_MPI,      /* mpirun or mpiexec */
};

/* Reads the environment.  A shell within a Slurm job counts as by hand. */
enum stp_launched stp_launched_by(void);

/* The number of this process, and of all that were started, as the launcher's
 * environment has them; false by hand, and where it does not say. */
bool stp_launched_as(unsigned *rank_ret, unsigned *size_ret);

/*
 * Replaces this process by `mpirun -np N` of itself, with the same arguments;
 * $STEPTUNE_MPIRUN names another mpirun.  There may be more processes than
 * processors, and root may do it.  Returns only on failure: STP_ERR_NOTHING if
 * there is no such program.
 */
enum stp_status stp_launch_mpirun(unsigned n, struct stp_error *err);

#endif /* STP_LAUNCH_H */
