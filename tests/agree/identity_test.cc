// How ranks that may not decide are told why.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

extern "C" {
#include "agree/identity.h"
}

namespace
{

// A rank that joined: its number, and the parts of its fingerprint in which it
// differs from the first.
struct Joined {
    int number;
    std::vector<int> differs;
    bool is_inactive;
};

struct Case {
    const char *name;
    size_t n;
    std::vector<Joined> joined;
    size_t own;
    const char *text;
};

class Identities : public testing::TestWithParam<Case>
{
  protected:
    static std::vector<stp_identity> Fill(const Case &c)
    {
        std::vector<stp_identity> all(c.n);
        for (size_t i = 0; i < c.joined.size(); i++) {
            stp_agreement_rank rank{};
            rank.number = c.joined[i].number;
            rank.fingerprint.part[STP_FINGERPRINT_POLICY] = 7;
            for (int part : c.joined[i].differs)
                rank.fingerprint.part[part] += 1;
            if (c.joined[i].is_inactive)
                rank.fingerprint.part[STP_FINGERPRINT_POLICY] = 0;
            stp_identity_write(&all[i], &rank);
        }
        return all;
    }
};

TEST_P(Identities, SayWhoDiffersAndInWhat)
{
    const Case &c = GetParam();
    const std::vector<stp_identity> all = Fill(c);
    char text[512];

    stp_identities_explain(all.data(), c.n, c.n, c.own, text, sizeof(text));

    std::string expected = c.text;
    const size_t at = expected.find("PID");
    if (at != std::string::npos)
        expected.replace(at, 3, std::to_string(getpid()));
    EXPECT_EQ(expected, text);
}

constexpr int kPolicy = STP_FINGERPRINT_POLICY;
constexpr int kFile = STP_FINGERPRINT_FILE;
constexpr int kConstants = STP_FINGERPRINT_CONSTANTS;

// clang-format off
const Case kCases[] = {
    {"policy", 3, {{0, {}, false}, {1, {}, false}, {2, {kPolicy, kFile}, false}}, 0,
     "rank 2 holds another policy than this rank (NCCL_TUNER_CONFIG_FILE, "
     "NCCL_WORKLOAD_OVERLAP; each rank's log shows path and hash)"},
    {"seen_by_the_odd_one", 3, {{0, {}, false}, {1, {}, false}, {2, {kPolicy, kFile}, false}}, 2,
     "ranks 0 and 1 hold other policies than this rank "
     "(NCCL_TUNER_CONFIG_FILE, NCCL_WORKLOAD_OVERLAP; each rank's log shows "
     "path and hash)"},
    {"gpu", 2, {{0, {}, false}, {1, {kPolicy}, false}}, 0,
     "rank 1 sees another GPU model than this rank (STEPTUNE_GPU, or the "
     "driver), which selects other rules of the same policy"},
    {"inactive", 2, {{0, {}, false}, {1, {kFile}, true}}, 0,
     "rank 1 has no policy in force (its log says why)"},
    {"constants", 2, {{0, {}, false}, {1, {kConstants}, false}}, 0,
     "rank 1 sets other constants than this rank (STEPTUNE_CONSTANTS_FILE; "
     "each rank's log shows path and hash)"},
    {"build", 2, {{0, {}, false}, {1, {STP_FINGERPRINT_BUILD, kPolicy}, false}}, 0,
     "rank 1 has another Steptune plugin or release than this rank"},
    {"settings", 2, {{0, {}, false}, {1, {STP_FINGERPRINT_SETTINGS}, false}}, 0,
     "rank 1 has other settings than this rank (STEPTUNE_AGREE, "
     "STEPTUNE_FREEZE, STEPTUNE_STRATEGY)"},
    {"no_numbers", 2, {{-1, {}, false}, {-1, {kConstants}, false}}, 0,
     "process PID sets other constants than this rank "
     "(STEPTUNE_CONSTANTS_FILE; each rank's log shows path and hash)"},
    {"missing", 4, {{0, {}, false}, {1, {}, false}, {3, {}, false}}, 0,
     "rank 2 did not join on this host (no Steptune plugin, another user or "
     "/dev/shm, or as the rank's log says)"},
    {"missing_without_numbers", 4, {{-1, {}, false}, {-1, {}, false}}, 0,
     "2 of 4 ranks did not join on this host (no Steptune plugin, another user "
     "or /dev/shm, or as the rank's log says)"},
    {"many_missing", 16, {{0, {}, false}}, 0,
     "ranks 1, 2, 3, 4, 5, 6, 7 and 8 more did not join on this host (no "
     "Steptune plugin, another user or /dev/shm, or as the rank's log says)"},
    {"eight_missing", 9, {{4, {}, false}}, 0,
     "ranks 0, 1, 2, 3, 5, 6, 7 and 8 did not join on this host (no Steptune "
     "plugin, another user or /dev/shm, or as the rank's log says)"},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Table, Identities, testing::ValuesIn(kCases),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

TEST(IdentitiesText, IsCutToTheRoomThereIs)
{
    std::vector<stp_identity> none(4);
    char text[12] = "";

    stp_identities_explain(none.data(), 4, 4, 0, text, sizeof(text));

    EXPECT_STREQ("ranks 0, 1,", text);
}

} // namespace
