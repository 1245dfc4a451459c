// What the server of a store answers to its clients, and to what is none.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/time.h>

#include <string>
#include <vector>

extern "C" {
#include "launch/store_server.h"
#include "store/clock.h"
#include "store/store_client.h"
}

#include "launch/store_requests.h"
#include "support/processes.h"

namespace
{

using processes::Process;
using namespace requests;

// A process that serves a store with the token "test" on a port.
class Store : public testing::Test
{
  protected:
    Store() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0))
    {
        sockaddr_in address{};
        socklen_t size = sizeof(address);
        auto *any = reinterpret_cast<sockaddr *>(&address);
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(0, bind(listener_, any, size));
        EXPECT_EQ(0, listen(listener_, 1000));
        EXPECT_EQ(0, getsockname(listener_, any, &size));
        port_ = ntohs(address.sin_port);
    }

    std::string Serve() const
    {
        stp_server *server;
        stp_error err{};
        if (stp_server_new("test", nullptr, &server, &err) != STP_OK ||
            !stp_server_listen(server, listener_))
            return err.text;
        while (stp_server_step(server, 1000))
            ;
        return "no more sockets";
    }

    int Connect() const
    {
        const auto address = stp_store_at("127.0.0.1", port_);
        stp_client client{};
        EXPECT_TRUE(stp_client_open(&client, &address, "test", INT64_MAX));
        fcntl(client.fd, F_SETFL, 0);
        Limit(client.fd);
        return client.fd; // VALIDATE has been sent
    }

    // Else a test would wait for ever for a reply that is missing.
    static void Limit(int fd)
    {
        const timeval limit{10, 0};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    }

    // Without VALIDATE.
    int ConnectSilently() const
    {
        sockaddr_in address{};
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<uint16_t>(port_));
        Limit(fd);
        EXPECT_EQ(0, connect(fd, reinterpret_cast<sockaddr *>(&address),
                             sizeof(address)));
        return fd;
    }

    static void Send(int fd, const std::string &bytes)
    {
        EXPECT_EQ(static_cast<ssize_t>(bytes.size()),
                  send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL));
    }

    // The next 'size' bytes, or fewer if the server closes the connection.
    static std::string Receive(int fd, size_t size)
    {
        std::string bytes(size, '\0');
        ssize_t n = size == 0 ? 0 : recv(fd, bytes.data(), size, MSG_WAITALL);
        return bytes.substr(0, n < 0 ? 0 : static_cast<size_t>(n));
    }

    void ExpectServes(const char *after) const
    {
        int fd = Connect();
        Send(fd,
             Query(STP_SET, Key("k") + Value("v")) + Query(STP_GET, Key("k")));
        EXPECT_EQ(Value("v"), Receive(fd, 9)) << after;
        close(fd);
    }

    int listener_;
    unsigned port_ = 0;
    Process server_{[this] { return Serve(); }};
};

// In order, on one connection; sent in any pieces.
struct ReplyCase {
    const char *name;
    std::string request, reply;
};

const std::string k0(1, '\0'), k1(1, '\1');

// clang-format off
const ReplyCase kReplies[] = {
    {"set", Query(STP_SET, Key("a") + Value("one")), ""},
    {"get", Query(STP_GET, Key("a")), Value("one")},
    {"append", Query(STP_APPEND, Key("a") + Value("two")), ""},
    {"append to nothing", Query(STP_APPEND, Key("b") + Value("")), ""},
    {"get both", Query(STP_GET, Key("a")) + Query(STP_GET, Key("b")),
     Value("onetwo") + Value("")},
    {"add to nothing", Query(STP_ADD, Key("n") + U64(5)), U64(5)},
    {"add a negative", Query(STP_ADD, Key("n") + U64(~6UL)), U64(~1UL)},
    {"the sum is text", Query(STP_GET, Key("n")), Value("-2")},
    {"check", Query(STP_CHECK, U64(2) + Key("a") + Key("n")), k0},
    {"check not ready", Query(STP_CHECK, U64(2) + Key("a") + Key("x")), k1},
    {"check nothing", Query(STP_CHECK, U64(0)), k0},
    {"wait", Query(STP_WAIT, U64(2) + Key("a") + Key("n")), k0},
    {"set another", Query(STP_SET, Key("c") + Value("C")), ""},
    {"delete", Query(STP_DELETE_KEY, Key("c")), U64(1)},
    {"delete again", Query(STP_DELETE_KEY, Key("c")), U64(0)},
    {"compare-set a new key",
     Query(STP_COMPARE_SET, Key("e") + Value("") + Value("E")), Value("E")},
    {"compare-set a missing key",
     Query(STP_COMPARE_SET, Key("f") + Value("F") + Value("G")), Value("F")},
    {"compare-set what it has",
     Query(STP_COMPARE_SET, Key("e") + Value("E") + Value("EE")), Value("EE")},
    {"compare-set what it has not",
     Query(STP_COMPARE_SET, Key("e") + Value("E") + Value("F")), Value("EE")},
    {"a set behind a get",
     Query(STP_GET, Key("late")) + Query(STP_SET, Key("late") + Value("L")),
     Value("L")},
};
// clang-format on

TEST_F(Store, AnswersAsPyTorchsDoes)
{
    for (size_t piece : {size_t(1), size_t(7), size_t(100000)}) {
        int fd = Connect();
        for (const ReplyCase &c : kReplies) {
            for (size_t i = 0; i < c.request.size(); i += piece)
                Send(fd, c.request.substr(i, piece));
            EXPECT_EQ(c.reply, Receive(fd, c.reply.size()))
                << c.name << " in pieces of " << piece;
        }
        for (const char *key : {"a", "b", "e", "late", "n"}) {
            Send(fd, Query(STP_DELETE_KEY, Key(key)));
            EXPECT_EQ(U64(1), Receive(fd, 8)) << key;
        }
        close(fd);
    }
}

TEST_F(Store, AnswersAWaitWhenAnotherSetsTheKeys)
{
    int waits = Connect(), sets = Connect();
    Send(waits, Query(STP_WAIT, U64(2) + Key("p") + Key("q")) +
                    Query(STP_GET, Key("p")));
    for (const char *key : {"q", "p"}) {
        pollfd polled{waits, POLLIN, 0};
        EXPECT_EQ(0, poll(&polled, 1, 0)) << "before " << key;
        Send(sets, Query(STP_SET, Key(key) + Value(key)));
    }

    EXPECT_EQ(k0 + Value("p"), Receive(waits, 10));
    close(waits);
    close(sets);
}

TEST_F(Store, HasAClientForAllThis)
{
    const auto address = stp_store_at("127.0.0.1", port_);
    stp_client client{};
    bool is_there = true;
    int64_t sum = 0;
    char value[8] = "";
    size_t size = 0;
    ASSERT_TRUE(stp_client_open(&client, &address, "test", INT64_MAX));

    EXPECT_TRUE(stp_client_check(&client, "k", &is_there) && !is_there);
    EXPECT_TRUE(stp_client_set(&client, "k", "value", 5));
    EXPECT_TRUE(stp_client_wait(&client, "k"));
    EXPECT_TRUE(stp_client_get(&client, "k", value, sizeof(value), &size));
    EXPECT_EQ("value", std::string(value, size));
    EXPECT_TRUE(stp_client_add(&client, "n", 40, &sum));
    EXPECT_TRUE(stp_client_add(&client, "n", 2, &sum) && sum == 42);
    EXPECT_TRUE(stp_client_delete(&client, "n"));
    EXPECT_TRUE(stp_client_check(&client, "n", &is_there) && !is_there);
    EXPECT_TRUE(stp_client_compare_set(&client, "k", "x", 1, nullptr, value,
                                       sizeof(value), &size) &&
                size == 5);
    EXPECT_FALSE(stp_client_get(&client, "k", value, 4, &size));
    EXPECT_STREQ("the store does not answer: Message too long", client.why);
    client.deadline_ms = stp_now_ms();
    EXPECT_FALSE(stp_client_wait(&client, "never"));
    stp_client_close(&client);
}

// Each closes its connection, and no other.
TEST_F(Store, ClosesWhatIsNoClient)
{
    const std::string large(STP_STORE_MAX_KEY + 1, 'k');
    const struct {
        const char *name;
        std::string bytes;
    } cases[] = {
        {"no VALIDATE", Query(STP_GET, Key("k"))},
        {"another number", Validate(7)},
        {"VALIDATE twice", Validate() + Validate()},
        {"no query", Validate() + "\x0e"},
        {"http", "GET / HTTP/1.1\r\n\r\n"},
        {"TLS", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 9)},
        {"ssh", "SSH-2.0-OpenSSH_9.2\r\n"},
        {"zeros", std::string(4096, '\0')},
        {"all bits", std::string(4096, '\xff')},
        {"another token", Validate() + Query(STP_SET, Key("k", "guess"))},
        {"no token", Validate() + Query(STP_CHECK, U64(1) + Value("k"))},
        {"a part of the prefix", Validate() + Query(STP_GET, Value("/step"))},
        {"the prefix alone", Validate() + Query(STP_GET, Key(""))},
        {"what is not served", Validate() + Query(STP_GETNUMKEYS)},
        {"long key", Validate() + Query(STP_GET, Value(large))},
        {"a key of less than nothing",
         Validate() + Query(STP_GET, U64(1UL << 63))},
        {"many keys without a token",
         Validate() + Query(STP_CHECK, U64(STP_STORE_MAX_KEYS) +
                                           Key("k", "guess") + Value("v"))},
        {"more than a stranger may say",
         Validate() + Query(STP_SET, U64(STP_STORE_MAX_KEY) +
                                         std::string(STP_STORE_MAX_KEY, 'k') +
                                         U64(STP_STORE_MAX_VALUE) +
                                         std::string(8192, 'v'))},
        {"longest key", Validate() + Query(STP_GET, U64(~0UL))},
        {"a NUL in a key", Validate() + Query(STP_GET, Key({"a\0b", 3}))},
        {"too many keys", Validate() + Query(STP_WAIT, U64(1UL << 40))},
        {"large value",
         Validate() + Query(STP_SET, Key("k") + U64(STP_STORE_MAX_VALUE + 1))},
        {"largest value", Validate() + Query(STP_SET, Key("k") + U64(~0UL))},
        {"too much behind a get",
         Validate() + Query(STP_GET, Key("k0")) +
             std::string(70000, static_cast<char>(STP_GET))},
        {"a number that is none",
         Validate() + Query(STP_SET, Key("long") + Value(large)) +
             Query(STP_ADD, Key("long") + U64(1))},
    };

    for (const auto &c : cases) {
        int fd = ConnectSilently();
        Send(fd, c.bytes);
        EXPECT_EQ("", Receive(fd, 1)) << c.name;
        close(fd);
        ExpectServes(c.name);
    }
}

TEST_F(Store, DropsTheOldestOfTooManyStrangers)
{
    std::vector<int> strangers;
    for (int i = 0; i < 300; i++)
        strangers.push_back(ConnectSilently());

    ExpectServes("300 strangers");
    EXPECT_EQ("", Receive(strangers.front(), 1));
    for (int fd : strangers)
        close(fd);
}

// As processes that were forked have: the kernel still tells of the socket
// after the server has closed it.
TEST(StoreServer, ForgetsASocketThatAnotherProcessHasToo)
{
    int pair[2], n_closed = 0;
    stp_server *server;
    stp_error err{};
    stp_server_hooks hooks{};

    hooks.user = &n_closed;
    hooks.closed = [](void *user, int, bool) { ++*static_cast<int *>(user); };
    ASSERT_EQ(STP_OK, stp_server_new("test", &hooks, &server, &err));
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    const int other = dup(pair[0]);
    ASSERT_TRUE(stp_server_adopt(server, pair[0], 1, "a"));
    close(pair[1]);

    for (int i = 0; i < 3; i++)
        stp_server_step(server, 0);

    EXPECT_EQ(1, n_closed);
    stp_server_free(server);
    close(other);
}

} // namespace
