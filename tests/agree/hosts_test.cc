// Hosts follow their rules all together or not at all: whatever they hold,
// whoever comes, and whenever the store fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "agree/meeting_hosts.h"
#include "support/store_thread.h"

namespace
{

using namespace meeting_hosts;
using namespace store_thread;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

size_t CountRanks(const std::vector<std::vector<uint64_t>> &policies)
{
    size_t n = 0;
    for (const auto &host : policies)
        n += host.size();
    return n;
}

// ---- all come ----

struct Case {
    const char *name;
    std::vector<std::vector<uint64_t>> policies; // of ranks, by host
    bool follow;
    std::vector<std::string> texts; // of each host's first rank, to begin with
};

void PrintTo(const Case &c, std::ostream *out)
{
    *out << c.name;
}

class AllCome : public testing::TestWithParam<Case>
{
};

TEST_P(AllCome, AndFollowIfAllHoldTheSame)
{
    const Case &c = GetParam();
    StoreThread store;
    Hosts hosts =
        Start({store.port(), NewId(), CountRanks(c.policies)}, c.policies);

    for (size_t i = 0; i < hosts.size(); i++) {
        EXPECT_EQ(c.follow, hosts[i]->Follows()) << i;
        if (!c.follow) {
            EXPECT_THAT(hosts[i]->Explain(), StartsWith(c.texts[i])) << i;
        }
    }
}

// clang-format off
const Case kCases[] = {
    {"two_hosts", {{7}, {7}}, true, {}},
    {"uneven_hosts", {{7, 7, 7}, {7}, {7, 7}}, true, {}},
    {"many_hosts", std::vector<std::vector<uint64_t>>(16, {7, 7, 7, 7}), true, {}},
    {"nobody_has_a_policy", {{0}, {0}}, true, {}},
    {"two_differ", {{7}, {8}}, false,
     {"host b holds another policy than this rank (NCCL_TUNER_CONFIG_FILE",
      "host a holds another policy than this rank (NCCL_TUNER_CONFIG_FILE"}},
    {"one_of_four_differs", {{7, 7}, {7}, {8}, {7}}, false,
     {"host c holds another policy", "host c holds another policy",
      "hosts a, b and d hold other policies", "host c holds another policy"}},
    {"one_has_none", {{7, 7}, {0, 0}}, false,
     {"host b has no policy in force", "host a holds another policy"}},
    {"a_rank_differs_from_its_host", {{7}, {7, 8}, {7}}, false,
     {"host b holds another policy", "process ", "host b holds another policy"}},
    {"a_rank_of_its_host_has_none", {{7, 0}, {7, 7}}, false,
     {"process ", "host a has no policy in force"}},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Hosts, AllCome, testing::ValuesIn(kCases),
                         [](const auto &row) { return row.param.name; });

// ---- some do not ----

TEST(HostsThatDoNotCome, MakeTheOthersStepAside)
{
    StoreThread store;
    const Place place{store.port(), NewId(), 2, "none", kShortMs};
    Host alone(place, "a", {7});

    EXPECT_FALSE(alone.Follows());
    EXPECT_THAT(alone.Explain(),
                AllOf(StartsWith("the store at 127.0.0.1 port " +
                                 std::to_string(store.port()) +
                                 " knows of 1 of 2 ranks, of host a: "),
                      HasSubstr("STEPTUNE_AGREE_TIMEOUT")));
}

TEST(HostsThatDoNotCome, AreFoundMissingByTheFirstWhoseTimeIsOver)
{
    StoreThread store;
    const uint64_t id = NewId();
    Host patient({store.port(), id, 3}, "a", {7});
    store.Await(STP_ADD, "arrived", 2); // it has come, and looks for others
    Host other({store.port(), id, 3, "none", kShortMs}, "b", {7});

    for (Host *host : {&patient, &other}) {
        EXPECT_FALSE(host->Follows());
        EXPECT_THAT(host->Explain(),
                    HasSubstr("knows of 2 of 3 ranks, of hosts a and b: "));
    }
    Host late({store.port(), id, 3}, "c", {7});
    EXPECT_FALSE(late.Follows());
    EXPECT_THAT(late.Explain(), HasSubstr("hosts a, b and c hold the same, but "
                                          "one of them could not confirm"));
}

TEST(HostsThatDoNotCome, NeedNotBeAwaitedOnceTheCommunicatorIsGone)
{
    StoreThread store;
    auto host = std::make_unique<Host>(Place{store.port(), NewId(), 2}, "a",
                                       std::vector<uint64_t>{7});
    store.Await(STP_ADD, "arrived", 2);
    host->AwaitSpeech(); // returns long before the time limit
    EXPECT_FALSE(host->Follows());
}

TEST(HostsWithoutAStore, StepAside)
{
    unsigned port;
    const int deaf = Listen(&port, false);
    Host host({port, NewId(), 2}, "a", {7});

    EXPECT_FALSE(host.Follows());
    EXPECT_EQ("the store at 127.0.0.1 port " + std::to_string(port) +
                  ", where hosts compare what they hold, cannot be used: "
                  "Connection refused (STEPTUNE_AGREE=shm compares within "
                  "hosts only)",
              host.Explain());
    close(deaf);
}

TEST(HostsWithAStoreThatIsSilent, StepAside)
{
    unsigned port;
    const int silent = Listen(&port); // connections wait for ever
    Host host({port, NewId(), 2, "none", kShortMs}, "a", {7});

    EXPECT_FALSE(host.Follows());
    EXPECT_THAT(host.Explain(), HasSubstr("cannot be used: the store does not "
                                          "answer: Connection timed out"));
    close(silent);
}

TEST(HostsWithAStoreThatDiesWhileTheyWait, SayWhatHappenedFirst)
{
    StoreThread store({STP_ADD, "arrived", 3});
    Host host({store.port(), NewId(), 2}, "a", {7});

    EXPECT_FALSE(host.Follows());
    EXPECT_EQ("the store at 127.0.0.1 port " + std::to_string(store.port()) +
                  ", where hosts compare what they hold, was lost: the store "
                  "does not answer: Connection reset by peer "
                  "(STEPTUNE_AGREE=shm compares within hosts only)",
              host.Explain());
}

// ---- several at once ----

TEST(Communicators, OnOneStoreDoNotMeet)
{
    StoreThread store;
    Hosts same = Start({store.port(), NewId(), 2}, {{7}, {7}});
    Hosts other = Start({store.port(), NewId(), 2}, {{7}, {8}});
    Hosts more = Start({store.port(), NewId(), 3}, {{8}, {8, 8}});

    for (size_t i = 0; i < 2; i++) {
        EXPECT_TRUE(same[i]->Follows());
        EXPECT_FALSE(other[i]->Follows());
        EXPECT_TRUE(more[i]->Follows());
    }
}

TEST(Jobs, OnOneStoreDoNotMeet)
{
    StoreThread store;
    const uint64_t id = NewId();
    Hosts one = Start({store.port(), id, 2, "one"}, {{7}, {7}});
    Hosts two = Start({store.port(), id, 2, "two"}, {{7}, {8}});

    for (size_t i = 0; i < 2; i++) {
        EXPECT_TRUE(one[i]->Follows());
        EXPECT_FALSE(two[i]->Follows());
    }
}

TEST(Communicators, OfOneIdFollowEachOther)
{
    StoreThread store;
    const uint64_t id = NewId();

    for (uint64_t policy : {7, 8, 7}) {
        Hosts hosts = Start({store.port(), id, 2}, {{7}, {policy}});
        EXPECT_EQ(policy == 7, hosts[0]->Follows());
        EXPECT_EQ(policy == 7, hosts[1]->Follows());
    }
}

// ---- the store fails ----

struct Failing {
    const char *name;
    Failure failure;
    int n_follow; // of two hosts
    int least_in_doubt, most_in_doubt;
    unsigned timeout_ms = kLongMs;
};

void PrintTo(const Failing &c, std::ostream *out)
{
    *out << c.name;
}

class StoreFails : public testing::TestWithParam<Failing>
{
  protected:
    void TearDown() override
    {
        EXPECT_EQ(n_files_, CountFiles()) << "a connection is left";
    }

  private:
    static std::ptrdiff_t CountFiles()
    {
        return std::distance(
            std::filesystem::directory_iterator("/proc/self/fd"), {});
    }

    const std::ptrdiff_t n_files_ = CountFiles();
};

TEST_P(StoreFails, AndWhoIsNotReadyKnowsThatNobodyFollows)
{
    const Failing &c = GetParam();
    StoreThread store(c.failure);
    int n_follow = 0, n_in_doubt = 0;

    const Hosts hosts =
        Start({store.port(), NewId(), 3, "none", c.timeout_ms}, {{7, 7}, {7}});
    for (const auto &host : hosts) {
        const bool follows = host->Follows();
        const std::string text = follows ? "" : host->Explain();
        n_follow += follows;
        n_in_doubt += text.find("the job then hangs") != std::string::npos;
        if (!follows && c.failure.how == Failure::DIES) {
            EXPECT_THAT(text, HasSubstr("the store at 127.0.0.1 port "));
        }
    }
    EXPECT_EQ(c.failure.how == Failure::DIES, store.is_dead());
    EXPECT_EQ(c.n_follow, n_follow);
    EXPECT_LE(c.least_in_doubt, n_in_doubt);
    EXPECT_GE(c.most_in_doubt, n_in_doubt);
}

// clang-format off
const Failing kFailing[] = {
    {"dies_before_the_first_comes", {STP_ADD, "tickets", 1}, 0, 0, 0},
    {"dies_before_the_second_comes", {STP_APPEND, "hosts", 2}, 0, 0, 0},
    {"dies_while_they_compare", {STP_COMPARE_SET, "reference", 2}, 0, 0, 0},
    {"dies_before_one_is_ready", {STP_ADD, "ready", 1}, 0, 1, 2},
    {"dies_before_all_are_ready", {STP_ADD, "ready", 2}, 0, 2, 2},
    {"dies_before_it_is_decided", {STP_COMPARE_SET, "decision", 1}, 0, 2, 2},
    // The window that hosts.h tells of: one knows, the other cannot.
    {"dies_when_one_knows", {STP_GET, "decided", 1}, 1, 1, 1},
    {"drops_one_that_comes", {STP_ADD, "tickets", 1, Failure::DROPS}, 0, 0, 0, kShortMs},
    {"drops_one_that_compares", {STP_COMPARE_SET, "reference", 2, Failure::DROPS}, 0, 0, 0},
    {"drops_one_that_gets_ready", {STP_ADD, "ready", 2, Failure::DROPS}, 0, 0, 0},
    {"drops_the_one_that_decides", {STP_COMPARE_SET, "decision", 1, Failure::DROPS}, 0, 0, 0},
    // It decided, but wakes nobody: the other asks when its time is over.
    {"drops_the_one_that_decided", {STP_SET, "decided", 1, Failure::DROPS}, 2, 0, 0, 3000},
    {"drops_one_that_then_asks_again", {STP_GET, "decided", 1, Failure::DROPS}, 2, 0, 0},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Hosts, StoreFails, testing::ValuesIn(kFailing),
                         [](const auto &row) { return row.param.name; });

} // namespace
