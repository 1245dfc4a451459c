/*
 * steptune_wrong.c - steptune with devices that compute wrong results: of the
 * arm that WRONG names, "sym" or "ring/ll128@1048576" at that size alone, each
 * check of every device finds 5000 wrong elements
 */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

static struct stp_arm selected;

void __real_stp_device_get_info(const struct stp_device *device,
                                struct stp_device_info *info);
void __wrap_stp_device_get_info(const struct stp_device *device,
                                struct stp_device_info *info);
enum stp_status __real_stp_device_select_arm(const struct stp_device *device,
                                             const struct stp_arm *arm,
                                             struct stp_error *err);
enum stp_status __wrap_stp_device_select_arm(const struct stp_device *device,
                                             const struct stp_arm *arm,
                                             struct stp_error *err);
enum stp_status __wrap_stp_device_check(const struct stp_device *device,
                                        const struct stp_collective *what,
                                        uint64_t seed, uint64_t *n_wrong_ret,
                                        struct stp_error *err);

/* Recorded machines, too, have data to check. */
void __wrap_stp_device_get_info(const struct stp_device *device,
                                struct stp_device_info *info)
{
    __real_stp_device_get_info(device, info);
    info->has_data = true;
}

enum stp_status __wrap_stp_device_select_arm(const struct stp_device *device,
                                             const struct stp_arm *arm,
                                             struct stp_error *err)
{
    selected = *arm;
    return __real_stp_device_select_arm(device, arm, err);
}

enum stp_status __wrap_stp_device_check(const struct stp_device *device,
                                        const struct stp_collective *what,
                                        uint64_t seed, uint64_t *n_wrong_ret,
                                        struct stp_error *err)
{
    const char *wrong = getenv("WRONG");
    char name[STP_ARM_NAME];
    size_t len;

    stp_arm_name(&selected, name);
    len = strlen(name);
    *n_wrong_ret = 0;
    if (wrong != NULL && strncmp(wrong, name, len) == 0 &&
        (wrong[len] == '\0' ||
         (wrong[len] == '@' &&
          strtoull(wrong + len + 1, NULL, 10) == what->n_bytes)))
        *n_wrong_ret = 5000;
    return STP_OK;
}
