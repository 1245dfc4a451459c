/* report.c - `steptune report` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/sweep.h"
#include "cli/cli.h"
#include "core/text.h"
#include "launch/take.h"
#include "mock_nccl.h"
#include "report/measurements/measurements_csv.h"
#include "report/page/page.h"
#include "report/results/results.h"

struct report_options {
    struct stp_arguments paths;
    const char *output;
    const char *title;
    struct stp_machine_options machine;
};

#define AT(member) offsetof(struct report_options, member)

static const struct stp_option report_table[] = {
    {"output", 'o', "FILE", stp_option_text, AT(output), .value = "report.html",
     .path = STP_PATH_WRITE, .over = "a web page"},
    {"title", 0, "TEXT", stp_option_text, .at = AT(title)},
    {"on", 0, "MACHINE", stp_option_text, .at = AT(machine.on)},
    {"json", 0, NULL, stp_option_flag, .at = AT(machine.json)},
    {0},
};

static const struct stp_command_line report_line = {
    .groups = (const struct stp_option_group[]){{.options = report_table}, {0}},
    .args_doc = "PATH...",
    .arguments = AT(paths),
    .reads = true,
    .none = "nothing to report, expected a policy, measurements or a folder of "
            "them",
};

/* Finds the recorded machine of the same GPU, ranks and nodes: "" for none. */
static void report_find_machine(const struct stp_dataset *data,
                                char path[STP_CLI_PATH])
{
    const struct stp_measurement *first = &data->rows[0];
    const struct stp_machine_list list = stp_list_machines();

    *path = '\0';
    for (size_t i = 0; i < list.n && *path == '\0'; i++) {
        const struct mock_machine_info *info;
        struct mock_machine *m;

        if (mock_machine_load(list.paths[i], &m) != ncclSuccess)
            continue;
        info = mock_machine_get_info(m);
        if (strcmp(info->gpu, data->gpu) == 0 &&
            info->n_ranks == (int)first->n_ranks &&
            info->n_nodes == (int)first->n_nodes && info->n_gpus == 0)
            strcpy(path, list.paths[i]);
        mock_machine_free(m);
    }
    free(list.paths);
}

/* Times AUTO on the machine at the sizes of the data. */
static enum stp_status report_play(const struct stp_dataset *data,
                                   const struct stp_machine_options *machine,
                                   struct stp_dataset *played,
                                   struct stp_error *err)
{
    static const struct stp_arms arms = {.arm = {{.kind = STP_ARM_AUTO}},
                                         .n = 1};
    int colls[NCCL_NUM_TUNED_FUNCS];
    struct stp_sizes *sizes = stp_take(NCCL_NUM_TUNED_FUNCS, sizeof(*sizes));
    struct stp_sweep_plan plan = {.colls = colls,
                                  .sizes = sizes,
                                  .arms = &arms,
                                  .rounds = 1,
                                  .iters = 4,
                                  .type = data->rows[0].type,
                                  .op = data->rows[0].op,
                                  .auto_places = STP_OUT_OF_PLACE,
                                  .arm_places = STP_OUT_OF_PLACE};
    struct stp_open_options open = {.machine = machine};
    struct stp_device device;
    enum stp_status status = STP_OK;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS && status == STP_OK; c++) {
        for (size_t i = 0; i < data->n_rows && status == STP_OK; i++)
            if (data->rows[i].coll == c) {
                status = stp_sizes_add(&sizes[plan.n_colls],
                                       data->rows[i].n_bytes, 1, err);
                if (data->rows[i].n_bytes > open.max_bytes)
                    open.max_bytes = data->rows[i].n_bytes;
            }
        if (status == STP_OK && sizes[plan.n_colls].n > 0)
            colls[plan.n_colls++] = c;
    }
    STP_THEN(status, stp_open(&open, &device, err));
    if (status == STP_OK) {
        status = stp_sweep_run(&device, &plan, NULL, NULL, played, err);
        stp_device_close(&device);
    }
    free(sizes);
    return status;
}

/* Says what of measurements of AUTO alone falls out of line. */
static enum stp_status report_normal(const struct report_options *o,
                                     const struct stp_dataset *data,
                                     struct stp_dataset *other,
                                     struct stp_error *err)
{
    struct stp_machine_options machine = o->machine;
    struct stp_normal normal = {.data = data};
    char path[STP_CLI_PATH] = "";
    enum stp_status status = STP_OK;

    if (other->n_rows > 0) {
        normal.other = other;
        normal.other_name = stp_base_name(o->paths.v[1]);
        stp_print_normal(&normal, machine.json, stdout);
        return STP_OK;
    }
    if (machine.on == NULL)
        report_find_machine(data, path);
    else if (strcmp(machine.on, "none") != 0)
        status = stp_find_machine(machine.on, path, err);
    if (status == STP_OK && *path != '\0') {
        machine.on = path;
        status = report_play(data, &machine, other, err);
        normal.other = other;
        normal.other_name = stp_base_name(path);
    }
    if (status == STP_OK)
        stp_print_normal(&normal, machine.json, stdout);
    return status;
}

int stp_cmd_report(int argc, char **argv)
{
    struct stp_dataset data[2] = {{0}, {0}};
    struct report_options o = {0};
    struct stp_page_found *found = stp_take(1, sizeof(*found));
    bool auto_is_wrong = false, is_normal;
    int exit_status = STP_EXIT_OK;
    struct stp_error err;
    enum stp_status status = STP_OK;

    stp_options_read(&report_line, argc, argv, &o);
    is_normal = o.paths.n <= 2; /* all measure AUTO alone */
    for (int i = 0; i < o.paths.n && is_normal; i++)
        is_normal = stp_measurements_load_any(o.paths.v[i], -1, 0, &data[i],
                                              NULL) == STP_OK &&
                    stp_is_auto_alone(&data[i]);
    if (is_normal) {
        for (int i = 0; i < o.paths.n; i++) {
            stp_report_text(o.paths.v[i], &data[i]);
            exit_status |= stp_report_wrong(o.paths.v[i], &data[i], false);
        }
        status = report_normal(&o, &data[0], &data[1], &err);
        o.paths.n = 1; /* of which the page is */
    }
    stp_dataset_free(&data[0]);
    stp_dataset_free(&data[1]);
    STP_THEN(status, stp_page_find((const char *const *)o.paths.v,
                                   (size_t)o.paths.n, found, &err));
    if (status == STP_OK && !is_normal && o.machine.on != NULL)
        status = STP_REFUSE(&err, "--on has no effect on a policy, or on times "
                                  "of other arms than AUTO");
    found->sources.title = o.title;
    STP_THEN(status,
             stp_page_save(&found->sources, o.output, o.machine.json,
                           is_normal ? NULL : stdout, &auto_is_wrong, &err));
    free(found);
    if (status != STP_OK)
        return stp_complain_error(NULL, &err);
    if (!o.machine.json)
        printf("Wrote %s.\n", o.output);
    return auto_is_wrong ? STP_EXIT_FAILED : exit_status;
}
