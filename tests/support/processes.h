// Processes of a test: each does one thing and says in a string how it went.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

extern "C" {
#include "launch/world.h"
}

namespace processes
{

class Process
{
  public:
    // Forks; what 'body' returns, Said() returns here.
    explicit Process(const std::function<std::string()> &body)
    {
        int fds[2];
        EXPECT_EQ(0, pipe(fds));
        fflush(nullptr);
        pid_ = fork();
        EXPECT_LE(0, pid_);
        if (pid_ == 0) {
            close(fds[0]);
            std::string said = body();
            bool done = write(fds[1], said.data(), said.size()) ==
                        static_cast<ssize_t>(said.size());
            _exit(done ? 0 : 1);
        }
        close(fds[1]);
        fd_ = fds[0];
    }
    Process(Process &&other)
        : pid_(std::exchange(other.pid_, 0)), fd_(std::exchange(other.fd_, -1))
    {
    }
    Process &operator=(Process &&) = delete;
    ~Process()
    {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
        close(fd_);
    }

    pid_t pid() const
    {
        return pid_;
    }

    // Waits until it is gone; "" if it said nothing.
    std::string Said()
    {
        std::string said;
        char buf[4096];
        for (ssize_t n; (n = read(fd_, buf, sizeof(buf))) > 0;)
            said.append(buf, static_cast<size_t>(n));
        waitpid(pid_, &status_, 0);
        pid_ = 0;
        return said;
    }

    void AwaitStop() const
    {
        int status;
        EXPECT_EQ(pid_, waitpid(pid_, &status, WUNTRACED));
        EXPECT_TRUE(WIFSTOPPED(status));
    }

    // As waitpid() has it, after Said().
    int status() const
    {
        return status_;
    }

  private:
    pid_t pid_ = 0;
    int fd_ = -1;
    int status_ = 0;
};

// Lets processes wait for each other.
class Gate
{
  public:
    Gate()
    {
        EXPECT_EQ(0, pipe(fds_));
    }
    ~Gate()
    {
        close(fds_[0]);
        close(fds_[1]);
    }
    Gate(const Gate &) = delete;
    Gate &operator=(const Gate &) = delete;

    // Lets 'n' through.
    void Open(size_t n = 1)
    {
        std::string tokens(n, '.');
        EXPECT_EQ(static_cast<ssize_t>(n), write(fds_[1], tokens.data(), n));
    }
    void Pass()
    {
        char token;
        while (read(fds_[0], &token, 1) != 1)
            ;
    }

  private:
    int fds_[2];
};

inline std::string Host()
{
    char name[256] = "";
    gethostname(name, sizeof(name) - 1);
    return std::string(name).substr(0, 63);
}

// As errors name it.
inline std::string Named(unsigned rank, pid_t pid)
{
    return "rank " + std::to_string(rank) + " (" + Host() + ", process " +
           std::to_string(pid) + ")";
}

// Exchanges 'size' bytes of each rank; returns "ok" or a fault.
inline std::string Exchange(const stp_world &world, size_t size = 8)
{
    std::vector<char> mine(size, static_cast<char>('a' + world.rank % 26));
    std::vector<char> all(size * world.size, '?');
    stp_error err{};
    if (world.ops->exchange(world.self, mine.data(), size, all.data(), &err) !=
        STP_OK)
        return err.text;
    for (unsigned r = 0; r < world.size; r++) {
        std::vector<char> want(size, static_cast<char>('a' + r % 26));
        if (size > 0 && memcmp(&all[r * size], want.data(), size) != 0)
            return "wrong bytes of rank " + std::to_string(r);
    }
    return "ok";
}

// Waits until alive() reports a death, and returns its sentence.
inline std::string AwaitDeath(const stp_world &world)
{
    stp_error err{};
    while (world.ops->alive(world.self, &err))
        usleep(1000);
    return err.text;
}

inline bool IsAlive(const stp_world &world)
{
    stp_error err{};
    return world.ops->alive(world.self, &err);
}

inline void BeKilled()
{
    kill(getpid(), SIGKILL);
}

} // namespace processes
