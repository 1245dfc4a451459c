#include "device/host.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void stp_host_name(char *name, size_t size)
{
    if (gethostname(name, size) != 0 || name[0] == '\0')
        snprintf(name, size, "?");
    name[size - 1] = '\0';
    name[strcspn(name, ".")] = '\0';
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
