// Journals made of a few words, for tests of what they come to.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "support/owned.h"

extern "C" {
#include "report/learning/learning.h"
}

namespace journals
{

const std::string kHead =
    "t_us,comm,nNodes,nRanks,event,call,collective,min_bytes,max_bytes,"
    "algorithm,protocol,channels,value,gain,gain_low,gain_high\n";

// A line of an all-gather of 4 MiB on 4 ranks, with an arm such as "ring,ll,0"
// and a rest such as "8,1.1,1.05,1.15".
inline std::string Line(unsigned call, const std::string &event,
                        const std::string &arm, const std::string &rest,
                        const char *comm = "1")
{
    return std::to_string(1000 * call) + "," + comm + ",1,4," + event + "," +
           std::to_string(call) + ",allgather,4194304,5242879," + arm + "," +
           rest + "\n";
}

const std::string kOwn = "auto,auto,";
const std::string kRing = "ring,ll128,24";
const std::string kNoGain = "0,,,";

inline std::string Trial(unsigned call, const std::string &arm)
{
    return Line(call, "trial", arm, kNoGain);
}

inline std::string Reward(unsigned call, const std::string &arm, double us)
{
    return Line(call, "reward", arm, std::to_string(us) + ",,,");
}

inline std::string Settled(unsigned call, const std::string &arm)
{
    return Line(call, "settled", arm,
                arm == kOwn ? "0,1,1,1" : "0,1.4,1.3,1.5");
}

// The learning that a journal of these lines yields, with a head or without.
class Learning
{
  public:
    explicit Learning(const std::string &text)
    {
        const std::string all =
            text.rfind("t_us,", 0) == 0 ? text : kHead + text;
        stp_error err{};

        EXPECT_EQ(STP_OK,
                  stp_journal_read(all.data(), all.size(), 0, &lines, &err))
            << err.line << ": " << err.text;
        stp_learning_sum(&lines, &sum);
    }

    Owned<stp_journal_lines, stp_journal_free> lines;
    Owned<stp_learning, stp_learning_free> sum;
};

} // namespace journals
