#include "bench/mock_compute.h"

#include <stdlib.h>
#include <string.h>

#include "mock_nccl.h"

/*
 * What a product reaches of the peak rate, and how long the smallest takes: of
 * all such pairs the one that comes closest to the 18 products of
 * fixtures/machines/h200x4/overlap.csv, within 12 percent.
 */
static const double efficiency = 0.77;
static const double launch_us = 4.75;

/* What a kernel that reads two vectors and writes one reaches of the memory's
 * rate, as such kernels commonly do. */
static const double memory_efficiency = 0.9;

/*
 * Peak rates of cuBLAS's products, TFLOP/s, dense, no TF32; 0: none; and the
 * memory's, TB/s.  From NVIDIA's data sheets; where they leave out F64, the
 * part of F32's that the architecture has (1/32, then 1/64).  HGX B200: an
 * eighth of it.
 */
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

static const struct rates *rates_of(int compute_capability)
{
    const struct rates *r = &rates[N_RATES - 1];

    while (r > rates && r->compute_capability > compute_capability)
        r--;
    return r;
}

static double peak(int compute_capability, int type)
{
    const struct rates *r = rates_of(compute_capability);

    switch (type) {
    case STP_TYPE_F64:
        return r->f64;
    case STP_TYPE_F32:
        return r->f32;
    case STP_TYPE_F16:
        return r->f16;
    case STP_TYPE_BF16:
        return r->bf16;
    default:
        return 0;
    }
}

/* ---- what was recorded ---- */

/* The recorded products next to the wanted one that differ in k alone; k is 0
 * where there is none. */
struct neighbours {
    struct mock_overlap_setting below; /* or the same */
    struct mock_overlap_setting above;
};

static void look_at(const struct mock_overlap_setting *s,
                    const struct stp_gemm *gemm, struct neighbours *found)
{
    if (s->m != gemm->m || s->n != gemm->n || s->k == 0)
        return;
    if (s->k <= gemm->k && s->k > found->below.k)
        found->below = *s;
    if (s->k >= gemm->k && (found->above.k == 0 || s->k < found->above.k))
        found->above = *s;
}

/* Of no time if it is neither recorded nor between two that are. */
static struct stp_mock_compute
recorded(const struct mock_overlap_setting *settings, size_t n,
         const struct stp_gemm *gemm)
{
    struct stp_mock_compute c = {0, STP_SOURCE_RECORDED};
    struct neighbours found = {0};
    double width;

    if (gemm->type != STP_TYPE_BF16)
        return c;
    for (size_t i = 0; i < n; i++)
        look_at(&settings[i], gemm, &found);
    if (found.below.k == 0 || found.above.k == 0)
        return c;
    c.us = found.below.compute_us;
    width = (double)found.above.k - found.below.k;
    if (width == 0)
        return c;
    c.us += (found.above.compute_us - found.below.compute_us) *
            (gemm->k - found.below.k) / width;
    c.source = STP_SOURCE_INTERPOLATED;
    return c;
}

static enum stp_status find_recorded(const struct mock_machine *machine,
                                     const struct stp_gemm *gemm,
                                     struct stp_mock_compute *compute_ret,
                                     struct stp_error *err)
{
    size_t n = mock_machine_overlap_settings(machine, NULL, 0);
    struct mock_overlap_setting *settings = calloc(n + 1, sizeof(*settings));

    if (settings == NULL)
        return stp_fail(err, STP_ERR_NOMEM, 0, 0, "out of memory");
    mock_machine_overlap_settings(machine, settings, n);
    *compute_ret = recorded(settings, n, gemm);
    free(settings);
    return STP_OK;
}

/* ---- the interface ---- */

enum stp_status stp_mock_gemm(const struct mock_machine *machine,
                              const struct stp_gemm *gemm,
                              struct stp_mock_compute *compute_ret,
                              struct stp_error *err)
{
    const struct mock_machine_info *info = mock_machine_get_info(machine);
    double tflops = peak(info->compute_capability, gemm->type);
    struct stp_mock_compute c;
    enum stp_status status;

    if (gemm->m == 0 || gemm->n == 0 || gemm->k == 0)
        return stp_fail(err, STP_ERR_RANGE, 0, 0,
                        "a matrix product of %u x %u x %u, expected sides from "
                        "1",
                        gemm->m, gemm->n, gemm->k);
    if (tflops == 0)
        return stp_fail(err, STP_ERR_RANGE, 0, 0,
                        "%s multiplies no matrices of %s", info->gpu,
                        stp_type_name(gemm->type));
    status = find_recorded(machine, gemm, &c, err);
    if (status != STP_OK)
        return status;
    if (c.us == 0)
        c = (struct stp_mock_compute){launch_us +
                                          2. * gemm->m * gemm->n * gemm->k /
                                              (tflops * 1e6 * efficiency),
                                      STP_SOURCE_MODELLED};
    *compute_ret = c;
    return STP_OK;
}

struct stp_mock_compute stp_mock_elementwise(const struct mock_machine *machine,
                                             uint64_t n_bytes)
{
    const struct mock_machine_info *info = mock_machine_get_info(machine);
    double rate = rates_of(info->compute_capability)->memory;

    if (strstr(info->gpu, "H200") != NULL)
        rate = h200_memory;
    return (struct stp_mock_compute){
        launch_us + 3. * n_bytes / (rate * 1e6 * memory_efficiency),
        STP_SOURCE_MODELLED};
}
