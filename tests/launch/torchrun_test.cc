// Joining a run as torchrun's environment describes it.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <cstdlib>
#include <deque>
#include <fstream>
#include <sstream>

extern "C" {
#include "launch/star.h"
#include "launch/torchrun.h"
#include "store/store.h"
#include "store/store_client.h"
}

#include "launch/star_frames.h"
#include "support/processes.h"
#include "support/store_thread.h"

namespace
{

using frames::Hello;
using processes::Exchange;
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
        s.local_size = local_size_;
        s.launcher = "torchrun";
        snprintf(s.host, sizeof(s.host), "%s", host_);
        s.port = port_;
        s.job_port = job_port_;
        s.limit_ms = limit_ms_;
        snprintf(s.token, sizeof(s.token), "%s", token_);
        return s;
    }

    // In a process: joins, and says what 'body' says of the world.
    static std::string Run(const stp_torchrun &settings,
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
        return Process([&] { return Run(settings, body); });
    }

    void ExpectTwoMeet() const
    {
        Process other = Start(1, 2);
        Process first = Start(0, 2);

        EXPECT_EQ("ok", first.Said());
        EXPECT_EQ("ok", other.Said());
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

    // Returns rank 0's answer to these bytes: "closed", "joined" or its reason.
    static std::string Ask(int fd, const std::string &bytes)
    {
        stp_star_answer answer{};
        EXPECT_EQ(static_cast<ssize_t>(bytes.size()),
                  write(fd, bytes.data(), bytes.size()));
        if (recv(fd, &answer, sizeof(answer), MSG_WAITALL) !=
            static_cast<ssize_t>(sizeof(answer)))
            return "closed";
        return answer.is_refused ? answer.why : "joined";
    }
    std::string Answer(const std::string &bytes) const
    {
        int fd = Connect();
        std::string answer = Ask(fd, bytes);
        close(fd);
        return answer;
    }

    // The addresses, as the kernel writes them, where something listens on the
    // port: of IPv4, then of IPv6.
    static std::string ListensAt(unsigned port)
    {
        std::string addresses;
        char at[16];
        snprintf(at, sizeof(at), ":%04X", port);
        for (const char *name : {"/proc/net/tcp", "/proc/net/tcp6"}) {
            std::ifstream table(name);
            std::string line, number, local, remote, state;
            std::getline(table, line);
            while (std::getline(table, line)) {
                std::istringstream(line) >> number >> local >> remote >> state;
                const size_t colon = local.find(':');
                if (state == "0A" && local.substr(colon) == at)
                    addresses += local.substr(0, colon);
            }
        }
        return addresses;
    }

    unsigned port_ = 0;
    unsigned local_size_ = 0; // not said
    const char *host_ = "127.0.0.1";
    const char *token_ = "run/0";
    unsigned job_port_ = 0;
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

TEST_F(Torchrun, FindsRank0ByName)
{
    if (!HasLocalhost())
        GTEST_SKIP() << "localhost is no name here";
    host_ = "localhost";
    ExpectTwoMeet();
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
    ExpectTwoMeet();
}

// ---- the job's store ----

// Serves a store to all, as torchrun's agent does.
Process JobStore(int listener)
{
    return Process([listener]() -> std::string {
        const store_thread::TcpStore server(listener);
        for (;;)
            pause();
    });
}

class TorchrunJob : public Torchrun
{
  protected:
    // Without the job's store nobody finds rank 0.
    TorchrunJob() : listener_(Bound(&job_port_)), store_(Serve())
    {
        port_ = 0;
        close(listener_);
    }

    Process Serve() const
    {
        listen(listener_, 64);
        return JobStore(listener_);
    }

    // Returns the address that rank 0 has published, or "".
    std::string Place(bool waits) const
    {
        const auto address = stp_store_at("127.0.0.1", job_port_);
        stp_client client{};
        char place[128];
        size_t size = 0;
        bool is_there = false;
        EXPECT_TRUE(stp_client_open(&client, &address, "run/0", INT64_MAX));
        EXPECT_TRUE(stp_client_check(&client, "rank0", &is_there));
        EXPECT_TRUE(
            (!is_there && !waits) ||
            stp_client_get(&client, "rank0", place, sizeof(place), &size));
        stp_client_close(&client);
        return std::string(place, size);
    }

    int listener_;
    Process store_;
};

TEST_F(TorchrunJob, IsWhereRanksFindRank0)
{
    for (unsigned n : {2u, 8u}) {
        std::deque<Process> ranks;
        for (unsigned rank = n; rank-- > 0;)
            ranks.push_back(Start(rank, n));
        for (Process &rank : ranks)
            EXPECT_EQ("ok", rank.Said());
    }

    EXPECT_EQ("", Place(false)) << "nothing is left in the job's store";
}

TEST_F(TorchrunJob, OutlivesWhatAKilledRunLeft)
{
    for (const char *stale : {"1 abc", "99999 abc", "0 abc", "oops", ""}) {
        const auto address = stp_store_at("127.0.0.1", job_port_);
        stp_client client{};
        EXPECT_TRUE(stp_client_open(&client, &address, "run/0", INT64_MAX));
        bool is_there = false; // which a SET does not confirm
        EXPECT_TRUE(stp_client_set(&client, "rank0", stale, strlen(stale)));
        EXPECT_TRUE(stp_client_check(&client, "rank0", &is_there));
        stp_client_close(&client);
        ExpectTwoMeet();
    }
}

TEST_F(TorchrunJob, GivesTheRanksATokenThatNobodyKnows)
{
    Process first = Start(0, 3);
    const std::string place = Place(true);
    const std::string token = place.substr(place.find(' ') + 1);
    port_ = static_cast<unsigned>(atoi(place.c_str()));

    EXPECT_EQ(32u, token.size());
    EXPECT_EQ("closed", Answer(Hello(1, 3, "run/0")));
    EXPECT_EQ("joined", Answer(Hello(1, 3, token.c_str())));
    Process second = Start(1, 3);
    Process third = Start(2, 3);
    EXPECT_EQ("ok", first.Said());
    EXPECT_EQ("ok", second.Said());
    EXPECT_EQ("ok", third.Said());
}

// The port belongs to a process that is no store: it closes each connection, or
// sends something.
TEST_F(Torchrun, DoesWithoutAStoreThatDoesNotAnswer)
{
    for (const char *said : {"", "zz"}) {
        unsigned port = 0;
        int listener = Bound(&port);
        listen(listener, 64);
        Process stranger([&] {
            for (;;) {
                int fd = accept(listener, nullptr, nullptr);
                send(fd, said, strlen(said), MSG_NOSIGNAL);
                close(fd);
            }
            return "";
        });
        close(listener);
        job_port_ = port;
        ExpectTwoMeet();
    }
}

// ---- who does not belong ----

// All ranks are of one torchrun, whatever MASTER_ADDR is: of 192.0.2.1, a proxy
// say, or of a name that nobody knows.  Rank 0's only listening socket is one
// that no other host reaches.
TEST_F(Torchrun, ListensOnTheLoopbackWhereAllRanksAreOfOneHost)
{
    for (const char *host : {"127.0.0.1", "192.0.2.1", "no.such.invalid"}) {
        host_ = host;
        local_size_ = 2;
        Process first = Start(0, 2);
        close(Connect());
        EXPECT_EQ("0100007F", ListensAt(port_)) << host;
        Process other = Start(1, 2);

        EXPECT_EQ("ok", first.Said()) << host;
        EXPECT_EQ("ok", other.Said()) << host;
    }
}

// More than rank 0 hears at once, and none says a word of this run.
TEST_F(Torchrun, IsNotHeldUpByStrangers)
{
    Process first = Start(0, 2);
    std::vector<int> strangers;
    for (int i = 0; i < 300; i++) {
        strangers.push_back(Connect());
        const std::string said =
            i % 3 == 0 ? Hello(1, 2).substr(0, 20) : Hello(1, 2, "guess");
        if (i % 3 != 2)
            send(strangers.back(), said.data(), said.size(), MSG_NOSIGNAL);
    }
    Process other = Start(1, 2);

    EXPECT_EQ("ok", first.Said());
    EXPECT_EQ("ok", other.Said());
    for (int fd : strangers)
        close(fd);
}

TEST_F(Torchrun, HearsRanksWhereThereAreMoreThanFilesAreAllowed)
{
    limit_ms_ = 2000;
    Process first([this] {
        const rlimit few{16, 16};
        setrlimit(RLIMIT_NOFILE, &few);
        return Run(Settings(0, 64), [](stp_world &) { return "all came"; });
    });
    int fd = Connect();

    EXPECT_EQ("joined", Ask(fd, Hello(1, 64)));
    EXPECT_EQ("rank 2 and 61 others of 64 did not come to rank 0's port " +
                  std::to_string(port_) + " in 2 s",
              first.Said());
    close(fd);
}

TEST_F(Torchrun, TurnsAwayWhoDoesNotBelong)
{
    Process first = Start(0, 3);
    int silent = Connect();
    int joined = Connect();
    EXPECT_EQ("joined", Ask(joined, Hello(1, 3)));

    EXPECT_EQ("closed", Answer("GET / HTTP/1.1\r\nHost: here\r\n\r\n"));
    EXPECT_EQ("closed", Answer(Hello(2, 3, "another/0")));
    EXPECT_EQ("closed", Answer(Hello(2, 3, "")));
    EXPECT_EQ("there is a rank 1 already", Answer(Hello(1, 3)));
    EXPECT_EQ("its WORLD_SIZE is 4, that of rank 0 is 3", Answer(Hello(2, 4)));
    EXPECT_EQ("there is no rank 0 in a run of 3", Answer(Hello(0, 3)));
    EXPECT_EQ("there is no rank 3 in a run of 3", Answer(Hello(3, 3)));
    EXPECT_EQ("it is another version of Steptune than rank 0 is",
              Answer(Hello(2, 3, "run/0", 7)));
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
    const std::string at = "rank 1 could not reach rank 0 at ";
    const std::string nobody =
        ", port " + std::to_string(port_) + ", in 0.1 s: Connection refused";

    EXPECT_EQ(at + "127.0.0.1" + nobody, Start(1, 2).Said());
    host_ = "localhost";
    if (HasLocalhost())
        EXPECT_THAT(Start(1, 2).Said(),
                    AnyOf(at + "localhost (127.0.0.1)" + nobody,
                          at + "localhost (::1)" + nobody));
}

// As long as an answer of rank 0, and without a refusal where it has one.
TEST_F(Torchrun, IsNotDeceivedByAnother)
{
    limit_ms_ = 100;
    int listener = Bound(&port_);
    ASSERT_EQ(0, listen(listener, 1));
    Process stranger([&] {
        for (std::string zeros(sizeof(stp_star_answer), '\0');;) {
            int fd = accept(listener, nullptr, nullptr);
            send(fd, zeros.data(), zeros.size(), MSG_NOSIGNAL);
            close(fd);
        }
        return "";
    });
    close(listener);

    EXPECT_EQ("rank 1 could not reach rank 0 at 127.0.0.1, port " +
                  std::to_string(port_) +
                  ", in 0.1 s: what listens there did not answer as rank 0 of "
                  "Steptune does",
              Start(1, 2).Said());
}

TEST_F(Torchrun, TriesAgainAfterAnother)
{
    Process other = Start(1, 2);
    int listener = Bound(&port_);
    ASSERT_EQ(0, listen(listener, 1));
    close(accept(listener, nullptr, nullptr));
    close(listener);

    EXPECT_EQ("ok", Start(0, 2).Said());
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

// Here rank 1 is gone before it says more than hello.
TEST_F(Torchrun, LooksForThoseWhoCameWhileItHadNoTurn)
{
    stp_star_options o{};
    stp_world world;
    stp_error err{};
    o.name = "test";
    o.size = 2;
    o.listener = Bound(&port_);
    o.token = token_;
    ASSERT_EQ(0, listen(o.listener, 1));
    ASSERT_EQ(0, fcntl(o.listener, F_SETFL, O_NONBLOCK));
    int fd = Connect();
    const std::string hello = Hello(1, 2);
    ASSERT_EQ(ssize_t(hello.size()), write(fd, hello.data(), hello.size()));
    ASSERT_EQ(0, shutdown(fd, SHUT_WR));

    EXPECT_NE(STP_OK, stp_star_open(&o, &world, &err));
    EXPECT_STREQ("rank 1 died", err.text);
    close(fd);
}

TEST_F(Torchrun, TellsThoseWhoCameWhoDidNot)
{
    limit_ms_ = 4000;
    Process first = Start(0, 4);
    EXPECT_EQ("its WORLD_SIZE is 3, that of rank 0 is 4", Answer(Hello(1, 3)));
    Process third = Start(2, 4);
    std::string want =
        "rank 1 and 1 other of 4 did not come to rank 0's port " +
        std::to_string(port_) +
        " in 4 s; one was refused: its WORLD_SIZE is 3, that of rank 0 is 4";

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
            std::string said = Run(settings, [](stp_world &world) {
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
