// What the plugins open, and what they never wait for.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

extern "C" {
#include "plugin/file.h"
}

namespace
{

using testing::HasSubstr;

class PluginFile : public testing::Test
{
  protected:
    PluginFile()
    {
        char name[] = "/tmp/steptune-file-XXXXXX";
        dir_ = mkdtemp(name);
    }
    ~PluginFile() override
    {
        std::filesystem::remove_all(dir_);
    }

    std::string Path(const char *name) const
    {
        return dir_ + "/" + name;
    }

    std::string Fifo() const
    {
        EXPECT_EQ(0, mkfifo(Path("fifo").c_str(), 0600));
        return Path("fifo");
    }

    std::string Socket() const
    {
        sockaddr_un address{};
        const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        address.sun_family = AF_UNIX;
        snprintf(address.sun_path, sizeof(address.sun_path), "%s",
                 Path("socket").c_str());
        EXPECT_EQ(0, bind(fd, reinterpret_cast<sockaddr *>(&address),
                          sizeof(address)));
        close(fd);
        return Path("socket");
    }

    std::string Link(const std::string &to) const
    {
        EXPECT_EQ(0, symlink(to.c_str(), Path("link").c_str()));
        return Path("link");
    }

    std::string dir_;
};

TEST_F(PluginFile, IsRegularOrRefused)
{
    constexpr char kIrregular[] =
        "it is a FIFO, a socket or a device, expected a regular file";
    const std::string fifo = Fifo();
    const struct {
        std::string path;
        const char *why;
    } cases[] = {{fifo, kIrregular},
                 {Link(fifo), kIrregular},
                 {Socket(), kIrregular},
                 {"/dev/zero", kIrregular},
                 {"/dev/tty", kIrregular},
                 {dir_, "Is a directory"},
                 {Path("gone"), "No such file or directory"}};

    for (const auto &c : cases)
        for (int flags : {O_RDONLY, O_WRONLY | O_APPEND}) {
            errno = 0;
            EXPECT_EQ(-1, stp_file_open(c.path.c_str(), flags)) << c.path;
            EXPECT_STREQ(c.why, stp_file_strerror(errno)) << c.path;
        }
}

TEST_F(PluginFile, AFifoWithSomebodyAtItsOtherEndIsRefusedAlike)
{
    const std::string fifo = Fifo();
    const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
    const int writer = open(fifo.c_str(), O_WRONLY | O_NONBLOCK);

    for (int flags : {O_RDONLY, O_WRONLY | O_APPEND | O_CREAT})
        EXPECT_EQ(-1, stp_file_open(fifo.c_str(), flags));
    close(reader);
    close(writer);
}

TEST_F(PluginFile, NothingGoesToOrComesFromTheNullDevice)
{
    const int fd = stp_file_open("/dev/null", O_RDWR);
    char byte;

    ASSERT_LE(0, fd);
    EXPECT_EQ(1, write(fd, "x", 1));
    EXPECT_EQ(0, read(fd, &byte, 1));
    close(fd);
}

TEST_F(PluginFile, IsNotInheritedByProgramsThatTheJobStarts)
{
    std::string name = Path("new.XXXXXX");
    const int made = stp_file_create(name.data());
    const int opened = stp_file_open(name.c_str(), O_RDONLY);

    for (int fd : {made, opened}) {
        ASSERT_LE(0, fd);
        EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
        close(fd);
    }
}

TEST_F(PluginFile, PoliciesAndConstantsSayWhyTheyAreNotRead)
{
    const std::string fifo = Fifo();
    stp_policy *policy = nullptr;
    stp_constants constants;
    stp_error err{};

    EXPECT_EQ(STP_ERR_IO, stp_file_load_policy(fifo.c_str(), &policy, &err));
    EXPECT_STREQ("cannot be opened: it is a FIFO, a socket or a device, "
                 "expected a regular file",
                 err.text);
    EXPECT_EQ(STP_ERR_IO, stp_file_load_policy(dir_.c_str(), &policy, &err));
    EXPECT_STREQ("is a directory", err.text);
    std::ofstream(Path("long")) << std::string(STP_MAX_CONSTANTS_FILE + 1, '#');
    EXPECT_EQ(STP_ERR_LIMIT,
              stp_file_load_constants(Path("long").c_str(), &constants, &err));
    EXPECT_STREQ("is larger than 1048576 bytes, the most that is read",
                 err.text);
}

// flock() tells open files of one process apart, too.
TEST_F(PluginFile, ALockThatIsKeptIsGivenUpAndThenTriedOnce)
{
    const int keeper = open(dir_.c_str(), O_RDONLY);
    const int fd = open(dir_.c_str(), O_RDONLY);
    bool is_kept = false;

    ASSERT_EQ(0, flock(keeper, LOCK_EX));
    for (int i = 0; i < 1000; i++) { // which would take minutes, waiting
        EXPECT_FALSE(stp_file_lock(fd, &is_kept));
        EXPECT_TRUE(is_kept);
    }
    ASSERT_EQ(0, flock(keeper, LOCK_UN));
    EXPECT_TRUE(stp_file_lock(fd, &is_kept));
    EXPECT_FALSE(is_kept);
    close(fd);
    close(keeper);
}

TEST_F(PluginFile, WithoutLocksThereIsNothingToWaitFor)
{
    bool is_kept = false;

    EXPECT_TRUE(stp_file_lock(-1, &is_kept)); // as flock() fails there
    EXPECT_FALSE(is_kept);
}

} // namespace
