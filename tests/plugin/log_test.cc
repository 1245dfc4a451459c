// Lines for NCCL's log, whatever is in paths and words.
#include <gtest/gtest.h>

#include <cstdarg>
#include <string>

extern "C" {
#include "plugin/log.h"
}

namespace
{

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
