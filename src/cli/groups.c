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

/* ---- the tables ---- */

#define AT(member) offsetof(struct stp_machine_options, member)

const struct stp_option stp_machine_table[] = {
    {"on", 0, "MACHINE", stp_option_text, AT(on),
     .help = "Machine to measure: cuda, cpu, or a recorded machine by its name "
             "or folder (default: cuda)"},
    {"json", 0, NULL, stp_option_flag, AT(json),
     .help = "Print JSON instead of tables"},
    {"seed", 0, "N", stp_option_number, AT(seed), .value = "1",
     .help = "Seed of the draws from a recorded machine's spread"},
    {"stalls", 0, "SHARE", stp_option_share, AT(stalls), .value = "0%",
     .help = "Share of the rounds of a recorded machine that take 1.5 to 3 "
             "times as long, all arms of the round or one, by the seed; on "
             "real machines it is about 6%"},
    {0},
};

const struct stp_option stp_recorded_table[] = {
    {"on", 0, "MACHINE", stp_option_text, AT(on),
     .help = "Recorded machine to play, by its name or folder "
             "(default " STP_DEFAULT_MACHINE ")"},
    {"json", 0, NULL, stp_option_flag, AT(json),
     .help = "Print JSON instead of tables"},
    {0},
};

#undef AT
#define AT(member) offsetof(struct stp_measure_options, member)

const struct stp_option stp_measure_table[] = {
    {"collective", 0, "LIST", stp_option_coll, AT(colls),
     .alias = "collectives", .n = AT(n_colls), .size = sizeof(int),
     .most = NCCL_NUM_TUNED_FUNCS,
     .help = "Collectives to measure, comma-separated (default: allreduce; "
             "recorded machines: all that they have times of; `tune`: "
             "allgather, reducescatter and allreduce)"},
    {"minbytes", 'b', "SIZE", stp_option_size, AT(begin),
     .help = "Smallest message; sizes take K, M or G (default: the machine's "
             "recorded sizes, else 8)"},
    {"maxbytes", 'e', "SIZE", stp_option_size, AT(end),
     .help = "Largest message (default 1G)"},
    {"stepfactor", 'f', "F", stp_option_double, AT(factor), .min = 1,
     .above = true, .help = "Factor from size to size (default 2)"},
    {"stepbytes", 'i', "SIZE", stp_option_size, AT(step),
     .needs.without = {"stepfactor"},
     .help = "Bytes from size to size, instead of a factor"},
    {"iters", 'n', "N", stp_option_count, AT(iters), .min = 1,
     .help = "Timed collectives per arm and round (default: up to 20, as many "
             "as take 8 ms; recorded machines: 50)"},
    {"warmup_iters", 'w', "N", stp_option_count, AT(warmup), .value = "5",
     .help = "Untimed collectives before the timed ones"},
    {"rounds", 0, "N", stp_option_count, AT(rounds), .min = 1,
     .help = "Interleaved rounds; a recorded machine has a limited number "
             "(default: 5; recorded machines: all)"},
    {"datatype", 'd', "TYPE", stp_option_word, AT(types),
     .from_name = stp_type_from_name, .max = STP_N_TYPES - 1,
     .expected = "all, " STP_TYPE_WORDS, .n = AT(n_types), .size = sizeof(int),
     .most = STP_N_TYPES, .has_all = true,
     .help = "Element type; nccl-tests' names are accepted: float or f32, "
             "half, bfloat16, int32, f8e4m3 ...; `sweep` takes a list, or all "
             "(default bf16; `sweep` on a real machine: float)"},
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
     .words = stp_backends,
     .help = "Transport: nccl on GPUs, gloo on CPUs (default: nccl)"},
    {"procs", 0, "LIST", stp_option_count, AT(procs), .min = 1,
     .max = STP_MAX_PROCESSES, .n = AT(n_procs), .size = sizeof(unsigned),
     .most = STP_MAX_PASSES, .repeats = true, .needs.recorded = LIVE,
     .help = "Processes, one rank each; several numbers are measured one after "
             "the other (default: this one, unless mpirun, srun or torchrun "
             "started it)"},
    {"nthreads", 't', "N", stp_option_count, AT(n_threads), .min = 1,
     .needs.recorded = LIVE,
     .help = "Threads of a process (default: as many as GPUs, with -g 1)"},
    {"ngpus", 'g', "N", stp_option_count, AT(n_gpus), .min = 1,
     .needs.recorded = LIVE, .help = "GPUs of a thread (default 1)"},
    {"cudagraph", 'G', "N", stp_option_count, AT(graph), .needs.recorded = LIVE,
     .help = "Launch the iterations as a CUDA graph, N times (default 0: no "
             "graph)"},
    {"timeout", 'T', "SECONDS", stp_option_count, AT(time_limit_s),
     .needs.recorded = LIVE,
     .help = "Give up on collectives that take longer than this (default: "
             "never)"},
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
     .has_all = true,
     .help = "sequential: compute, then the collectives; overlap: a collective "
             "after each layer, overlapped with the next layers, as DDP; fsdp: "
             "an all-gather ahead of each layer and a reduce-scatter after it; "
             "all (default overlap)"},
    {"bytes", 0, "LIST", stp_option_size, AT(bytes), .alias = "sizes-bytes",
     .expected = "sizes such as 1M,16M", .n = AT(n_bytes),
     .size = sizeof(uint64_t), .most = STP_MAX_SETTING_SIZES,
     .help = "Bytes of a collective, such as 1M,16M (default 16M)"},
    {"ratio", 0, "LIST", stp_option_double, AT(ratios), .min = 0.001,
     .max = 1000, .expected = "ratios from 0.001 to 1000 such as 0.5,1,2",
     .n = AT(n_ratios), .size = sizeof(double), .most = STP_MAX_SETTING_RATIOS,
     .needs.without = {"gemm"},
     .help = "Compute time of a layer over the time of its collectives as NCCL "
             "chooses, each alone; the GEMM is chosen to fit (default 1)"},
    {"gemm", 0, "M,N,K", stp_option_count, AT(sides), .min = 1, .max = 1 << 16,
     .expected = "three sides from 1 to 65536 such as 4096,4096,1024",
     .n = AT(n_sides), .size = sizeof(unsigned), .least = STP_SIDES,
     .most = STP_SIDES, .repeats = true,
     .help = "GEMM of a layer, instead of --ratio"},
    {"compute", 0, "KIND", stp_option_word, AT(compute),
     .from_name = stp_compute_from_name, .expected = "gemm or training",
     .value = "gemm",
     .help = "gemm: a GEMM per layer; training: forward and backward passes of "
             "GEMMs and elementwise kernels"},
    {"layers", 0, "N", stp_option_count, AT(layers), .min = 1, .max = 1000,
     .help = "Layers of an iteration (default 8; sequential: 1)"},
    {"place", 0, "in|out", stp_option_word, AT(out_of_place), .words = places,
     .value = "in", .needs.find_idle = groups_find_fsdp,
     .help = "Where all-reduces put their results; DDP has them in place"},
    {0},
};

#undef AT
#define AT(member) offsetof(struct stp_derive_options, member)

static const char *const same_bits[] = {"same", NULL};

const struct stp_option stp_derive_table[] = {
    {"min-gain", 0, "SHARE", stp_option_share, AT(min_gain), .value = "2%",
     .help = "Least gain over AUTO, with 95 percent confidence, "
             "that is worth a rule"},
    {"portable", 0, NULL, stp_option_flag, AT(portable),
     .help = "Write only the columns that NVIDIA's example tuner reads: no "
             "gpu"},
    {"bits", 0, "same", stp_option_word, AT(bits), .words = same_bits,
     .min = STP_BITS_SAME,
     .help = "Leave out arms that are not known to compute the bits of AUTO; "
             "all-gathers and broadcasts only move them"},
    {0},
};
