// Joining a run as torchrun's environment describes it.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/time.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

extern "C" {
#include "launch/rendezvous.h"
#include "launch/torchrun.h"
}

#include "support/processes.h"

namespace
{

using processes::Exchange;
using processes::Named;
using processes::Process;
using testing::AnyOf;

sockaddr_in Loopback(unsigned port)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    return address;
}

// A socket bound to this port of the loopback; if that is 0, to a free one,
// which is put there.
int Bound(unsigned *port)
{
    sockaddr_in address = Loopback(*port);
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    EXPECT_EQ(0, bind(fd, reinterpret_cast<sockaddr *>(&address), size));
    EXPECT_EQ(0,
              getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size));
    *port = ntohs(address.sin_port);
    return fd;
}

bool HasLocalhost()
{
    addrinfo *found = nullptr;
    if (getaddrinfo("localhost", nullptr, nullptr, &found) != 0)
        return false;
    freeaddrinfo(found);
    return true;
}

class Torchrun : public testing::Test
{
  protected:
    Torchrun()
    {
        close(Bound(&port_));
    }

    stp_torchrun Settings(unsigned rank, unsigned size) const
    {
        stp_torchrun s{};
        s.rank = s.local_rank = rank;
        s.size = size;
        s.host = host_;
        s.port = port_;
        s.limit_ms = limit_ms_;
        return s;
    }

    // In a process: joins, and says what 'body' says of the world.
    static std::string Join(const stp_torchrun &settings,
                            const std::function<std::string(stp_world &)> &body)
    {
        stp_world world;
        stp_error err{};
        if (stp_torchrun_join(&settings, &world, &err) != STP_OK)
            return err.text;
        std::string said = body(world);
        world.ops->close(world.self);
        return said;
    }

    Process Start(
        unsigned rank, unsigned size,
        const std::function<std::string(stp_world &)> &body =
            [](stp_world &world) { return Exchange(world); }) const
    {
        stp_torchrun settings = Settings(rank, size);
        return Process([&] { return Join(settings, body); });
    }

    // A connection to rank 0, once it listens.
    int Connect() const
    {
        sockaddr_in address = Loopback(port_);
        for (;;) {
            int fd = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(fd, reinterpret_cast<sockaddr *>(&address),
                        sizeof(address)) == 0)
                return fd;
            close(fd);
            usleep(1000);
        }
    }

    static stp_hello Hello(unsigned rank, unsigned size)
    {
        stp_hello hello{};
        memcpy(hello.magic, STP_RENDEZVOUS_HELLO, sizeof(hello.magic));
        hello.version = STP_RENDEZVOUS_VERSION;
        hello.rank = rank;
        hello.size = size;
        return hello;
    }

    // What rank 0 answers to these bytes: "closed" or "joined" or why not.
    static std::string Ask(int fd, const void *bytes, size_t size)
    {
        stp_answer answer{};
        EXPECT_EQ(static_cast<ssize_t>(size), write(fd, bytes, size));
        ssize_t n = recv(fd, &answer, sizeof(answer), MSG_WAITALL);
        if (n != static_cast<ssize_t>(sizeof(answer)))
            return "closed";
        return answer.refused ? answer.why : "joined";
    }
    static std::string Ask(int fd, const stp_hello &hello)
    {
        return Ask(fd, &hello, sizeof(hello));
    }
    std::string Answer(const void *bytes, size_t size) const
    {
        int fd = Connect();
        std::string answer = Ask(fd, bytes, size);
        close(fd);
        return answer;
    }
    std::string Answer(const stp_hello &hello) const
    {
        return Answer(&hello, sizeof(hello));
    }

    unsigned port_ = 0;
    const char *host_ = "127.0.0.1";
    unsigned limit_ms_ = 20000;
};

TEST_F(Torchrun, JoinsOneWorldInAnyOrder)
{
    for (const std::vector<unsigned> &order :
         {std::vector<unsigned>{0}, {0, 1}, {1, 0}, {2, 4, 3, 1, 0}}) {
        std::deque<Process> ranks;
        for (unsigned rank : order)
            ranks.push_back(Start(rank, static_cast<unsigned>(order.size()),
                                  [](stp_world &world) {
                                      return std::string(world.ops->name) +
                                             " " +
                                             std::to_string(world.local_rank) +
                                             "/" +
                                             std::to_string(world.local_size) +
                                             " " + Exchange(world);
                                  }));

        for (size_t i = 0; i < order.size(); i++)
            EXPECT_EQ("torchrun " + std::to_string(order[i]) + "/" +
                          std::to_string(order.size()) + " ok",
                      ranks[i].Said());
    }
}

TEST_F(Torchrun, JoinsManyRanks)
{
    std::deque<Process> ranks;
    for (unsigned rank = 0; rank < 64; rank++)
        ranks.push_back(Start(rank, 64));

    for (Process &rank : ranks)
        EXPECT_EQ("ok", rank.Said());
}

TEST_F(Torchrun, FindsRank0ByName)
{
    if (!HasLocalhost())
        GTEST_SKIP() << "localhost is no name here";
    host_ = "localhost";
    Process other = Start(1, 2);
    Process first = Start(0, 2);

    EXPECT_EQ("ok", first.Said());
    EXPECT_EQ("ok", other.Said());
}

TEST_F(Torchrun, FindsRank0ByAnIpv6Address)
{
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool there =
        bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0;
    close(fd);
    if (!there)
        GTEST_SKIP() << "no IPv6 here";
    host_ = "::1";
    Process other = Start(1, 2);
    Process first = Start(0, 2);

    EXPECT_EQ("ok", first.Said());
    EXPECT_EQ("ok", other.Said());
}

TEST_F(Torchrun, TellsADeathWithHostAndProcess)
{
    for (unsigned dying : {0u, 1u, 2u}) {
        std::deque<Process> ranks;
        for (unsigned rank = 0; rank < 3; rank++)
            ranks.push_back(Start(rank, 3, [&](stp_world &world) {
                Exchange(world);
                if (world.rank == dying)
                    kill(getpid(), SIGKILL);
                return Exchange(world);
            }));
        std::string want = Named(dying, ranks[dying].pid()) + " died";

        for (unsigned rank = 0; rank < 3; rank++)
            EXPECT_EQ(rank == dying ? "" : want, ranks[rank].Said());
    }
}

// ---- who does not belong ----

TEST_F(Torchrun, TurnsAwayWhoDoesNotBelong)
{
    stp_hello version = Hello(2, 3);
    version.version = 7;
    const char http[] = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    Process first = Start(0, 3);
    int silent = Connect();
    int joined = Connect();
    EXPECT_EQ("joined", Ask(joined, Hello(1, 3)));

    EXPECT_EQ("closed", Answer(http, sizeof(http)));
    EXPECT_EQ("there is a rank 1 already", Answer(Hello(1, 3)));
    EXPECT_EQ("its WORLD_SIZE is 4, that of rank 0 is 3", Answer(Hello(2, 4)));
    EXPECT_EQ("there is no rank 0 in a run of 3", Answer(Hello(0, 3)));
    EXPECT_EQ("there is no rank 3 in a run of 3", Answer(Hello(3, 3)));
    EXPECT_EQ("it is another version of Steptune than rank 0 is",
              Answer(version));
    EXPECT_EQ("rank 0 at 127.0.0.1, port " + std::to_string(port_) +
                  ", refused rank 1: there is a rank 1 already",
              Start(1, 3).Said());

    // The first one is gone: another may come for it.
    close(joined);
    Process second = Start(1, 3);
    Process third = Start(2, 3);
    EXPECT_EQ("ok", first.Said());
    EXPECT_EQ("ok", second.Said());
    EXPECT_EQ("ok", third.Said());
    close(silent);
}

TEST_F(Torchrun, NamesThePortThatIsInUse)
{
    int listener = Bound(&port_);
    ASSERT_EQ(0, listen(listener, 1));

    EXPECT_EQ("port " + std::to_string(port_) +
                  ", where rank 0 awaits the other ranks, is in use on its "
                  "host: set STEPTUNE_PORT to a free one, the same for all "
                  "ranks",
              Start(0, 2).Said());

    close(listener);
}

TEST_F(Torchrun, NeedsNoPortForOneRank)
{
    int listener = Bound(&port_);
    ASSERT_EQ(0, listen(listener, 1));

    EXPECT_EQ("ok", Start(0, 1).Said());

    close(listener);
}

TEST_F(Torchrun, NamesTheAddressWhereNobodyIs)
{
    limit_ms_ = 100;

    EXPECT_EQ("rank 1 could not reach rank 0 at 127.0.0.1, port " +
                  std::to_string(port_) + ", in 0.1 s: Connection refused",
              Start(1, 2).Said());
}

TEST_F(Torchrun, NamesTheAddressWhereAnotherIs)
{
    limit_ms_ = 100;
    int listener = Bound(&port_);
    ASSERT_EQ(0, listen(listener, 1));

    EXPECT_EQ("rank 1 could not reach rank 0 at 127.0.0.1, port " +
                  std::to_string(port_) +
                  ", in 0.1 s: what listens there is not rank 0 of Steptune",
              Start(1, 2).Said());

    close(listener);
}

// As long as an answer of rank 0, and without a refusal where it has one.
TEST_F(Torchrun, IsNotDeceivedByAnother)
{
    limit_ms_ = 100;
    int listener = Bound(&port_);
    ASSERT_EQ(0, listen(listener, 1));
    Process stranger([&] {
        for (std::string zeros(sizeof(stp_answer), '\0');;) {
            int fd = accept(listener, nullptr, nullptr);
            send(fd, zeros.data(), zeros.size(), MSG_NOSIGNAL);
            close(fd);
        }
        return "";
    });
    close(listener);

    EXPECT_EQ("rank 1 could not reach rank 0 at 127.0.0.1, port " +
                  std::to_string(port_) +
                  ", in 0.1 s: what listens there is not rank 0 of Steptune",
              Start(1, 2).Said());
}

TEST_F(Torchrun, NamesTheAddressThatANameStandsFor)
{
    if (!HasLocalhost())
        GTEST_SKIP() << "localhost is no name here";
    limit_ms_ = 100;
    host_ = "localhost";
    auto want = [&](const char *address) {
        return std::string("rank 1 could not reach rank 0 at localhost (") +
               address + "), port " + std::to_string(port_) +
               ", in 0.1 s: Connection refused";
    };

    EXPECT_THAT(Start(1, 2).Said(), AnyOf(want("127.0.0.1"), want("::1")));
}

TEST_F(Torchrun, TriesAgainAfterAnother)
{
    Process other = Start(1, 2);
    int listener = Bound(&port_);
    ASSERT_EQ(0, listen(listener, 1));
    close(accept(listener, nullptr, nullptr));
    close(listener);

    Process first = Start(0, 2);

    EXPECT_EQ("ok", first.Said());
    EXPECT_EQ("ok", other.Said());
}

TEST_F(Torchrun, NamesWhoDidNotCome)
{
    struct {
        unsigned size;
        const char *who;
    } cases[] = {{2, "rank 1 of 2"},
                 {3, "rank 1 and 1 other of 3"},
                 {6, "rank 1 and 4 others of 6"}};
    limit_ms_ = 100;

    for (const auto &c : cases)
        EXPECT_EQ(
            c.who +
                (" did not come to rank 0's port " + std::to_string(port_)) +
                " in 0.1 s",
            Start(0, c.size).Said());
}

TEST_F(Torchrun, TellsThoseWhoCameWhoDidNot)
{
    limit_ms_ = 700;
    Process first = Start(0, 4);
    EXPECT_EQ("its WORLD_SIZE is 3, that of rank 0 is 4", Answer(Hello(1, 3)));
    Process third = Start(2, 4);
    std::string want =
        "rank 1 and 1 other of 4 did not come to rank 0's port " +
        std::to_string(port_) +
        " in 0.7 s; one was refused: its WORLD_SIZE is 3, that "
        "of rank 0 is 4";

    EXPECT_EQ(want, first.Said());
    EXPECT_EQ(want, third.Said());
}

TEST_F(Torchrun, GoesOnAfterInterruptedCalls)
{
    std::deque<Process> ranks;
    for (unsigned rank : {1u, 2u, 0u}) {
        stp_torchrun settings = Settings(rank, 3);
        ranks.emplace_back([settings] {
            struct sigaction action {
            };
            action.sa_handler = [](int) {};
            itimerval often{{0, 500}, {0, 500}};
            sigaction(SIGALRM, &action, nullptr);
            setitimer(ITIMER_REAL, &often, nullptr);
            std::string said = Join(settings, [](stp_world &world) {
                return Exchange(world, 100000);
            });
            itimerval never{};
            setitimer(ITIMER_REAL, &never, nullptr);
            return said;
        });
    }

    for (Process &rank : ranks)
        EXPECT_EQ("ok", rank.Said());
}

} // namespace
