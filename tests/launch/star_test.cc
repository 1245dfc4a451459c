// Tests of exchanges between the processes of a run, also in parts of the run,
// and of the news of each other's ends.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <deque>

extern "C" {
#include "launch/star.h"
}

#include "launch/star_frames.h"
#include "support/processes.h"

namespace
{

using namespace processes;
using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;

// ---- the processes of a world ----

using Body = std::function<std::string(stp_world &)>;
using SocketPair = std::function<void(int[2])>;

void UnixPair(int fds[2])
{
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
}

void TcpPair(int fds[2])
{
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    auto *any = reinterpret_cast<sockaddr *>(&address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(0, bind(listener, any, size));
    ASSERT_EQ(0, listen(listener, 1));
    ASSERT_EQ(0, getsockname(listener, any, &size));
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(0, connect(fds[0], any, size));
    fds[1] = accept(listener, nullptr, nullptr);
    ASSERT_LE(0, fds[1]);
    close(listener);
}

// Set by tests in which rank 0 tells of others.
void (*warn)(const char *text);
unsigned silent_ms;

// In a process of a world: makes the world, lets 'body' use it, closes it.
std::string UseWorld(unsigned rank, unsigned size, const int *fds,
                     const Body &body)
{
    stp_star_options options{};
    options.name = "test";
    options.rank = rank;
    options.size = size;
    options.local_rank = rank;
    options.fds = fds;
    options.warn = warn;
    options.silent_ms = silent_ms;
    stp_world world;
    stp_error err{};
    if (stp_star_open(&options, &world, &err) != STP_OK)
        return std::string("no world: ") + err.text;
    std::string said = body(world);
    world.ops->close(world.self);
    return said;
}

class Ranks
{
  public:
    Ranks(unsigned size, const Body &body, const SocketPair &pair = UnixPair)
    {
        std::vector<int> to(size, -1);
        for (unsigned r = 1; r < size; r++) {
            int fds[2];
            pair(fds);
            to[r] = fds[0];
            ranks_.emplace_back([&] {
                for (unsigned other = 1; other <= r; other++)
                    close(to[other]);
                return UseWorld(r, size, &fds[1], body);
            });
            close(fds[1]);
        }
        ranks_.emplace_front(
            [&] { return UseWorld(0, size, to.data(), body); });
        for (unsigned r = 1; r < size; r++)
            close(to[r]);
    }

    Process &operator[](unsigned rank)
    {
        return ranks_[rank];
    }

    std::string name(unsigned rank) const
    {
        return Named(rank, ranks_[rank].pid());
    }

    // Returns the texts of all ranks, in order of rank.
    std::vector<std::string> Said()
    {
        std::vector<std::string> said;
        for (Process &rank : ranks_)
            said.push_back(rank.Said());
        return said;
    }

  private:
    std::deque<Process> ranks_;
};

std::vector<std::string> AllBut(unsigned rank, std::vector<std::string> said)
{
    said.erase(said.begin() + rank);
    return said;
}

// In a rank other than 0: its socket, which is the only one.
int TheSocket()
{
    int fd = 3, type;
    socklen_t size = sizeof(type);
    while (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0)
        fd++;
    return fd;
}

// ---- exchanging ----

struct ExchangeCase {
    const char *name;
    unsigned n_ranks;
    size_t n_bytes;
    int times;
    SocketPair pair;
};

// clang-format off
const ExchangeCase kExchanges[] = {
    {"alone",         1,       8,  3, UnixPair},
    {"two",           2,       8, 50, UnixPair},
    {"nothing",       3,       0, 50, UnixPair},
    {"one_byte",      5,       1, 50, UnixPair},
    {"odd_size",      5,   65537, 10, UnixPair},
    {"megabytes",     4, 3000000,  2, UnixPair},
    {"tcp",           3,     100, 50, TcpPair},
    {"tcp_megabytes", 4, 3000000,  2, TcpPair},
    {"many",         64,    1000,  5, UnixPair},
};
// clang-format on

using StarExchange = testing::TestWithParam<ExchangeCase>;

TEST_P(StarExchange, GivesAllToAllInOrderOfRank)
{
    const ExchangeCase &c = GetParam();
    Ranks ranks(
        c.n_ranks,
        [&](stp_world &world) {
            std::string said = "ok";
            for (int i = 0; i < c.times && said == "ok"; i++)
                said = Exchange(world, c.n_bytes);
            return said;
        },
        c.pair);

    EXPECT_THAT(ranks.Said(), Each("ok"));
}

INSTANTIATE_TEST_SUITE_P(Table, StarExchange, testing::ValuesIn(kExchanges),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

// ---- silence ----

int warnings[2]; // a pipe

class StarSilence : public testing::Test
{
  protected:
    StarSilence()
    {
        EXPECT_EQ(0, pipe(warnings));
        silent_ms = 20;
        warn = [](const char *text) {
            const std::string line = std::string(text) + "\n";
            EXPECT_EQ(static_cast<ssize_t>(line.size()),
                      write(warnings[1], line.data(), line.size()));
        };
    }
    ~StarSilence() override
    {
        warn = nullptr;
        silent_ms = 0;
        close(warnings[0]);
        close(warnings[1]);
    }

    // Waits for it.
    static std::string Warning()
    {
        std::string line;
        for (char c; read(warnings[0], &c, 1) == 1 && c != '\n';)
            line += c;
        return line;
    }
};

TEST_F(StarSilence, IsToldOfTheRankThatTheOthersWaitFor)
{
    silent_ms = 2000; // within which the others are certain to come
    Ranks ranks(4, [](stp_world &world) {
        const std::string said = world.rank == 2 ? Warning() + " " : "";
        return said + Exchange(world);
    });

    EXPECT_THAT(ranks.Said(),
                ElementsAre("ok", "ok",
                            ranks.name(2) + " gave no sign of life for 2 s ok",
                            "ok"));
}

TEST_F(StarSilence, EndsWithASignOfLifeWhileARankIsBusy)
{
    Ranks ranks(2, [](stp_world &world) {
        std::string said;
        for (int i = 0; world.rank == 1 && i < 3; i++) {
            said += Warning() == "" ? "nothing " : "missed ";
            if (!world.ops->alive(world.self, nullptr))
                return std::string("dead");
        }
        return said + Exchange(world);
    });

    EXPECT_THAT(ranks.Said(), ElementsAre("ok", "missed missed missed ok"))
        << "each sign ended a silence, and another followed";
}

TEST(Star, NamesARankThatGivesAnotherSize)
{
    Ranks ranks(3, [](stp_world &world) {
        return Exchange(world, world.rank == 2 ? 12 : 8);
    });
    std::string want =
        ranks.name(2) + " gave 12 bytes to exchange, rank 0 gave 8";

    EXPECT_THAT(ranks.Said(), Each(want));
}

// ---- deaths ----

struct DeathCase {
    const char *name;
    unsigned rank; // of 4
    size_t n_bytes;
    void (*die)();
};

void Exit()
{
    _exit(0);
}

// clang-format off
const DeathCase kDeaths[] = {
    {"first_killed",        0, 8,        BeKilled},
    {"middle_killed",       1, 8,        BeKilled},
    {"last_killed",         3, 8,        BeKilled},
    {"first_exits",         0, 8,        Exit},
    {"middle_exits",        2, 8,        Exit},
    {"first_with_much_to_read", 0, 4000000, BeKilled},
    {"last_with_much_to_read",  3, 4000000, BeKilled},
};
// clang-format on

using StarDeath = testing::TestWithParam<DeathCase>;

TEST_P(StarDeath, IsToldToAllWhoExchange)
{
    const DeathCase &c = GetParam();
    Ranks ranks(4, [&](stp_world &world) {
        if (Exchange(world) != "ok")
            return std::string("no first exchange");
        if (world.rank == c.rank)
            c.die();
        std::string first = Exchange(world, c.n_bytes);
        std::string second = Exchange(world, c.n_bytes);
        stp_error err{};
        bool alive = world.ops->alive(world.self, &err);
        return first == second && !alive && first == err.text ? first
                                                              : "differs";
    });
    std::string want = ranks.name(c.rank) + " died";

    EXPECT_THAT(AllBut(c.rank, ranks.Said()), Each(want));
}

TEST_P(StarDeath, IsToldToAllWhoPoll)
{
    const DeathCase &c = GetParam();
    Ranks ranks(4, [&](stp_world &world) {
        Exchange(world);
        if (world.rank == c.rank)
            c.die();
        return AwaitDeath(world);
    });
    std::string want = ranks.name(c.rank) + " died";

    EXPECT_THAT(AllBut(c.rank, ranks.Said()), Each(want));
}

INSTANTIATE_TEST_SUITE_P(Table, StarDeath, testing::ValuesIn(kDeaths),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

TEST(Star, NamesAProcessThatDiedBeforeItsName)
{
    int one[2], two[2];
    UnixPair(one);
    UnixPair(two);
    int to[] = {-1, one[0], two[0]};
    close(one[1]);
    Process first([&] {
        close(two[1]);
        return UseWorld(0, 3, to, [](stp_world &) { return "a world"; });
    });
    Process last([&] {
        for (int fd : {one[0], two[0]})
            close(fd);
        return UseWorld(2, 3, &two[1], [](stp_world &) { return "a world"; });
    });
    for (int fd : {one[0], two[0], two[1]})
        close(fd);

    EXPECT_EQ("no world: rank 1 died", first.Said());
    EXPECT_EQ("no world: rank 1 died", last.Said());
}

TEST(Star, DoesNotTakeAStoppedProcessForDead)
{
    Gate stopped, looked;
    Ranks ranks(3, [&](stp_world &world) {
        Exchange(world);
        if (world.rank == 1) {
            raise(SIGSTOP);
        } else {
            stopped.Pass();
            for (int i = 0; i < 20; i++)
                if (!IsAlive(world))
                    return std::string("dead");
            looked.Open();
        }
        return Exchange(world);
    });

    ranks[1].AwaitStop();
    stopped.Open(2);
    looked.Pass();
    looked.Pass();
    kill(ranks[1].pid(), SIGCONT);

    EXPECT_THAT(ranks.Said(), Each("ok"));
}

TEST(Star, HasTcpFindOutThatAHostIsGone)
{
    Ranks ranks(
        2,
        [](stp_world &world) {
            // the only TCP socket
            int keep = 0, idle = 0, interval = 0, probes = 0;
            socklen_t size = sizeof(int);
            int fd = 3;
            while (fd < 100 &&
                   getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, &size) != 0)
                fd++;
            getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &keep, &size);
            getsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, &size);
            getsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, &size);
            Exchange(world); // the other one has not left before
            return std::to_string(keep) + " " +
                   std::to_string(idle + interval * probes);
        },
        TcpPair);

    EXPECT_THAT(ranks.Said(), Each("1 7"));
}

// Rank 3 takes part, and dies with the first byte of the result.
TEST(Star, FinishesItsFramesWhenARankDiesThatDoesNotRead)
{
    const size_t n_bytes = 4000000;
    Ranks ranks(4, [&](stp_world &world) {
        if (world.rank != 3) {
            std::string first = Exchange(world, n_bytes);
            return (first == "ok" ? "" : first) + Exchange(world);
        }
        std::string frame = frames::Give(4, std::string(n_bytes, 'd'));
        int fd = TheSocket();
        for (size_t n = 0; n < frame.size();)
            n += static_cast<size_t>(
                write(fd, frame.data() + n, frame.size() - n));
        EXPECT_EQ(1, read(fd, frame.data(), 1));
        BeKilled();
        return std::string();
    });
    std::string want = ranks.name(3) + " died";

    for (const std::string &said : AllBut(3, ranks.Said()))
        EXPECT_THAT(said, AnyOf(want, want + want));
}

// Rank 0 has much to read and does not read it.
TEST(Star, HearsOfADeathWhileItSends)
{
    Gate heard;
    Ranks ranks(3, [&](stp_world &world) {
        Exchange(world);
        if (world.rank == 2)
            BeKilled();
        std::string said =
            world.rank == 0 ? AwaitDeath(world) : Exchange(world, 4000000);
        if (world.rank == 0)
            heard.Pass();
        else
            heard.Open();
        return said;
    });
    std::string want = ranks.name(2) + " died";

    EXPECT_THAT(AllBut(2, ranks.Said()), Each(want));
}

TEST(Star, DoesNotWaitForAStoppedProcessToHearOfADeath)
{
    Gate stopped;
    Ranks ranks(3, [&](stp_world &world) {
        Exchange(world);
        if (world.rank == 1)
            raise(SIGSTOP);
        if (world.rank == 2) {
            stopped.Pass();
            BeKilled();
        }
        return Exchange(world);
    });
    ranks[1].AwaitStop();
    stopped.Open();
    std::string want = ranks.name(2) + " died";

    EXPECT_EQ(want, ranks[0].Said());

    kill(ranks[1].pid(), SIGCONT);
    EXPECT_EQ(want, ranks[1].Said());
}

// Bytes that one of two ranks receives from a process that is no rank of this
// run.
struct StrangeCase {
    const char *name;
    unsigned rank; // that hears it, while it awaits the other's introduction
    std::string bytes;
    std::string want; // what it says
};

const std::string kStrange =
    "sent what does not belong to this run, or too much for this host's memory";
const std::string k0 = "no world: rank 0 ";
const std::string k1 = "no world: rank 1 ";

// 64 bytes without an end, and a terminal's escapes.
std::string Repeated(const std::string &text)
{
    return text + text + text + text + text + text + text + text;
}
const std::string kNoName = Repeated("a\n\x1b\x7f"
                                     "b\n\x1b\x7f");

// clang-format off
const StrangeCase kStranges[] = {
    {"http", 0, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", k1 + kStrange},
    {"two_at_once", 0, frames::Give(2, "12345678") + frames::Give(2, "12345678"), k1 + kStrange},
    {"more_than_memory", 0, frames::Frame(STP_STAR_GIVE, 2, "", 1UL << 32), k1 + kStrange},
    {"a_sign_with_bytes", 0, frames::Frame(STP_STAR_SIGN, 2, "1234"), k1 + kStrange},
    {"what_rank_0_says", 0, frames::Frame(STP_STAR_ALL, 2, "12345678"), k1 + kStrange},
    {"no_introduction", 0, frames::Give(2, "1234"), k1 + kStrange},
    {"no_proper_name", 0, frames::Give(2, kNoName + frames::Bytes(~0UL)),
     "rank 1 (" + Repeated("a???b???").substr(0, 63) + ", process 18446744073709551615) died"},
    {"four_gigabytes", 1, frames::Frame(STP_STAR_ALL, 2, std::string(64, '\0'), 4UL << 30), k0 + kStrange},
    {"nothing", 1, std::string(64, '\0'), k0 + kStrange},
    {"another_size", 1, frames::Frame(STP_STAR_ALL, 2, "oops"), k0 + kStrange},
    {"what_ranks_say", 1, frames::Give(2, "oops"), k0 + kStrange},
    {"long_end", 1, frames::End(STP_ERR_DEVICE, std::string(240, 'x')), k0 + kStrange},
    {"end_without_a_failure", 1, frames::End(STP_OK, "oops"), k0 + kStrange},
    {"end_of_control_characters", 1, frames::End(STP_ERR_DEVICE, "a\n\x1b[2Jb"), "no world: a??[2Jb"},
    {"no_sentence", 1, frames::End(STP_ERR_DEVICE, ""), k0 + kStrange},
    {"empty_sentence", 1, frames::End(STP_ERR_DEVICE, std::string(9, '\0')), k0 + kStrange},
    {"unknown_status", 1, frames::End(77, "oops"), "no world: oops"},
    {"left", 1, frames::End(STP_STAR_LEFT, ""), k0 + "has left the run"},
    {"part_of_it", 1, frames::End(STP_ERR_DEVICE, "oops").substr(0, 18), k0 + "died"},
};
// clang-format on

using StarStrange = testing::TestWithParam<StrangeCase>;

TEST_P(StarStrange, EndsTheRunByName)
{
    const StrangeCase &c = GetParam();
    int fds[2];
    UnixPair(fds);
    const int to[] = {-1, fds[0]};
    Process hears([&] {
        close(fds[1]);
        return UseWorld(c.rank, 2, &to[c.rank], AwaitDeath);
    });
    close(fds[0]);
    ASSERT_EQ(static_cast<ssize_t>(c.bytes.size()),
              write(fds[1], c.bytes.data(), c.bytes.size()));
    shutdown(fds[1], SHUT_WR);

    EXPECT_EQ(c.want, hears.Said());
    close(fds[1]);
}

INSTANTIATE_TEST_SUITE_P(Table, StarStrange, testing::ValuesIn(kStranges),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

// ---- leaving ----

TEST(Star, MissesNobodyWhoLeft)
{
    Gate gone;
    Ranks ranks(3, [&](stp_world &world) {
        Exchange(world);
        if (world.rank == 2)
            return std::string("left");
        gone.Pass();
        stp_world part;
        world.ops->part(world.self, 2, &part, nullptr);
        std::string said = IsAlive(world) ? Exchange(part) : "dead";
        part.ops->close(part.self);
        return said;
    });

    EXPECT_EQ("left", ranks[2].Said());
    gone.Open(2);

    EXPECT_EQ("ok", ranks[0].Said());
    EXPECT_EQ("ok", ranks[1].Said());
}

TEST(Star, NamesWhoLeftWhenOthersWaitForIt)
{
    for (unsigned leaver : {0, 1}) {
        Ranks ranks(3, [&](stp_world &world) {
            Exchange(world);
            return world.rank == leaver ? "left" : Exchange(world);
        });
        std::string want = ranks.name(leaver) + " has left the run";

        EXPECT_THAT(AllBut(leaver, ranks.Said()), Each(want));
    }
}

// ---- parts ----

// In a part of the first 'n': what 'inside' says, or "out" from outside it.
std::string InPart(stp_world &world, unsigned n, const Body &inside)
{
    stp_world part;
    stp_error err{};
    if (world.ops->part(world.self, n, &part, &err) != STP_OK)
        return err.text;
    std::string said = part.size == 0 ? "out" : inside(part);
    part.ops->close(part.self);
    return said;
}

TEST(StarPart, IsAWorldOfTheFirst)
{
    Ranks ranks(4, [](stp_world &world) {
        std::string said;
        for (unsigned n : {1, 3, 2, 4})
            said += InPart(world, n,
                           [](stp_world &part) {
                               return std::to_string(part.rank) + "/" +
                                      std::to_string(part.size) + "/" +
                                      std::to_string(part.local_size) +
                                      Exchange(part);
                           }) +
                    " ";
        return said + Exchange(world);
    });

    EXPECT_THAT(ranks.Said(), ElementsAre("0/1/1ok 0/3/3ok 0/2/2ok 0/4/4ok ok",
                                          "out 1/3/3ok 1/2/2ok 1/4/4ok ok",
                                          "out 2/3/3ok out 2/4/4ok ok",
                                          "out out out 3/4/4ok ok"));
}

TEST(StarPart, HasPartsOfItsOwn)
{
    Ranks ranks(4, [](stp_world &world) {
        return InPart(world, 3, [](stp_world &part) {
            return InPart(part, 2,
                          [](stp_world &least) { return Exchange(least); });
        });
    });

    EXPECT_THAT(ranks.Said(), ElementsAre("ok", "ok", "out", "out"));
}

TEST(StarPart, IsNeverEmptyNorLargerThanItsWorld)
{
    Ranks ranks(2, [](stp_world &world) {
        auto nothing = [](stp_world &) { return "made"; };
        return InPart(world, 0, nothing) + ", " + InPart(world, 3, nothing);
    });

    EXPECT_THAT(ranks.Said(), Each("0 of 2 processes, 3 of 2 processes"));
}

// The processes outside the part wait with more bytes than their sockets hold.
TEST(StarPart, DoesNotMindWhoWaitsOutside)
{
    Ranks ranks(5, [](stp_world &world) {
        std::string said = InPart(world, 2, [](stp_world &part) {
            std::string inside = "ok";
            for (int i = 0; i < 20 && inside == "ok"; i++)
                inside = Exchange(part, 10000);
            return inside;
        });
        return said + " " + Exchange(world, 2000000);
    });

    EXPECT_THAT(ranks.Said(),
                ElementsAre("ok ok", "ok ok", "out ok", "out ok", "out ok"));
}

TEST(StarPart, TellsOfADeathInsideAndOutside)
{
    for (unsigned dying : {0u, 1u, 3u}) {
        Ranks ranks(4, [&](stp_world &world) {
            Exchange(world);
            std::string said = InPart(world, 2, [&](stp_world &part) {
                if (part.rank == dying)
                    BeKilled();
                return AwaitDeath(part);
            });
            if (world.rank == dying)
                BeKilled();
            return said == "out" ? Exchange(world) : said;
        });
        std::string want = ranks.name(dying) + " died";

        EXPECT_THAT(AllBut(dying, ranks.Said()), Each(want));
    }
}

TEST(StarPart, NamesWhoExchangesInAnother)
{
    Ranks ranks(3, [](stp_world &world) {
        if (world.rank == 1)
            return Exchange(world);
        return InPart(world, 2, [](stp_world &part) { return Exchange(part); });
    });
    std::string want =
        ranks.name(1) + " exchanges among 3 processes, rank 0 among 2";

    EXPECT_THAT(ranks.Said(), ElementsAre(want, want, "out"));
}

} // namespace
