// The file with rewards: what others do to it while it is read.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "plugin/online/closed_stdin.h"
#include "support/temporary_folder.h"

extern "C" {
#include "plugin/online/reward_file.h"
}

// Acts as another process between a look at the path and its opening.
namespace
{
std::function<void()> after_look;
}

extern "C" {
int __real_statx(int dir, const char *path, int flags, unsigned mask,
                 struct statx *st);

int __wrap_statx(int dir, const char *path, int flags, unsigned mask,
                 struct statx *st)
{
    const int rc = __real_statx(dir, path, flags, mask, st);
    if (const auto act = std::exchange(after_look, nullptr))
        act();
    return rc;
}
}

namespace
{

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Sizes = std::vector<uint64_t>;

// A line, known by its number of bytes.
std::string Line(uint64_t n_bytes)
{
    return "allreduce," + std::to_string(n_bytes) + ",1,8,1.5\n";
}

class RewardFile : public testing::Test
{
  protected:
    RewardFile()
    {
        EXPECT_EQ(STP_OK, stp_reward_file_open(path_.c_str(), &file_, nullptr));
    }

    ~RewardFile() override
    {
        stp_reward_file_close(file_);
    }

    void Append(const std::string &text)
    {
        std::ofstream(path_, std::ios::app) << text;
    }

    // The sizes of the lines that one call reads.
    Sizes Read()
    {
        Sizes sizes;
        status_ = stp_reward_file_read(
            file_,
            [](void *user, const stp_reward *reward) {
                static_cast<Sizes *>(user)->push_back(reward->n_bytes);
            },
            &sizes, &err_);
        return sizes;
    }

    Sizes ReadWell()
    {
        Sizes sizes = Read();
        EXPECT_EQ(STP_OK, status_) << err_.text;
        return sizes;
    }

    // It is refused, with a sentence the first time.
    void ExpectRefusal(const char *why)
    {
        EXPECT_THAT(Read(), IsEmpty());
        EXPECT_EQ(STP_ERR_IO, status_);
        EXPECT_EQ("the reward file '" + path_ + "' " + why, err_.text);
        EXPECT_THAT(ReadWell(), IsEmpty()) << "says so once";
    }

    uint64_t Bad() const
    {
        return stp_reward_file_log(file_)->n_bad;
    }

    TemporaryFolder folder_;
    const std::string &dir_ = folder_.path();
    std::string path_ = folder_.Path("rewards.log");
    stp_reward_file *file_ = nullptr;
    stp_status status_ = STP_OK;
    stp_error err_{};
};

// ---- as it is meant ----

TEST_F(RewardFile, MayComeLaterAndIsReadAsItGrows)
{
    EXPECT_THAT(ReadWell(), IsEmpty());
    EXPECT_THAT(ReadWell(), IsEmpty());
    Append(Line(1) + Line(2));
    EXPECT_THAT(ReadWell(), ElementsAre(1, 2));
    EXPECT_THAT(ReadWell(), IsEmpty());
    for (uint64_t i = 3; i < 50; i++) {
        Append(Line(i));
        EXPECT_THAT(ReadWell(), ElementsAre(i));
    }
    EXPECT_EQ(49u, stp_reward_file_log(file_)->n_good);
}

TEST_F(RewardFile, MayGrowWhileItIsRead)
{
    struct Growing {
        std::ofstream file;
        Sizes sizes;
    } growing{std::ofstream(path_, std::ios::app), {}};
    const auto append = [](void *user, const stp_reward *reward) {
        auto *g = static_cast<Growing *>(user);
        g->sizes.push_back(reward->n_bytes);
        if (reward->n_bytes < 9)
            g->file << Line(reward->n_bytes + 1) << std::flush;
    };

    Append(Line(1));
    for (int i = 0; i < 9; i++)
        ASSERT_EQ(STP_OK, stp_reward_file_read(file_, append, &growing, &err_));

    EXPECT_THAT(growing.sizes, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST_F(RewardFile, KeepsTheStartOfALineForItsEnd)
{
    Append(Line(1) + "allreduce,2,1");
    EXPECT_THAT(ReadWell(), ElementsAre(1));
    Append(",8,1.5");
    EXPECT_THAT(ReadWell(), IsEmpty());
    Append("\n" + Line(3));
    EXPECT_THAT(ReadWell(), ElementsAre(2, 3));
}

// Its descriptor is then the first, 0.
TEST_F(RewardFile, IsReadWhereThereIsNoStandardInputAndClosedInTheEnd)
{
    const ClosedStdin closed;

    Append(Line(1));
    EXPECT_THAT(ReadWell(), ElementsAre(1));
    EXPECT_FALSE(closed.IsFree());
    Append(Line(2));
    EXPECT_THAT(ReadWell(), ElementsAre(2));
    std::filesystem::rename(path_, path_ + ".1");
    Append(Line(3));
    EXPECT_THAT(ReadWell(), ElementsAre(3));
    EXPECT_TRUE(closed.IsFree());
    std::filesystem::remove(path_ + ".1");
    stp_reward_file_close(file_);
    EXPECT_EQ(STP_OK, stp_reward_file_open(path_.c_str(), &file_, nullptr));
    EXPECT_THAT(ReadWell(), ElementsAre(3));
    EXPECT_FALSE(closed.IsFree());
    stp_reward_file_close(file_);
    file_ = nullptr;

    EXPECT_TRUE(closed.IsFree());
}

TEST_F(RewardFile, MayHoldGarbage)
{
    Append(Line(1) + std::string(100000, '\xff') + "\n" +
           std::string(1000, '\0') + "\nnonsense\n" + Line(2));

    EXPECT_THAT(ReadWell(), ElementsAre(1, 2));
    EXPECT_EQ(3u, Bad());
    EXPECT_EQ(std::string(63, '?'), stp_reward_file_log(file_)->first_bad);
}

// ---- what others do to it ----

TEST_F(RewardFile, IsReadToItsEndWhenAnotherTookItsPlace)
{
    Append(Line(1));
    EXPECT_THAT(ReadWell(), ElementsAre(1));
    Append(Line(2) + "allreduce,3");
    std::filesystem::rename(path_, path_ + ".1");
    Append(Line(4));

    EXPECT_THAT(ReadWell(), ElementsAre(2, 4)) << "and no half line";
    EXPECT_EQ(0u, Bad());
    Append(Line(5));
    EXPECT_THAT(ReadWell(), ElementsAre(5));
}

TEST_F(RewardFile, IsReadToItsEndInPiecesWhenAnotherTookItsPlace)
{
    Append(Line(1));
    EXPECT_THAT(ReadWell(), ElementsAre(1));
    Append(std::string(2 * STP_REWARD_PIECE, '\n') + Line(2));
    std::filesystem::remove(path_);
    Append(Line(3));

    EXPECT_THAT(ReadWell(), IsEmpty());
    EXPECT_THAT(ReadWell(), IsEmpty());
    EXPECT_THAT(ReadWell(), ElementsAre(2, 3));
}

TEST_F(RewardFile, IsReadOnWhileItHasNoName)
{
    Append(Line(1));
    EXPECT_THAT(ReadWell(), ElementsAre(1));
    std::ofstream writer(path_, std::ios::app);
    std::filesystem::remove(path_);

    writer << Line(2) << std::flush;
    EXPECT_THAT(ReadWell(), ElementsAre(2));
    Append(Line(3));
    EXPECT_THAT(ReadWell(), ElementsAre(3));
}

TEST_F(RewardFile, IsReadFromItsStartWhenItBecameShorter)
{
    Append(Line(1) + Line(2) + "allreduce,3");
    EXPECT_THAT(ReadWell(), ElementsAre(1, 2));
    std::filesystem::resize_file(path_, 0);
    Append(Line(4));
    EXPECT_THAT(ReadWell(), ElementsAre(4));
    std::filesystem::resize_file(path_, 0);
    EXPECT_THAT(ReadWell(), IsEmpty());
    Append(Line(5));
    EXPECT_THAT(ReadWell(), ElementsAre(5));
    EXPECT_EQ(0u, Bad());
}

TEST_F(RewardFile, IsReadAPieceAtATime)
{
    EXPECT_THAT(ReadWell(), IsEmpty());
    Append(Line(0));
    EXPECT_THAT(ReadWell(), ElementsAre(0));
    std::string text;
    for (uint64_t i = 1; i <= 40000; i++)
        text += Line(i);
    Append(text);

    Sizes all;
    size_t n_reads = 0;
    for (Sizes some; !(some = ReadWell()).empty(); n_reads++) {
        EXPECT_LE(some.size(), STP_REWARD_PIECE / Line(1).size());
        all.insert(all.end(), some.begin(), some.end());
    }

    EXPECT_EQ((text.size() - 1) / STP_REWARD_PIECE + 1, n_reads);
    ASSERT_THAT(all, SizeIs(40000));
    for (uint64_t i = 0; i < 40000; i++)
        ASSERT_EQ(i + 1, all[i]);
    EXPECT_EQ(0u, stp_reward_file_skipped(file_));
}

// ---- a backlog ----

TEST_F(RewardFile, IsReadWholeAtFirstIfItIsNoLongBacklog)
{
    Append(std::string(STP_REWARD_BACKLOG - Line(2).size(), '\n') + Line(2));

    Sizes all;
    for (int i = 0; i < 5; i++)
        for (uint64_t size : ReadWell())
            all.push_back(size);

    EXPECT_THAT(all, ElementsAre(2));
    EXPECT_EQ(0u, stp_reward_file_skipped(file_));
}

TEST_F(RewardFile, HasOnlyTheEndOfALongBacklogRead)
{
    const std::string tail(STP_REWARD_BACKLOG - 2 * Line(2).size() - 1, '\n');
    const struct {
        const char *name;
        std::string before;
        std::string lines;
        Sizes read;
    } cases[] = {
        {"whole lines", "\n", Line(2), {2, 3}},
        {"a cut line", "x", Line(2), {3}},
        {"a line cut at its last byte", "", Line(2).substr(1) + "\n", {3}},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        stp_reward_file_close(file_);
        ASSERT_EQ(STP_OK, stp_reward_file_open(path_.c_str(), &file_, nullptr));
        std::filesystem::remove(path_);
        Append(std::string(5000 - c.before.size(), 'x') + c.before + c.lines +
               tail + "\n" + Line(3));
        Sizes all;
        for (int i = 0; i < 5; i++)
            for (uint64_t size : ReadWell())
                all.push_back(size);
        EXPECT_EQ(c.read, all);
        EXPECT_EQ(4999u, stp_reward_file_skipped(file_));
        EXPECT_EQ(0u, Bad());
        Append(Line(4));
        EXPECT_THAT(ReadWell(), ElementsAre(4));
    }
}

TEST_F(RewardFile, HasTenGigabytesOfBacklogLeftOut)
{
    const uint64_t size = uint64_t{10} << 30;
    Append(Line(1));
    std::filesystem::resize_file(path_, size);
    Append("\n" + Line(2));

    Sizes all;
    for (int i = 0; i < 5; i++)
        for (uint64_t n_bytes : ReadWell())
            all.push_back(n_bytes);

    EXPECT_THAT(all, ElementsAre(2));
    EXPECT_EQ(size + 1 + Line(2).size() - STP_REWARD_BACKLOG - 1,
              stp_reward_file_skipped(file_));
}

// ---- what is not read ----

TEST_F(RewardFile, IsRefusedWhereItIsNotThisUsersOwnRegularFile)
{
    const bool is_root = geteuid() == 0;
    const struct {
        const char *name;
        std::function<void()> make;
        const char *why;
    } cases[] = {
        {"folder", [&] { std::filesystem::create_directory(path_); },
         "cannot be used: it is a directory, expected a regular file"},
        {"link",
         [&] { std::filesystem::create_symlink(path_ + ".other", path_); },
         "cannot be used: it is a symbolic link, expected a regular file"},
        {"link_to_nothing",
         [&] { std::filesystem::create_symlink("nowhere", path_); },
         "cannot be used: it is a symbolic link, expected a regular file"},
        {"strangers", // only root can give a file away
         [&] {
             Append(Line(1));
             ASSERT_EQ(0, is_root ? chown(path_.c_str(), 12345, 12345)
                                  : chmod(path_.c_str(), 0646));
         },
         is_root ? "cannot be used: another user owns it, expected a file of "
                   "this user"
                 : "cannot be used: all users may write it, expected a file "
                   "that they may not (chmod o-w)"},
        {"written_by_all",
         [&] {
             Append(Line(1));
             ASSERT_EQ(0, chmod(path_.c_str(), 0646));
         },
         "cannot be used: all users may write it, expected a file that they "
         "may not (chmod o-w)"},
    };
    std::ofstream(path_ + ".other") << Line(1);

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        c.make();
        ExpectRefusal(c.why);
        std::filesystem::remove(path_);
        Append(Line(2)); // it is read once it is good
        EXPECT_THAT(ReadWell(), ElementsAre(2));
        stp_reward_file_close(file_);
        std::filesystem::remove(path_);
        ASSERT_EQ(STP_OK, stp_reward_file_open(path_.c_str(), &file_, nullptr));
    }
}

TEST_F(RewardFile, IsRefusedAsAFifoWhoseWriterDoesNotNotice)
{
    ASSERT_EQ(0, mkfifo(path_.c_str(), 0600));

    ExpectRefusal("cannot be used: it is a FIFO, a socket or a device, "
                  "expected a regular file");
    EXPECT_EQ(-1, open(path_.c_str(), O_WRONLY | O_NONBLOCK))
        << "somebody reads it";
}

TEST_F(RewardFile, IsRefusedAsALinkThatTookItsPlaceMeanwhile)
{
    Append(Line(1));
    after_look = [this] {
        std::filesystem::rename(path_, path_ + ".other");
        std::filesystem::create_symlink(path_ + ".other", path_);
    };
    EXPECT_THAT(Read(), IsEmpty());
    EXPECT_EQ(STP_ERR_IO, status_);
    EXPECT_THAT(err_.text, HasSubstr("cannot be read: Too many levels of "
                                     "symbolic links"));
}

TEST_F(RewardFile, IsRefusedIfItMayNotBeRead)
{
    Append(Line(1));
    ASSERT_EQ(0, chmod(path_.c_str(), 0));
    const uid_t user = geteuid();
    if (user == 0) { // who may read everything
        ASSERT_EQ(0, chmod(dir_.c_str(), 0755));
        ASSERT_EQ(0, chown(path_.c_str(), 12345, 12345));
        ASSERT_EQ(0, seteuid(12345));
    }
    ExpectRefusal("cannot be read: Permission denied");
    ASSERT_EQ(0, seteuid(user));
}

TEST_F(RewardFile, IsRefusedUnderAFile)
{
    std::ofstream(dir_ + "/file") << "";
    stp_reward_file_close(file_);
    path_ = dir_ + "/file/rewards.log";
    ASSERT_EQ(STP_OK, stp_reward_file_open(path_.c_str(), &file_, nullptr));
    ExpectRefusal("cannot be read: Not a directory");
}

TEST_F(RewardFile, IsReadToItsEndWhenSomethingElseTookItsPlace)
{
    Append(Line(1));
    EXPECT_THAT(ReadWell(), ElementsAre(1));
    Append(Line(2));
    std::filesystem::remove(path_);
    ASSERT_EQ(0, mkfifo(path_.c_str(), 0600));

    EXPECT_THAT(Read(), ElementsAre(2));
    EXPECT_EQ(STP_ERR_IO, status_);
    EXPECT_THAT(err_.text, HasSubstr("it is a FIFO, a socket or a device"));
}

TEST_F(RewardFile, NeedsNotBeOpenToBeClosed)
{
    stp_reward_file_close(nullptr);
    EXPECT_EQ(0u, stp_reward_file_log(file_)->n_good);
    EXPECT_EQ(0u, stp_reward_file_skipped(file_));
}

} // namespace
