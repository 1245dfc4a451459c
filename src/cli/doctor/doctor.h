/* doctor.h - the checks of `steptune doctor` */
#pragma once

#include "analyse/explain/variables.h"
#include "cli/cli.h"
#include "device/module.h"
#include "report/results/diagnosis.h"

enum { STP_MAX_LIBRARIES = 16, STP_MAX_NAMED_SETTINGS = 256 };

/* Something that an nccl.conf set. */
struct stp_conf_setting {
    char name[64];
    char where[160]; /* "FILE:LINE" */
};

struct stp_doctor {
    const char *root;    /* of /etc, /dev, /proc and /usr; "" but in tests */
    char *home;          /* NULL if there is none */
    const char *program; /* to look at; NULL: none */
    bool stages;         /* a stage policy is there */
    const char *measurements; /* the file; NULL: that of `steptune tune` */
    struct stp_conf_setting settings[STP_MAX_NAMED_SETTINGS];
    size_t n_settings;
    bool is_logged;                  /* by the NCCL that read them */
    int versions[STP_MAX_LIBRARIES]; /* of the libnccls found, 22809 */
    size_t n_versions;
    char library[STP_CLI_PATH]; /* the first libnccl found; "": none */
    char library_version[16];
    bool has_no_gpu;   /* nor a driver of any */
    bool has_no_nvls;  /* GPUs or variables have none, as far as is known */
    bool has_no_ll128; /* likewise of what LL128 needs */
    struct stp_diagnosis diagnosis;
};

/* Add a symptom to the diagnosis of 'd': stp_diagnose().  What is fine has
 * neither a reason nor a remedy. */
#define STP_FINE(d, ...)                                                       \
    stp_diagnose(&(d)->diagnosis, STP_SYMPTOM_OK, NULL, NULL, __VA_ARGS__)
#define STP_REMARK(d, ...)                                                     \
    stp_diagnose(&(d)->diagnosis, STP_SYMPTOM_NOTE, __VA_ARGS__)
#define STP_PROBLEM(d, ...)                                                    \
    stp_diagnose(&(d)->diagnosis, STP_SYMPTOM_PROBLEM, __VA_ARGS__)

/* ---- doctor_ask.c: what the checks ask ---- */

/* The value of an environment variable; "" if it is not set. */
const char *stp_doctor_setting(const char *name);

/* Where a variable comes from: "FILE:LINE" or "the environment". */
const char *stp_doctor_where(const struct stp_doctor *d, const char *name);

/* Like stp_read_file(), of a file that a variable names; STP_ERR_IO of a pipe,
 * on which doctor would wait as NCCL does. */
enum stp_status stp_doctor_read(const char *path, size_t max, char **text_ret,
                                size_t *len_ret, struct stp_error *err);

/* Whether the variable names the plugin that learns. */
bool stp_doctor_learns(const char *name);

/* Runs 'body' in a child, since others' libraries may crash, and copies its
 * 'size' bytes of answer, at most 4096, into *answer.  False, with *answer all
 * 0 and the reason in 'why', if the child did not live to tell. */
bool stp_doctor_ask_child(void (*body)(const void *question, void *answer),
                          const void *question, void *answer, size_t size,
                          char why[STP_SYMPTOM_TEXT]);

/* Prints a diagnosis; returns the exit status. */
int stp_doctor_print(const struct stp_diagnosis *diagnosis, bool is_json);

/* ---- the checks: each adds what it finds to the diagnosis ---- */

/* Reads the nccl.conf files as NCCL does, into the environment: what is set
 * already stays. */
void stp_doctor_read_conf(struct stp_doctor *d);
void stp_doctor_gpus(struct stp_doctor *d);
void stp_doctor_judge_gpus(struct stp_doctor *d, const struct stp_survey *s);
void stp_doctor_libraries(struct stp_doctor *d);
void stp_doctor_plugin(struct stp_doctor *d);
void stp_doctor_online(struct stp_doctor *d);
void stp_doctor_variables(struct stp_doctor *d);
void stp_doctor_files(struct stp_doctor *d);
void stp_doctor_paths(struct stp_doctor *d);
void stp_doctor_policy(struct stp_doctor *d);
void stp_doctor_stage(struct stp_doctor *d);

/* Whether a variable, *v_ret, switches off what the arm needs. */
bool stp_doctor_off_for(const char *arm, struct stp_variable *v_ret);

/* Judges a job by its NCCL log, prints that, and all that the log says if
 * 'is_whole', returns the exit status. */
int stp_doctor_log(struct stp_doctor *d, const char *path, bool is_whole,
                   bool is_json);

/* Writes the plugin interfaces of the libnccl that was found into a folder;
 * returns the exit status. */
int stp_doctor_headers(const struct stp_doctor *d, const char *folder);

/* A try of a transport, for `doctor --backend`: prints what became of it, and
 * returns the exit status. */
int stp_doctor_backend(const char *backend, bool is_json);
