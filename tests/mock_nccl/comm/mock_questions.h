// The questions that mock NCCL asks a tuner, which changes nothing.
#pragma once

#include <gmock/gmock.h>

#include "support/mock_script.h"

namespace mock_test
{

struct Question {
    ncclFunc_t coll;
    size_t n_bytes;
    int n_pipe_ops;
    int reg_buff;
    bool has_choice; // something in the table is not ruled out

    bool operator==(const Question &o) const
    {
        return coll == o.coll && n_bytes == o.n_bytes &&
               n_pipe_ops == o.n_pipe_ops && reg_buff == o.reg_buff &&
               has_choice == o.has_choice;
    }
};

inline void PrintTo(const Question &q, std::ostream *out)
{
    *out << kColls[q.coll] << " " << q.n_bytes << " pipe " << q.n_pipe_ops
         << " reg " << q.reg_buff << (q.has_choice ? "" : " no choice");
}

// Collects them during its lifetime; 'result' is the answer.
struct Questions {
    std::vector<Question> all;
    ncclResult_t result = ncclSuccess;

    Questions()
    {
        on_ask = [this](const Asked &asked) {
            bool has_choice = false;
            for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
                for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
                    has_choice |= asked.table[a][p] >= 0;
            all.push_back({asked.coll, asked.n_bytes, asked.n_pipe_ops,
                           asked.reg_buff, has_choice});
            return result;
        };
    }
    Questions(const Questions &) = delete;
    ~Questions()
    {
        on_ask = nullptr;
    }
};

} // namespace mock_test
