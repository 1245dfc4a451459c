// What a Redis server is asked for, and how it fails: every failure is a
// sentence before the deadline, and none has the password in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "agree/hosts.h"
#include "store/clock.h"
#include "store/store_client.h"
}

#include "support/redis_server.h"
#include "support/store_thread.h"

namespace
{

using redis_server::Server;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

// Opens a store and sets and gets a key.  "ok", or why not.
std::string Try(const std::string &url, int64_t ms = 60000)
{
    stp_store_address address{};
    stp_client client{};
    char value[8] = "";
    size_t size = 0;
    EXPECT_TRUE(stp_store_parse(url.c_str(), &address)) << url;
    const bool is_good =
        stp_client_open(&client, &address, "agree", stp_now_ms() + ms) &&
        stp_client_set(&client, "k", "value", 5) &&
        stp_client_get(&client, "k", value, sizeof(value), &size);
    const std::string why = client.why;
    stp_client_close(&client);
    return is_good ? std::string(value, size) : why;
}

class Redis : public testing::Test
{
  protected:
    void SetUp() override
    {
        const std::string why_not = redis_server::WhyNot(true);
        if (!why_not.empty())
            GTEST_SKIP() << why_not;
    }
};

// ---- login ----

struct Login {
    const char *name;
    Arguments arguments;
    const char *login, *said;
};

TEST_F(Redis, AdmitsWhoKnowsThePassword)
{
    const Arguments password = {"--requirepass", "secret"};
    const Arguments user = {"--user",  "me",           "on",
                            ">secret", "~/steptune/*", "+@all"};
    const Arguments no_auth = {"--rename-command", "AUTH", ""};
    const Arguments read_only = {"--user", "default", "on",
                                 "nopass", "~*",      "+get"};
    const char *const refused =
        "the Redis server refuses the user or the password";
    const Login cases[] = {
        {"password", password, ":secret@", "value"},
        {"wrong", password, ":secret2@", refused},
        {"none", password, "",
         "the Redis server refuses: NOAUTH Authentication required."},
        {"user", user, "me:secret@", "value"},
        {"wrong_user", user, "you:secret@", refused},
        {"no_password_needed", {}, ":secret@", refused},
        // This server repeats the arguments of commands that it does not know.
        {"no_auth", no_auth, ":secret@", refused},
        {"user_without_rights", read_only, "",
         "the Redis server refuses: NOPERM this user has no permissions to "
         "run the 'set' command"},
    };

    for (const Login &c : cases) {
        const Server server(c.arguments);
        EXPECT_THAT(Try(server.Url(c.login)), StartsWith(c.said)) << c.name;
    }
}

// ---- TLS ----

TEST_F(Redis, MustProveWithTlsWhoItIs)
{
    const Server server({"TLS", "--tls-auth-clients", "no"});
    const std::string port = std::to_string(server.port());
    const std::string ca = "cacert=" + server.folder() + "/ca.pem";
    const std::string untrusted = "the server cannot be trusted: ";
    const Server plain;

    EXPECT_EQ("value", Try("rediss://127.0.0.1:" + port + "?" + ca));
    EXPECT_THAT(Try("rediss://127.0.0.1:" + port),
                AllOf(StartsWith(untrusted), HasSubstr("certificate")));
    EXPECT_EQ(untrusted + "hostname mismatch",
              Try("rediss://localhost:" + port + "?" + ca));
    EXPECT_THAT(Try("rediss://127.0.0.1:" + port + "?cacert=/no/ca.pem"),
                StartsWith("cacert=/no/ca.pem: "));
    EXPECT_NE("value", Try("redis://127.0.0.1:" + port));
    EXPECT_NE("value",
              Try("rediss://127.0.0.1:" + std::to_string(plain.port()), 50));
}

TEST_F(Redis, MayAskForACertificate)
{
    const Server server({"TLS"});
    const std::string file = server.folder() + "/client.";

    EXPECT_EQ("value", Try(server.Url("", "") + "&cert=" + file +
                           "pem&key=" + file + "key"));
    EXPECT_NE("value", Try(server.Url()));
    EXPECT_THAT(Try(server.Url() + "&cert=" + file + "key&key=" + file + "key"),
                StartsWith("cert=" + file + "key: "));
    EXPECT_THAT(Try(server.Url() + "&cert=" + file +
                    "pem&key=" + server.folder() + "/server.key"),
                StartsWith("key=" + server.folder() + "/server.key: "));
}

// ---- keys ----

// A command whose reply is a number; -9 if it is none.
int64_t Ask(const Server &server, std::string command)
{
    char address[STP_SOCKET_ADDRESS], why[64], reply[64] = "";
    const int fd = stp_socket_connect("127.0.0.1", server.port(), INT64_MAX,
                                      address, why, sizeof(why));
    command += "\r\n";
    EXPECT_EQ(static_cast<ssize_t>(command.size()),
              write(fd, command.data(), command.size()));
    EXPECT_LT(0U,
              stp_socket_receive_some(fd, reply, sizeof(reply) - 1, INT64_MAX));
    close(fd);
    return reply[0] == ':' ? strtoll(reply + 1, nullptr, 10) : -9;
}

TEST_F(Redis, ForgetsKeysAfterADayAndNumbersAfterTwo)
{
    const Server server;
    stp_store_address address{};
    stp_client client{};
    char now[8];
    size_t size;
    int64_t sum;

    ASSERT_TRUE(stp_store_parse(server.Url().c_str(), &address));
    ASSERT_TRUE(stp_client_open(&client, &address, "agree", INT64_MAX));
    EXPECT_TRUE(stp_client_set(&client, "set", "x", 1));
    for (int i = 0; i < 2; i++) {
        EXPECT_TRUE(stp_client_append(&client, "append", "x", 1));
        EXPECT_TRUE(stp_client_add(&client, "add", 1, &sum));
        EXPECT_TRUE(stp_client_compare_set(&client, "once", "x", 1, nullptr,
                                           now, sizeof(now), &size));
    }
    stp_client_close(&client);
    for (const char *key : {"set", "append", "once"}) {
        const int64_t left =
            Ask(server, std::string("TTL /steptune/agree/") + key);
        EXPECT_LE(86400 - 100, left) << key;
        EXPECT_GE(86400, left) << key;
    }
    EXPECT_LE(172800 - 100, Ask(server, "TTL /steptune/agree/add"));
    EXPECT_EQ(4, Ask(server, "DBSIZE"));
}

TEST_F(Redis, HasDatabasesThatDoNotMeet)
{
    const Server server;

    EXPECT_EQ("value", Try(server.Url("", "/2")));
    EXPECT_EQ(0, Ask(server, "DBSIZE"));
    EXPECT_EQ("value", Try(server.Url()));
    EXPECT_EQ(1, Ask(server, "DBSIZE"));
    EXPECT_EQ("the Redis server refuses: ERR DB index is out of range",
              Try(server.Url("", "/16")));
}

// ---- failures ----

TEST_F(Redis, ThatIsKilledIsNoticed)
{
    Server server;
    stp_store_address address{};
    stp_client client{};

    ASSERT_TRUE(stp_store_parse(server.Url().c_str(), &address));
    ASSERT_TRUE(stp_client_open(&client, &address, "agree", INT64_MAX));
    server.Kill();
    EXPECT_FALSE(stp_client_wait(&client, "never"));
    EXPECT_THAT(client.why, StartsWith("the store does not answer: "));
    stp_client_close(&client);
    EXPECT_EQ("Connection refused", Try(server.Url()));
}

TEST_F(Redis, ThatHangsIsGivenUpAtTheDeadline)
{
    for (const Arguments &arguments :
         {Arguments{}, Arguments{"TLS", "--tls-auth-clients", "no"}}) {
        const Server server(arguments);
        server.Signal(SIGSTOP);
        EXPECT_EQ("the store does not answer: Connection timed out",
                  Try(server.Url(), 50));
    }
}

TEST_F(Redis, IsNotWhatSpeaksAnotherProtocol)
{
    unsigned port;
    const int listener = store_thread::Listen(&port);
    std::thread web([listener] {
        const char reply[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
        int fd;
        while ((fd = accept(listener, nullptr, nullptr)) < 0)
            usleep(1000);
        EXPECT_LT(0, send(fd, reply, strlen(reply), MSG_NOSIGNAL));
        char byte;
        while (recv(fd, &byte, 1, 0) > 0)
            ;
        close(fd);
    });
    EXPECT_EQ("it does not speak Redis' protocol: Protocol error, got \"H\" as "
              "reply type byte",
              Try("redis://127.0.0.1:" + std::to_string(port)));
    web.join();
    close(listener);
}

// ---- hosts ----

// What the only host of a job finds, if 'fail' happens when it is about to tell
// that it is ready.
std::string Compare(const Server &server, std::function<void()> fail,
                    unsigned timeout_ms)
{
    stp_agreement_rank rank{};
    stp_agreement_store store{};
    stp_identity identity{};
    stp_hosts hosts{};
    char why[512] = "";

    EXPECT_TRUE(stp_store_parse(server.Url().c_str(), &store.address));
    store.timeout_ms = timeout_ms;
    strcpy(store.run, "none");
    strcpy(store.host, "a");
    stp_identity_write(&identity, &rank);
    hosts.store = &store;
    hosts.comm_id = 0xa905;
    hosts.n_ranks = 1;
    hosts.identities = &identity;
    hosts.is_hushed = [](void *) { return false; };
    hosts.commit = [](void *user) {
        (*static_cast<std::function<void()> *>(user))();
        return true;
    };
    hosts.count_learning = [](void *) -> size_t { return 0; };
    hosts.user = &fail;
    stp_hosts_line line{};
    if (!stp_hosts_compare(&hosts, &line, why, sizeof(why)))
        return why;
    stp_client_close(&line.client);
    return "follow";
}

TEST_F(Redis, ThatFailsLeavesAHostThatIsReadyInDoubt)
{
    Server server;
    const std::string lost =
        "the Redis server at 127.0.0.1 port " + std::to_string(server.port()) +
        " was lost when all hosts held the same, before it said that all know ";
    const auto restart = [&] { server.Restart(); };
    const auto kill = [&] { server.Kill(); };
    const auto stop = [&] { server.Signal(SIGSTOP); };

    EXPECT_EQ("follow", Compare(
                            server, [] {}, 60000));
    EXPECT_THAT(Compare(server, restart, 60000),
                StartsWith(lost + "(its keys are gone): "));
    EXPECT_THAT(Compare(server, kill, 60000),
                StartsWith(lost + "(the store does not answer: "));
    server.Restart();
    EXPECT_THAT(
        Compare(server, stop, 50),
        StartsWith(lost +
                   "(the store does not answer: Connection timed out): "));
}

} // namespace
