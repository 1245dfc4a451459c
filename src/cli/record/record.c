/* record.c - `steptune record` */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/record/record.h"
#include "device/mock/device_mock.h"
#include "launch/stop.h"
#include "report/measurements/recorded.h"

/* ---- options ---- */

#define AT(member) offsetof(struct stp_record_options, member)

static const struct stp_option record_table[] = {
    {"output", 'o', "DIR", stp_option_text, AT(output),
     .help = "Folder in which the folder NAME is made (default "
             "fixtures/machines if there is one, else here)"},
    {"channels", 0, "LIST", stp_option_text, AT(channels),
     .value = "1,2,4,8,16,24,32", .help = "Channel counts of the sweep"},
    {"no-overlap", 0, NULL, stp_option_flag, AT(no_overlap),
     .help = "Leave out collectives that overlap compute"},
    {"force", 0, NULL, stp_option_flag, AT(force),
     .help = "Replace NAME if it exists; files in it that record does not "
             "write are kept"},
    {0},
};

/* It becomes a folder, and is part of lines and of other commands' lists. */
static bool record_is_name(const char *name)
{
    if (!isalnum((unsigned char)*name) || strlen(name) > 48)
        return false;
    while (isalnum((unsigned char)*name) || (*name && strchr("_.-", *name)))
        name++;
    return *name == '\0';
}

static void record_check_options(void *options, struct argp_state *state)
{
    struct stp_record_options *o = options;
    char *const *names = o->arguments.v;

    o->name = names[0];
    if (o->arguments.n > 1)
        argp_error(state, "'%s' and '%s', expected one name", names[0],
                   names[1]);
    if (!record_is_name(o->name))
        argp_error(state,
                   "name '%s', expected at most 48 letters, digits, '_', '.' "
                   "and '-', beginning with a letter or digit",
                   o->name);
}

static const struct stp_command_line record_line = {
    .groups =
        (const struct stp_option_group[]){
            {.options = record_table},
            {.options = stp_measure_table, .at = AT(measure)},
            {.options = stp_machine_table, .at = AT(machine)},
            {stp_run_table, AT(run), STP_RUN_HEADING},
            {0}},
    .args_doc = "NAME",
    .arguments = AT(arguments),
    .none = "no name, expected what the machine is to be called",
    .check = record_check_options,
    .doc = "Records the machine it runs on as a folder: NCCL's search graphs, "
           "cost tables and choices, times, and how compute and collectives "
           "slow each other down.  Then `--on NAME` is that machine.",
};

/* ---- the folder ---- */

static const char made_by[] = "steptune " STP_VERSION " record";

static enum stp_status record_find_folder(const struct stp_record_options *o,
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

static enum stp_status record_ask_mock(const char *path,
                                       const struct stp_choices *recorded,
                                       struct stp_choices *mock,
                                       struct stp_error *err)
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
static enum stp_status
record_count_alike(const struct stp_machine_record *record, const char *path,
                   size_t *n_alike_ret, struct stp_error *err)
{
    struct stp_choices mock = {0};
    const struct stp_recorded recorded = {record, path, &mock};
    enum stp_status status =
        record_ask_mock(path, &record->choices, &mock, err);

    if (status == STP_OK)
        *n_alike_ret = stp_recorded_alike(&recorded);
    stp_choices_free(&mock);
    return status;
}

/* NCCL_MIN_NCHANNELS and others change the number of channels that NCCL derives
 * from the graphs: where another one explains more choices, it is said. */
static enum stp_status record_fit_channels(struct stp_machine_record *record,
                                           const struct stp_folder *folder,
                                           struct stp_error *err)
{
    size_t derived = 0;
    size_t counted = 0;
    enum stp_status status;

    if (record_count_alike(record, folder->temporary, &derived, NULL) ==
            STP_OK &&
        derived == record->choices.n_rows)
        return STP_OK;
    stp_machine_count_channels(record);
    status = stp_machine_write_info(record, folder, err);
    if (status != STP_OK || (record_count_alike(record, folder->temporary,
                                                &counted, NULL) == STP_OK &&
                             counted > derived))
        return status;
    record->n_channels = 0;
    return stp_machine_write_info(record, folder, err);
}

static int record_check(const char *command,
                        const struct stp_machine_record *record,
                        const char *path, bool json)
{
    struct stp_choices mock = {0};
    const struct stp_recorded recorded = {record, path, &mock};
    struct stp_error err;
    int exit_status = STP_EXIT_FAILED;

    if (record_ask_mock(path, &record->choices, &mock, &err) != STP_OK) {
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

struct record_job {
    const char *command;
    const struct stp_record_options *o;
    const struct stp_record_arms *arms;
    char path[STP_FOLDER_PATH];
};

/* What all processes do: only the first gets a folder. */
static enum stp_status record_in_world(const struct record_job *job,
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

static int record_finish(const struct record_job *job,
                         const struct stp_folder *folder,
                         struct stp_machine_record *record)
{
    struct stp_error err;
    enum stp_status status = stp_machine_write(record, folder, &err);

    if (status == STP_OK)
        status = record_fit_channels(record, folder, &err);
    if (status != STP_OK)
        stp_folder_abandon(folder);
    else
        status = stp_folder_commit(folder, stp_machine_files, &err);
    if (status != STP_OK)
        return stp_complain_error(job->command, NULL, &err);
    return record_check(job->command, record, job->path, job->o->machine.json);
}

static enum stp_status record_begin(const struct record_job *job,
                                    const struct stp_world *world,
                                    struct stp_folder *folder,
                                    struct stp_error *err)
{
    enum stp_status status = STP_OK;

    if (world->rank == 0)
        status = stp_folder_begin(job->path, job->o->force, folder, err);
    return stp_world_agree(world, status, err);
}

/* One process, or one of several. */
static int record_body(void *user, const struct stp_world *world)
{
    const struct record_job *job = user;
    struct stp_machine_record record = {.made_by = made_by};
    struct stp_folder folder;
    struct stp_error err = {0};
    int exit_status = STP_EXIT_OK;
    enum stp_status status;

    stp_stop_begin();
    status = record_begin(job, world, &folder, &err);
    if (status == STP_OK) {
        status = record_in_world(job, world, &folder, &record, &err);
        if (status != STP_OK && world->rank == 0)
            stp_folder_abandon(&folder);
    }
    if (status != STP_OK)
        exit_status = stp_complain_in(job->command, world, status, &err);
    else if (world->rank == 0)
        exit_status = record_finish(job, &folder, &record);
    stp_machine_record_free(&record);
    return exit_status;
}

static bool record_is_on_cpus(const struct stp_record_options *o)
{
    return (o->machine.on != NULL && strcmp(o->machine.on, "cpu") == 0) ||
           (o->run.backend != NULL && strcmp(o->run.backend, "nccl") != 0);
}

/* Recorded machines are of bf16 sums and of all collectives. */
static void record_complete(struct stp_record_options *o)
{
    o->measure.types[0] = STP_TYPE_BF16;
    o->measure.n_types = 1;
    for (int c = 0; o->measure.n_colls == 0 && c < NCCL_NUM_TUNED_FUNCS; c++)
        o->measure.colls[c] = c;
    if (o->measure.n_colls == 0)
        o->measure.n_colls = NCCL_NUM_TUNED_FUNCS;
}

int stp_cmd_record(int argc, char **argv)
{
    struct stp_record_options o = {0};
    struct stp_record_arms arms;
    struct record_job job = {argv[0], &o, &arms, ""};
    struct stp_error err;

    stp_options_read(&record_line, argc, argv, &o);
    if (o.measure.n_types > 1 ||
        (o.measure.n_types == 1 && o.measure.types[0] != STP_TYPE_BF16)) {
        stp_complain(argv[0], "-d %s, expected bf16: times are recorded in it",
                     stp_type_name(o.measure.types[0]));
        return STP_EXIT_USAGE;
    }
    if (record_is_on_cpus(&o)) {
        stp_complain(argv[0], "search graphs and choices are NCCL's, expected "
                              "--on cuda or a recorded machine");
        return STP_EXIT_USAGE;
    }
    record_complete(&o);
    if (stp_record_make_arms(&o, &arms, &err) != STP_OK) {
        stp_complain_error(argv[0], NULL, &err);
        return STP_EXIT_USAGE;
    }
    if (record_find_folder(&o, job.path, &err) != STP_OK)
        return stp_complain_error(argv[0], NULL, &err);
    return stp_launch(argv[0], &o.machine, &o.run, record_body, &job);
}
