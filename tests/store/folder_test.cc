// Tests of a folder as a store: the files it leaves, and those it refuses.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <functional>
#include <set>

#include "support/temporary_folder.h"

extern "C" {
#include "store/clock.h"
#include "store/store_client.h"
}

// The clock of this host, which another host's may differ from by days.
static int64_t ahead_s;

// Called once a file is locked.
static std::function<void()> when_locked;

extern "C" int flock(int fd, int operation) noexcept
{
    const auto failed = static_cast<int>(syscall(SYS_flock, fd, operation));
    if (failed == 0 && (operation & LOCK_EX) != 0 && when_locked)
        when_locked();
    return failed;
}

extern "C" time_t time(time_t *ret) noexcept
{
    timespec now{};
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    now.tv_sec += ahead_s;
    if (ret != nullptr)
        *ret = now.tv_sec;
    return now.tv_sec;
}

extern "C" int clock_gettime(clockid_t id, timespec *now) noexcept
{
    const auto failed = static_cast<int>(syscall(SYS_clock_gettime, id, now));
    now->tv_sec += id == CLOCK_REALTIME ? ahead_s : 0;
    return failed;
}

namespace
{

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kKey[] = "%2Fsteptune%2Fagree%2Fk";

class Folder : public testing::Test
{
  protected:
    void SetUp() override
    {
        Open();
    }
    void TearDown() override
    {
        stp_client_close(&client_);
    }

    void Open()
    {
        stp_store_address address{};
        ASSERT_TRUE(stp_store_parse(("file://" + path_).c_str(), &address));
        ASSERT_TRUE(
            stp_client_open(&client_, &address, "agree", stp_now_ms() + 60000))
            << client_.why;
    }

    std::set<std::string> Names() const
    {
        std::set<std::string> names;
        for (const auto &entry : std::filesystem::directory_iterator(path_))
            names.insert(entry.path().filename());
        return names;
    }

    // Changes when a file was written.
    void MakeOlder(const std::string &name, int64_t seconds) const
    {
        const std::string path = path_ + "/" + name;
        struct stat st {
        };
        ASSERT_EQ(0, stat(path.c_str(), &st)) << name;
        const timespec times[2] = {{0, UTIME_OMIT}, {st.st_mtime - seconds, 0}};
        ASSERT_EQ(0, utimensat(AT_FDCWD, path.c_str(), times, 0));
    }

    std::string Get(const char *key)
    {
        char value[64] = "";
        size_t size = 0;
        return stp_client_get(&client_, key, value, sizeof(value), &size)
                   ? std::string(value, size)
                   : client_.why;
    }

    TemporaryFolder folder_;
    const std::string &path_ = folder_.path();
    stp_client client_{};
};

TEST_F(Folder, HasAFileAKeyAndNothingElse)
{
    char now[8];
    size_t size;
    int64_t sum;

    EXPECT_TRUE(stp_client_set(&client_, "set", "x", 1));
    EXPECT_TRUE(stp_client_append(&client_, "append/%", "x", 1));
    EXPECT_TRUE(stp_client_add(&client_, "add", 1, &sum));
    for (int i = 0; i < 2; i++)
        EXPECT_TRUE(stp_client_compare_set(&client_, "once", "x", 1, now,
                                           sizeof(now), &size));
    EXPECT_THAT(Names(), ElementsAre("%2Fsteptune%2Fagree%2Fadd",
                                     "%2Fsteptune%2Fagree%2Fappend%2F%25",
                                     "%2Fsteptune%2Fagree%2Fonce",
                                     "%2Fsteptune%2Fagree%2Fset"));
}

constexpr int64_t kDayS = 24 * 3600;

TEST_F(Folder, ForgetsKeysAfterADayAndNumbersAfterTwo)
{
    int64_t sum;

    for (const char *key : {"new", "old"})
        EXPECT_TRUE(stp_client_set(&client_, key, "x", 1));
    for (const char *key : {"added_once", "added_twice", "old_number"})
        EXPECT_TRUE(stp_client_add(&client_, key, 1, &sum));
    EXPECT_TRUE(stp_client_add(&client_, "added_twice", 1, &sum));
    for (const char *name : {"users.txt", ".steptune-1-1", ".steptune-1-2"})
        std::ofstream(path_ + "/" + name) << "x";
    const std::string prefix = "%2Fsteptune%2Fagree%2F";
    MakeOlder(prefix + "new", kDayS - 60);
    MakeOlder(prefix + "old", kDayS + 60);
    for (const char *key : {"added_once", "added_twice"})
        MakeOlder(prefix + key, 2 * kDayS - 60);
    MakeOlder(prefix + "old_number", 2 * kDayS + 60);
    MakeOlder("users.txt", 2 * kDayS + 60);
    MakeOlder(".steptune-1-1", kDayS + 60);

    stp_client_close(&client_);
    EXPECT_THAT(Names(),
                ElementsAre(prefix + "added_once", prefix + "added_twice",
                            prefix + "new", ".steptune-1-2", "users.txt"));
}

TEST_F(Folder, KnowsTheTimeByItsOwnFiles)
{
    int64_t sum;

    for (const int64_t days : {2, 20, -20}) {
        const std::set<std::string> before = Names();

        ahead_s = days * kDayS;
        EXPECT_TRUE(
            stp_client_set(&client_, std::to_string(days).c_str(), "x", 1));
        EXPECT_TRUE(stp_client_add(&client_, "number", 1, &sum));
        stp_client_close(&client_);
        ahead_s = 0;
        Open();
        stp_client_close(&client_);
        Open();
        EXPECT_THAT(Names(), testing::IsSupersetOf(before));
    }
    EXPECT_EQ(3, sum);
    EXPECT_THAT(Names(), testing::SizeIs(4));
}

TEST_F(Folder, LeavesAUnitThatIsIncompleteAndOld)
{
    const struct {
        int64_t older_s, stale_ms, unit, sum;
    } cases[] = {
        {0, 60000, 4, 4},  {50, 60000, 4, 4}, {70, 60000, 4, 5},
        {70, 80000, 4, 4}, {70, 60000, 3, 4}, {70, 60000, 0, 4},
    };
    int64_t sum;

    for (const auto &c : cases) {
        client_.unit = client_.stale_ms = 0;
        EXPECT_TRUE(stp_client_add(&client_, "n", 3, &sum));
        MakeOlder("%2Fsteptune%2Fagree%2Fn", c.older_s);
        client_.unit = c.unit;
        client_.stale_ms = c.stale_ms;
        EXPECT_TRUE(stp_client_add(&client_, "n", 1, &sum));
        EXPECT_EQ(c.sum, sum)
            << c.older_s << " " << c.stale_ms << " " << c.unit;
        EXPECT_TRUE(stp_client_delete(&client_, "n"));
    }
}

TEST_F(Folder, ThatAllMayWriteWithoutTheStickyBitIsRefused)
{
    const struct {
        mode_t mode;
        const char *why;
    } cases[] = {
        {0700, ""},
        {0775, ""},
        {01777, ""},
        {0777, "all users may write the folder and rename the files of others "
               "there, expected a folder that they may not write (chmod o-w), "
               "or one with the sticky bit (chmod +t)"},
    };
    stp_store_address address{};

    ASSERT_TRUE(stp_store_parse(("file://" + path_).c_str(), &address));
    for (const auto &c : cases) {
        stp_client client{};
        ASSERT_EQ(0, chmod(path_.c_str(), c.mode));
        stp_client_open(&client, &address, "agree", stp_now_ms() + 60000);
        EXPECT_STREQ(c.why, client.why);
        stp_client_close(&client);
    }
}

// Who may rename files there cannot have an old one stand for a new one.
TEST_F(Folder, RefusesAFileThatWasAnotherKeys)
{
    const std::string prefix = path_ + "/%2Fsteptune%2Fagree%2F";
    int64_t sum;

    EXPECT_TRUE(stp_client_set(&client_, "0/decided", "follow", 6));
    EXPECT_TRUE(stp_client_add(&client_, "0/arrived", 1, &sum));
    for (const char *name : {"decided", "arrived"}) {
        const std::string key = std::string("1/") + name;
        ASSERT_EQ(0, rename((prefix + "0%2F" + name).c_str(),
                            (prefix + "1%2F" + name).c_str()));
        EXPECT_THAT(Get(key.c_str()),
                    HasSubstr("does not begin with its name"));
        EXPECT_FALSE(stp_client_add(&client_, key.c_str(), 1, &sum));
        EXPECT_FALSE(stp_client_append(&client_, key.c_str(), "x", 1));
    }
}

// A child that is forked in the midst of a call inherits a descriptor, and
// keeps no lock by it.
TEST_F(Folder, LeavesNoLockToAChildOfItsProcess)
{
    int64_t sum;
    pid_t child = -1;

    EXPECT_TRUE(stp_client_add(&client_, "k", 1, &sum));
    when_locked = [&] {
        child = fork();
        if (child == 0) {
            pause();
            _exit(0);
        }
    };
    EXPECT_TRUE(stp_client_add(&client_, "k", 1, &sum));
    when_locked = nullptr;
    ASSERT_LT(0, child);
    client_.deadline_ms = stp_now_ms() + 60000;
    EXPECT_TRUE(stp_client_add(&client_, "k", 1, &sum)) << client_.why;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
}

TEST_F(Folder, ThatIsMissingIsNotMade)
{
    stp_store_address address{};
    stp_client client{};

    ASSERT_TRUE(stp_store_parse("file:///no/such/folder", &address));
    EXPECT_FALSE(stp_client_open(&client, &address, "agree", INT64_MAX));
    EXPECT_STREQ("No such file or directory", client.why);
    stp_client_close(&client);
}

// Whatever else has a key's name, nothing blocks and nothing is followed.
TEST_F(Folder, RefusesWhatIsNoFile)
{
    const std::string path = path_ + "/" + kKey;

    EXPECT_EQ(0, mkfifo(path.c_str(), 0600));
    EXPECT_EQ("the file of a key cannot be used: it is a FIFO, a socket or a "
              "device, expected a regular file",
              Get("k"));
    unlink(path.c_str());
    std::ofstream(path_ + "/secret") << "secret";
    EXPECT_EQ(0, symlink("secret", path.c_str()));
    EXPECT_EQ("a file cannot be opened: Too many levels of symbolic links",
              Get("k"));
    unlink(path.c_str());
    EXPECT_EQ(0, mkdir(path.c_str(), 0700));
    EXPECT_EQ("the file of a key cannot be used: it is a directory, expected a "
              "regular file",
              Get("k"));
}

// The rule itself is tested in trust_test.
TEST_F(Folder, RefusesWhatAnotherUserMayHaveWritten)
{
    const std::string path = path_ + "/" + kKey;

    EXPECT_TRUE(stp_client_set(&client_, "k", "x", 1));
    ASSERT_EQ(0, chmod(path.c_str(), 0606));
    EXPECT_EQ("the file of a key cannot be used: all users may write it, "
              "expected a file that they may not (chmod o-w)",
              Get("k"));
    if (geteuid() != 0)
        return; // only root can give a file away
    ASSERT_EQ(0, chmod(path.c_str(), 0600));
    ASSERT_EQ(0, chown(path.c_str(), 12345, 12345));
    EXPECT_EQ("x", Get("k")) << "as a network file system may show it";
    ASSERT_EQ(0, chmod(path_.c_str(), 01777));
    EXPECT_EQ("the file of a key cannot be used: another user owns it, in a "
              "folder that all users may write, expected a file of this user "
              "or of root",
              Get("k"));
}

TEST_F(Folder, RefusesToAddToWhatIsNoNumber)
{
    int64_t sum;

    EXPECT_TRUE(stp_client_set(&client_, "k", "12x", 3));
    EXPECT_FALSE(stp_client_add(&client_, "k", 1, &sum));
    EXPECT_STREQ("a file cannot be written: Invalid argument", client_.why);
    EXPECT_EQ("12x", Get("k"));
}

// As a host that is stopped while it adds.
TEST_F(Folder, AwaitsALockUntilTheDeadline)
{
    int64_t sum;

    EXPECT_TRUE(stp_client_add(&client_, "k", 1, &sum));
    const int fd = open((path_ + "/" + kKey).c_str(), O_RDWR);
    EXPECT_EQ(0, flock(fd, LOCK_EX));
    client_.deadline_ms = stp_now_ms() + 20;
    EXPECT_FALSE(stp_client_add(&client_, "k", 1, &sum));
    EXPECT_STREQ("the store does not answer: Connection timed out",
                 client_.why);
    close(fd);
    client_.deadline_ms = stp_now_ms() + 60000;
    EXPECT_TRUE(stp_client_add(&client_, "k", 1, &sum));
    EXPECT_EQ(2, sum);
}

TEST_F(Folder, RefusesAKeyThatIsLongerThanAName)
{
    const std::string key(256 - strlen("%2Fsteptune%2Fagree%2F"), 'k');

    EXPECT_FALSE(stp_client_set(&client_, key.c_str(), "x", 1));
    EXPECT_THAT(client_.why, testing::HasSubstr("File name too long"));
    EXPECT_TRUE(stp_client_set(&client_, key.c_str() + 1, "x", 1));
}

} // namespace
