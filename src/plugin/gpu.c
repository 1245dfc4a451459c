#include "plugin/gpu.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* The value behind "Model:" in the driver's page of one GPU, "" if none. */
static void gpu_read_model(const char *folder, const char *name,
                           char model[STP_GPU_SIZE])
{
    static const char key[] = "Model:";
    char path[1024];
    char line[256];
    FILE *fp;

    model[0] = '\0';
    snprintf(path, sizeof(path), "%s/%s/information", folder, name);
    fp = fopen(path, "r");
    if (fp == NULL)
        return;
    while (fgets(line, sizeof(line), fp) != NULL) {
        const char *value = line + strlen(key);

        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        value += strspn(value, " \t");
        snprintf(model, STP_GPU_SIZE, "%.*s", (int)strcspn(value, "\r\n"),
                 value);
        break;
    }
    fclose(fp);
}

void stp_read_gpu(const char *folder, char gpu[STP_GPU_SIZE])
{
    char model[STP_GPU_SIZE];
    const struct dirent *entry;
    DIR *dir = opendir(folder);

    gpu[0] = '\0';
    if (dir == NULL)
        return;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        gpu_read_model(folder, entry->d_name, model);
        if (gpu[0] == '\0')
            memcpy(gpu, model, STP_GPU_SIZE);
        if (model[0] == '\0' || strcmp(gpu, model) != 0) {
            gpu[0] = '\0';
            break;
        }
    }
    closedir(dir);
}
