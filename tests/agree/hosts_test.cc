// Hosts follow their rules all together or not at all: whatever they hold,
// whoever comes, and whenever the store fails.
#include <gmock/gmock.h>

#include "faults/open_files.h"
#include "agree/instant_sleeps.h"
#include "agree/meeting_hosts.h"
#include "support/store_thread.h"
#include "support/temporary_folder.h"

extern "C" {
#include "agree/hosts.h"
#include "store/store_client.h"
#include "store/clock.h"
}

namespace
{

using instant_sleeps::InstantSleeps;
using namespace meeting_hosts;
using namespace store_thread;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

size_t CountRanks(const std::vector<std::vector<uint64_t>> &policies)
{
    size_t n = 0;
    for (const auto &host : policies)
        n += host.size();
    return n;
}

std::string StoreAt(const StoreThread &store)
{
    return "the store at 127.0.0.1 port " + std::to_string(store.port());
}

// Plays the other hosts of a communicator at the store, as a test tells it.
class Others
{
  public:
    Others(const StoreThread &store, uint64_t comm_id, size_t n_ranks)
    {
        char prefix[64];
        const stp_store_address address =
            stp_store_at("127.0.0.1", store.port());
        snprintf(prefix, sizeof(prefix), "1/none/%016llx-%zu/",
                 static_cast<unsigned long long>(comm_id), n_ranks);
        prefix_ = prefix;
        EXPECT_TRUE(
            stp_client_open(&client_, &address, "agree", INT64_MAX / 2));
        Get("tickets"); // else it is a stranger to the store
    }
    Others(const Others &) = delete;
    Others &operator=(const Others &) = delete;
    ~Others()
    {
        stp_client_close(&client_);
    }

    const std::string &prefix() const
    {
        return prefix_;
    }

    void Add(const std::string &name, int64_t n)
    {
        EXPECT_TRUE(stp_client_add(&client_, Key(name), n, &n)) << client_.why;
    }

    void Set(const std::string &name, const std::string &value)
    {
        EXPECT_TRUE(
            stp_client_set(&client_, Key(name), value.data(), value.size()));
    }

    void Delete(const std::string &name)
    {
        EXPECT_TRUE(stp_client_delete(&client_, Key(name)));
    }

    // Adds the rows of 'n' ranks of a host that hold the policy.
    void AppendRows(const std::string &name, size_t n, const std::string &host,
                    uint64_t policy)
    {
        stp_host_row row{};
        row.identity.fingerprint.part[STP_FINGERPRINT_POLICY] = policy;
        row.identity.fingerprint.part[STP_FINGERPRINT_FILE] = policy;
        row.n_ranks = 1;
        strcpy(row.name, host.c_str());
        const std::vector<stp_host_row> rows(n, row);
        EXPECT_TRUE(stp_client_append(&client_, Key(name), rows.data(),
                                      n * sizeof(row)));
    }

    // Ranks of generation 0 that arrive, and hold the policy.
    void Arrive(int64_t n, uint64_t policy)
    {
        stp_fingerprint print{};
        char now[64];
        size_t size = 0;
        print.part[STP_FINGERPRINT_POLICY] = policy;
        EXPECT_TRUE(stp_client_compare_set(
            &client_, Key("0/reference"), print.part,
            STP_N_FINGERPRINT_DECIDES * sizeof(print.part[0]), now, sizeof(now),
            &size));
        Add("0/arrived", n);
    }

    // "": there is none.
    std::string Get(const std::string &name)
    {
        char value[4096];
        size_t size = 0;
        bool is_there = false;
        EXPECT_TRUE(stp_client_check(&client_, Key(name), &is_there));
        if (is_there) {
            EXPECT_TRUE(stp_client_get(&client_, Key(name), value,
                                       sizeof(value), &size));
        }
        return {value, size};
    }

  private:
    const char *Key(const std::string &name)
    {
        key_ = prefix_ + name;
        return key_.c_str();
    }

    stp_client client_{};
    std::string prefix_, key_;
};

// Host a, which compares in the thread of the test.
class Alone
{
  public:
    // Its ranks hold these policies.
    Alone(const StoreThread &store, uint64_t comm_id, size_t n_ranks,
          const std::vector<uint64_t> &policies, unsigned timeout_ms = kLongMs)
        : identities_(n_ranks)
    {
        store_.address = stp_store_at("127.0.0.1", store.port());
        store_.timeout_ms = timeout_ms;
        strcpy(store_.run, "none");
        strcpy(store_.host, "a");
        for (size_t i = 0; i < policies.size(); i++) {
            stp_agreement_rank rank{};
            rank.fingerprint.part[STP_FINGERPRINT_POLICY] = policies[i];
            rank.fingerprint.part[STP_FINGERPRINT_FILE] = policies[i];
            stp_identity_write(&identities_[i], &rank);
        }
        hosts_.store = &store_;
        hosts_.comm_id = comm_id;
        hosts_.n_ranks = n_ranks;
        hosts_.identities = identities_.data();
        hosts_.is_cancelled = [](void *self) {
            return static_cast<Alone *>(self)->is_cancelled;
        };
        hosts_.commit = [](void *self) {
            if (static_cast<Alone *>(self)->before_ready)
                static_cast<Alone *>(self)->before_ready();
            return static_cast<Alone *>(self)->commits;
        };
        hosts_.user = this;
    }
    Alone(const Alone &) = delete;
    Alone &operator=(const Alone &) = delete;

    stp_hosts_outcome Outcome()
    {
        char text[512] = "";
        const stp_hosts_outcome outcome =
            stp_hosts_compare(&hosts_, text, sizeof(text));
        why = text;
        return outcome;
    }
    bool Follows()
    {
        return Outcome() == STP_HOSTS_FOLLOW;
    }

    // Compares ranks of which the last has another tuner below.
    stp_hosts_outcome CompareApart()
    {
        identities_.back().fingerprint.part[STP_FINGERPRINT_LOWER] = 1;
        return Outcome();
    }

    bool is_cancelled = false;
    bool commits = true;
    std::function<void()> before_ready;
    std::string why;

  private:
    std::vector<stp_identity> identities_;
    stp_agreement_store store_{};
    stp_hosts hosts_{};
};

// Then all leave it out; where policies differ it stays.
TEST(Hosts, SayIfTheyDifferInTheTunerBelow)
{
    const StoreThread store;

    EXPECT_EQ(STP_HOSTS_APART, Alone(store, 1, 2, {7, 7}).CompareApart());
    EXPECT_EQ(STP_HOSTS_APART, Alone(store, 2, 2, {7, 8}).CompareApart());
    EXPECT_EQ(STP_HOSTS_ASIDE, Alone(store, 3, 2, {7, 8}).Outcome());
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

using AllCome = testing::TestWithParam<Case>;

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

TEST(AHostAlone, LeavesInTheStoreWhatItKnows)
{
    StoreThread store;
    const uint64_t id = NewId();
    Others others(store, id, 2);
    Alone host(store, id, 2, {7, 7});
    stp_host_row row{};

    EXPECT_TRUE(host.Follows());
    for (const auto &[name, value] : {std::pair{"tickets", "2"},
                                      {"0/arrived", "2"},
                                      {"0/ready", "2"},
                                      {"0/decision", "follow"},
                                      {"0/decided", "follow"}})
        EXPECT_EQ(value, others.Get(name)) << name;
    EXPECT_EQ(8 * size_t{STP_N_FINGERPRINT_DECIDES},
              others.Get("0/reference").size());
    ASSERT_EQ(sizeof(row), others.Get("0/hosts").size());
    memcpy(&row, others.Get("0/hosts").data(), sizeof(row));
    EXPECT_EQ(2U, row.n_ranks);
    EXPECT_STREQ("a", row.name);

    EXPECT_TRUE(host.Follows());
    EXPECT_EQ("4", others.Get("tickets"));
    EXPECT_EQ("follow", others.Get("1/decision"));
}

TEST(AHost, IsOfTheGenerationThatItsTicketsAreOf)
{
    const struct {
        int64_t before, after; // ranks of others that take tickets
        size_t n_own;
    } cases[] = {
        {0, 2, 1}, {1, 1, 1}, {1, 0, 2},
        {2, 0, 1}, {3, 2, 1}, // of another communicator
        {4, 0, 2},
    };

    for (const auto &c : cases) {
        StoreThread store;
        const uint64_t id = NewId();
        Others others(store, id, 3);
        Alone host(store, id, 3, std::vector<uint64_t>(c.n_own, 7));
        const std::string generation = c.before / 3 == 0 ? "0/" : "1/";
        const auto n_others = static_cast<int64_t>(3 - c.n_own);

        others.Add("tickets", c.before);
        others.Add(generation + "arrived", n_others);
        others.Add(generation + "ready", n_others);
        host.before_ready = [&] { others.Add("tickets", c.after); };

        EXPECT_TRUE(host.Follows());
        EXPECT_EQ("follow", others.Get(generation + "decision"));
    }
}

// Two of its three ranks were not there when it was decided.
TEST(AnEarlierCommunicator, ThatIsIncompleteMakesTheNextOfItsIdStepAside)
{
    StoreThread store;
    const uint64_t id = NewId();
    Others others(store, id, 3);
    Alone host(store, id, 3, {7, 7, 7});

    others.Add("tickets", 1);
    others.AppendRows("1/hosts", 1, "b", 8);

    EXPECT_FALSE(host.Follows());
    EXPECT_THAT(host.why, StartsWith("host b holds another policy than this"));
    EXPECT_EQ("aside", others.Get("1/decision"));
    EXPECT_EQ("", others.Get("1/reference"));
}

TEST(AnEarlierCommunicator, ThatIsIncompleteMayComeBetweenTheRanksOfAHost)
{
    StoreThread store;
    const uint64_t id = NewId();
    Others others(store, id, 3);
    Alone host(store, id, 3, {7, 8}); // which tell the store one by one

    others.Add("tickets", 2);

    EXPECT_FALSE(host.Follows());
    EXPECT_THAT(host.why,
                StartsWith(StoreAt(store) +
                           " knows of 1 of 3 ranks, of host a: the others"));
    EXPECT_EQ("4", others.Get("tickets"));
    EXPECT_EQ("aside", others.Get("0/decision"));
}

// ---- what is decided ----

TEST(AHostThatDoesNotFollow, TellsAllWhoWait)
{
    const struct {
        std::vector<uint64_t> policies;
        bool is_cancelled, commits;
        const char *arrived;
    } cases[] = {
        {{7, 8}, false, true, "4"},
        {{7, 7}, true, true, "4"},
        {{7, 7}, false, false, "4"},
        {{7}, true, true, "3"},
    };

    for (const auto &c : cases) {
        StoreThread store;
        const uint64_t id = NewId();
        Others others(store, id, 2);
        Alone host(store, id, 2, c.policies);

        host.is_cancelled = c.is_cancelled;
        host.commits = c.commits;

        EXPECT_FALSE(host.Follows());
        EXPECT_EQ("aside", others.Get("0/decision"));
        EXPECT_EQ("aside", others.Get("0/decided"));
        EXPECT_EQ(c.arrived, others.Get("0/arrived"));
        EXPECT_EQ("", others.Get("0/ready"));
    }
}

TEST(AHostThatComesLast, TakesTheDecisionThatTheStoreHolds)
{
    const std::string same = " hold the same, but one of them could not";
    const struct {
        const char *decision;
        bool follows;
        std::string why;
    } cases[] = {
        {"follow", true, ""},
        {"aside", false, "host a" + same},
        {"x", false, "host a" + same},
        {"unknown", false, "host a" + same},
        {"too long", false,
         "was lost when all hosts held the same, before it "
         "said that all know (the store does not answer: "
         "Message too long): others may follow their rules, "
         "and the job then hangs"},
    };

    for (const auto &c : cases) {
        StoreThread store;
        const uint64_t id = NewId();
        Others others(store, id, 2);
        Alone host(store, id, 2, {7, 7});

        others.Set("0/decision", c.decision);

        EXPECT_EQ(c.follows, host.Follows()) << c.decision;
        EXPECT_THAT(host.why, HasSubstr(c.why));
    }
}

TEST(AHostThatIsReady, AwaitsTheDecisionThatAnotherTells)
{
    const struct {
        const char *decided;
        bool follows;
        const char *decision; // of its own, if it asks for one
    } cases[] = {
        {"follow", true, ""},
        {"aside", false, ""},
        {"unknown", false, "aside"},
        {"too long", false, "aside"},
    };

    for (const auto &c : cases) {
        StoreThread store;
        const uint64_t id = NewId();
        Others others(store, id, 2);
        Alone host(store, id, 2, {7});

        others.Arrive(1, 7);
        host.before_ready = [&] { others.Set("0/decided", c.decided); };

        EXPECT_EQ(c.follows, host.Follows()) << c.decided;
        EXPECT_EQ(c.decision, others.Get("0/decision"));
        if (!c.follows) {
            EXPECT_THAT(host.why,
                        StartsWith(StoreAt(store) +
                                   " knows of 1 of 2 ranks, of host a: "));
        }
    }
}

// The host has two ranks, and one of them is not ready in time.
TEST(AHostThatIsReady, DecidesAgainstAllOnceItsTimeIsOver)
{
    StoreThread store;
    const uint64_t id = NewId();
    Others others(store, id, 2);
    Alone host(store, id, 2, {7}, kEnoughMs);

    others.Arrive(1, 7);

    EXPECT_FALSE(host.Follows());
    EXPECT_EQ("aside", others.Get("0/decision"));
    EXPECT_EQ("1", others.Get("0/ready"));
}

TEST(AHostThatLosesTheStore, SaysWhatHappenedFirst)
{
    const struct {
        Failure failure;
        const char *verb;
    } cases[] = {
        {{STP_ADD, "tickets", 1}, "cannot be used"},
        {{STP_COMPARE_SET, "reference", 1}, "was lost"},
        {{STP_ADD, "arrived", 1}, "was lost"},
        {{STP_ADD, "arrived", 2}, "was lost"},
    };

    for (const auto &c : cases) {
        StoreThread store(c.failure);
        Alone host(store, NewId(), 2, {7});

        EXPECT_FALSE(host.Follows());
        EXPECT_EQ(StoreAt(store) + ", where hosts compare what they hold, " +
                      c.verb +
                      ": the store does not answer: Connection reset by peer "
                      "(STEPTUNE_AGREE=shm compares within hosts only)",
                  host.why)
            << c.failure.key;
    }
}

TEST(AHostThatIsReady, SaysWhyItCannotKnow)
{
    const struct {
        Failure failure;
        bool loses_keys;
        const char *why;
    } cases[] = {
        {{}, true, "its keys are gone"},
        {{STP_CHECK, "reference", 1, Failure::DROPS},
         false,
         "the store does not answer: Connection reset by peer"},
        {{STP_COMPARE_SET, "decision", 1, Failure::DROPS},
         false,
         "the store does not answer: Connection timed out"},
    };

    for (const auto &c : cases) {
        StoreThread store(c.failure);
        const uint64_t id = NewId();
        Others others(store, id, 2);
        Alone host(store, id, 2, {7}, kEnoughMs);

        others.Arrive(1, 7);
        if (c.loses_keys)
            host.before_ready = [&] { others.Delete("0/reference"); };

        EXPECT_FALSE(host.Follows());
        EXPECT_EQ(StoreAt(store) +
                      " was lost when all hosts held the same, before it said "
                      "that all know (" +
                      c.why +
                      "): others may follow their rules, and the job then "
                      "hangs",
                  host.why);
    }
}

TEST(AHostThatDoesNotFollow, NamesTheHostsIfThereAreNotTooMany)
{
    for (size_t n_others : {1023, 1024}) {
        StoreThread store;
        const uint64_t id = NewId();
        Others others(store, id, 2);
        Alone host(store, id, 2, {7, 7});

        host.is_cancelled = true;
        others.AppendRows("0/hosts", n_others, "b", 7);

        EXPECT_FALSE(host.Follows());
        EXPECT_EQ(n_others == 1023
                      ? "hosts a and b hold the same, but one of them could "
                        "not confirm it in time"
                      : "the hosts decided in " + StoreAt(store) +
                            " to step aside",
                  host.why);
    }
}

// ---- some do not come ----

TEST(AHostThatAwaitsOthers, LooksForThemLessAndLessOften)
{
    const struct {
        size_t n_ranks;
        int64_t ms[8]; // between looks; the last is the longest
    } cases[] = {
        {2, {1, 2, 4, 8, 16, 20, 20, 20}},
        {64, {1, 2, 4, 8, 16, 21, 21, 21}},
        {832, {1, 2, 4, 8, 16, 33, 33, 33}},
    };

    for (const auto &c : cases) {
        StoreThread store;
        const uint64_t id = NewId();
        Alone host(store, id, c.n_ranks, {7}, 5000);
        InstantSleeps sleeps;

        EXPECT_FALSE(host.Follows());
        ASSERT_LT(std::size(c.ms), sleeps.ms.size());
        EXPECT_TRUE(
            std::equal(std::begin(c.ms), std::end(c.ms), sleeps.ms.begin()))
            << c.n_ranks;
        sleeps.ms.erase(sleeps.ms.begin(), sleeps.ms.begin() + 7);
        EXPECT_THAT(sleeps.ms, Each(c.ms[7]));
    }
}

TEST(HostsThatDoNotCome, AreFoundMissingByTheFirstWhoseTimeIsOver)
{
    StoreThread store;
    const uint64_t id = NewId();
    Host patient({store.port(), id, 3}, "a", {7});
    store.Await(STP_ADD, "arrived", 2); // it has come, and looks for others
    Host other({store.port(), id, 3, "none", kEnoughMs}, "b", {7});

    for (Host *host : {&patient, &other}) {
        EXPECT_FALSE(host->Follows());
        EXPECT_THAT(host->Explain(),
                    HasSubstr("knows of 2 of 3 ranks, of hosts a and b: "));
    }
    Host late({store.port(), id, 3, "none", kEnoughMs}, "c", {7});
    EXPECT_FALSE(late.Follows());
    EXPECT_THAT(late.Explain(),
                HasSubstr("knows of 1 of 3 ranks, of host c: "));
}

// As of jobs that NCCL_COMM_ID gives one id, in a store that outlives them.
TEST(HostsThatDoNotCome, AreNotMissedByTheNextCommunicatorOfTheirId)
{
    TemporaryFolder folder;
    StoreThread store;

    for (const std::string &path : {std::string(), folder.path()})
        for (size_t n_missing : {1, 2}) {
            const uint64_t id = NewId();
            Place place{store.port(), id, 3, "none", kShortMs};
            place.folder = path;
            SCOPED_TRACE(path + std::to_string(n_missing));

            for (int run = 0; run < 2; run++) {
                Host some(place, "a", std::vector<uint64_t>(3 - n_missing, 7));
                EXPECT_FALSE(some.Follows());
            }
            place.timeout_ms = kLongMs;
            Host one(place, "a", std::vector<uint64_t>(3 - n_missing, 7));
            Host other(place, "b", std::vector<uint64_t>(n_missing, 7));
            EXPECT_TRUE(one.Follows()) << one.Explain();
            EXPECT_TRUE(other.Follows()) << other.Explain();
        }
}

TEST(HostsThatDoNotCome, NeedNotBeAwaitedOnceTheCommunicatorIsGone)
{
    StoreThread store;
    auto host = std::make_unique<Host>(Place{store.port(), NewId(), 2}, "a",
                                       std::vector<uint64_t>{7});
    store.Await(STP_ADD, "arrived", 2);
    host->AwaitComparison(); // returns long before the time limit
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
    Host host({port, NewId(), 2, "none", kEnoughMs}, "a", {7});

    EXPECT_FALSE(host.Follows());
    EXPECT_THAT(host.Explain(), HasSubstr("cannot be used: the store does not "
                                          "answer: Connection timed out"));
    close(silent);
}

// ---- the rank that compares hosts is stopped ----

TEST(HostsWhoseComparisonIsStopped, StepAsideSoonAfterTheTimeLimit)
{
    StoreThread store;
    Place place{store.port(), NewId(), 2, "none", 2000, true};
    place.compares = false;
    Host host(place, "a", {7});
    InstantSleeps sleeps;

    EXPECT_FALSE(host.Follows());
    EXPECT_THAT(sleeps.ms, Each(1));
    EXPECT_GE(3500U, sleeps.ms.size());
    EXPECT_LT(0U, sleeps.ms.size());
    EXPECT_FALSE(host.rank(0)->ops->is_complete(host.rank(0)));
    EXPECT_EQ(
        "process " + std::to_string(getpid()) +
            ", which speaks for this host at the store, did not hear from "
            "it in time, or was stopped (STEPTUNE_AGREE_TIMEOUT is 2.0 s)",
        host.Explain());
}

TEST(HostsWhoseComparisonIsStopped, SayThatTheyHadSteppedAsideWhenItGoesOn)
{
    StoreThread store;
    Place place{store.port(), NewId(), 2, "none", 2000};
    place.compares = false;
    Host host(place, "a", {7, 7});
    Others others(store, place.comm_id, 2);

    {
        const InstantSleeps sleeps;
        EXPECT_FALSE(host.Follows());
    }
    host.rank(0)->ops->compare_hosts(host.rank(0));

    EXPECT_FALSE(host.Follows());
    EXPECT_EQ("aside", others.Get("0/decision"));
    EXPECT_THAT(host.Explain(), StartsWith("host a hold the same, but one of"));
}

TEST(HostsWhoseComparisonIsStopped, StepAsideThoughItIsReady)
{
    StoreThread store;
    const uint64_t id = NewId();
    Others others(store, id, 2);
    others.Arrive(1, 7);
    Host host({store.port(), id, 2}, "a", {7});
    store.Await(STP_WAIT, "decided", 1);

    {
        const InstantSleeps sleeps;
        EXPECT_FALSE(host.Follows());
    }
    others.Set("0/decided", "follow");
    host.AwaitComparison();

    EXPECT_FALSE(host.Follows());
}

// ---- several at once ----

// Ids, sizes and jobs tell them apart.
TEST(Communicators, OnOneStoreDoNotMeet)
{
    StoreThread store;
    const uint64_t id = NewId();
    Hosts same = Start({store.port(), id, 2, "one"}, {{7}, {7}});
    Hosts other = Start({store.port(), NewId(), 2, "one"}, {{7}, {8}});
    Hosts more = Start({store.port(), id, 3, "one"}, {{8}, {8, 8}});
    Hosts job = Start({store.port(), id, 2, "two"}, {{7}, {8}});

    for (size_t i = 0; i < 2; i++) {
        EXPECT_TRUE(same[i]->Follows());
        EXPECT_FALSE(other[i]->Follows());
        EXPECT_TRUE(more[i]->Follows());
        EXPECT_FALSE(job[i]->Follows());
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
        EXPECT_EQ(n_files_, CountOpenFiles()) << "a connection is left";
    }

  private:
    const std::ptrdiff_t n_files_ = CountOpenFiles();
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
    {"drops_the_one_that_decided", {STP_SET, "decided", 1, Failure::DROPS}, 2, 0, 0, kEnoughMs},
    {"drops_one_that_then_asks_again", {STP_GET, "decided", 1, Failure::DROPS}, 2, 0, 0},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Hosts, StoreFails, testing::ValuesIn(kFailing),
                         [](const auto &row) { return row.param.name; });

} // namespace
