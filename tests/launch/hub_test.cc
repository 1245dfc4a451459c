// What the processes of a run exchange, and what they hear of each other's
// ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/time.h>

#include <string>
#include <vector>

extern "C" {
#include "launch/hub.h"
}

#include "launch/hub_processes.h"

namespace
{

using namespace processes;
using testing::Each;
using testing::ElementsAre;

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

class HubExchange : public testing::TestWithParam<ExchangeCase>
{
};

TEST_P(HubExchange, GivesAllToAllInOrderOfRank)
{
    const ExchangeCase &c = GetParam();
    Hub hub(
        c.n_ranks,
        [&](stp_world &world) {
            std::string said = "ok";
            for (int i = 0; i < c.times && said == "ok"; i++)
                said = Exchange(world, c.n_bytes);
            return said;
        },
        c.pair);

    EXPECT_THAT(hub.Said(), Each("ok"));
}

INSTANTIATE_TEST_SUITE_P(Table, HubExchange, testing::ValuesIn(kExchanges),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

TEST(Hub, TellsWhereAProcessIs)
{
    Hub hub(3, [](stp_world &world) {
        return std::string(world.ops->name) + " " + std::to_string(world.rank) +
               "/" + std::to_string(world.size) + " " +
               std::to_string(world.local_rank) + "/" +
               std::to_string(world.local_size);
    });

    EXPECT_THAT(hub.Said(),
                ElementsAre("test 0/3 0/3", "test 1/3 1/3", "test 2/3 2/3"));
}

TEST(Hub, GoesOnAfterInterruptedCalls)
{
    Hub hub(3, [](stp_world &world) {
        struct sigaction action {
        };
        action.sa_handler = [](int) {};
        itimerval often{{0, 200}, {0, 200}};
        sigaction(SIGALRM, &action, nullptr);
        setitimer(ITIMER_REAL, &often, nullptr);
        std::string said = "ok";
        for (int i = 0; i < 30 && said == "ok"; i++)
            said = Exchange(world, 100000);
        itimerval never{};
        setitimer(ITIMER_REAL, &never, nullptr);
        return said;
    });

    EXPECT_THAT(hub.Said(), Each("ok"));
}

TEST(Hub, NamesARankThatGivesAnotherSize)
{
    Hub hub(3, [](stp_world &world) {
        return Exchange(world, world.rank == 2 ? 12 : 8);
    });
    std::string want =
        hub.name(2) + " gave 12 bytes to exchange, rank 0 gave 8";

    EXPECT_THAT(hub.Said(), Each(want));
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

class HubDeath : public testing::TestWithParam<DeathCase>
{
};

TEST_P(HubDeath, IsToldToAllWhoExchange)
{
    const DeathCase &c = GetParam();
    Hub hub(4, [&](stp_world &world) {
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
    std::string want = hub.name(c.rank) + " died";

    EXPECT_THAT(AllBut(c.rank, hub.Said()), Each(want));
}

TEST_P(HubDeath, IsToldToAllWhoPoll)
{
    const DeathCase &c = GetParam();
    Hub hub(4, [&](stp_world &world) {
        Exchange(world);
        if (world.rank == c.rank)
            c.die();
        return AwaitDeath(world);
    });
    std::string want = hub.name(c.rank) + " died";

    EXPECT_THAT(AllBut(c.rank, hub.Said()), Each(want));
}

INSTANTIATE_TEST_SUITE_P(Table, HubDeath, testing::ValuesIn(kDeaths),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

TEST(Hub, HasADeviceErrorForADeath)
{
    Hub hub(2, [](stp_world &world) {
        if (world.rank == 1)
            BeKilled();
        char all[2];
        return std::to_string(
            world.ops->exchange(world.self, "x", 1, all, nullptr));
    });

    EXPECT_EQ(std::to_string(STP_ERR_DEVICE), hub[0].Said());
}

TEST(Hub, NamesAProcessThatDiedBeforeItsName)
{
    int one[2], two[2];
    UnixPair(one);
    UnixPair(two);
    int to[] = {-1, one[0], two[0]};
    close(one[1]);
    Process first([&] {
        close(two[1]);
        return UseHub(0, 3, to, [](stp_world &) { return "a world"; });
    });
    Process last([&] {
        for (int fd : {one[0], two[0]})
            close(fd);
        return UseHub(2, 3, &two[1], [](stp_world &) { return "a world"; });
    });
    for (int fd : {one[0], two[0], two[1]})
        close(fd);

    EXPECT_EQ("no world: rank 1 died", first.Said());
    EXPECT_EQ("no world: rank 1 died", last.Said());
}

TEST(Hub, DoesNotTakeAStoppedProcessForDead)
{
    Gate stopped, looked;
    Hub hub(3, [&](stp_world &world) {
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

    hub[1].AwaitStop();
    stopped.Open(2);
    looked.Pass();
    looked.Pass();
    kill(hub[1].pid(), SIGCONT);

    EXPECT_THAT(hub.Said(), Each("ok"));
}

TEST(Hub, HasTcpFindOutThatAHostIsGone)
{
    Hub hub(
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

    EXPECT_THAT(hub.Said(), Each("1 7"));
}

// Rank 0 has much to read and does not read it.
TEST(Hub, HearsOfADeathWhileItSends)
{
    Gate heard;
    Hub hub(3, [&](stp_world &world) {
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
    std::string want = hub.name(2) + " died";

    EXPECT_THAT(AllBut(2, hub.Said()), Each(want));
}

TEST(Hub, DoesNotWaitForAStoppedProcessToHearOfADeath)
{
    Gate stopped;
    Hub hub(3, [&](stp_world &world) {
        Exchange(world);
        if (world.rank == 1)
            raise(SIGSTOP);
        if (world.rank == 2) {
            stopped.Pass();
            BeKilled();
        }
        return Exchange(world);
    });
    hub[1].AwaitStop();
    stopped.Open();
    std::string want = hub.name(2) + " died";

    EXPECT_EQ(want, hub[0].Said());

    kill(hub[1].pid(), SIGCONT);
    EXPECT_EQ(want, hub[1].Said());
}

struct NoFrameCase {
    const char *name;
    std::string bytes;
};

std::string DataFrame(uint64_t size)
{
    stp_hub_header header{STP_HUB_DATA, 3, size};
    return std::string(reinterpret_cast<char *>(&header), sizeof(header)) +
           std::string(size, '.');
}

const NoFrameCase kNoFrames[] = {
    {"http", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
    {"two_at_once", DataFrame(8) + DataFrame(8)},
    {"more_than_memory", DataFrame(0).replace(8, 8, 8, '\xff')},
};

class HubNoFrame : public testing::TestWithParam<NoFrameCase>
{
};

TEST_P(HubNoFrame, IsToldWithTheRankThatSentIt)
{
    const std::string &bytes = GetParam().bytes;
    int one[2], two[2];
    UnixPair(one);
    UnixPair(two);
    int to[] = {-1, one[0], two[0]};
    Process first([&] {
        close(one[1]);
        close(two[1]);
        return UseHub(0, 3, to, [](stp_world &) { return "a world"; });
    });
    close(one[0]);
    close(two[0]);

    ASSERT_EQ(static_cast<ssize_t>(bytes.size()),
              write(one[1], bytes.data(), bytes.size()));

    EXPECT_EQ("no world: rank 1 sent what does not belong to this run, or too "
              "much for this host's memory",
              first.Said());
    close(one[1]);
    close(two[1]);
}

INSTANTIATE_TEST_SUITE_P(Table, HubNoFrame, testing::ValuesIn(kNoFrames),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

// ---- leaving ----

TEST(Hub, MissesNobodyWhoLeft)
{
    Gate gone;
    Hub hub(3, [&](stp_world &world) {
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

    EXPECT_EQ("left", hub[2].Said());
    gone.Open(2);

    EXPECT_EQ("ok", hub[0].Said());
    EXPECT_EQ("ok", hub[1].Said());
}

TEST(Hub, NamesWhoLeftWhenOthersWaitForIt)
{
    for (unsigned leaver : {0, 1}) {
        Hub hub(3, [&](stp_world &world) {
            Exchange(world);
            return world.rank == leaver ? "left" : Exchange(world);
        });
        std::string want = hub.name(leaver) + " has left the run";

        EXPECT_THAT(AllBut(leaver, hub.Said()), Each(want));
    }
}

} // namespace
