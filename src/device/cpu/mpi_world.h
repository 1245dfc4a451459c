/*
 * mpi_world.h - the processes that mpirun or srun started, as a world
 */
#ifndef STP_MPI_WORLD_H
#define STP_MPI_WORLD_H

#include "launch/world.h"

/*
 * Starts MPI, once in a process, and makes the world of its ranks; a process
 * without a launcher is alone in it.  Closing it ends MPI, which waits for
 * all ranks: a process that failed exits without, and is seen to have died.
 */
enum stp_status stp_mpi_world_open(int *argc, char ***argv,
                                   struct stp_world *world_ret,
                                   struct stp_error *err);

/* The MPI_Comm of a world of MPI, or NULL of any other. */
const void *stp_mpi_world_comm(const struct stp_world *world);

/* Fills *err with MPI's text for 'code', which is not MPI_SUCCESS. */
enum stp_status stp_mpi_fail(int code, struct stp_error *err);

#endif /* STP_MPI_WORLD_H */
