/* derive.c - `steptune derive` */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/derive.h"
#include "analyse/objective.h"
#include "analyse/steadiness.h"
#include "cli/cli.h"
#include "cli/derive/derive_constants.h"
#include "cli/derive/derive_load.h"
#include "report/measurements/best_csv.h"
#include "report/policy_file.h"
#include "report/results/results.h"
#include "tune/tune.h"

struct derive_options {
    struct stp_derive_options derive;
    int objective; /* enum stp_objective */
    int as_constants;
    const char *on; /* NULL: not given */
    bool trust_passes;
    bool extrapolate;
    int coll;           /* -1: not given */
    const char *output; /* NULL: standard output */
    bool json;
    struct stp_arguments files;
    struct stp_derive_input *inputs; /* room for all arguments */
    size_t n_inputs;
};

/* ---- options ---- */

static const char *derive_read_arm(const struct stp_option *option,
                                   const char *text, void *at)
{
    struct derive_options *o = at;
    struct stp_derive_input *input = &o->inputs[o->n_inputs++];
    const char *sign = strchr(text, '=');

    (void)option;
    if (sign == NULL || sign[1] == '\0' ||
        !stp_arm_from_name(text, (size_t)(sign - text), &input->arm))
        return "auto=FILE or ALGORITHM/PROTOCOL[/CHANNELS]=FILE";
    input->path = sign + 1;
    input->has_arm = true;
    return NULL;
}

#define AT(member) offsetof(struct derive_options, member)

static const char *const outputs[] = {"policy", "constants", NULL};

static const struct stp_option derive_table[] = {
    {"output", 'o', "FILE", stp_option_text, AT(output),
     .help = "File of the policy or constants (default: print them)"},
    {"as", 0, "WHAT", stp_option_word, AT(as_constants), .words = outputs,
     .value = "policy",
     .help = "policy, or constants: of NCCL's own model, with which its "
             "choices are right at the sizes measured, between and beyond "
             "them, for STEPTUNE_CONSTANTS_FILE and NCCL 2.28 to 2.30. Verify "
             "them by runs with and without: in one communicator they hold for "
             "every arm, so that `steptune verify` cannot compare them"},
    {"on", 0, "MACHINE", stp_option_text, AT(on),
     .help = "With --as constants, the recorded machine whose model is fitted "
             "(default: the one that the data name)"},
    {"objective", 0, "WHAT", stp_option_word, AT(objective),
     .from_name = stp_objective_from_name, .expected = "time or iteration",
     .value = "time",
     .help = "Times to shorten: time, of collectives alone, by measurements of "
             "`steptune sweep`; or iteration, of training iterations, by the "
             "rounds.csv of `steptune iterate`"},
    {"arm", 0, "ARM=FILE", derive_read_arm, 0,
     .help = "A run of nccl-tests with this arm, such as auto=a.txt or "
             "ring/ll128=b.txt; files of the same arm are its rounds, in this "
             "order. Needed where NCCL's log in the file does not name the "
             "arm"},
    {"collective", 0, "NAME", stp_option_coll, AT(coll), .absent = -1,
     .help = "Collective of nccl-tests' text before version 2.17, which does "
             "not name it"},
    {"trust-passes", 0, NULL, stp_option_flag, AT(trust_passes),
     .help = "Decide by arms that ran one after the other, too, of three runs "
             "or more: drift between them may be the gain"},
    {"extrapolate", 0, NULL, stp_option_flag, AT(extrapolate),
     .help = "Where the two smallest sizes have the same rule it reaches down "
             "to 0, and of the two largest up to any size"},
    {"json", 0, NULL, stp_option_flag, AT(json),
     .help = "Print the rules with their evidence as JSON"},
    {0},
};

static void derive_check_options(void *options, struct argp_state *state)
{
    struct derive_options *o = options;

    for (int i = 0; i < o->files.n; i++)
        o->inputs[o->n_inputs++].path = o->files.v[i];
    if (o->n_inputs == 0)
        argp_error(state, "no measurements, expected files of `steptune "
                          "sweep -o`, rounds.csv of `steptune iterate -o`, "
                          "text of nccl-tests or NVIDIA's performance "
                          "data");
    if (o->on != NULL && !o->as_constants)
        argp_error(state, "--on alone, expected --as constants with it");
    if (o->as_constants &&
        (o->extrapolate || o->objective != STP_OBJECTIVE_TIME))
        argp_error(state, "--as constants with %s, which is for policies",
                   o->extrapolate ? "--extrapolate" : "--objective iteration");
}

static const struct stp_command_line derive_line = {
    .groups = (const struct stp_option_group[]){{.options = derive_table},
                                                {.options = stp_derive_table,
                                                 .at = AT(derive)},
                                                {0}},
    .args_doc = "FILE...",
    .arguments = AT(files),
    .check = derive_check_options,
    .doc =
        "Makes a policy out of measurements of `steptune sweep` or `steptune "
        "iterate`, of nccl-tests' text, a file a run of one arm, or of the "
        "performance CSV of NVIDIA's optimize_config.py; several files are "
        "pooled. An arm gets a rule where it beats NCCL's own choice beyond "
        "doubt; of iterations, where in addition no workload shows it slower. "
        "NVIDIA's CSV has no choice of NCCL's: there the fastest arm gets it.",
};

/* ---- of comparisons ---- */

static void derive_warn(const char *command, const struct derive_options *o,
                        const struct stp_steadiness *s)
{
    char text[STP_ERROR_TEXT];

    if (isfinite(s->resolved) && o->trust_passes &&
        s->min_rounds < STP_DERIVE_PASSES)
        stp_complain(command,
                     "warning: fewer than %d runs of an arm have no interval, "
                     "and decide nothing",
                     STP_DERIVE_PASSES);
    if (stp_tune_warn_of_noise(s, o->derive.min_gain, text))
        stp_complain(command, "%s", text);
}

static enum stp_status derive_write(const struct derive_options *o,
                                    const struct stp_dataset *data,
                                    const struct stp_steadiness *steadiness,
                                    const struct stp_derived *derived,
                                    struct stp_error *err)
{
    const struct stp_policy_origin origin = {.data = data,
                                             .made_by = "steptune derive",
                                             .min_gain = o->derive.min_gain,
                                             .portable = o->derive.portable,
                                             .trusts_passes = o->trust_passes,
                                             .steadiness = steadiness};
    enum stp_status status = STP_OK;

    if (o->output != NULL)
        status = stp_policy_file_save(derived, &origin, o->output, err);
    if (status != STP_OK)
        return status;
    if (o->json)
        return stp_print_rules_json(derived, data, steadiness, stdout, err);
    if (o->output != NULL) {
        printf("From ");
        stp_times_write(data, stdout);
        stp_steadiness_write(steadiness, stdout);
        putchar('\n');
        return stp_print_rules(derived, stdout, err);
    }
    stp_policy_file_write(derived, &origin, stdout);
    return STP_OK;
}

/* How steady the machine was.  In one workload: what differs between workloads
 * is no noise. */
static enum stp_status derive_measure_steadiness(
    const struct stp_dataset *data, const struct stp_comparisons *pooled,
    struct stp_steadiness *steadiness_ret, struct stp_error *err)
{
    struct stp_comparisons each;
    enum stp_status status = stp_compare(data, &each, err);

    if (status != STP_OK)
        return status;
    status = stp_steadiness_of(&each, pooled, steadiness_ret, err);
    stp_comparisons_free(&each);
    return status;
}

/* Derives from comparisons that 'data' gave. */
static enum stp_status
derive_from_comparisons(const char *command, const struct derive_options *o,
                        const struct stp_dataset *data,
                        const struct stp_comparisons *all,
                        struct stp_error *err)
{
    const struct stp_derive_terms terms = {.min_gain = o->derive.min_gain,
                                           .trust_passes = o->trust_passes,
                                           .extrapolate = o->extrapolate};
    struct stp_steadiness steadiness;
    struct stp_derived derived;
    enum stp_status status =
        derive_measure_steadiness(data, all, &steadiness, err);

    if (status == STP_OK)
        status = stp_derive_on(all, &terms, &derived, err);
    if (status != STP_OK)
        return status;
    status = derive_write(o, data, &steadiness, &derived, err);
    stp_derived_free(&derived);
    if (status == STP_OK)
        derive_warn(command, o, &steadiness);
    return status;
}

static enum stp_status derive_from_selection(const char *command,
                                             const struct derive_options *o,
                                             const struct stp_dataset *data,
                                             struct stp_error *err)
{
    struct stp_comparisons comparisons;
    enum stp_status status = stp_objective_compare(
        data, (enum stp_objective)o->objective, &comparisons, err);

    if (status != STP_OK)
        return status;
    status = derive_from_comparisons(command, o, data, &comparisons, err);
    stp_comparisons_free(&comparisons);
    return status;
}

static enum stp_status derive_from_times(const char *command,
                                         const struct derive_options *o,
                                         const struct stp_dataset *data,
                                         struct stp_error *err)
{
    struct stp_dataset selected = {0};
    enum stp_status status = stp_objective_select(
        data, (enum stp_objective)o->objective, &selected, err);

    if (status == STP_OK)
        status = derive_from_selection(command, o, &selected, err);
    stp_dataset_free(&selected);
    return status;
}

/* ---- of NVIDIA's data ---- */

static enum stp_status derive_write_best(const struct derive_options *o,
                                         const struct stp_best_rows *rows,
                                         const struct stp_best *best,
                                         struct stp_error *err)
{
    static const char made_by[] = "steptune derive";
    enum stp_status status = STP_OK;

    if (o->output != NULL)
        status = stp_best_policy_save(best, rows, made_by, o->output, err);
    if (status == STP_OK && o->json)
        return stp_best_print_json(best, stdout, err);
    if (status == STP_OK && o->output == NULL)
        stp_best_policy_write(best, rows, made_by, stdout);
    else if (status == STP_OK)
        printf("%zu rules of the fastest arms, none compared with NCCL's own "
               "choice\n",
               best->n_rules);
    return status;
}

static enum stp_status derive_from_best(const struct derive_options *o,
                                        const struct stp_best_rows *rows,
                                        struct stp_error *err)
{
    struct stp_best best;
    enum stp_status status;

    if (o->objective != STP_OBJECTIVE_TIME)
        return stp_fail(err, STP_ERR_RANGE,
                        "no times of iterations, expected those of `steptune "
                        "iterate`: NVIDIA's are of collectives alone");
    if (o->extrapolate)
        return stp_fail(err, STP_ERR_RANGE,
                        "--extrapolate wants gains over NCCL's own choice, of "
                        "which NVIDIA's data have none");
    status = stp_best_derive(rows, &best, err);
    if (status != STP_OK)
        return status;
    if (rows->n_impossible > 0)
        fprintf(stderr,
                "%zu times are left out, of pairs that NCCL has no kernel for: "
                "the first in line %u\n",
                rows->n_impossible, rows->impossible.line);
    status = derive_write_best(o, rows, &best, err);
    stp_best_free(&best);
    return status;
}

/* ---- the command ---- */

static bool derive_has_auto(const struct stp_dataset *data)
{
    for (size_t i = 0; i < data->n_rows; i++)
        if (data->rows[i].arm.kind == STP_ARM_AUTO)
            return true;
    return false;
}

/* Why what was loaded will not do; NULL if it does. */
static const char *derive_find_objection(const struct derive_options *o,
                                         const struct stp_derive_data *data)
{
    if (data->kind != STP_DERIVE_OURS && !o->trust_passes)
        return "these are runs of one arm after the other, of which drift may "
               "be the gain, expected --trust-passes to use them all the same";
    if (data->kind == STP_DERIVE_TEXT && !derive_has_auto(&data->data))
        return "no run of NCCL's own choice to compare with, expected one, "
               "such as --arm auto=FILE";
    if (data->kind == STP_DERIVE_NVIDIA && o->as_constants)
        return "NVIDIA's data have no times of NCCL's own choice, which "
               "constants are to change";
    return NULL;
}

static int derive_run(const char *command, const struct derive_options *o,
                      const struct stp_derive_data *data)
{
    const char *why = derive_find_objection(o, data);
    struct stp_error err;
    enum stp_status status;

    if (why != NULL)
        return stp_complain(command, "%s", why);
    if (o->as_constants)
        return stp_derive_constants(
            command,
            &(struct stp_derive_constants){.data = &data->data,
                                           .on = o->on,
                                           .output = o->output,
                                           .trust_passes = o->trust_passes,
                                           .json = o->json});
    status = data->kind == STP_DERIVE_NVIDIA
                 ? derive_from_best(o, &data->rows, &err)
                 : derive_from_times(command, o, &data->data, &err);
    return status == STP_OK ? STP_EXIT_OK
                            : stp_complain_error(command, NULL, &err);
}

int stp_cmd_derive(int argc, char **argv)
{
    struct derive_options o = {0};
    struct stp_derive_data data = {0};
    int exit_status;

    o.inputs = calloc((size_t)argc + 1, sizeof(*o.inputs));
    if (o.inputs == NULL)
        return stp_complain(argv[0], "out of memory");
    stp_options_read(&derive_line, argc, argv, &o);
    exit_status = stp_derive_load(argv[0], o.inputs, o.n_inputs, o.coll, &data);
    if (exit_status == STP_EXIT_OK)
        exit_status = derive_run(argv[0], &o, &data);
    stp_derive_data_free(&data);
    free(o.inputs);
    return exit_status;
}
