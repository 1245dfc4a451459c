/* groups.c - the tables of options that several commands have */
#include <string.h>

#include "cli/cli.h"
#include "launch/world.h"

/* ---- where they have no effect ---- */

static const char *groups_find_fsdp(const struct stp_given *given)
{
    unsigned n = 0;
    const int *modes = stp_given_value(given, "mode", &n);

    return n == 1 && modes[0] == STP_MODE_FSDP
               ? "with --mode fsdp, which has no all-reduce"
               : NULL;
}

static const char *groups_find_unrecorded(const struct stp_given *given)
{
    return stp_given_is_recorded(given) ? NULL : "without a recorded machine";
}

/* ---- the tables ---- */

#define AT(member) offsetof(struct stp_machine_options, member)

const struct stp_option stp_machine_table[] = {
    {"on", 0, "MACHINE", stp_option_text, .at = AT(on)},
    {"json", 0, NULL, stp_option_flag, .at = AT(json)},
    {"seed", 0, "N", stp_option_number, AT(seed), .value = "1",
     .needs.find_idle = groups_find_unrecorded},
    {"stalls", 0, "SHARE", stp_option_share, AT(stalls), .value = "0%",
     .needs.find_idle = groups_find_unrecorded},
    {0},
};

const struct stp_option stp_recorded_table[] = {
    {"on", 0, "MACHINE", stp_option_text, .at = AT(on)},
    {"json", 0, NULL, stp_option_flag, .at = AT(json)},
    {0},
};

#undef AT
#define AT(member) offsetof(struct stp_measure_options, member)

const struct stp_option stp_measure_table[] = {
    {"collective", 0, "LIST", stp_option_coll, AT(colls),
     .alias = "collectives", .n = AT(n_colls), .size = sizeof(int),
     .most = NCCL_NUM_TUNED_FUNCS},
    {"minbytes", 'b', "SIZE", stp_option_size, .at = AT(begin)},
    {"maxbytes", 'e', "SIZE", stp_option_size, .at = AT(end)},
    {"stepfactor", 'f', "F", stp_option_double, AT(factor), .min = 1,
     .above = true},
    {"stepbytes", 'i', "SIZE", stp_option_size, AT(step),
     .needs.without = {"stepfactor"}},
    {"iters", 'n', "N", stp_option_count, AT(iters), .min = 1},
    {"warmup_iters", 'w', "N", stp_option_count, AT(warmup), .value = "5"},
    {"rounds", 0, "N", stp_option_count, AT(rounds), .min = 1},
    {"datatype", 'd', "TYPE", stp_option_word, AT(types),
     .from_name = stp_type_from_name, .max = STP_N_TYPES - 1,
     .expected = "all, " STP_TYPE_WORDS, .n = AT(n_types), .size = sizeof(int),
     .most = STP_N_TYPES, .has_all = true},
    {0},
};

#undef AT
#define AT(member) offsetof(struct stp_run_options, member)
#define LIVE       "expected --on cuda or --on cpu"

const char *const stp_backends[] = {"nccl", "gloo", NULL};

const char *stp_option_backend(const struct stp_option *option,
                               const char *text, void *at)
{
    if (strcmp(text, "mpi") == 0)
        return "gloo on CPUs, which takes the ranks of any launcher";
    return stp_option_text(option, text, at);
}

const struct stp_option stp_run_table[] = {
    {"backend", 0, "NAME", stp_option_backend, AT(backend),
     .words = stp_backends},
    {"procs", 0, "LIST", stp_option_count, AT(procs), .min = 1,
     .max = STP_MAX_PROCESSES, .n = AT(n_procs), .size = sizeof(unsigned),
     .most = STP_MAX_PASSES, .repeats = true, .needs.recorded = LIVE},
    {"nthreads", 't', "N", stp_option_count, AT(n_threads), .min = 1,
     .needs.recorded = LIVE},
    {"ngpus", 'g', "N", stp_option_count, AT(n_gpus), .min = 1,
     .needs.recorded = LIVE},
    {"cudagraph", 'G', "N", stp_option_count, .at = AT(graph)},
    {"timeout", 'T', "SECONDS", stp_option_count, AT(time_limit_s),
     .needs.recorded = LIVE},
    {0},
};

#undef AT
#define AT(member) offsetof(struct stp_workload_options, member)

static const char *const places[] = {"in", "out", NULL};

const struct stp_option stp_workload_table[] = {
    {"mode", 0, "LIST", stp_option_word, AT(modes),
     .from_name = stp_mode_from_name, .min = STP_MODE_SEQUENTIAL,
     .max = STP_MODE_FSDP, .expected = "sequential, overlap or fsdp, or all",
     .n = AT(n_modes), .size = sizeof(int), .most = STP_N_MODES,
     .has_all = true},
    {"bytes", 0, "LIST", stp_option_size, AT(bytes), .alias = "sizes-bytes",
     .expected = "sizes such as 1M,16M", .n = AT(n_bytes),
     .size = sizeof(uint64_t), .most = STP_MAX_SETTING_SIZES},
    {"ratio", 0, "LIST", stp_option_double, AT(ratios), .min = 0.001,
     .max = 1000, .expected = "ratios from 0.001 to 1000 such as 0.5,1,2",
     .n = AT(n_ratios), .size = sizeof(double), .most = STP_MAX_SETTING_RATIOS,
     .needs.without = {"gemm"}},
    {"gemm", 0, "M,N,K", stp_option_count, AT(sides), .min = 1, .max = 1 << 16,
     .expected = "three sides from 1 to 65536 such as 4096,4096,1024",
     .n = AT(n_sides), .size = sizeof(unsigned), .least = STP_SIDES,
     .most = STP_SIDES, .repeats = true},
    {"compute", 0, "KIND", stp_option_word, AT(compute),
     .from_name = stp_compute_from_name, .expected = "gemm or training",
     .value = "gemm"},
    {"layers", 0, "N", stp_option_count, AT(layers), .min = 1, .max = 1000},
    {"place", 0, "in|out", stp_option_word, AT(out_of_place), .words = places,
     .value = "in", .needs.find_idle = groups_find_fsdp},
    {0},
};

#undef AT
#define AT(member) offsetof(struct stp_derive_options, member)

static const char *const same_bits[] = {"same", NULL};

const struct stp_option stp_derive_table[] = {
    {"min-gain", 0, "SHARE", stp_option_share, AT(min_gain), .value = "2%"},
    {"portable", 0, NULL, stp_option_flag, .at = AT(portable)},
    {"bits", 0, "same", stp_option_word, AT(bits), .words = same_bits,
     .min = STP_BITS_SAME},
    {0},
};
