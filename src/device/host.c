#include "device/host.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void stp_host_name(char *name, size_t size)
{
    if (gethostname(name, size) != 0 || name[0] == '\0')
        snprintf(name, size, "?");
    name[size - 1] = '\0';
    name[strcspn(name, ".")] = '\0';
}

double stp_host_now_us(const void *self)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static const struct {
    const char *line; /* of /proc/cpuinfo */
    const char *vendor;
} vendors[] = {
    {"GenuineIntel", "intel"},
    {"AuthenticAMD", "amd"},
    {"CPU implementer", "arm"},
};

const char *stp_host_cpu_vendor(void)
{
    FILE *fp = fopen("/proc/cpuinfo", "r");
    const char *vendor = "unknown";
    char line[256];

    if (fp == NULL)
        return vendor;
    while (vendor[0] == 'u' && fgets(line, sizeof(line), fp) != NULL)
        for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++)
            if (strstr(line, vendors[i].line) != NULL)
                vendor = vendors[i].vendor;
    fclose(fp);
    return vendor;
}
