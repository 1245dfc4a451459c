/* record.c - `steptune record` */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/record/record.h"
#include "device/mock/device_mock.h"
#include "launch/stop.h"
#include "report/measurements/recorded.h"

enum { OPT_CHANNELS = 0x300, OPT_NO_OVERLAP, OPT_FORCE };

/* ---- options ---- */

static const struct argp_option options[] = {
    {"output", 'o', "DIR", 0,
     "Where the folder NAME is made (default fixtures/machines if there is "
     "one, else here)",
     0},
    {"channels", OPT_CHANNELS, "LIST", 0,
     "Channel counts of the sweep (default 1,2,4,8,16,24,32)", 0},
    {"no-overlap", OPT_NO_OVERLAP, NULL, 0,
     "Leave out collectives beside compute", 0},
    {"force", OPT_FORCE, NULL, 0,
     "Replace NAME if it exists; files in it that record does not write are "
     "kept",
     0},
    {0},
};

/* It becomes a folder, and is part of lines and of other commands' lists. */
static bool is_name(const char *name)
{
    if (!isalnum((unsigned char)*name) || strlen(name) > 48)
        return false;
    while (isalnum((unsigned char)*name) || (*name && strchr("_.-", *name)))
        name++;
    return *name == '\0';
}

static error_t parse_name(struct stp_record_options *o, char *arg,
                          struct argp_state *state)
{
    if (o->name != NULL)
        argp_error(state, "'%s' and '%s', expected one name", o->name, arg);
    else if (!is_name(arg))
        argp_error(state,
                   "name '%s', expected at most 48 letters, digits, '_', '.' "
                   "and '-', beginning with a letter or digit",
                   arg);
    o->name = arg;
    return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct stp_record_options *o = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->measure;
        state->child_inputs[1] = &o->machine;
        state->child_inputs[2] = &o->run;
        return 0;
    case 'o':
        o->output = arg;
        return 0;
    case OPT_CHANNELS:
        o->channels = arg;
        return 0;
    case OPT_NO_OVERLAP:
        o->no_overlap = true;
        return 0;
    case OPT_FORCE:
        o->force = true;
        return 0;
    case ARGP_KEY_ARG:
        return parse_name(o, arg, state);
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no name, expected what the machine is to be called");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&stp_measure_argp, 0, NULL, 0},
    {&stp_machine_argp, 0, NULL, 0},
    {&stp_run_argp, 0, "On a real machine:", 0},
    {0},
};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .args_doc = "NAME",
    .doc = "Records the machine it runs on as a folder: NCCL's search graphs, "
           "cost tables and choices, times, and what compute and collectives "
           "do to each other.  Then `--on NAME` is that machine.",
};

/* ---- the folder ---- */

static const char made_by[] = "steptune " STP_VERSION " record";

static enum stp_status folder_path(const struct stp_record_options *o,
                                   char path[STP_FOLDER_PATH],
                                   struct stp_error *err)
{
    static const char machines[] = "fixtures/machines";
    const char *dir = o->output;
    struct stat st;
    int n;

    if (dir == NULL)
        dir = stat(machines, &st) == 0 && S_ISDIR(st.st_mode) ? machines : ".";
    n = snprintf(path, STP_FOLDER_PATH, "%s/%s", dir, o->name);
    if (n < 0 || n >= STP_FOLDER_PATH)
        return stp_fail(err, STP_ERR_IO, "the path '%.60s...' is too long",
                        dir);
    return STP_OK;
}

/* ---- the folder, played ---- */

static enum stp_status ask_mock(const char *path,
                                const struct stp_choices *recorded,
                                struct stp_choices *mock, struct stp_error *err)
{
    const struct stp_device_mock_options mocked = {.machine_path = path};
    struct stp_device device;
    enum stp_status status = stp_device_mock_open(&mocked, &device, err);

    if (status != STP_OK)
        return status;
    status = stp_choices_repeat(&device, recorded, mock, err);
    device.ops->close(device.self);
    return status;
}

/* How many choices mock NCCL makes alike from the folder at 'path'. */
static enum stp_status count_alike(const struct stp_machine_record *record,
                                   const char *path, size_t *n_alike_ret,
                                   struct stp_error *err)
{
    struct stp_choices mock = {0};
    const struct stp_recorded recorded = {record, path, &mock};
    enum stp_status status = ask_mock(path, &record->choices, &mock, err);

    if (status == STP_OK)
        *n_alike_ret = stp_recorded_alike(&recorded);
    stp_choices_free(&mock);
    return status;
}

/* NCCL_MIN_NCHANNELS and others change the number of channels that NCCL derives
 * from the graphs: where another one explains more choices, it is said. */
static enum stp_status fit_channels(struct stp_machine_record *record,
                                    const struct stp_folder *folder,
                                    struct stp_error *err)
{
    size_t derived = 0;
    size_t counted = 0;
    enum stp_status status;

    if (count_alike(record, folder->temporary, &derived, NULL) == STP_OK &&
        derived == record->choices.n_rows)
        return STP_OK;
    stp_machine_count_channels(record);
    status = stp_machine_write_info(record, folder, err);
    if (status != STP_OK ||
        (count_alike(record, folder->temporary, &counted, NULL) == STP_OK &&
         counted > derived))
        return status;
    record->n_channels = 0;
    return stp_machine_write_info(record, folder, err);
}

static int check(const char *command, const struct stp_machine_record *record,
                 const char *path, bool json)
{
    struct stp_choices mock = {0};
    const struct stp_recorded recorded = {record, path, &mock};
    struct stp_error err;
    int exit_status = STP_EXIT_FAILED;

    if (ask_mock(path, &record->choices, &mock, &err) != STP_OK) {
        stp_complain(command, "%s is there, but mock NCCL cannot play it: %s",
                     path, err.text);
    } else {
        if (!json)
            stp_print_recorded(&recorded, stdout);
        else if (stp_print_recorded_json(&recorded, stdout, &err) != STP_OK)
            stp_complain_error(command, NULL, &err);
        if (stp_recorded_alike(&recorded) == record->choices.n_rows)
            exit_status = STP_EXIT_OK;
    }
    stp_choices_free(&mock);
    return exit_status;
}

/* ---- the command ---- */

struct job {
    const char *command;
    const struct stp_record_options *o;
    const struct stp_record_arms *arms;
    char path[STP_FOLDER_PATH];
};

/* What all processes do: only the first gets a folder. */
static enum stp_status record_together(const struct job *job,
                                       const struct stp_world *world,
                                       const struct stp_folder *folder,
                                       struct stp_machine_record *record,
                                       struct stp_error *err)
{
    char graphs[STP_FOLDER_PATH];
    const struct stp_open_options open = {
        .machine = &job->o->machine,
        .run = &job->o->run,
        .world = world,
        .max_bytes = stp_max_bytes(&job->o->measure),
        .graphs_file = world->rank == 0 ? graphs : NULL,
    };
    struct stp_device device;
    enum stp_status status = STP_OK;

    if (world->rank == 0 && !stp_folder_file(folder, "graphs.xml", graphs))
        status = stp_fail(err, STP_ERR_IO, "the path is too long");
    status = stp_world_agree(world, status, err);
    if (status == STP_OK)
        status = stp_open(&open, &device, err);
    if (status != STP_OK)
        return status;
    status = stp_record_device(job->o, job->arms, world, &device, record, err);
    device.ops->close(device.self);
    return status;
}

static int finish(const struct job *job, const struct stp_folder *folder,
                  struct stp_machine_record *record)
{
    struct stp_error err;
    enum stp_status status = stp_machine_write(record, folder, &err);

    if (status == STP_OK)
        status = fit_channels(record, folder, &err);
    if (status != STP_OK)
        stp_folder_abandon(folder);
    else
        status = stp_folder_commit(folder, stp_machine_files, &err);
    if (status != STP_OK)
        return stp_complain_error(job->command, NULL, &err);
    return check(job->command, record, job->path, job->o->machine.json);
}

static enum stp_status begin(const struct job *job,
                             const struct stp_world *world,
                             struct stp_folder *folder, struct stp_error *err)
{
    enum stp_status status = STP_OK;

    if (world->rank == 0)
        status = stp_folder_begin(job->path, job->o->force, folder, err);
    return stp_world_agree(world, status, err);
}

/* One process, or one of several. */
static int body(void *user, const struct stp_world *world)
{
    const struct job *job = user;
    struct stp_machine_record record = {.made_by = made_by};
    struct stp_folder folder;
    struct stp_error err = {0};
    int exit_status = STP_EXIT_OK;
    enum stp_status status;

    stp_stop_begin();
    status = begin(job, world, &folder, &err);
    if (status == STP_OK) {
        status = record_together(job, world, &folder, &record, &err);
        if (status != STP_OK && world->rank == 0)
            stp_folder_abandon(&folder);
    }
    if (status != STP_OK)
        exit_status = stp_complain_in(job->command, world, status, &err);
    else if (world->rank == 0)
        exit_status = finish(job, &folder, &record);
    stp_machine_record_free(&record);
    return exit_status;
}

static bool is_on_cpus(const struct stp_record_options *o)
{
    return (o->machine.on != NULL && strcmp(o->machine.on, "cpu") == 0) ||
           (o->run.backend != NULL && strcmp(o->run.backend, "nccl") != 0);
}

/* Recorded machines are of bf16 sums and of all collectives. */
static void complete(struct stp_record_options *o)
{
    o->measure.type = STP_TYPE_BF16;
    for (int c = 0; o->measure.n_colls == 0 && c < NCCL_NUM_TUNED_FUNCS; c++)
        o->measure.colls[c] = c;
    if (o->measure.n_colls == 0)
        o->measure.n_colls = NCCL_NUM_TUNED_FUNCS;
}

int stp_cmd_record(int argc, char **argv)
{
    struct stp_record_options o = {0};
    struct stp_record_arms arms;
    struct job job = {argv[0], &o, &arms, ""};
    struct stp_error err;

    stp_options_default(&o.machine, &o.measure, NULL);
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    if (o.measure.type >= 0 &&
        (o.measure.type != STP_TYPE_BF16 || o.measure.n_types > 1)) {
        stp_complain(argv[0], "-d %s, expected bf16: times are recorded in it",
                     stp_type_name(o.measure.type));
        return STP_EXIT_USAGE;
    }
    if (is_on_cpus(&o)) {
        stp_complain(argv[0], "search graphs and choices are NCCL's, expected "
                              "--on cuda or a recorded machine");
        return STP_EXIT_USAGE;
    }
    complete(&o);
    if (stp_record_make_arms(&o, &arms, &err) != STP_OK) {
        stp_complain_error(argv[0], NULL, &err);
        return STP_EXIT_USAGE;
    }
    if (folder_path(&o, job.path, &err) != STP_OK)
        return stp_complain_error(argv[0], NULL, &err);
    return stp_launch(argv[0], &o.machine, &o.run, body, &job);
}
