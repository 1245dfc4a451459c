/*
 * cli.h - what the subcommands share: options, machines, messages
 */
#ifndef STP_CLI_H
#define STP_CLI_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/sizes.h"
#include "bench/sweep.h"
#include "core/dtype.h"
#include "core/policy/policy.h"
#include "core/status.h"
#include "device/device.h"
#include "device/engine.h"
#include "launch/world.h"
#include "nccl_tuner_abi.h"

enum stp_exit {
    STP_EXIT_OK = 0,
    STP_EXIT_FAILED = 1,
    STP_EXIT_USAGE = 2,    /* argp's, too */
    STP_EXIT_NOTHING = 77, /* nothing to run on */
};

enum { STP_CLI_PATH = 4096 };

/* Where everything runs without GPUs unless --on says otherwise. */
#define STP_DEFAULT_MACHINE "h200x4"

/* One subcommand.  run() gets argv[0] as "steptune NAME" and returns the exit
 * status. */
struct stp_command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
};

int stp_cmd_sweep(int argc, char **argv);
int stp_cmd_iterate(int argc, char **argv);
int stp_cmd_train(int argc, char **argv);
int stp_cmd_derive(int argc, char **argv);
int stp_cmd_verify(int argc, char **argv);
int stp_cmd_tune(int argc, char **argv);
int stp_cmd_explain(int argc, char **argv);
int stp_cmd_check(int argc, char **argv);
int stp_cmd_replay(int argc, char **argv);
int stp_cmd_learn(int argc, char **argv);
int stp_cmd_run(int argc, char **argv);
int stp_cmd_plot(int argc, char **argv);
int stp_cmd_report(int argc, char **argv);
int stp_cmd_record(int argc, char **argv);
int stp_cmd_doctor(int argc, char **argv);

/* What `steptune replay --contract SO` does with its options. */
struct stp_contract_command {
    const char *plugin;
    const char *on;     /* NULL: the default machine */
    const char *nccl;   /* NULL: see struct stp_contract_options */
    const char *policy; /* NULL: one that the suite makes */
    unsigned n_ranks;   /* 0: the machine's */
    unsigned n_seeds;
    unsigned time_limit_s;
    bool json;
};
int stp_run_contract(const char *command, const struct stp_contract_command *o);

/* ---- options that several subcommands have, as argp children ---- */

/* --on, --json, --seed */
struct stp_machine_options {
    const char *on; /* NULL: GPUs if there are any, else the default machine */
    bool json;
    uint64_t seed;
    uint64_t max_bytes; /* of a collective, for stp_open_device(); 0: 1 GiB */
};
extern const struct argp stp_machine_argp;

enum { STP_MAX_PASSES = 16 };

/* How a real machine runs collectives. */
struct stp_run_options {
    const char *backend; /* "nccl", "gloo" or "mpi"; NULL: what --on has */
    unsigned procs[STP_MAX_PASSES]; /* processes of each pass */
    unsigned n_procs;               /* passes; 0: not given */
    unsigned n_threads;             /* of a process; 0: not given */
    unsigned n_gpus;                /* of a thread; 0: not given */
    unsigned graph;                 /* launches of a CUDA graph; 0: none */
    unsigned time_limit_s;          /* for what runs in one go; 0: none */
};
extern const struct argp stp_run_argp;

/* What and how to measure. */
struct stp_measure_options {
    int colls[NCCL_NUM_TUNED_FUNCS];
    size_t n_colls; /* 0: not given */
    uint64_t begin; /* with 'end', 'factor' and 'step'; 0: not given */
    uint64_t end;
    double factor;
    uint64_t step;   /* bytes from size to size */
    unsigned rounds; /* 0: not given */
    unsigned iters;  /* 0: not given */
    unsigned warmup;
    int type;               /* enum stp_type; -1: not given */
    int types[STP_N_TYPES]; /* all that were given, 'type' being the first */
    size_t n_types;
    int op; /* enum stp_op */
    unsigned root;
};
extern const struct argp stp_measure_argp;

/* The number from 'min' to 1,000,000 in 'arg', or argp's error and exit. */
unsigned stp_parse_count(const char *arg, const char *name, uint64_t min,
                         struct argp_state *state);

/* "2%" or "0.02"; false unless it is at least 0 and below 10. */
bool stp_parse_share(const char *text, double *share_ret);

/* What becomes a rule, and in which form. */
struct stp_derive_options {
    double min_gain; /* 0.02 is 2 percent */
    bool portable;   /* only the columns of NVIDIA's example tuner */
};
extern const struct argp stp_derive_argp;

/* Fills with the defaults what is not NULL. */
void stp_options_default(struct stp_machine_options *machine,
                         struct stp_measure_options *measure,
                         struct stp_derive_options *derive);

/* ---- where things are ---- */

/* The recorded machine that --on names: a folder, or the name of one in
 * $STEPTUNE_MACHINES or among those installed. */
enum stp_status stp_find_machine(const char *on, char path[STP_CLI_PATH],
                                 struct stp_error *err);

/* Whether --on and --backend, NULL if not given, mean this machine itself: its
 * GPUs or CPUs. */
bool stp_is_live(const char *on, const char *backend);

/* The module of a device, such as "cuda", beside this program. */
enum stp_status stp_find_module(const char *name, char path[STP_CLI_PATH],
                                struct stp_error *err);

/* Our tuner plugin of this name, beside this program: "steptune" is the static
 * one, "steptune-online" the one that learns. */
enum stp_status stp_find_plugin(const char *name, char path[STP_CLI_PATH],
                                struct stp_error *err);

/* The absolute path of something that exists; false if it does not. */
bool stp_absolute_path(const char *path, char absolute[STP_CLI_PATH]);

/* ---- running plugins ---- */

/*
 * Sets what a job's environment would tell the plugin on a host with the GPUs
 * of the recorded machine at 'machine_path', and 'policy' as its policy if that
 * is not NULL.  Before any other thread runs.
 */
enum stp_status stp_set_plugin_environment(const char *machine_path,
                                           const char *policy,
                                           struct stp_error *err);

/*
 * Reads the policy at 'path' for a plugin, to be freed, or complains and
 * returns the exit status.  One that we cannot read may still be one that
 * another vendor's plugin can, if it is not 'ours': then *policy_ret is
 * untouched, and no lines are known.  Ours without a policy would step aside,
 * and a step aside agrees with anything.
 */
int stp_load_plugin_policy(const char *command, const char *path, bool ours,
                           struct stp_policy **policy_ret);

/*
 * Returns what 'run' returns.  For another vendor's 'plugin' (NULL for ours) in
 * a child: it may crash, as it would crash a job, and somebody must be left to
 * say so.
 */
int stp_run_plugin(const char *command, const char *plugin,
                   int (*run)(void *user, const char *command), void *user);

/* ---- measuring ---- */

/*
 * Opens the device that --on names, with a plugin under test or NULL.  Prints
 * why not, and returns the exit status, if it cannot be had; else
 * STP_EXIT_OK.
 */
int stp_open_device(const char *command, const struct stp_machine_options *on,
                    const char *plugin, struct stp_device *device_ret);

/* All there is to say about a device. */
struct stp_open_options {
    const struct stp_machine_options *machine;
    const struct stp_run_options *run; /* NULL: defaults */
    const struct stp_world *world;     /* NULL: this process alone */
    uint64_t max_bytes;                /* of a collective */
    unsigned n_ranks;   /* of a recorded machine that trains; 0: all it has */
    const char *plugin; /* under test, or NULL */
    const char *graphs_file; /* NCCL's search graphs; or NULL */
};

/* Opens a device, a real or a recorded one.  Status and *err as
 * stp_module.open; STP_ERR_NOTHING if there is nothing to run on. */
enum stp_status stp_open(const struct stp_open_options *options,
                         struct stp_device *device_ret, struct stp_error *err);

/* Opens the engines of this process's ranks, 'n_local' of them, for training:
 * GPUs, one on CPUs, or one of a recorded machine, which stands for all its
 * ranks. */
enum stp_status stp_open_engines(const struct stp_open_options *options,
                                 unsigned n_local,
                                 struct stp_engine *engines_ret,
                                 struct stp_error *err);

/*
 * Runs 'body' in each process that the options ask for, which become complete
 * by this, or in all that mpirun, srun or torchrun started.  Returns the exit
 * status: that of a body that has complained, or of what is complained of here.
 */
int stp_launch(const char *command, const struct stp_machine_options *machine,
               struct stp_run_options *run,
               int (*body)(void *user, const struct stp_world *world),
               void *user);

/* For a body of stp_launch(): says why it failed, unless another process does,
 * and returns the exit status. */
int stp_complain_in(const char *command, const struct stp_world *world,
                    enum stp_status status, const struct stp_error *err);

/* The exit status for a failure. */
int stp_exit_status(enum stp_status status);

/* A plan and what it points to. */
struct stp_cli_plan {
    struct stp_sweep_plan plan;
    struct stp_sizes sizes[NCCL_NUM_TUNED_FUNCS];
    int colls[NCCL_NUM_TUNED_FUNCS];
};

/*
 * Makes a plan for the device out of options: sizes as asked, else those the
 * device knows, else 8 bytes to 1 GiB by factors of 2.
 */
enum stp_status stp_make_plan(const struct stp_device *device,
                              const struct stp_measure_options *measure,
                              const struct stp_arms *arms,
                              struct stp_cli_plan *plan_ret,
                              struct stp_error *err);

/* The bytes that sizes of a collective must be multiples of on this device: one
 * element, or one of every rank where ranks get parts. */
uint64_t stp_size_grain(const struct stp_device *device, int coll, int type);

/* The largest message that the options ask for, or a default of 1 GiB. */
uint64_t stp_max_bytes(const struct stp_measure_options *measure);

/* A progress bar on standard error if that is a terminal; false once there is a
 * wish to stop (launch/stop.h).  For stp_sweep_run() and stp_replay().  'user'
 * says what is counted; NULL: sizes. */
bool stp_progress(void *user, size_t done, size_t total);

/* Wipes the bar from the terminal, for a line that is to stand there. */
void stp_progress_clear(void);

struct stp_steadiness; /* analyse/steadiness.h */

/* Warns if the rounds are too few, or the machine too unsteady, to tell gains
 * of 'min_gain' from none. */
void stp_warn_of_noise(const char *command,
                       const struct stp_steadiness *steadiness,
                       double min_gain);

/* ---- messages ---- */

/* Prints "COMMAND: TEXT" to standard error.  Returns STP_EXIT_FAILED. */
int stp_complain(const char *command, const char *fmt, ...) STP_PRINTF(2, 3);

/* Prints an error about the file 'path', or about none if it is NULL. */
int stp_complain_error(const char *command, const char *path,
                       const struct stp_error *err);

#endif /* STP_CLI_H */
