/* launch.h - the launcher of this process */
#pragma once

#include <stdbool.h>

enum stp_launched {
    STP_LAUNCHED_BY_HAND,
    STP_LAUNCHED_BY_TORCHRUN, /* RANK and WORLD_SIZE are set */
    STP_LAUNCHED_BY_SRUN,     /* with more than one task */
    STP_LAUNCHED_BY_MPI,      /* mpirun or mpiexec */
};

/* A launcher, and the variables by which it numbers its processes. */
struct stp_launcher {
    enum stp_launched launched;
    const char *name;
    const char *rank, *size, *local_rank;
    const char *local_size; /* NULL: it has none */
};

/* Reads the environment.  A shell within a Slurm job counts as by hand, whose
 * variables are torchrun's. */
const struct stp_launcher *stp_find_launcher(void);
enum stp_launched stp_launched_by(void);

/* The number of this process, and of all that were started, as the launcher's
 * environment has them; false by hand, and where it does not say. */
bool stp_launched_as(unsigned *rank_ret, unsigned *size_ret);
