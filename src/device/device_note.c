/* device_note.c - work that is noted on all ranks */
#include "device/engine.h"

enum stp_status stp_device_collective(const struct stp_device *device,
                                      unsigned stream,
                                      const struct stp_collective *collective,
                                      struct stp_error *err)
{
    const struct stp_work work = {.kind = STP_WORK_COLLECTIVE,
                                  .stream = stream,
                                  .collective = *collective};

    return stp_device_note(device, &work, err);
}

enum stp_status stp_device_gemm(const struct stp_device *device,
                                unsigned stream, const struct stp_gemm *gemm,
                                struct stp_error *err)
{
    const struct stp_work work = {
        .kind = STP_WORK_GEMM, .stream = stream, .gemm = *gemm};

    return stp_device_note(device, &work, err);
}

enum stp_status stp_device_elementwise(const struct stp_device *device,
                                       unsigned stream, uint64_t n_bytes,
                                       struct stp_error *err)
{
    const struct stp_work work = {
        .kind = STP_WORK_ELEMENTWISE, .stream = stream, .n_bytes = n_bytes};

    return stp_device_note(device, &work, err);
}

enum stp_status stp_device_group(const struct stp_device *device, bool begin,
                                 struct stp_error *err)
{
    const struct stp_work work = {.kind = begin ? STP_WORK_GROUP_BEGIN
                                                : STP_WORK_GROUP_END};

    return stp_device_note(device, &work, err);
}

enum stp_status stp_device_record(const struct stp_device *device,
                                  unsigned stream, unsigned event,
                                  struct stp_error *err)
{
    const struct stp_work work = {
        .kind = STP_WORK_RECORD, .stream = stream, .event = event};

    return stp_device_note(device, &work, err);
}

enum stp_status stp_device_wait(const struct stp_device *device,
                                unsigned stream, unsigned event,
                                struct stp_error *err)
{
    const struct stp_work work = {
        .kind = STP_WORK_WAIT, .stream = stream, .event = event};

    return stp_device_note(device, &work, err);
}
