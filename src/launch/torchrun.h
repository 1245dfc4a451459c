/* torchrun.h - the world of a process that torchrun, srun or mpirun started
 *
 * Or anything else that sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and
 * MASTER_PORT in each process.  Rank 0 listens, the others connect to it.
 *
 * Slurm's srun says which rank a task is, and the hosts of the step: the first
 * has rank 0, and the port follows from the number of the job.  MASTER_ADDR and
 * MASTER_PORT replace them.  mpirun (Open MPI's or MPICH's) says which rank a
 * process is, and no host: MASTER_ADDR does, unless all are on one; the port
 * follows from the name of the job, unless MASTER_PORT says it.
 *
 * Where the store of torchrun's agent answers, rank 0 publishes in it at which
 * port it listens, and a random token that the others must know; it deletes the
 * key, "steptune/RUN/RESTARTS/rank0", once all are there.  Where it does not,
 * the port is fixed and the token is RUN/RESTARTS. */
#pragma once

#include "launch/world.h"

enum { STP_TORCHRUN_HOST = 256 };

/* A rank's place in its job, read from the launcher's variables. */
struct stp_torchrun {
    const char *launcher; /* "torchrun", "srun" or "mpirun" */
    unsigned rank, size;
    unsigned local_rank;
    unsigned local_size;          /* 0: not said */
    char host[STP_TORCHRUN_HOST]; /* of rank 0; a name or an address, IPv4 or
                                     IPv6 */
    unsigned port;                /* without the job's store */
    unsigned job_port;            /* of the job's store; 0: there is none */
    unsigned fixed_port; /* where rank 0 listens in any case; 0: anywhere */
    char token[96];      /* RUN/RESTARTS, of Slurm JOB.STEP/RESTARTS */
    unsigned limit_ms;   /* for all to come together */
    void (*warn)(const char *text); /* as in star.h */
};

/* Reads the environment.  The port is MASTER_PORT; the next one (the one before
 * 65535) where torchrun's agent has a store on it, which it says with
 * TORCHELASTIC_USE_AGENT_STORE=True; and STEPTUNE_PORT if that is set.
 * LOCAL_WORLD_SIZE may be missing.  STEPTUNE_JOIN_TIMEOUT are the seconds for
 * all to come together.  STP_ERR_SYNTAX: *err names the variable, its value and
 * what was expected. */
enum stp_status stp_torchrun_read(struct stp_torchrun *settings_ret,
                                  struct stp_error *err);

/* Joins the world (star.h), named as the launcher; all ranks call this.
 * Rank 0 listens at the address that 'host' has there; at all addresses if that
 * is another machine's, or a loopback address by a name for ranks of several
 * hosts. Rank 0 rejects a process that is not of this run, or that claims
 * another WORLD_SIZE or a rank that has joined already, and continues to wait.
 * *err names the port and the address at fault and the missing ranks:
 * STP_ERR_LIMIT if the port is in use, STP_ERR_DEVICE otherwise. */
enum stp_status stp_torchrun_join(const struct stp_torchrun *settings,
                                  struct stp_world *world_ret,
                                  struct stp_error *err);
