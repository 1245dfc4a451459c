/* doctor_headers.c - `steptune doctor --headers`: the plugin interfaces of the
 * NCCL that is found here */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "launch/take.h"
#include "nccl_profiler_abi.h"
#include "nccl_tuner_abi.h"
#include "report/file.h"
#include "report/folder.h"

extern const char stp_nccl_tuner_abi[], stp_nccl_profiler_abi[];

enum { NEWEST = 7 };

/* An interface, and the structs of its versions that we declare. */
#define STRUCT(type)                                                           \
    {                                                                          \
#type, sizeof(type)                                                    \
    }
static const struct interface {
    const char *name, *kind, *prefix; /* of the symbol */
    struct {
        const char *name;
        size_t size;
    } structs[NEWEST + 1];
} interfaces[] = {
    {"Tuner",
     "TUNER",
     "ncclTunerPlugin_v",
     {[2] = STRUCT(ncclTuner_v2_t),
      STRUCT(ncclTuner_v3_t),
      STRUCT(ncclTuner_v4_t),
      STRUCT(ncclTuner_v5_t),
      STRUCT(ncclTuner_v6_t),
      STRUCT(ncclTuner_v7_t)}},
    {"Profiler",
     "PROFILER",
     "ncclProfiler_v",
     {[4] = STRUCT(ncclProfiler_v4_t),
      STRUCT(ncclProfiler_v5_t),
      STRUCT(ncclProfiler_v5_t),
      STRUCT(ncclProfiler_v5_t)}},
};

/* Writes what is known of an interface, for people and for a compiler. */
static void headers_put(const struct interface *i, unsigned found, FILE *text,
                        FILE *header)
{
    int newest = 0;

    for (int v = 1; v <= NEWEST; v++) {
        if (!(found >> v & 1))
            continue;
        fprintf(text, "%s%d", i->prefix, v);
        if (i->structs[v].name != NULL) {
            newest = v;
            fprintf(text, ": a %s of %zu bytes", i->structs[v].name,
                    i->structs[v].size);
        }
        fputc('\n', text);
    }
    if (newest > 0)
        fprintf(header,
                "\n#define NCCL_%s_VERSION %d\n#define NCCL_%s_SYMBOL %s%d\n"
                "typedef %s nccl%s_t;\n",
                i->kind, newest, i->kind, i->prefix, newest,
                i->structs[newest].name, i->name);
}

int stp_doctor_headers(const struct stp_doctor *d, const char *folder)
{
    const int fd = open(d->library, O_RDONLY | O_CLOEXEC);
    const char *abi[] = {stp_nccl_tuner_abi, stp_nccl_profiler_abi};
    char *text = NULL, *header = NULL;
    static const char *const names[] = {"nccl_plugins.txt", "nccl_plugins.h",
                                        "nccl_tuner_abi.h",
                                        "nccl_profiler_abi.h"};
    size_t len;
    struct stp_error err;
    enum stp_status status;
    struct stat st;
    FILE *to_text, *to_header;
    void *library = MAP_FAILED;

    if (fd >= 0 && fstat(fd, &st) == 0)
        library = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (library == MAP_FAILED)
        return stp_complain("no NCCL is found here, expected one that "
                            "`steptune doctor` names");
    to_text = stp_take_text(&text, &len);
    to_header = stp_take_text(&header, &len);
    fprintf(to_text, "NCCL %s, %s\n", d->library_version, d->library);
    fprintf(to_header,
            "/* The newest plugin interfaces that NCCL %s takes. */\n"
            "#pragma once\n\n#include \"nccl_tuner_abi.h\"\n\n"
            "#include \"nccl_profiler_abi.h\"\n",
            d->library_version);
    for (size_t i = 0; i < STP_N_OF(interfaces); i++) {
        const size_t n = strlen(interfaces[i].prefix);
        const char *at = library, *end = at + st.st_size;
        unsigned found = 0; /* bits of the versions that it asks a plugin for */

        while ((at = memmem(at, (size_t)(end - at), interfaces[i].prefix, n)) !=
               NULL) {
            at += n; /* names of symbols stand in the library */
            if (end - at >= 2 && at[0] >= '1' && at[0] <= '0' + NEWEST &&
                at[1] == '\0')
                found |= 1u << (at[0] - '0');
        }
        headers_put(&interfaces[i], found, to_text, to_header);
    }
    munmap(library, (size_t)st.st_size);
    close(fd);
    stp_end_text(to_text);
    stp_end_text(to_header);
    fputs(text, stdout);
    status = stp_folder_make(folder, &err);
    for (size_t i = 0; i < 4 && status == STP_OK; i++) {
        const char *body = i == 0 ? text : i == 1 ? header : abi[i - 2];
        char path[STP_CLI_PATH];

        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        status = stp_file_save(path, body, strlen(body), &err);
        if (status == STP_OK)
            printf("%s: written\n", path);
    }
    free(text);
    free(header);
    return status == STP_OK ? STP_EXIT_OK : stp_complain_error(NULL, &err);
}
