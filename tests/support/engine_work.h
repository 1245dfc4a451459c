// Work that tests note by an engine's table.
#pragma once

extern "C" {
#include "device/engine.h"
}

inline stp_work WorkOf(const stp_transfer &transfer)
{
    stp_work work{};
    work.kind = STP_WORK_TRANSFER;
    work.as.transfer = transfer;
    return work;
}

inline stp_work WorkOf(const stp_product &product)
{
    stp_work work{};
    work.kind = STP_WORK_PRODUCT;
    work.as.product = product;
    return work;
}

inline stp_work WorkOf(const stp_cross_entropy &loss)
{
    stp_work work{};
    work.kind = STP_WORK_CROSS_ENTROPY;
    work.as.cross_entropy = loss;
    return work;
}

inline stp_work WorkOf(const stp_update &update)
{
    stp_work work{};
    work.kind = STP_WORK_UPDATE;
    work.as.update = update;
    return work;
}

inline stp_work WorkOf(const stp_kernel &kernel)
{
    stp_work work{};
    work.kind = STP_WORK_KERNEL;
    work.as.kernel = kernel;
    return work;
}

template <typename Arguments>
stp_status NoteIn(const stp_engine &engine, unsigned stream,
                  const Arguments &arguments, stp_error *err)
{
    stp_work work = WorkOf(arguments);
    work.stream = stream;
    return engine.ops->note(engine.self, &work, err);
}
