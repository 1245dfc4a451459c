// Notes that a rank takes of a call, in the form in which a learner gets them.
#pragma once

#include <cstdint>

extern "C" {
#include "core/learn/learner.h"
}

namespace learner_notes
{

inline stp_note Make(stp_note_kind kind, unsigned key, unsigned arm,
                     uint64_t call, uint32_t n_calls, uint8_t n_blocks,
                     uint64_t t_ns)
{
    stp_note note{};

    note.kind = kind;
    note.key = uint8_t(key);
    note.arm = uint8_t(arm);
    note.call = call;
    note.n_calls = n_calls;
    note.n_blocks = n_blocks;
    note.t_ns = t_ns;
    return note;
}

} // namespace learner_notes
