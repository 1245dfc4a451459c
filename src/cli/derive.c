/* derive.c - `steptune derive` */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/derive.h"
#include "analyse/objective.h"
#include "analyse/steadiness.h"
#include "analyse/wrong.h"
#include "bench/measurement.h"
#include "cli/cli.h"
#include "core/text.h"
#include "launch/take.h"
#include "report/file.h"
#include "report/measurements/measurements_csv.h"
#include "report/measurements/nccl_text.h"
#include "report/policy_file.h"
#include "report/results/memory_rules.h"
#include "report/results/results.h"
#include "report/terminal.h"
#include "tune/tune.h"

struct derive_input {
    const char *path;
    bool has_arm; /* it was given by name */
    struct stp_arm arm;
};

/* In the order of 'outputs'. */
enum derive_output { DERIVE_POLICY, DERIVE_MEMORY, DERIVE_STAGE };

struct derive_options {
    struct stp_derive_options derive;
    int objective; /* enum stp_objective */
    int as;        /* enum derive_output */
    bool trust_passes;
    bool extrapolate;
    int coll;           /* -1: not given */
    unsigned n_ranks;   /* 0: not given */
    const char *output; /* NULL: standard output */
    bool json;
    struct stp_arguments files;
    struct derive_input *inputs; /* room for all arguments */
    size_t n_inputs;
};

static const char *derive_read_arm(const struct stp_option *option,
                                   const char *text, void *at)
{
    struct derive_options *o = at;
    struct derive_input *input = &o->inputs[o->n_inputs++];
    const char *sign = strchr(text, '=');

    if (sign == NULL || sign[1] == '\0' ||
        !stp_arm_from_name(text, (size_t)(sign - text), &input->arm))
        return "auto=FILE or ALGORITHM/PROTOCOL[/CHANNELS]=FILE";
    input->path = sign + 1;
    input->has_arm = true;
    return NULL;
}

#define AT(member) offsetof(struct derive_options, member)

static const char *const outputs[] = {"policy", "memory", "stage", NULL};

static const struct stp_option derive_table[] = {
    {"output", 'o', "FILE", stp_option_text, AT(output),
     .path = STP_PATH_WRITE},
    {"as", 0, "WHAT", stp_option_word, AT(as), .words = outputs,
     .value = "policy"},
    {"objective", 0, "WHAT", stp_option_word, AT(objective),
     .from_name = stp_objective_from_name, .expected = "time or iteration",
     .value = "time"},
    {"arm", 0, "ARM=FILE", derive_read_arm, .at = 0},
    {"collective", 0, "NAME", stp_option_coll, AT(coll), .absent = -1},
    {"ranks", 0, "N", stp_option_count, AT(n_ranks), .min = 2,
     .max = UINT32_MAX},
    {"trust-passes", 0, NULL, stp_option_flag, .at = AT(trust_passes)},
    {"extrapolate", 0, NULL, stp_option_flag, .at = AT(extrapolate)},
    {"json", 0, NULL, stp_option_flag, .at = AT(json)},
    {0},
};

static void derive_check_options(void *options, struct argp_state *state)
{
    struct derive_options *o = options;

    for (int i = 0; i < o->files.n; i++)
        o->inputs[o->n_inputs++].path = o->files.v[i];
    if (o->n_inputs == 0)
        stp_usage_error(state,
                        "no measurements, expected files of `steptune "
                        "sweep -o`, rounds.csv of `steptune iterate -o` or "
                        "text of nccl-tests");
    for (size_t i = 0; i < o->n_inputs; i++)
        if (o->output != NULL && stp_path_is_same(o->output, o->inputs[i].path))
            stp_usage_error(
                state,
                "-o '%s' is a file that is read, expected another one to write",
                o->output);
}

static const struct stp_command_line derive_line = {
    .groups = (const struct stp_option_group[]){{.options = derive_table},
                                                {.options = stp_derive_table,
                                                 .at = AT(derive)},
                                                {0}},
    .args_doc = "FILE...",
    .arguments = AT(files),
    .check = derive_check_options,
};

static const char ours[] = "measurements of Steptune";
static const char theirs[] = "text of nccl-tests";

/* Adds a file's measurements.  All files are of one kind: '*are_text' if they
 * are text of nccl-tests, or ours, of one arm after the other. */
static enum stp_status derive_load(const struct derive_options *o,
                                   const struct derive_input *input,
                                   bool is_first, bool *are_text,
                                   struct stp_dataset *data,
                                   struct stp_error *err)
{
    bool is_text;
    char *text;
    size_t len;
    enum stp_status status;

    STP_TRY(stp_read_file(input->path, STP_MEASUREMENTS_MAX, &text, &len, err));
    is_text = stp_nccl_text_is(text, len);
    if (is_first)
        *are_text = is_text;
    if (is_text != *are_text)
        status = STP_REFUSE(err, "%s, expected %s as in the file before",
                            is_text ? theirs : ours, is_text ? ours : theirs);
    else if (input->has_arm && !is_text)
        status =
            STP_REFUSE(err, "%s, which name their arms, expected %s for --arm",
                       ours, theirs);
    else if ((o->coll >= 0 || o->n_ranks > 0) && !is_text)
        status = STP_REFUSE(
            err,
            "%s, which name their collectives and ranks, expected %s for %s",
            ours, theirs, o->coll >= 0 ? "--collective" : "--ranks");
    else if (is_text)
        status =
            stp_nccl_text_add(text, len, o->coll, o->n_ranks,
                              input->has_arm ? &input->arm : NULL, data, err);
    else
        status = stp_measurements_read(text, len, data, err);
    free(text);
    /* each file's own; pooled data keep one */
    if (status == STP_OK)
        stp_report_text(input->path, data);
    return status;
}

/* Prints the last line, which says what the file holds. */
static void derive_print_written(const struct derive_options *o, size_t n_rules,
                                 size_t n_measurements)
{
    printf("\n%zu rule%s from %zu measurements, written to %s\n", n_rules,
           STP_S(n_rules), n_measurements, o->output);
}

/* Keeps the former text of the output, which is NULL if there is none. */
static enum stp_status derive_keep_former(const char *output,
                                          struct stp_error *err)
{
    char backup[STP_POLICY_BACKUP] = "";
    enum stp_status status = STP_OK;

    if (output != NULL && !stp_file_is_special(output))
        status = stp_policy_back_up(output, backup, err);
    if (*backup != '\0')
        stp_complain(STP_POLICY_KEPT, output, backup);
    return status;
}

/* Says what is in the file. */
static void derive_print(const struct derive_options *o,
                         const struct stp_policy_origin *origin,
                         const struct stp_derived *derived)
{
    struct stp_paragraph paragraph;

    printf("From ");
    stp_times_write(origin->data, stdout);
    stp_steadiness_write(origin->steadiness,
                         stp_paragraph_begin(&paragraph, stdout));
    stp_paragraph_end(&paragraph);
    if (origin->same_bits)
        stp_print_paragraph(STP_SAME_BITS_TEXT(origin->data), stdout);
    if (derived->n_rules == 0) {
        fputs("No rule: ", stdout);
        stp_no_rule_write(origin, stdout);
        fputs(".\n", stdout);
    } else {
        putchar('\n');
        stp_print_rules(derived, stdout);
    }
    derive_print_written(o, derived->n_rules, origin->data->n_rows);
}

static enum stp_status derive_policy(const struct derive_options *o,
                                     const struct stp_dataset *data,
                                     struct stp_error *err)
{
    const bool same_bits = o->derive.bits == STP_BITS_SAME;
    const struct stp_derive_terms terms = {.min_gain = o->derive.min_gain,
                                           .trust_passes = o->trust_passes,
                                           .same_bits = same_bits,
                                           .extrapolate = o->extrapolate};
    const enum stp_objective objective = (enum stp_objective)o->objective;
    const bool is_printed = o->output == NULL && !o->json;
    struct stp_dataset selected = {0};
    struct stp_comparisons all = {0};
    struct stp_derived derived = {0};
    struct stp_steadiness steadiness;
    struct stp_source_count count = {0};
    struct stp_wrong wrong = {0};
    struct stp_policy_origin origin = {.data = &selected,
                                       .made_by = "steptune derive",
                                       .min_gain = o->derive.min_gain,
                                       .portable = o->derive.portable,
                                       .trusts_passes = o->trust_passes,
                                       .same_bits = same_bits,
                                       .steadiness = &steadiness};
    char text[STP_ERROR_TEXT];
    enum stp_status status =
        stp_objective_select(data, objective, &selected, err);

    STP_THEN(status, stp_objective_compare(&selected, objective, &all, err));
    STP_THEN(status,
             stp_tune_measure_steadiness(&selected, &all, &steadiness, err));
    origin.all_are_wrong = stp_next_wrong(data, &wrong);
    for (size_t i = 0; i < all.n_points; i++)
        origin.all_are_wrong &= all.points[i].n_arms == 0;
    if (same_bits)
        stp_keep_same_bits(&all);
    STP_THEN(status, stp_derive_on(&all, &terms, &derived, err));
    STP_THEN(status, derive_keep_former(o->output, err));
    if (status == STP_OK && (o->output != NULL || is_printed))
        status = stp_policy_file_save(&derived, &origin, o->output, err);
    if (status == STP_OK && o->json)
        stp_print_rules_json(&derived, &selected, &steadiness, stdout);
    else if (status == STP_OK && !is_printed)
        derive_print(o, &origin, &derived);
    stp_count_sources(data, &count);
    if (status == STP_OK && isfinite(steadiness.resolved) && o->trust_passes &&
        count.n_single_pass > 0 && steadiness.min_rounds < STP_DERIVE_PASSES)
        stp_complain("warning: fewer than %d runs of an arm have no interval, "
                     "and decide nothing",
                     STP_DERIVE_PASSES);
    if (status == STP_OK && !origin.all_are_wrong &&
        stp_tune_warn_of_noise(&steadiness, o->derive.min_gain, 0, text))
        stp_complain("%s", text);
    stp_derived_free(&derived);
    stp_comparisons_free(&all);
    stp_dataset_free(&selected);
    return status;
}

/* Derives rules of both situations, as far as there are measurements. */
static enum stp_status memory_derive(const struct derive_options *o,
                                     const struct stp_dataset *data,
                                     struct stp_error *err)
{
    const struct stp_memory_data from = {.alone = data, .iterations = data};
    const struct stp_derive_terms terms = {
        .min_gain = o->derive.min_gain,
        .trust_passes = o->trust_passes,
        .extrapolate = o->extrapolate,
        .same_bits = o->derive.bits == STP_BITS_SAME,
        .kind =
            o->as == DERIVE_STAGE ? STP_POLICY_OF_STAGE : STP_POLICY_OF_MEMORY};
    struct stp_memory_situations situations;
    struct stp_memory_rules rules = {0};
    const struct stp_policy_origin origin = {.data = data,
                                             .made_by = "steptune derive",
                                             .min_gain = o->derive.min_gain,
                                             .same_bits = terms.same_bits};
    const bool is_printed = o->output == NULL && !o->json;
    enum stp_status status =
        stp_memory_situations_compare(&from, &terms, &situations, err);

    if (status == STP_OK && !situations.are_measured)
        status = STP_REFUSE(err,
                            "no %s of %s buffers, expected those of arms %s: "
                            "`steptune sweep --arms all,memory`",
                            stp_kind_is_wrong(data, STP_ARM_SETUP) ||
                                    stp_kind_is_wrong(data, STP_ARM_AUTO)
                                ? "right results"
                                : "times",
                            o->as == DERIVE_STAGE ? "staged" : "registered",
                            o->as == DERIVE_STAGE ? "stage" : "reg, sym or ce");
    STP_THEN(status,
             stp_memory_rules_derive(&situations, data->gpu, &rules, err));
    STP_THEN(status, derive_keep_former(o->output, err));
    if (status == STP_OK && (o->output != NULL || is_printed))
        status = stp_memory_file_save(&rules.table, &origin, o->output, err);
    if (status == STP_OK && (o->json || !is_printed)) {
        stp_print_memory_rules(&rules.table, o->json, stdout);
        if (!o->json)
            derive_print_written(o, rules.table.n_rules, data->n_rows);
    }
    stp_memory_rules_free(&rules);
    stp_memory_situations_free(&situations);
    return status;
}

/* Reads the files, and derives of them; returns the exit status. */
static int derive_run(const struct derive_options *o, struct stp_dataset *data)
{
    bool are_text = false, has_auto = false;
    struct stp_error err;
    enum stp_status status;
    int exit_status;

    for (size_t i = 0; i < o->n_inputs; i++) {
        const struct derive_input *input = &o->inputs[i];

        for (size_t j = 0; j < i; j++)
            if (stp_path_is_same(input->path, o->inputs[j].path))
                return stp_complain("%s: given twice, its rounds would count "
                                    "twice",
                                    input->path);
        if (derive_load(o, input, i == 0, &are_text, data, &err) != STP_OK)
            return stp_complain_error(input->path, &err);
    }
    if (are_text && !o->trust_passes)
        return stp_complain(
            "these are runs of one arm after the other, of which drift may be "
            "the gain, expected --trust-passes to use them all the same");
    for (size_t i = 0; i < data->n_rows; i++)
        has_auto |= data->rows[i].arm.kind == STP_ARM_AUTO;
    if (are_text && !has_auto)
        return stp_complain("no run of NCCL's own choice to compare with, "
                            "expected one, such as --arm auto=FILE");
    if (data->nodes == STP_NODES_UNKNOWN)
        return stp_complain("the list of ranks is not whole, which tells the "
                            "nodes, expected all of it (# Using devices), or "
                            "NCCL's log of the run (NCCL_DEBUG=INFO)");
    if (data->nodes == STP_NODES_HOSTS &&
        strncmp(data->gpu, "NVIDIA GB", 9) == 0)
        stp_complain("warning: nNodes counts hosts, but NCCL those of an "
                     "NVLink domain as one: its log of a run tells them");
    exit_status = stp_report_wrong(NULL, data, false);
    status = o->as == DERIVE_POLICY ? derive_policy(o, data, &err)
                                    : memory_derive(o, data, &err);
    return status == STP_OK ? exit_status : stp_complain_error(NULL, &err);
}

int stp_cmd_derive(int argc, char **argv)
{
    struct derive_options o = {0};
    struct stp_dataset data = {0};
    int exit_status;

    STP_TAKE(o.inputs, (size_t)argc);
    stp_options_read(&derive_line, argc, argv, &o);
    exit_status = derive_run(&o, &data);
    stp_dataset_free(&data);
    free(o.inputs);
    return exit_status;
}
