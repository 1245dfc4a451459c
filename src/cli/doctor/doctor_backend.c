/* doctor_backend.c - `steptune doctor --backend`: two ranks try a transport */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/doctor/doctor.h"
#include "core/dtype.h"
#include "launch/torchrun.h"
#include "nccl_tuner_abi.h"
#include "store/clock.h"

enum { N_RANKS = 2, TIME_LIMIT_S = 20, EACH_MS = 300 };

static const uint64_t sizes[] = {8, 64 << 10, 4 << 20};
enum { N_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

struct backend_try {
    const struct stp_transport *transport;
    struct stp_machine_options machine;
    struct stp_run_options run;
    bool is_json;
};

static int backend_refuse(const struct backend_try *t, const char *why,
                          const char *todo)
{
    struct stp_diagnosis diagnosis = {.n = 0};

    stp_diagnose(&diagnosis, STP_SYMPTOM_PROBLEM, why, todo,
                 "%s does not work here", t->transport->backend);
    return stp_doctor_print(&diagnosis, t->is_json);
}

/* ---- in each rank ---- */

struct backend_result {
    struct stp_device_info info;
    uint64_t n_checked; /* all-reduces */
    uint64_t n_wrong;   /* elements */
};

/* Runs all-reduces of every size, for a moment each; all ranks stop after the
 * same, since rank 0 says when. */
static enum stp_status backend_run(const struct backend_try *t,
                                   const struct stp_world *world,
                                   struct backend_result *r,
                                   struct stp_error *err)
{
    const struct stp_open_options open = {.machine = &t->machine,
                                          .run = &t->run,
                                          .world = world,
                                          .max_bytes = sizes[N_SIZES - 1]};
    struct stp_device device;
    enum stp_status status = STP_OK;

    STP_TRY(stp_open(&open, &device, err));
    stp_device_get_info(&device, &r->info);
    for (size_t i = 0; i < N_SIZES && status == STP_OK; i++) {
        const struct stp_collective collective = {.coll = ncclFuncAllReduce,
                                                  .n_bytes = sizes[i],
                                                  .type = STP_TYPE_F32,
                                                  .op = STP_OP_SUM};
        const int64_t begin_ms = stp_now_ms();
        bool is_over = false;

        while (status == STP_OK && !is_over) {
            struct stp_found found = {0};

            status = stp_device_check(&device, &collective, r->n_checked++,
                                      false, &found, err);
            r->n_wrong += found.n_wrong;
            STP_THEN(status,
                     stp_world_any(world,
                                   world->rank == 0 &&
                                       stp_now_ms() - begin_ms >= EACH_MS,
                                   &is_over, err));
        }
    }
    stp_device_close(&device);
    return status;
}

static int backend_body(void *user, const struct stp_world *world)
{
    const struct backend_try *t = user;
    struct stp_diagnosis diagnosis = {.n = 0};
    struct backend_result r = {.n_checked = 0};
    struct stp_error err = {0};
    const enum stp_status status = backend_run(t, world, &r, &err);

    if (world->rank != 0)
        return status == STP_OK && r.n_wrong == 0 ? STP_EXIT_OK
                                                  : STP_EXIT_FAILED;
    if (status != STP_OK)
        return backend_refuse(t, err.text, NULL);
    stp_diagnose(
        &diagnosis, r.n_wrong == 0 ? STP_SYMPTOM_OK : STP_SYMPTOM_PROBLEM,
        r.n_wrong == 0 ? NULL : "its results cannot be relied upon", NULL,
        "%s %s: %u ranks on %s, %" PRIu64
        " all-reduces of 8 bytes to 4 MiB, %" PRIu64 " wrong elements",
        t->transport->backend, r.n_wrong == 0 ? "works" : "computes wrongly",
        r.info.n_ranks, r.info.processor, r.n_checked, r.n_wrong);
    return stp_doctor_print(&diagnosis, t->is_json);
}

/* ---- the command ---- */

int stp_doctor_backend(const char *backend, bool is_json)
{
    const struct stp_transport *found = stp_transports;
    struct backend_try t = {.is_json = is_json};
    char path[STP_CLI_PATH];
    char why[STP_SYMPTOM_TEXT];
    char todo[STP_SYMPTOM_TEXT];
    struct stp_error err;

    while (strcmp(found->backend, backend) != 0)
        found++;
    t.transport = found;
    t.run = (struct stp_run_options){.backend = found->backend,
                                     .time_limit_s = TIME_LIMIT_S,
                                     .procs = {N_RANKS},
                                     .n_procs = 1};
    snprintf(todo, sizeof(todo), "install %s, and build Steptune again",
             found->needs);
    if (stp_find_module(found->module, path, &err) != STP_OK) {
        snprintf(why, sizeof(why),
                 "there is no steptune-%s.so beside this program",
                 found->module);
        return backend_refuse(&t, why, todo);
    }
    return stp_launch(&t.machine, &t.run, backend_body, &t);
}
