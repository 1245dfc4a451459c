// How ranks that may not decide are told why.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/with_param.h"

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
constexpr int kBuild = STP_FINGERPRINT_BUILD;

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
    {"build", 2, {{0, {}, false}, {1, {STP_FINGERPRINT_BUILD, kPolicy}, false}}, 0,
     "rank 1 has another Steptune plugin or release than this rank"},
    {"below", 2, {{0, {}, false}, {1, {STP_FINGERPRINT_LOWER, kPolicy}, false}}, 0,
     "rank 1 has another tuner below Steptune's than this rank "
     "(STEPTUNE_CHAIN, libnccl-tuner.so, NCCL_NET_PLUGIN; each rank's log "
     "names it)"},
    {"settings", 2, {{0, {}, false}, {1, {STP_FINGERPRINT_SETTINGS}, false}}, 0,
     "rank 1 has other settings than this rank (STEPTUNE_AGREE, "
     "STEPTUNE_FREEZE, STEPTUNE_STRATEGY; where hosts learn, also "
     "STEPTUNE_ARMS, STEPTUNE_BITS, STEPTUNE_EVIDENCE, NCCL_ALGO, NCCL_PROTO "
     "and the profiler)"},
    {"several_inactive", 3, {{0, {}, false}, {1, {kFile}, true}, {2, {kFile}, true}}, 0,
     "ranks 1 and 2 have no policy in force (their logs say why)"},
    {"several_gpus", 3, {{0, {}, false}, {1, {kPolicy}, false}, {2, {kPolicy}, false}}, 0,
     "ranks 1 and 2 see another GPU model than this rank (STEPTUNE_GPU, or the "
     "driver), which selects other rules of the same policy"},
    {"the_smallest_of_many", 11,
     {{0, {}, false}, {90, {kBuild}, false}, {80, {kBuild}, false},
      {70, {kBuild}, false}, {60, {kBuild}, false}, {50, {kBuild}, false},
      {40, {kBuild}, false}, {30, {kBuild}, false}, {20, {kBuild}, false},
      {95, {kBuild}, false}, {10, {kBuild}, false}}, 0,
     "ranks 10, 20, 30, 40, 50, 60, 70 and 3 more have other Steptune plugins or releases than this rank"},
    {"too_late", 2, {{0, {}, false}, {1, {}, false}}, 0, "a rank joined too late"},
    {"no_numbers", 2, {{-1, {}, false}, {-1, {kBuild}, false}}, 0,
     "process PID has another Steptune plugin or release than this rank"},
    {"the_first_has_no_number", 3, {{-1, {}, false}, {1, {kBuild}, false}, {2, {}, false}}, 0,
     "process PID has another Steptune plugin or release than this rank"},
    {"the_last_has_no_number", 3, {{0, {}, false}, {1, {kBuild}, false}, {-1, {}, false}}, 0,
     "process PID has another Steptune plugin or release than this rank"},
    {"only_the_first_differs", 3, {{0, {kBuild}, false}, {1, {}, false}, {2, {}, false}}, 2,
     "rank 0 has another Steptune plugin or release than this rank"},
    {"only_the_file_differs", 2, {{0, {}, false}, {1, {kFile}, false}}, 0,
     "a rank joined too late"},
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
                         CaseName());

TEST(IdentitiesText, IsCutToTheRoomThereIs)
{
    const struct {
        size_t room;
        std::string text; // with what stands around it
    } cases[] = {
        {12, std::string("<ranks 0, 1,\0>>>", 16)},
        {6, std::string("<ranks\0>>>>>>>>>", 16)},
        {1, std::string("<\0>>>>>>>>>>>>>>", 16)},
        {0, "<>>>>>>>>>>>>>>>"},
    };
    std::vector<stp_identity> none(4);

    for (const auto &c : cases) {
        std::string text = "<>>>>>>>>>>>>>>>";
        stp_identities_explain(none.data(), 4, 4, 0, &text[1], c.room);
        EXPECT_EQ(c.text, text) << c.room;
    }
}

TEST(IdentitiesText, NamesAProcessOnceHoweverManyRanksItHas)
{
    const struct {
        std::vector<int> pids; // of ranks that differ from one before them
        const char *text;
    } cases[] = {
        {{5, 5, 5}, "process 5 has"},
        {{5, 5, 6}, "processes 5 and 6 have"},
        {{5, 6, 5}, "processes 5 and 6 have"},
        {{6, 5, 5}, "processes 5 and 6 have"},
        {{7, 6, 5}, "processes 5, 6 and 7 have"},
    };

    for (const auto &c : cases) {
        std::vector<stp_identity> all(1 + c.pids.size());
        stp_agreement_rank rank{};
        char text[512];
        rank.number = -1;
        stp_identity_write(&all[0], &rank);
        rank.fingerprint.part[kBuild] = 1;
        for (size_t i = 1; i < all.size(); i++) {
            stp_identity_write(&all[i], &rank);
            all[i].pid = c.pids[i - 1];
        }

        stp_identities_explain(all.data(), all.size(), all.size(), 0, text,
                               sizeof(text));

        EXPECT_EQ(c.text, std::string(text).substr(0, strlen(c.text)));
    }
}

// One of two ranks has joined; the row behind theirs belongs to neither.
TEST(IdentitiesText, IsOfNoRowBehindThoseOfTheRanks)
{
    const struct {
        int number;
        uint64_t build;
    } behind[] = {{1, 0}, {-1, 0}, {1, 1}};

    for (const auto &b : behind) {
        std::vector<stp_identity> all(3);
        stp_agreement_rank rank{};
        char text[512];
        stp_identity_write(&all[0], &rank);
        rank.number = b.number;
        rank.fingerprint.part[kBuild] = b.build;
        stp_identity_write(&all[2], &rank);

        stp_identities_explain(all.data(), 2, 2, 0, text, sizeof(text));

        EXPECT_STREQ("rank 1 did not join on this host (no Steptune plugin, "
                     "another user or /dev/shm, or as the rank's log says)",
                     text);
        EXPECT_TRUE(stp_identities_are_equal(all.data(), 2));
    }
}

TEST(IdentitiesText, CountsOnlyWhoIsNeeded)
{
    std::vector<stp_identity> all(4);
    stp_agreement_rank rank{};
    char text[512];

    stp_identity_write(&all[0], &rank);
    stp_identities_explain(all.data(), 4, 3, 0, text, sizeof(text));

    EXPECT_STREQ("2 of 3 ranks did not join on this host (no Steptune plugin, "
                 "another user or /dev/shm, or as the rank's log says)",
                 text);
}

TEST(IdentitiesOfRanks, AreEqualWhereNobodyDiffersWhoCame)
{
    const struct {
        const char *name;
        std::vector<int> came; // by place: -1 did not, else what it holds
        bool are_equal;
    } cases[] = {
        {"nobody", {-1, -1, -1}, true},
        {"one", {-1, 5, -1}, true},
        {"alike", {-1, 5, 5}, true},
        {"the last differs", {-1, 5, 6}, false},
        {"the first differs", {4, 5, 5}, false},
    };

    for (const auto &c : cases) {
        std::vector<stp_identity> all(c.came.size());
        for (size_t i = 0; i < all.size(); i++) {
            stp_agreement_rank rank{};
            if (c.came[i] < 0)
                continue;
            rank.fingerprint.part[kBuild] = static_cast<uint64_t>(c.came[i]);
            stp_identity_write(&all[i], &rank);
        }
        EXPECT_EQ(c.are_equal, stp_identities_are_equal(all.data(), all.size()))
            << c.name;
    }
}

// ---- hosts ----

// Host "a"'s text for 'n' rows, one a host; the hosts from 'first' on hold
// another policy, or none.
std::string OfHosts(size_t n, size_t first, bool is_inactive, size_t n_ranks)
{
    std::vector<stp_host_row> rows(n);
    char text[512];
    for (size_t i = 0; i < n; i++) {
        stp_agreement_rank rank{};
        rank.fingerprint.part[kPolicy] = 7;
        rank.fingerprint.part[kFile] = 7;
        if (i >= first) {
            rank.fingerprint.part[kPolicy] = is_inactive ? 0 : 8;
            rank.fingerprint.part[kFile] = 8;
        }
        stp_identity_write(&rows[i].identity, &rank);
        rows[i].n_ranks = 2;
        rows[i].name[0] = static_cast<char>('a' + i);
    }
    stp_hosts_explain(rows.data(), n, &rows[0].identity, n_ranks, "the store",
                      text, sizeof(text));
    return text;
}

TEST(HostsText, ListsAtMostEight)
{
    const struct {
        size_t n, first;
        bool is_inactive;
        const char *text;
    } cases[] = {
        {2, 1, true, "host b has no policy in force (its log says why)"},
        {3, 1, true,
         "hosts b and c have no policy in force (their logs say why)"},
        {9, 1, true,
         "hosts b, c, d, e, f, g, h and i have no policy in force (their logs "
         "say why)"},
        {10, 1, true,
         "hosts b, c, d, e, f, g, h and 2 more have no policy in force (their "
         "logs say why)"},
        {2, 1, false,
         "host b holds another policy than this rank (NCCL_TUNER_CONFIG_FILE, "
         "NCCL_WORKLOAD_OVERLAP; each rank's log shows path and hash)"},
    };

    for (const auto &c : cases)
        EXPECT_EQ(c.text, OfHosts(c.n, c.first, c.is_inactive, 2 * c.n));
}

TEST(HostsText, SaysHowManyRanksTheStoreKnows)
{
    EXPECT_EQ("the store knows of 4 of 6 ranks, of hosts a and b: the others "
              "have no Steptune plugin, or another STEPTUNE_AGREE or "
              "TORCHELASTIC_RUN_ID, or came after STEPTUNE_AGREE_TIMEOUT",
              OfHosts(2, 2, false, 6));
    EXPECT_EQ("hosts a and b hold the same, but one of them could not confirm "
              "it in time",
              OfHosts(2, 2, false, 4));
    EXPECT_EQ("hosts a, b, c, d, e, f, g and 5 more hold the same, but one of "
              "them could not confirm it in time",
              OfHosts(12, 12, false, 24));
    EXPECT_EQ("the store knows of 2 of 3 ranks, of host a: the others have no "
              "Steptune plugin, or another STEPTUNE_AGREE or "
              "TORCHELASTIC_RUN_ID, or came after STEPTUNE_AGREE_TIMEOUT",
              OfHosts(1, 1, false, 3));
}

TEST(HostsText, SaysInWhatTheFirstDiffersFromTheOthers)
{
    const struct {
        std::vector<int> parts;
        const char *text;
    } cases[] = {
        {{kBuild, kPolicy},
         "host a has another Steptune plugin or release than this rank"},
        {{kPolicy},
         "host a sees another GPU model than this rank (STEPTUNE_GPU, or the "
         "driver), which selects other rules of the same policy"},
        {{kFile},
         "hosts a, b and c hold the same, but one of them could not confirm it "
         "in time"},
    };

    for (const auto &c : cases) {
        std::vector<stp_host_row> rows(3);
        stp_agreement_rank rank{};
        char text[512];
        for (size_t i = rows.size(); i-- > 0;) {
            if (i == 0)
                for (int part : c.parts)
                    rank.fingerprint.part[part] = 7;
            stp_identity_write(&rows[i].identity, &rank);
            rows[i].name[0] = static_cast<char>('a' + i);
        }

        stp_hosts_explain(rows.data(), 3, &rows[2].identity, 0, "the store",
                          text, sizeof(text));
        EXPECT_STREQ(c.text, text);
    }
}

// Ranks of a host that differ joined one after another, so its rows are apart.
TEST(HostsText, NamesAHostOnceHoweverManyRowsItHas)
{
    std::vector<stp_host_row> rows(4);
    stp_agreement_rank rank{};
    char text[512];

    for (size_t i = 0; i < rows.size(); i++) {
        rank.fingerprint.part[kBuild] = i;
        stp_identity_write(&rows[i].identity, &rank);
        strcpy(rows[i].name, i % 2 == 0 ? "node-0" : "node-1");
    }

    stp_hosts_explain(rows.data(), 4, &rows[0].identity, 4, "the store", text,
                      sizeof(text));
    EXPECT_STREQ("hosts node-0 and node-1 have other Steptune plugins or "
                 "releases than this rank",
                 text);
    stp_hosts_explain(rows.data(), 2, &rows[0].identity, 2, "the store", text,
                      sizeof(text));
    EXPECT_STREQ(
        "host node-1 has another Steptune plugin or release than this rank",
        text);
}

} // namespace
