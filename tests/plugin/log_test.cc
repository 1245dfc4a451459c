// Lines for NCCL's log, whatever is in paths and words.
#include <gtest/gtest.h>

#include <cstdarg>
#include <string>

extern "C" {
#include "core/utf8.h"
#include "plugin/log.h"
}

namespace
{

std::string Printable(const std::string &text, size_t size = 256)
{
    std::string buf(size, '?');
    stp_printable(text.data(), text.size(), buf.data(), size);
    return buf.c_str();
}

TEST(Log, ShowsWhatATerminalWouldObey)
{
    const std::pair<const char *, const char *> cases[] = {
        {"", ""},
        {"/home/me/p.conf: 'x'\\y ~", "/home/me/p.conf: 'x'\\y ~"},
        {"two\nlines\r", "two\\x0Alines\\x0D"},
        {"\033[31mred\033[0m", "\\x1B[31mred\\x1B[0m"},
        {"\t\b\x7f", "\t\\x08\\x7F"},
        {"gr\xc3\xbc\xc3\x9f.conf", "gr\xc3\xbc\xc3\x9f.conf"}, // UTF-8
        {"\xe2\x82\xac \xf0\x9f\x98\x80", "\xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xc2\x9b"
         "2J",
         "\\xC2\\x9B2J"}, // U+009B begins an escape sequence
        {"\x9b"
         "2J \xff",
         "\\x9B2J \\xFF"},
        {"\xc0\x9b \xe0\x82\x9b \xf0\x80\x82\x9b", // too long a spelling
         "\\xC0\\x9B \\xE0\\x82\\x9B \\xF0\\x80\\x82\\x9B"},
        {"\xed\xa0\x80 \xf4\x90\x80\x80", // surrogate; beyond U+10FFFF
         "\\xED\\xA0\\x80 \\xF4\\x90\\x80\\x80"},
        {"cut \xe2\x82", "cut \\xE2\\x82"},
    };

    for (const auto &[text, want] : cases)
        EXPECT_EQ(want, Printable(text));
}

TEST(Log, CutsBetweenCharacters)
{
    EXPECT_EQ("a\\x0A", Printable("a\n\n", 9));
    EXPECT_EQ("a\\x0A\\x0A", Printable("a\n\n", 10));
    EXPECT_EQ("a\xc3\xbc", Printable("a\xc3\xbc\xc3\xbc", 5));
    EXPECT_EQ("", Printable("a", 1));
}

std::string logged;
std::string about; // what else the logger is told

void Take(ncclDebugLogLevel level, unsigned long flags, const char *file,
          int line, const char *format, ...)
{
    va_list va;
    char text[20000];

    va_start(va, format);
    vsnprintf(text, sizeof(text), format, va);
    va_end(va);
    logged = text;
    snprintf(text, sizeof(text), "%d %lx %s:%d %s", level, flags, file, line,
             format);
    about = text;
}

TEST(Log, SaysWhereItComesFrom)
{
    char want[64];

    for (ncclDebugLogLevel level : {NCCL_LOG_WARN, NCCL_LOG_INFO}) {
        stp_log(Take, level, "f.c", 12, "100%%");
        snprintf(want, sizeof(want), "%d %x f.c:12 %%s", level,
                 NCCL_INIT | NCCL_TUNING);
        EXPECT_EQ(want, about);
        EXPECT_EQ("100%", logged);
    }
    EXPECT_NE(0, NCCL_INIT | NCCL_TUNING);
}

TEST(Log, IsOneLineAndNoFormat)
{
    stp_log(Take, NCCL_LOG_INFO, "f.c", 1, "%s: %d", "a\n%s%n", 7);
    EXPECT_EQ("a\\x0A%s%n: 7", logged);

    const std::string path(4095, '/');
    stp_log(Take, NCCL_LOG_INFO, "f.c", 1, "%s ends", path.c_str());
    EXPECT_EQ(path + " ends", logged);

    // A path and 1024 bytes, or twice that where they are shown in words.
    const std::string text(20000, 'x'), bytes(20000, '\1');
    stp_log(Take, NCCL_LOG_INFO, "f.c", 1, "%s", text.c_str());
    EXPECT_EQ(text.substr(0, 5119), logged);
    stp_log(Take, NCCL_LOG_INFO, "f.c", 1, "%s", bytes.c_str());
    EXPECT_EQ(4 * 2559u, logged.size());

    stp_log(nullptr, NCCL_LOG_INFO, "f.c", 1, "nobody listens");
}

} // namespace
