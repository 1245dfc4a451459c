#include "plugin/gpu.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

void stp_read_gpu(const char *folder, char gpu[STP_GPU_SIZE])
{
    static const char key[] = "Model:";
    const struct dirent *entry;
    DIR *dir = opendir(folder);

    gpu[0] = '\0';
    if (dir == NULL)
        return;
    while ((entry = readdir(dir)) != NULL) {
        char model[STP_GPU_SIZE] = ""; /* on the driver's page of this GPU */
        char path[1024];
        char line[256];
        FILE *page;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s/information", folder,
                 entry->d_name);
        page = fopen(path, "r");
        while (page != NULL && fgets(line, sizeof(line), page) != NULL) {
            const char *value = line + strlen(key);

            if (strncmp(line, key, strlen(key)) != 0)
                continue;
            value += strspn(value, " \t");
            snprintf(model, STP_GPU_SIZE, "%.*s", (int)strcspn(value, "\r\n"),
                     value);
            break;
        }
        if (page != NULL)
            fclose(page);
        if (gpu[0] == '\0')
            memcpy(gpu, model, STP_GPU_SIZE);
        if (model[0] == '\0' || strcmp(gpu, model) != 0) {
            gpu[0] = '\0';
            break;
        }
    }
    closedir(dir);
}
