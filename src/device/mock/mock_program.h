/* mock_program.h - the work noted on a recorded machine, and running it
 *
 * Times are drawn from the recorded ones, in the order of the notes: one draw a
 * collective, or one for all that lies between two times taken where there are
 * compute and collectives in different streams, since recorded spreads are of
 * whole iterations.
 * A time is taken by an event that no stream waits for. */
#pragma once

#include "device/device.h"
#include "device/mock/mock_compute.h"
#include "device/mock/mock_streams.h"
#include "device/program.h"
#include "mock_nccl.h"

/* The communicator of collectives, of which one stands for all of a split, and
 * the machine of its ranks. */
struct stp_mock_world {
    struct mock_comm *comm;
    const struct mock_machine *machine;
};

/* The collective and the compute of a note that runs. */
struct stp_mock_part {
    struct mock_run run; /* of a collective; of a group its largest
                            part */
    const struct mock_machine *machine; /* of it */
    enum mock_mode mode;                /* of it, if it overlaps compute */
    struct stp_mock_compute compute;    /* alone, as recorded or modelled */
};

/* All zero to begin with. */
struct stp_mock_program {
    struct stp_program noted;
    struct stp_mock_part *parts; /* one a note */
    size_t part_room;
    struct stp_mock_task *tasks; /* one a note */
    size_t task_room;
    struct stp_task_event *events;
    size_t n_events; /* room for them */
    int way; /* of collectives: enum mock_way; 0: what NCCL chooses, as it does
                for those of plain buffers */
    bool graph; /* collectives take what they take in CUDA graphs */
    struct stp_mock_world *worlds; /* by split: all ranks, then the groups */
    enum stp_source source; /* of the last run: the worst of its times, and
                               VIRTUAL where collectives are not all of it */
    bool single_pass;       /* of some time of the last run */
};

/* The clock of a run, and the round that plays. */
struct stp_virtual_time {
    uint64_t seed;
    uint64_t n_draws; /* of the spread so far, or of an arm in a round */
    uint64_t place;   /* the round and the arm in it, where rounds are measured
                         again; else 0 */
    double round;     /* in [0, 1), which recorded round */
    double stall;     /* factor on all times; 1: none */
    double now_us;

    double stalls;         /* share of rounds that something disturbs */
    uint64_t n_rounds;     /* that began */
    uint64_t place_of_all; /* the round, however often it runs */
    unsigned n_arms;       /* selected in it so far */
    unsigned victim;       /* the arm that alone is disturbed, as it was
                              selected */
    bool disturbs_all, disturbs_one;
};

/* Begins round 'round' of 'n_rounds', or again from there on; of 0 any recorded
 * one. */
void stp_mock_begin_round(struct stp_virtual_time *time, unsigned round,
                          unsigned n_rounds);

/* Begins the next arm of the round. */
void stp_mock_begin_arm(struct stp_virtual_time *time,
                        const struct stp_arm *arm);

/* Notes work, as stp_program_add(), with its compute alone. */
enum stp_status stp_mock_program_add(struct stp_mock_program *p,
                                     const struct stp_work *work,
                                     struct stp_mock_compute compute,
                                     struct stp_error *err);

/* Runs the work noted since the last time; p->worlds is set. */
enum stp_status stp_mock_run(struct stp_mock_program *p,
                             struct stp_virtual_time *time,
                             struct stp_error *err);

void stp_mock_program_free(struct stp_mock_program *p);

/* The collective as mock NCCL is called with it. */
struct mock_call stp_mock_call(const struct stp_mock_program *p,
                               const struct stp_collective *c);

/* How it runs: as NCCL chose, or in the program's way. */
struct mock_run stp_mock_call_run(const struct stp_mock_program *p,
                                  const struct mock_call *call,
                                  const struct mock_outcome *outcome);
