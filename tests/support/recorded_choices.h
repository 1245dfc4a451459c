// Mock NCCL against what a real one was recorded to do.
#pragma once

#include <string>

// Expects every row of a file in a machine's folder to come out of mock
// NCCL: the 21 entries of the cost table as printed, algorithm, protocol and
// the channels of each collective of a group.  Returns the number of rows.
//
//   collective,bytes   as a tuner is asked, the sum of a group
//   group_ops          as many equal collectives in one group
//   type               f32, bf16 or i8; bf16 without this column
//   numPipeOps,regBuff
//   cost_ALGORITHM_PROTOCOL
//                      microseconds, with three decimals or (%.9g) all
//   forced,asked       entry of the table that a tuner then set to 0, -1 for
//                      none, and the channels that it asked for; without these
//                      columns there was no tuner that decided anything
//   algo,proto,channels
//                      what NCCL then ran; of a group "3+4+3"
int ExpectChoices(const std::string &folder,
                  const std::string &file = "choices.csv");

// The same for a file with the columns of a trace: collective, bytes, type,
// group and expect (ALGORITHM/PROTOCOL/CHANNELS).  Returns the number of
// groups.
int ExpectGroups(const std::string &folder, const std::string &file);
