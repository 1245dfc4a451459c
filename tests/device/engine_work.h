// Work that tests note by an engine's table.
#pragma once

extern "C" {
#include "device/engine.h"
}

#define ENGINE_WORK(of_kind, member)                                           \
    inline stp_work WorkOf(const decltype(stp_work{}.as.member) & arguments)   \
    {                                                                          \
        stp_work work{};                                                       \
        work.kind = STP_WORK_##of_kind;                                        \
        work.as.member = arguments;                                            \
        return work;                                                           \
    }
ENGINE_WORK(TRANSFER, transfer)
ENGINE_WORK(PRODUCT, product)
ENGINE_WORK(CROSS_ENTROPY, cross_entropy)
ENGINE_WORK(UPDATE, update)
ENGINE_WORK(KERNEL, kernel)
#undef ENGINE_WORK

template <typename Arguments>
stp_status NoteIn(const stp_engine &engine, unsigned stream,
                  const Arguments &arguments, stp_error *err)
{
    stp_work work = WorkOf(arguments);
    work.stream = stream;
    return engine.ops->note(engine.self, &work, err);
}
