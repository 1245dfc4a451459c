/*
 * steptune_wrong.c - steptune with devices that compute wrong results: of the
 * arm that WRONG names, "sym" or "ring/ll128@1048576" at that size alone, each
 * check of every device finds 5000 wrong elements; those of the arms that OTHER
 * names, in words, have other bits
 */
#include <stdbool.h>
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
                                        uint64_t seed, bool rounds,
                                        struct stp_found *found_ret,
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

/* Whether the variable names the selected arm, at that size or at all. */
static bool is_named(const char *variable, uint64_t n_bytes)
{
    const char *word = getenv(variable);
    char name[STP_ARM_NAME];
    size_t len;

    stp_arm_name(&selected, name);
    len = strlen(name);
    for (; word != NULL && *word != '\0'; word += strspn(word, " ")) {
        const char *end = word + strcspn(word, " ");

        if (strncmp(word, name, len) == 0 &&
            (word + len == end ||
             (word[len] == '@' &&
              strtoull(word + len + 1, NULL, 10) == n_bytes)))
            return true;
        word = end;
    }
    return false;
}

enum stp_status __wrap_stp_device_check(const struct stp_device *device,
                                        const struct stp_collective *what,
                                        uint64_t seed, bool rounds,
                                        struct stp_found *found_ret,
                                        struct stp_error *err)
{
    *found_ret = (struct stp_found){
        .n_wrong = is_named("WRONG", what->n_bytes) ? 5000 : 0,
        .bits = is_named("OTHER", what->n_bytes)};
    return STP_OK;
}
