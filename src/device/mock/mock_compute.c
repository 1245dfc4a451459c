#include "device/mock/mock_compute.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/mock/operation.h"
#include "mock_nccl.h"

/* The share of the peak rate that a product reaches, and how long the smallest
 * takes: of all such pairs the one that comes closest to the 18 products of
 * fixtures/machines/h200x4/overlap.csv, within 12 percent. */
static const double efficiency = 0.77;
static const double launch_us = 4.75;

/* The share that a kernel reaches which reads two vectors and writes one, of
 * the memory's rate: two of 128 MiB took 96 us on H200. */
static const double memory_efficiency = 0.92;

/* Peak rates of cuBLAS's products, TFLOP/s, dense, no TF32; 0: none; and the
 * memory's, TB/s.  From NVIDIA's data sheets; where they leave out F64, the
 * part of F32's that the architecture has (1/32, then 1/64).  HGX B200: an
 * eighth of it. */
static const struct rates {
    int compute_capability; /* and above, up to the next */
    double f64, f32, f16, bf16;
    double memory;
} rates[] = {
    // clang-format off
    { 60,  5.3,  10.6,   21.2,    0,   0.732}, // P100, NVLink
    { 70,  7.8,  15.7,  125,      0,   0.9},   // V100 SXM2
    { 75,  0.25,  8.1,   65,      0,   0.32},  // T4
    { 80, 19.5,  19.5,  312,    312,   2.039}, // A100 80 GB SXM
    { 86,  0.58, 37.4,  149.7,  149.7, 0.696}, // A40
    { 89,  1.4,  91.6,  362,    362,   0.864}, // L40S
    { 90, 67,    67,    989.5,  989.5, 3.35},  // H100 SXM, H200 SXM but for memory
    {100, 37,    75,   2250,   2250,   8},     // HGX B200
    // clang-format on
};

static const double h200_memory = 4.8; /* TB/s, with H100's products */

enum { N_RATES = sizeof(rates) / sizeof(rates[0]) };

static const struct rates *compute_find_rates(int compute_capability)
{
    const struct rates *r = &rates[N_RATES - 1];

    while (r > rates && r->compute_capability > compute_capability)
        r--;
    return r;
}

/* ---- recorded times ---- */

enum { FEW_SETTINGS = 96 }; /* of a machine: these take no memory of the heap */

/* The two recorded products that differ from the wanted one in k alone and lie
 * on either side of it, or the two nearest if it is beyond all; k is 0 where
 * there is none. */
struct neighbours {
    struct mock_overlap_setting near;
    struct mock_overlap_setting far;
};

static double compute_distance(const struct mock_overlap_setting *s, unsigned k)
{
    return fabs((double)s->k - k);
}

static bool compute_is_between(const struct mock_overlap_setting *a,
                               const struct mock_overlap_setting *b, unsigned k)
{
    return a->k != 0 && b->k != 0 &&
           ((double)a->k - k) * ((double)b->k - k) < 0;
}

static void compute_compare_neighbour(const struct mock_overlap_setting *s,
                                      const struct stp_gemm *gemm,
                                      struct neighbours *found)
{
    const unsigned k = gemm->k;
    struct mock_overlap_setting last = *s;
    bool with, without;

    if (s->m != gemm->m || s->n != gemm->n || s->k == 0 ||
        s->k == found->near.k || s->k == found->far.k)
        return;
    if (found->near.k == 0 ||
        compute_distance(s, k) < compute_distance(&found->near, k)) {
        last = found->near;
        found->near = *s;
    }
    /* One that is on the other side is better than the far one, or a nearer. */
    with = compute_is_between(&found->near, &last, k);
    without = compute_is_between(&found->near, &found->far, k);
    if (last.k != 0 &&
        (with != without
             ? with
             : found->far.k == 0 || compute_distance(&last, k) <
                                        compute_distance(&found->far, k)))
        found->far = last;
}

/* As good as between two that are recorded, if k is no further beyond. */
static const double same_k = 0.05;

/* The time that the neighbours, of which there is one, give a product that is
 * modelled to take 'model_us' where the near one would take 'near_us'. */
static struct stp_mock_compute
compute_from_neighbours(const struct neighbours *found, unsigned k,
                        double model_us, double near_us)
{
    double beyond = compute_distance(&found->near, k) / found->near.k;
    struct stp_mock_compute c = {found->near.compute_us,
                                 stp_mock_source(found->near.source)};

    if (found->near.k == k)
        return c;
    if (found->far.k != 0)
        c.us += (found->far.compute_us - found->near.compute_us) *
                ((double)k - found->near.k) /
                ((double)found->far.k - found->near.k);
    else
        c.us *= model_us / near_us;
    c.us = fmax(c.us, launch_us);
    c.source = stp_source_worst(
        stp_source_worst(c.source, stp_mock_source(found->far.source)),
        compute_is_between(&found->near, &found->far, k) || beyond <= same_k
            ? STP_SOURCE_INTERPOLATED
            : STP_SOURCE_MODELLED);
    return c;
}

static enum stp_status
compute_find_neighbours(const struct mock_machine *machine,
                        const struct stp_gemm *gemm,
                        struct neighbours *found_ret, struct stp_error *err)
{
    struct mock_overlap_setting few[FEW_SETTINGS];
    struct mock_overlap_setting *settings = few;
    size_t n = mock_machine_overlap_settings(machine, few, FEW_SETTINGS);

    *found_ret = (struct neighbours){0};
    if (gemm->type != STP_TYPE_BF16)
        return STP_OK;
    if (n > FEW_SETTINGS) {
        settings = calloc(n, sizeof(*settings));
        if (settings == NULL)
            return stp_nomem(err);
        mock_machine_overlap_settings(machine, settings, n);
    }
    for (size_t i = 0; i < n; i++)
        compute_compare_neighbour(&settings[i], gemm, found_ret);
    if (settings != few)
        free(settings);
    return STP_OK;
}

static double compute_model(const struct stp_gemm *gemm, unsigned k,
                            double tflops)
{
    return launch_us + 2. * gemm->m * gemm->n * k / (tflops * 1e6 * efficiency);
}

/* ---- the interface ---- */

static double compute_peak_of(const struct mock_machine *machine,
                              const struct stp_gemm *gemm)
{
    const struct rates *r =
        compute_find_rates(mock_machine_get_info(machine)->compute_capability);

    return gemm->type == STP_TYPE_F64    ? r->f64
           : gemm->type == STP_TYPE_F32  ? r->f32
           : gemm->type == STP_TYPE_F16  ? r->f16
           : gemm->type == STP_TYPE_BF16 ? r->bf16
                                         : 0;
}

static enum stp_status compute_refuse(const struct mock_machine *machine,
                                      const char *type, struct stp_error *err)
{
    return STP_REFUSE(err, "%s multiplies no matrices of %s",
                      mock_machine_get_info(machine)->gpu, type);
}

enum stp_status stp_mock_check_gemm(const struct mock_machine *machine,
                                    const struct stp_gemm *gemm,
                                    struct stp_error *err)
{
    if (gemm->m == 0 || gemm->n == 0 || gemm->k == 0)
        return STP_REFUSE(err, "a GEMM of %u x %u x %u, expected sides from 1",
                          gemm->m, gemm->n, gemm->k);
    return compute_peak_of(machine, gemm) != 0
               ? STP_OK
               : compute_refuse(machine, stp_type_name(gemm->type), err);
}

enum stp_status stp_mock_gemm(const struct mock_machine *machine,
                              const struct stp_gemm *gemm,
                              struct stp_mock_compute *compute_ret,
                              struct stp_error *err)
{
    double tflops = compute_peak_of(machine, gemm);
    struct neighbours found = {0};

    STP_TRY(stp_mock_check_gemm(machine, gemm, err));
    STP_TRY(compute_find_neighbours(machine, gemm, &found, err));
    *compute_ret = (struct stp_mock_compute){
        compute_model(gemm, gemm->k, tflops), STP_SOURCE_MODELLED};
    if (found.near.k != 0)
        *compute_ret =
            compute_from_neighbours(&found, gemm->k, compute_ret->us,
                                    compute_model(gemm, found.near.k, tflops));
    return STP_OK;
}

bool stp_mock_has_tf32(const struct mock_machine *machine)
{
    return mock_machine_get_info(machine)->compute_capability >= 80;
}

enum stp_status stp_mock_gemm_tf32(const struct mock_machine *machine,
                                   const struct stp_gemm *gemm,
                                   struct stp_mock_compute *compute_ret,
                                   struct stp_error *err)
{
    struct stp_gemm half = *gemm; /* as many operations, in twice the time */

    if (!stp_mock_has_tf32(machine))
        return compute_refuse(machine, "tf32", err);
    half.type = STP_TYPE_F16;
    STP_TRY(stp_mock_gemm(machine, &half, compute_ret, err));
    compute_ret->us = launch_us + 2 * (compute_ret->us - launch_us);
    return STP_OK;
}

/* Words in the names of GPUs. */
static const struct {
    const char *word;
    double gb;
} memories[] = {
    {"H200", 141},
    {"B200", 180},
    {"80GB", 80},
    {"40GB", 40},
};

uint64_t stp_mock_memory(const struct mock_machine *machine)
{
    const char *gpu = mock_machine_get_info(machine)->gpu;

    for (size_t i = 0; i < sizeof(memories) / sizeof(memories[0]); i++)
        if (strstr(gpu, memories[i].word) != NULL)
            return (uint64_t)(memories[i].gb * 1e9);
    return 0;
}

struct stp_mock_compute stp_mock_kernel(const struct mock_machine *machine,
                                        double n_bytes)
{
    const struct mock_machine_info *info = mock_machine_get_info(machine);
    double rate = compute_find_rates(info->compute_capability)->memory;

    if (strstr(info->gpu, "H200") != NULL)
        rate = h200_memory;
    return (struct stp_mock_compute){
        launch_us + n_bytes / (rate * 1e6 * memory_efficiency),
        STP_SOURCE_MODELLED};
}
