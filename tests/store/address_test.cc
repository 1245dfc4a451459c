// What an address of a store may look like, and that no password is shown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

extern "C" {
#include "store/store_address.h"
}

namespace
{

struct Good {
    const char *text;
    const char *fields; // as Fields() has them
    const char *place;
};

std::string Fields(const stp_store_address &a)
{
    static const char *const engines[] = {"", "tcp", "redis", "folder"};
    std::ostringstream text;
    text << engines[a.engine] << (a.has_tls ? " tls" : "");
    if (a.engine != STP_STORE_FOLDER)
        text << " host " << a.host << " port " << a.port;
    if (a.engine == STP_STORE_REDIS)
        text << " db " << a.database;
    for (const auto &[name, value] :
         {std::pair<const char *, const char *>{"user", a.user},
          {"password", a.password},
          {"cacert", a.cacert},
          {"cert", a.cert},
          {"key", a.key},
          {"folder", a.folder}})
        if (*value != '\0')
            text << ' ' << name << " " << value;
    return text.str();
}

// clang-format off
const Good kGood[] = {
    {"tcpstore://a:1", "tcp host a port 1", "the store at a port 1"},
    {"tcpstore://[::1]:65535", "tcp host ::1 port 65535", "the store at ::1 port 65535"},
    {"redis://a", "redis host a port 6379 db 0", "the Redis server at a port 6379"},
    {"redis://a:1/", "redis host a port 1 db 0", "the Redis server at a port 1"},
    {"redis://[::1]", "redis host ::1 port 6379 db 0", "the Redis server at ::1 port 6379"},
    {"redis://[::1]:7/15", "redis host ::1 port 7 db 15", "the Redis server at ::1 port 7"},
    {"redis://:pw@a", "redis host a port 6379 db 0 password pw", "the Redis server at a port 6379"},
    {"redis://me:p:w@a:1/2", "redis host a port 1 db 2 user me password p:w", "the Redis server at a port 1"},
    {"redis://me@a", "redis host a port 6379 db 0 user me", "the Redis server at a port 6379"},
    {"redis://m%40:p%2f%2F@x@a", "redis host a port 6379 db 0 user m@ password p//@x", "the Redis server at a port 6379"},
    {"rediss://:pw@a:1", "redis tls host a port 1 db 0 password pw", "the Redis server at a port 1"},
    {"rediss://a/1?cacert=/c%20a/b@c", "redis tls host a port 6379 db 1 cacert /c a/b@c", "the Redis server at a port 6379"},
    {"rediss://a?key=k&cacert=c&cert=d", "redis tls host a port 6379 db 0 cacert c cert d key k", "the Redis server at a port 6379"},
    {"file:///a/b%20c", "folder folder /a/b c", "the folder /a/b c"},
    {"file:///", "folder folder /", "the folder /"},
};
// clang-format on

TEST(AnAddress, HasAnEngineAndItsParts)
{
    for (const Good &c : kGood) {
        stp_store_address address{};
        char place[STP_STORE_PLACE];
        ASSERT_TRUE(stp_store_parse(c.text, &address)) << c.text;
        EXPECT_EQ(c.fields, Fields(address)) << c.text;
        stp_store_describe(&address, place);
        EXPECT_STREQ(c.place, place);
    }
}

TEST(AnAddress, OfAnotherFormIsRefused)
{
    const std::string long_name(256, 'a');
    const std::string cases[] = {
        "",
        "tcpstore",
        "tcpstore://",
        "tcpstore://a",
        "tcpstore://a:",
        "tcpstore://a:0",
        "tcpstore://a:65536",
        "tcpstore://:1",
        "tcpstore://::1:1",
        "tcpstore://[::1]1",
        "tcpstore://[]:1",
        "tcpstore://a:1/0",
        "tcpstore://" + long_name + ":1",
        "Redis://a",
        "redis://",
        "redis://:pw@",
        "redis://a:0",
        "redis://a/x",
        "redis://a/-1",
        "redis://a/65536",
        "redis://a/1/2",
        "redis://:%@a",
        "redis://:%4@a",
        "redis://:%4g@a",
        "redis://:%00@a",
        "redis://:" + long_name + "@a",
        "redis://a?cacert=c",
        "rediss://a?cacert",
        "rediss://a?cacert=",
        "rediss://a?cacert=a&cacert=b",
        "rediss://a?verify=0",
        "rediss://a?cert=c",
        "rediss://a?key=k",
        "file://",
        "file://a",
        "file://host/a",
        "file:///%",
        "file:///" + long_name,
    };
    stp_store_address untouched{};
    untouched.port = 7;

    for (const std::string &text : cases)
        EXPECT_FALSE(stp_store_parse(text.c_str(), &untouched)) << text;
    EXPECT_EQ(7U, untouched.port);
}

TEST(AnAddress, ShowsNoPassword)
{
    const struct {
        const char *text, *shown;
    } cases[] = {
        {"hosts", "hosts"},
        {"tcpstore://nowhere", "tcpstore://nowhere"},
        {"redis://:secret@a:x", "redis:..."},
        {"redis://:secret", "redis:..."},
        {"redis:secret@a", "redis:..."},
        {"rediss://secret", "rediss:..."},
        {"Redis://:secret@a", "Redis:..."},
        {"valkey://:secret@a", "valkey:..."},
        {"secret@a", "..."},
        {"redis", "..."},
    };

    for (const auto &c : cases) {
        char shown[61];
        stp_store_redact(c.text, shown, sizeof(shown));
        EXPECT_STREQ(c.shown, shown);
    }
}

} // namespace
