/*
 * mock_engine.h - what the parts of the engine in virtual time share
 */
#ifndef STP_MOCK_ENGINE_H
#define STP_MOCK_ENGINE_H

#include "device/mock/engine_mock.h"
#include "device/mock/mock_program.h"

/* libnccl, and a communicator of it. */
struct stp_mock_library {
    struct mock_nccl *nccl;
    struct mock_comm *comm;
};

/* What a note is to a trace. */
struct stp_mock_label {
    char name[STP_SPAN_NAME]; /* set while there is a trace */
    struct stp_part range;
};

struct stp_mock_engine {
    struct mock_machine *machine;
    struct stp_mock_library own; /* NCCL without a tuner, or for measuring with
                                    the one that forces arms */
    struct stp_mock_library plugin; /* empty if there is none */
    bool use_plugin;
    struct stp_engine_info info;
    uint64_t memory; /* bytes of a GPU; UINT64_MAX: not known */
    uint64_t taken;
    struct stp_mock_program program;
    struct stp_virtual_time time;
    struct stp_mock_compute *computes; /* of what was noted; of collectives 0 */
    struct stp_mock_label *labels;     /* one each */
    size_t n_noted;
    size_t capacity;
    bool traces;
    struct stp_spans spans;
    struct stp_ranges ranges;
};

/* Loads the machine, connects mock NCCL, and fills in what the options are for.
 * On failure what is in *e is for stp_mock_engine_clear(). */
enum stp_status
stp_mock_engine_set_up(struct stp_mock_engine *e,
                       const struct stp_engine_mock_options *options,
                       struct stp_error *err);

/* Closes what it opened. */
void stp_mock_engine_clear(struct stp_mock_engine *e);

#endif /* STP_MOCK_ENGINE_H */
