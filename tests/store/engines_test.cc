// Every engine of a store keeps the same promises.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <set>
#include <stdexcept>

extern "C" {
#include "store/clock.h"
#include "store/store_client.h"
}

#include "support/store_thread.h"
#include "support/temporary_folder.h"

// While it is set, a byte comes and goes at each call.
static bool goes_on;

extern "C" ssize_t recv(int fd, void *to, size_t n, int flags)
{
    return goes_on ? 1 : recvfrom(fd, to, n, flags, nullptr, nullptr);
}

extern "C" ssize_t sendmsg(int fd, const msghdr *message, int flags)
{
    return goes_on ? 1 : syscall(SYS_sendmsg, fd, message, flags);
}

namespace
{

constexpr int64_t kLongMs = 60000; // nothing waits for it

// A store that is there as long as this is.
struct Place {
    std::shared_ptr<void> server;
    std::string url;
};

struct Engine {
    const char *name;
    Place (*open)();
};

void PrintTo(const Engine &engine, std::ostream *out)
{
    *out << engine.name;
}

Place OpenTcp()
{
    auto store = std::make_shared<store_thread::StoreThread>();
    return {store, "tcpstore://127.0.0.1:" + std::to_string(store->port())};
}

Place OpenFolder()
{
    auto folder = std::make_shared<TemporaryFolder>();
    std::filesystem::create_directory(folder->Path("a store"));
    return {folder, "file://" + folder->Path("a%20store")};
}

class Client : public stp_client
{
  public:
    explicit Client(const std::string &url)
    {
        stp_store_address place{};
        EXPECT_TRUE(stp_store_parse(url.c_str(), &place)) << url;
        if (!stp_client_open(this, &place, "agree", stp_now_ms() + kLongMs))
            throw std::runtime_error(why);
    }
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;
    ~Client()
    {
        stp_client_close(this);
    }

    void Set(const std::string &key, const std::string &value)
    {
        EXPECT_TRUE(
            stp_client_set(this, key.c_str(), value.data(), value.size()))
            << why;
    }

    // "?" if it fails.
    std::string Get(const std::string &key, size_t max = 1 << 20)
    {
        std::string value(max, '?');
        size_t size = 0;
        if (!stp_client_get(this, key.c_str(), value.data(), max, &size))
            return "?";
        return value.substr(0, size);
    }

    bool Has(const std::string &key)
    {
        bool is_there = false;
        EXPECT_TRUE(stp_client_check(this, key.c_str(), &is_there)) << why;
        return is_there;
    }

    int64_t Add(const std::string &key, int64_t number)
    {
        int64_t sum = -1;
        EXPECT_TRUE(stp_client_add(this, key.c_str(), number, &sum)) << why;
        return sum;
    }

    void Append(const std::string &key, const std::string &value)
    {
        EXPECT_TRUE(
            stp_client_append(this, key.c_str(), value.data(), value.size()))
            << why;
    }

    std::string CompareSet(const std::string &key, const std::string &value)
    {
        char now[64] = "";
        size_t size = 0;
        EXPECT_TRUE(stp_client_compare_set(this, key.c_str(), value.data(),
                                           value.size(), now, sizeof(now),
                                           &size))
            << why;
        return {now, size};
    }

    void Delete(const std::string &key)
    {
        EXPECT_TRUE(stp_client_delete(this, key.c_str())) << why;
    }
};

class Engines : public testing::TestWithParam<Engine>
{
  protected:
    void SetUp() override
    {
        place_ = GetParam().open();
        Client probe(place_.url); // throws: no test is begun
    }

    // Each thread has a client of its own.
    void InThreads(int n, const std::function<void(int, Client &)> &body) const
    {
        std::vector<std::thread> threads;
        for (int i = 0; i < n; i++)
            threads.emplace_back([&, i] {
                Client client(place_.url);
                body(i, client);
            });
        for (std::thread &thread : threads)
            thread.join();
    }

    Place place_;
};

TEST_P(Engines, KeepEveryValueForAllClients)
{
    Client writer(place_.url), reader(place_.url);
    const std::vector<std::string> values = {
        "", "value", std::string("a\0b\r\n$-1\r\n", 10), "%s %b %25",
        std::string(100000, 'x')};

    for (size_t i = 0; i < values.size(); i++) {
        const std::string key =
            "keys/of a job/%2F'\xc3\xa9" + std::to_string(i);
        writer.Set(key, values[i]);
        // A TCPStore confirms no SET: this client's next reply does.
        EXPECT_TRUE(writer.Has(key));
        EXPECT_EQ(values[i], reader.Get(key)) << i;
    }
    writer.Set("k", "long");
    writer.Set("k", "new");
    EXPECT_EQ("new", writer.Get("k"));
}

TEST_P(Engines, TellKeysThatAreThere)
{
    Client client(place_.url);

    EXPECT_FALSE(client.Has("k"));
    client.Set("k", "");
    EXPECT_TRUE(client.Has("k"));
    EXPECT_FALSE(client.Has("k/k"));
    client.Delete("k");
    client.Delete("k");
    EXPECT_FALSE(client.Has("k"));
}

TEST_P(Engines, LetGetAwaitAKey)
{
    InThreads(3, [](int i, Client &client) {
        if (i == 0)
            client.Set("k", "value");
        else
            EXPECT_EQ("value", client.Get("k"));
    });
}

TEST_P(Engines, EndAWaitAtTheDeadline)
{
    Client client(place_.url);
    client.Set("there", "x");
    EXPECT_EQ("x", client.Get("there"));
    client.deadline_ms = stp_now_ms() + 20;

    EXPECT_EQ("?", client.Get("never"));
    EXPECT_STREQ("the store does not answer: Connection timed out", client.why);
}

TEST_P(Engines, RefuseAValueThatIsTooLong)
{
    Client client(place_.url);

    client.Set("k", "value");
    EXPECT_EQ("value", client.Get("k", 5));
    EXPECT_EQ("?", client.Get("k", 4));
    EXPECT_STREQ("the store does not answer: Message too long", client.why);
}

TEST_P(Engines, AddToANumber)
{
    Client client(place_.url);

    EXPECT_EQ(0, client.Add("n", 0));
    EXPECT_EQ(1000, client.Add("n", 1000));
    EXPECT_EQ(998, client.Add("n", -2));
    EXPECT_EQ(998, client.Add("n", 0));
    EXPECT_EQ("998", client.Get("n"));
    EXPECT_EQ(-2, client.Add("n", -1000));
}

TEST_P(Engines, GiveNoSumTwice)
{
    std::vector<std::vector<int64_t>> sums(4);

    InThreads(4, [&](int i, Client &client) {
        for (int j = 0; j < 25; j++)
            sums[static_cast<size_t>(i)].push_back(client.Add("n", 1));
    });
    std::set<int64_t> all;
    for (const auto &of_one : sums)
        all.insert(of_one.begin(), of_one.end());
    EXPECT_EQ(100U, all.size());
    EXPECT_EQ(1, *all.begin());
    EXPECT_EQ(100, *all.rbegin());
}

TEST_P(Engines, AppendWholeRows)
{
    InThreads(4, [](int i, Client &client) {
        for (int j = 0; j < 25; j++)
            client.Append("rows", std::string(80, static_cast<char>('a' + i)));
        EXPECT_TRUE(client.Has("rows"));
    });
    Client client(place_.url);
    const std::string rows = client.Get("rows");
    std::vector<int> n_rows(4);
    ASSERT_EQ(8000U, rows.size());
    for (size_t i = 0; i < rows.size(); i += 80) {
        EXPECT_EQ(std::string(80, rows[i]), rows.substr(i, 80));
        n_rows.at(static_cast<size_t>(rows[i] - 'a'))++;
    }
    EXPECT_EQ((std::vector<int>{25, 25, 25, 25}), n_rows);
}

TEST_P(Engines, GiveAKeyOneValueByCompareSet)
{
    for (int round = 0; round < 10; round++) {
        const std::string key = "decision" + std::to_string(round);
        std::vector<std::string> now(4);
        InThreads(4, [&](int i, Client &client) {
            now[static_cast<size_t>(i)] =
                client.CompareSet(key, std::to_string(i));
        });
        EXPECT_THAT(now, testing::Each(now[0]));
        EXPECT_THAT((std::set<std::string>{"0", "1", "2", "3"}),
                    testing::Contains(now[0]));
        Client client(place_.url);
        EXPECT_EQ(now[0], client.CompareSet(key, "late"));
        EXPECT_EQ(now[0], client.Get(key));
    }
}

// clang-format off
const Engine kEngines[] = {
    {"tcpstore", OpenTcp},
    {"folder", OpenFolder},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Store, Engines, testing::ValuesIn(kEngines),
                         [](const auto &row) { return row.param.name; });

// The kernel drops who comes beyond those that wait to be taken.
TEST(ASocket, ThatNobodyTakesIsLeftAtTheDeadline)
{
    char address[STP_SOCKET_ADDRESS], why[80] = "";
    unsigned port;
    const int full = store_thread::Listen(&port);
    ASSERT_EQ(0, listen(full, 0));
    const int first = stp_socket_connect(
        "127.0.0.1", port, stp_now_ms() + 60000, address, why, sizeof(why));
    EXPECT_LE(0, first) << why;

    const int64_t deadline_ms = stp_now_ms() + 30;
    EXPECT_EQ(-1, stp_socket_connect("127.0.0.1", port, deadline_ms, address,
                                     why, sizeof(why)));
    EXPECT_STREQ("Connection timed out", why);
    EXPECT_LE(deadline_ms, stp_now_ms());
    close(first);
    close(full);
}

// A process that has no turn for long learns why nobody answered.
TEST(ASocket, ThatIsRefusedSaysSoAfterTheDeadline)
{
    char address[STP_SOCKET_ADDRESS], why[80] = "";
    unsigned port;
    close(store_thread::Listen(&port));

    EXPECT_EQ(-1, stp_socket_connect("127.0.0.1", port, stp_now_ms() - 1,
                                     address, why, sizeof(why)));
    EXPECT_STREQ("Connection refused", why);
}

// Bytes that come, or are taken, one by one and all the time do not move the
// deadline.
TEST(ASocket, ThatNeverStopsTalkingIsLeftAtTheDeadline)
{
    std::vector<char> bytes(1 << 26);
    int fds[2];
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
    ASSERT_EQ(1, write(fds[1], "x", 1)); // so that poll() finds it ready

    for (const bool sends : {false, true}) {
        iovec part = {bytes.data(), bytes.size()};
        const int64_t deadline_ms = stp_now_ms() + 20;
        goes_on = true;
        EXPECT_FALSE(sends
                         ? stp_socket_send(fds[0], &part, 1, false, deadline_ms)
                         : stp_socket_receive(fds[0], bytes.data(),
                                              bytes.size(), deadline_ms));
        EXPECT_EQ(ETIMEDOUT, errno);
        goes_on = false;
    }
    close(fds[0]);
    close(fds[1]);
}

} // namespace
