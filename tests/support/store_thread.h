// A store in a thread of the test, which can fail at a request.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

extern "C" {
#include "store/store.h"
}

namespace store_thread
{

// A socket that listens at a free port of 127.0.0.1.
inline int Listen(unsigned *port, bool answers = true)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    auto *any = reinterpret_cast<sockaddr *>(&address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(0, bind(fd, any, size));
    if (answers) {
        EXPECT_EQ(0, listen(fd, 1000));
    }
    EXPECT_EQ(0, getsockname(fd, any, &size));
    *port = ntohs(address.sin_port);
    return fd;
}

// A TCPStore that speaks PyTorch's protocol (store/store.h), a thread a
// connection: what our clients ask for.
class TcpStore
{
  public:
    // Called with each request that names a key; false closes the connection.
    using Hook =
        std::function<bool(stp_store_query query, const std::string &key)>;

    // Takes over a socket that listens.
    explicit TcpStore(int listener, Hook hook = nullptr)
        : listener_(listener), hook_(std::move(hook)), accepts_([this] {
              for (int fd; (fd = accept(listener_, nullptr, nullptr)) >= 0 ||
                           errno == EINTR;)
                  if (fd >= 0)
                      Add(fd);
          })
    {
    }
    TcpStore(const TcpStore &) = delete;
    TcpStore &operator=(const TcpStore &) = delete;
    ~TcpStore()
    {
        End();
        accepts_.join();
        for (Connection &c : connections_)
            c.thread.join();
        close(listener_);
    }

    // Closes all connections, and accepts no more.
    void End()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        ends_ = true;
        shutdown(listener_, SHUT_RDWR);
        for (Connection &c : connections_)
            if (c.fd >= 0)
                shutdown(c.fd, SHUT_RDWR);
        changed_.notify_all();
    }

  private:
    struct Connection {
        int fd;
        std::thread thread;
        std::atomic<bool> reads{false}; // a request
    };

    void Add(int fd)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        Connection &mine = connections_.emplace_back();
        mine.fd = fd;
        if (ends_)
            shutdown(fd, SHUT_RDWR);
        mine.thread = std::thread([this, fd, &mine] {
            uint8_t query;
            while (recv(fd, &query, 1, MSG_PEEK) == 1) {
                mine.reads = true;
                if (!Read(fd, &query, 1) ||
                    !Serve(fd, stp_store_query(query), &mine))
                    break;
                mine.reads = false;
            }
            std::lock_guard<std::mutex> ended(mutex_);
            close(fd);
            mine.fd = -1;
        });
    }

    static bool Read(int fd, void *to, size_t size)
    {
        return size == 0 ||
               recv(fd, to, size, MSG_WAITALL) == static_cast<ssize_t>(size);
    }
    static bool ReadText(int fd, std::string *text)
    {
        uint64_t size;
        if (!Read(fd, &size, sizeof(size)) || size > STP_STORE_MAX_VALUE)
            return false;
        text->resize(size);
        return Read(fd, text->data(), size);
    }
    static bool Reply(int fd, const void *data, size_t size)
    {
        return send(fd, data, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
    }
    static bool ReplyText(int fd, const std::string &text)
    {
        const uint64_t size = text.size();
        return Reply(
            fd,
            (std::string(reinterpret_cast<const char *>(&size), sizeof(size)) +
             text)
                .data(),
            sizeof(size) + text.size());
    }

    // PyTorch's server has one thread: what it answers is after all that was
    // sent before, also by others, who await no answer to what they set.
    void AwaitOthers(std::unique_lock<std::mutex> *lock, const Connection *mine)
    {
        const auto is_heard = [mine](const Connection *c) {
            int n = 0;
            return c != mine && c->fd >= 0 &&
                   (c->reads || (ioctl(c->fd, FIONREAD, &n) == 0 && n > 0));
        };
        std::list<const Connection *> others;
        for (const Connection &c : connections_)
            others.push_back(&c);
        for (int i = 0; i < 1000; i++) {
            others.remove_if([&](auto *c) { return !is_heard(c); });
            if (others.empty())
                return;
            lock->unlock();
            usleep(100);
            lock->lock();
        }
    }

    bool Serve(int fd, stp_store_query query, Connection *mine)
    {
        std::string key, value, expected;
        int64_t number = 0;
        uint32_t magic;
        uint64_t n = 1;
        if (query == STP_VALIDATE)
            return Read(fd, &magic, sizeof(magic)) && magic == STP_STORE_MAGIC;
        const bool takes_list = query == STP_CHECK || query == STP_WAIT;
        if ((takes_list && (!Read(fd, &n, sizeof(n)) || n != 1)) ||
            !ReadText(fd, &key) ||
            (query == STP_COMPARE_SET && !ReadText(fd, &expected)) ||
            ((query == STP_SET || query == STP_APPEND ||
              query == STP_COMPARE_SET) &&
             !ReadText(fd, &value)) ||
            (query == STP_ADD && !Read(fd, &number, sizeof(number))) ||
            (hook_ && !hook_(query, key)))
            return false;
        std::unique_lock<std::mutex> lock(mutex_);
        mine->reads = false;
        if (query != STP_SET && query != STP_APPEND)
            AwaitOthers(&lock, mine);
        const bool has = values_.count(key) != 0;
        const char byte = query == STP_CHECK && !has;
        switch (query) {
        case STP_SET:
            values_[key] = value;
            break;
        case STP_APPEND:
            values_[key] += value;
            break;
        case STP_COMPARE_SET:
            if (has ? values_[key] == expected : expected.empty())
                values_[key] = value;
            changed_.notify_all();
            return ReplyText(fd, values_.count(key) ? values_[key] : expected);
        case STP_ADD:
            number += has ? std::stoll(values_[key]) : 0;
            values_[key] = std::to_string(number);
            changed_.notify_all();
            return Reply(fd, &number, sizeof(number));
        case STP_DELETE_KEY:
            number = static_cast<int64_t>(values_.erase(key));
            return Reply(fd, &number, sizeof(number));
        case STP_CHECK:
            return Reply(fd, &byte, 1);
        case STP_GET:
        case STP_WAIT:
            changed_.wait(lock,
                          [&] { return ends_ || values_.count(key) != 0; });
            return !ends_ && (query == STP_GET ? ReplyText(fd, values_[key])
                                               : Reply(fd, &byte, 1));
        default:
            return false;
        }
        changed_.notify_all();
        return true;
    }

    const int listener_;
    const Hook hook_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ends_ = false;
    std::map<std::string, std::string> values_;
    std::list<Connection> connections_;
    std::thread accepts_; // last: it uses the others
};

// The n-th request of a kind, from 1, about a key that ends so, is not served.
struct Failure {
    stp_store_query query = STP_N_QUERIES; // none
    const char *key = "";
    int n = 0;
    enum { DIES, DROPS } how = DIES; // the store, or only that connection
};

class StoreThread
{
  public:
    explicit StoreThread(Failure failure = {}) : failure_(failure)
    {
        const int fd = Listen(&port_);
        server_ = std::make_unique<TcpStore>(
            fd, [this](stp_store_query query, const std::string &key) {
                return Serve(query, key.substr(key.rfind('/') + 1));
            });
    }

    unsigned port() const
    {
        return port_;
    }

    bool is_dead() const
    {
        return is_dead_;
    }

    size_t n_requests()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        size_t n = 0;
        for (const auto &count : counts_)
            n += static_cast<size_t>(count.second);
        return n;
    }

    // About a key that ends so.
    int n_requests(stp_store_query query, const std::string &key)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return counts_[{query, key}];
    }

    // Waits until there were so many requests about a key that ends so.
    void Await(stp_store_query query, const std::string &key, int n)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return counts_[{query, key}] >= n; });
    }

  private:
    bool Serve(stp_store_query query, const std::string &key)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        const int n = ++counts_[{query, key}];
        const bool fails =
            query == failure_.query && key == failure_.key && n == failure_.n;
        changed_.notify_all();
        if (fails && failure_.how == Failure::DIES) {
            is_dead_ = true;
            server_->End();
        }
        return !fails && !is_dead_;
    }

    Failure failure_;
    unsigned port_ = 0;
    std::atomic<bool> is_dead_{false};
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::pair<int, std::string>, int> counts_;
    std::unique_ptr<TcpStore> server_; // last: it uses the others
};

} // namespace store_thread
