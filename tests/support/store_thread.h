// A store in a thread of the test, which can fail at a request.
#ifndef STP_STORE_THREAD_H
#define STP_STORE_THREAD_H

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>

extern "C" {
#include "launch/store_server.h"
}

namespace store_thread
{

// A socket that listens at a free port of 127.0.0.1.
inline int Listen(unsigned *port, bool answers = true)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
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

// The n-th request of a kind, from 1, about a key that ends so, is not served.
struct Failure {
    stp_query query = STP_N_QUERIES; // none
    const char *key = "";
    int n = 0;
    enum { DIES, DROPS } how = DIES; // the store, or only that connection
};

class StoreThread
{
  public:
    explicit StoreThread(Failure failure = {}) : failure_(failure)
    {
        const stp_server_hooks hooks{this, MayUse, nullptr, nullptr};
        stp_error err{};
        int fd = Listen(&port_);
        EXPECT_EQ(STP_OK, stp_server_new("agree", &hooks, &server_, &err));
        EXPECT_TRUE(stp_server_listen(server_, fd));
        thread_ = std::thread([this] {
            while (!ends_ && !is_dead_)
                stp_server_step(server_, 10);
            stp_server_free(server_);
        });
    }
    StoreThread(const StoreThread &) = delete;
    StoreThread &operator=(const StoreThread &) = delete;
    ~StoreThread()
    {
        ends_ = true;
        thread_.join();
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
    int n_requests(stp_query query, const std::string &key)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return counts_[{query, key}];
    }

    // Waits until there were so many requests about a key that ends so.
    void Await(stp_query query, const std::string &key, int n)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return counts_[{query, key}] >= n; });
    }

  private:
    static bool MayUse(void *self, int, stp_query query, const char *key)
    {
        const std::string name = key;
        return static_cast<StoreThread *>(self)->Serve(
            query, name.substr(name.rfind('/') + 1));
    }

    bool Serve(stp_query query, const std::string &key)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        const int n = ++counts_[{query, key}];
        const bool fails =
            query == failure_.query && key == failure_.key && n == failure_.n;
        changed_.notify_all();
        if (fails && failure_.how == Failure::DIES)
            is_dead_ = true;
        return !fails && !is_dead_;
    }

    Failure failure_;
    unsigned port_ = 0;
    stp_server *server_ = nullptr;
    std::atomic<bool> ends_{false}, is_dead_{false};
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::pair<int, std::string>, int> counts_;
    std::thread thread_;
};

} // namespace store_thread

#endif // STP_STORE_THREAD_H
