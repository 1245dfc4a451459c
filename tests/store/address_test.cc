// Tests of the addresses of a store; no error shows a password.
#include <gtest/gtest.h>

#include <string>

extern "C" {
#include "store/store_address.h"
}

namespace
{

std::string Fields(const stp_store_address &a)
{
    return a.engine == STP_STORE_FOLDER ? std::string("folder ") + a.folder
                                        : "tcp host " + std::string(a.host) +
                                              " port " + std::to_string(a.port);
}

// clang-format off
const struct {
    const char *text;
    const char *fields; // as Fields() has them
    const char *place;
} kGood[] = {
    {"tcpstore://a:1", "tcp host a port 1", "the store at a port 1"},
    {"tcpstore://[::1]:65535", "tcp host ::1 port 65535", "the store at ::1 port 65535"},
    {"file:///a/b%20c", "folder /a/b c", "the folder /a/b c"},
    {"file:///", "folder /", "the folder /"},
};
// clang-format on

TEST(AnAddress, HasAnEngineAndItsParts)
{
    for (const auto &c : kGood) {
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
        "file://",
        "file://a",
        "file://host/a",
        "redis://a:1",
        "file:///%",
        "file:///%4",
        "file:///%4g",
        "file:///%00",
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
