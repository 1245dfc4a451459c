// The processes of a hub, in a test.
#ifndef STP_TESTS_HUB_PROCESSES_H
#define STP_TESTS_HUB_PROCESSES_H

#include <arpa/inet.h>
#include <netinet/in.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

extern "C" {
#include "launch/hub.h"
}

#include "support/processes.h"

namespace processes
{

using Body = std::function<std::string(stp_world &)>;
using SocketPair = std::function<void(int[2])>;

inline void UnixPair(int fds[2])
{
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
}

inline void TcpPair(int fds[2])
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

// In a process of a hub: makes the world, lets 'body' use it, closes it.
inline std::string UseHub(unsigned rank, unsigned size, const int *fds,
                          const Body &body)
{
    stp_hub_options options{};
    options.name = "test";
    options.rank = rank;
    options.size = size;
    options.local_rank = rank;
    options.fds = fds;
    stp_world world;
    stp_error err{};
    if (stp_hub_open(&options, &world, &err) != STP_OK)
        return std::string("no world: ") + err.text;
    std::string said = body(world);
    world.ops->close(world.self);
    return said;
}

class Hub
{
  public:
    Hub(unsigned size, const Body &body, const SocketPair &pair = UnixPair)
    {
        std::vector<int> to(size, -1);
        for (unsigned r = 1; r < size; r++) {
            int fds[2];
            pair(fds);
            to[r] = fds[0];
            ranks_.emplace_back([&] {
                for (unsigned other = 1; other <= r; other++)
                    close(to[other]);
                return UseHub(r, size, &fds[1], body);
            });
            close(fds[1]);
        }
        ranks_.emplace_front([&] { return UseHub(0, size, to.data(), body); });
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

    // What each said, in order of rank.
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

inline std::vector<std::string> AllBut(unsigned rank,
                                       std::vector<std::string> said)
{
    said.erase(said.begin() + rank);
    return said;
}

} // namespace processes

#endif // STP_TESTS_HUB_PROCESSES_H
