/* cli.h - functions of several subcommands: machines, plugins, messages */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/options.h"
#include "core/status.h"
#include "device/device.h"
#include "device/engine.h"
#include "launch/world.h"
#include "plugin/conf.h"

enum stp_exit {
    STP_EXIT_OK = STP_OK, /* so that STP_THEN() takes steps of them, too */
    STP_EXIT_FAILED = 1,
    STP_EXIT_USAGE = 2,    /* argp's, too */
    STP_EXIT_NOTHING = 77, /* nothing to run on */
};

enum { STP_CLI_PATH = 4096 };

/* The recorded machine that commands play unless --on names one. */
#define STP_DEFAULT_MACHINE "h200x4"

/* One subcommand.  run() gets argv[0] as "steptune NAME" and returns the exit
 * status. */
struct stp_command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
    bool is_by_one; /* rank 0 of those that a launcher started runs it alone */
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
int stp_cmd_run(int argc, char **argv);
int stp_cmd_compare(int argc, char **argv);
/* That, with the result in 'fp'. */
int stp_compare_into(int argc, char **argv, FILE *fp);
int stp_cmd_plot(int argc, char **argv);
int stp_cmd_report(int argc, char **argv);
int stp_cmd_record(int argc, char **argv);
int stp_cmd_machines(int argc, char **argv);
int stp_cmd_doctor(int argc, char **argv);

#define STP_NO_POLICY "no policy, expected a file such as steptune.conf"

/* ---- files and machines ---- */

/* The recorded machine that --on names: a folder, or the name of one in
 * $STEPTUNE_MACHINES or among those installed. */
enum stp_status stp_find_machine(const char *on, char path[STP_CLI_PATH],
                                 struct stp_error *err);

/* Finds the machine for a command, the default machine if 'on' is NULL:
 * complains and returns STP_EXIT_NOTHING, or returns STP_EXIT_OK. */
int stp_choose_machine(const char *on, char path[STP_CLI_PATH]);

struct stp_machine_list {
    char (*paths)[STP_CLI_PATH]; /* absolute, of their folders; free() */
    size_t n;
};

/* All machines that --on finds by name: those of $STEPTUNE_MACHINES, then those
 * installed, each in the order of names. */
struct stp_machine_list stp_list_machines(void);

/* The folder where the names of --on are looked for, to be printed. */
const char *stp_machines_folder(char path[STP_CLI_PATH]);

/* Whether --on and --backend, NULL if not given, mean this machine itself: its
 * GPUs or CPUs. */
bool stp_is_live(const char *on, const char *backend);

/* Whether they mean the CPUs of this machine. */
bool stp_is_on_cpus(const char *on, const char *backend);

/* Checks before a command measures that it has all it needs. Without --on and
 * --backend that is a GPU: a recorded machine is never taken for one, and
 * 'example' is what a user would type to play one. It needs the module of the
 * transport, too, and our static tuner if 'takes_plugin'. Complains of each
 * that is missing and returns STP_EXIT_NOTHING, or returns STP_EXIT_OK. */
int stp_check_needs(const char *on, const char *backend, const char *example,
                    bool takes_plugin);

/* Whether the program is there: in $PATH, unless 'name' has a folder. */
bool stp_has_program(const char *name);

/* Whether gnuplot is there; else says that there will be no plots. */
bool stp_check_gnuplot(void);

/* A transport moves the data of a real machine; a module implements it. */
struct stp_transport {
    const char *backend; /* its word of --backend; NULL ends the table */
    const char *module;
    const char *on;    /* its word of --on */
    const char *needs; /* to build the module, with the packages of it */
};
extern const struct stp_transport stp_transports[];

/* The module of this name, one of the table's, beside this program.
 * STP_ERR_NOTHING: it was not built; *err says what to install. */
enum stp_status stp_find_module(const char *name, char path[STP_CLI_PATH],
                                struct stp_error *err);

/* Our tuner plugin of this name, beside this program: "steptune" is the static
 * one, "steptune-online" the one that learns. */
enum stp_status stp_find_plugin(const char *name, char path[STP_CLI_PATH],
                                struct stp_error *err);

enum { STP_NEWEST_TUNER = 7 }; /* version of the interface */

/* A tuner of others. */
struct stp_found_tuner {
    int version; /* of the interface; 0: none */
    char name[128];
    char path[1024];
    char by[192];  /* what named it: "STEPTUNE_CHAIN" */
    char why[512]; /* STEPTUNE_CHAIN names none; else "" */
};

/* Finds what NCCL's files (plugin/conf.h) give a job here for a variable that
 * it lacks; false: nothing. */
bool stp_find_conf(const char *name, struct stp_conf_value *value_ret);

/* The value that STEPTUNE_CHAIN is to have where ours is put into jobs of this
 * environment; NULL: none, which is "auto". */
const char *stp_chain_setting(void);

/* Finds the tuner that ours asks first by such a value, and that jobs have
 * without ours: plugin/lower.h, with a NCCL that knows version 'newest' of the
 * interface, STP_NEWEST_TUNER if it is not known. */
void stp_find_lower(const char *chain, int newest,
                    struct stp_found_tuner *found_ret);

/* Lets ours ask the tuner 'over' first, as an option --over has it, or says why
 * it cannot; returns the exit status. */
int stp_set_over(const char *over);

/* Prepares to stage collectives by the stage policy in the file 'rules', or
 * "all" for the one that is installed: finds its absolute path, and the library
 * that LD_PRELOAD is to have in front.  Complains and returns the exit status.
 */
int stp_find_staging(const char *rules, char absolute[STP_CLI_PATH],
                     char library[STP_CLI_PATH]);

/* Whether the file is a shared library, and so no policy. */
bool stp_is_library(const char *path);

/* Complains of a path that LD_PRELOAD cannot have; the exit status. */
int stp_check_preload(const char *path);

/* Makes a folder for a job in $TMPDIR or /tmp whose name begins with 'name',
 * and holds signals, so that it is removed by stp_folder_remove(); false, and
 * says why, if it cannot be made. */
bool stp_make_temporary(const char *name, char path[STP_CLI_PATH]);

/* The absolute path of something that exists; false if it does not. */
bool stp_absolute_path(const char *path, char absolute[STP_CLI_PATH]);

/* ---- outputs that one process at a time may write ---- */

struct stp_lock {
    int file;
    char path[STP_CLI_PATH];
};

/* Takes the lock of the output 'path', which is the file PATH.lock beside it.
 * If another process holds it, waits for its end, or else fails and says which
 * one does, unless that has been killed already.  Ends with the process, too.
 */
enum stp_status stp_lock_take(const char *path, bool waits,
                              struct stp_lock *lock_ret, struct stp_error *err);

/* Removes the file, too. */
void stp_lock_release(const struct stp_lock *lock);

/* ---- running plugins ---- */

/* Chooses the policy of a plugin: the file 'named' (NULL: none), whatever the
 * environment, or else the file that our plugin would take in a job with this
 * environment (steptune-plugins(7)).  If the environment chose it, or would
 * have chosen another, prints a line that says so, for 'is_json' to stderr.
 *
 * Returns STP_EXIT_OK and the path, "" if there is none; or complains, if the
 * environment is one with which the plugin would step aside.  Another vendor's
 * plugin, not 'ours', may have no use for NCCL_WORKLOAD_OVERLAP: if the policy
 * for overlap cannot be read then, NCCL_TUNER_CONFIG_FILE is its policy. */
int stp_choose_policy(const char *named, bool ours, bool is_json,
                      char path_ret[STP_CLI_PATH]);

/* Checks the file that our plugin takes for NCCL_TUNER_CONFIG_FILE, which was
 * read: another one for overlap.  Returns STP_EXIT_OK and it, or complains. */
int stp_check_policy(char path_ret[STP_CLI_PATH]);

/* Whether the environment, or a file here, gives our plugin a policy; true,
 * too, if stp_choose_policy() would complain. */
bool stp_has_policy(void);

/* Prints the first warning of a plugin, or of mock NCCL, from then on. */
void stp_print_plugin_warnings(void);

/* Sets a variable of this process, which jobs and plugins inherit; NULL: it is
 * not set.  Before any other thread runs; ends the process without memory. */
void stp_set_variable(const char *name, const char *value);

/* Sets the environment of a job with the policy 'policy' (NULL: the one that
 * the environment chooses) on a host with the GPUs of the recorded machine at
 * 'machine_path' (NULL: this host).  Before any other thread runs. */
enum stp_status stp_set_plugin_environment(const char *machine_path,
                                           const char *policy,
                                           struct stp_error *err);

/* Reads the policy at 'path' for a plugin, to be freed, or complains and
 * returns the exit status.  Another vendor's plugin may read a policy that we
 * cannot: unless the plugin is 'ours', *policy_ret is untouched then.  Ours
 * needs a policy: without one it would step aside and agree with anything. */
int stp_load_plugin_policy(const char *path, bool ours,
                           struct stp_policy **policy_ret);

/* Refuses, as stp_trial_require_rules(), a policy of which no rule applies to
 * communicators of 'n_ranks' of the recorded machine; 0: of all its ranks. */
enum stp_status stp_require_rules(const char *path, const char *machine_path,
                                  int n_ranks, struct stp_error *err);

/* Returns what 'run' returns.  For another vendor's 'plugin' (NULL for ours) it
 * runs in a child: the plugin may crash, as it would crash a job, which is then
 * reported. */
int stp_run_plugin(const char *plugin, int (*run)(void *user), void *user);

/* ---- measuring ---- */

/* The options by which a device is opened. */
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
                                 struct stp_engines *engines_ret,
                                 struct stp_error *err);

/* Runs 'body' in each process that the options ask for, which become complete
 * by this, or in all that mpirun, srun or torchrun started.  Returns the exit
 * status of the body, or complains. */
int stp_launch(const struct stp_machine_options *machine,
               struct stp_run_options *run,
               int (*body)(void *user, const struct stp_world *world),
               void *user);

/* Whether this process runs the command 'what', which one process runs alone.
 * If a launcher started several, rank 0 runs it, and says so. */
bool stp_runs_command(const char *what);

/* For a command that runs the user's job several times: calls body() as
 * stp_launch() does, in this process, or in all that torchrun or srun started,
 * each of which then runs its own process of the job.  Under mpirun, where MPI
 * can start once in a process, it complains, and 'example' is what to type
 * instead. */
int stp_launch_jobs(const char *example,
                    int (*body)(void *user, const struct stp_world *world),
                    void *user);

/* For a command that starts the user's job with its launcher: complains, in
 * rank 0, that a launcher started it; 'example' is what to type instead.
 * Returns the exit status. */
int stp_refuse_launcher(const char *example);

/* For a body of stp_launch(): like stp_progress(), drawn by rank 0; all
 * processes stop, or none. */
bool stp_progress_in(const struct stp_world *world, const char *counted,
                     size_t done, size_t total);

/* For a body of stp_launch(): says why it failed, unless another process does,
 * and returns the exit status. */
int stp_complain_in(const struct stp_world *world, enum stp_status status,
                    const struct stp_error *err);

/* The exit status for a failure. */
int stp_exit_status(enum stp_status status);

/* Parses a list of arms for a device, NULL if it is not known yet, and adds
 * those of channel counts unless that is NULL.  The word "memory" is what the
 * device has of it; STP_ERR_RANGE if that is nothing. */
enum stp_status stp_parse_arms(const struct stp_device_info *info,
                               const char *list, const char *channels,
                               struct stp_arms *arms_ret,
                               struct stp_error *err);

/* Checks a list of arms (NULL: all) and of channel counts (or NULL) before
 * anything runs: NCCL must have each arm that is named for one of the
 * 'n_colls' collectives, 0 for all.  Complains and returns the exit status. */
int stp_check_arms(const char *arms, const char *channels, const int *colls,
                   size_t n_colls);

/* Says which arms of the list (NULL: all) did not run, or not on as many
 * channels as were asked for, in the data of this process.  Returns the exit
 * status: a failure if none that is named ran. */
int stp_report_arms(const char *arms, const struct stp_dataset *data);

/* Says what of the file's text contradicts the rest of it, or is no result, and
 * takes that out of the data. */
void stp_report_text(const char *path, struct stp_dataset *data);

/* Names each arm with wrong elements, and the file (NULL: none).  Returns the
 * exit status: a failure if NCCL's own choice is one of them, or 'any' is set
 * and there is one. */
int stp_report_wrong(const char *path, const struct stp_dataset *data,
                     bool any);

/* Checks that sizes have an order; complains, returns the exit status. */
int stp_check_sizes(const struct stp_measure_options *measure);

/* Says where collectives begin above -b, as each rank has whole elements. */
void stp_report_begin(const struct stp_device_info *info,
                      const struct stp_measure_options *measure,
                      const struct stp_measure_plan *plan);

/* Says how many rounds were disturbed, if any was. */
void stp_report_again(const struct stp_dataset *data);

/* Chooses the one type, bf16 unless another was given; complains of several and
 * returns the exit status. */
int stp_choose_type(struct stp_measure_options *measure);

/* A progress bar with the time left, on standard error if that is a terminal;
 * false once a stop was requested (launch/stop.h).  For stp_sweep_run() and
 * stp_replay().  'user' says what is counted; NULL: sizes. */
bool stp_progress(void *user, size_t done, size_t total);

/* Wipes the bar from the terminal before a line is printed there. Messages, and
 * the bar's end, wipe it themselves. */
void stp_progress_clear(void);

/* ---- messages ---- */

/* A stream that writes to a descriptor, in which control characters, but tabs
 * and ends of lines, and what is not UTF-8, become "\xNN": stdout is one, and
 * stp_complain() does the same.  fclose() leaves the descriptor open.  NULL
 * without memory. */
FILE *stp_guard_output(int fd);

/* "steptune NAME", with which all messages begin. */
extern const char *stp_command_name;

/* Prints "COMMAND: TEXT" to standard error.  Returns STP_EXIT_FAILED. */
int stp_complain(const char *fmt, ...) STP_PRINTF(1, 2);

/* The same, of a command line; STP_EXIT_USAGE. */
#define STP_MISUSE(...) (stp_complain(__VA_ARGS__), STP_EXIT_USAGE)

/* Prints an error about the file 'path', or about none if it is NULL. */
int stp_complain_error(const char *path, const struct stp_error *err);

/* Says so if mock NCCL plays a version as an older one; NULL: none is named. */
void stp_print_played_version(const char *nccl);

/* Says once which variables are set that change NCCL's choice, and not that of
 * a recorded machine. */
void stp_print_unplayed(void);
