// Tests of the policy file to which several processes add learned rules.
#include <gmock/gmock.h>

#include <csignal>
#include <memory>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/open_files.h"
#include "plugin/online/closed_stdin.h"
#include "support/temporary_folder.h"

extern "C" {
#include "core/policy/policy.h"
#include "plugin/online/learned_file.h"
}

#include "nccl_tuner_abi.h"

namespace
{

// Locked files, and whether another process keeps the lock.
struct Lock {
    bool is_kept = false;
    std::vector<ino_t> inodes{};
    bool is_closed_on_exec = true; // all of them
} lock;

} // namespace

extern "C" {
int __wrap_flock(int fd, int operation)
{
    struct stat st;

    fstat(fd, &st);
    lock.inodes.push_back(st.st_ino);
    lock.is_closed_on_exec &= (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
    if (!lock.is_kept)
        return static_cast<int>(syscall(SYS_flock, fd, operation));
    errno = EWOULDBLOCK;
    return -1;
}

// How many streams can be had still; negative: any number.
static int n_streams = -1;

FILE *__real_fdopen(int fd, const char *mode);
FILE *__wrap_fdopen(int fd, const char *mode)
{
    if (n_streams == 0)
        return nullptr;
    n_streams -= n_streams > 0;
    return __real_fdopen(fd, mode);
}

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    return lock.is_kept ? 0 : __real_nanosleep(time, left);
}
}

namespace
{

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string kColumns =
    STP_LEARNED_MAGIC "\ncollective,min_bytes,max_bytes,algorithm,protocol,"
                      "channels,nNodes,nRanks,gpu\n";

class LearnedFile : public testing::Test
{
  protected:
    LearnedFile()
    {
        lock = Lock();
    }
    ~LearnedFile() override
    {
        unlink(path_.c_str());
        EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
    }

    static stp_learned Rule(int coll, uint64_t min, int algo, int proto,
                            int n_channels = 0)
    {
        stp_learned rule{};
        rule.coll = coll;
        rule.bytes = {min, 2 * min - 1};
        rule.arm = {static_cast<int8_t>(algo), static_cast<int8_t>(proto),
                    static_cast<uint8_t>(n_channels)};
        rule.gain = 1.25;
        rule.gain_low = 1.2;
        rule.gain_high = 1.3;
        rule.n_calls = 40;
        return rule;
    }

    stp_status Save(std::vector<stp_learned> rules, size_t n_ranks = 4,
                    const char *gpu = "NVIDIA H200", bool same_bits = false)
    {
        const stp_learned_rules learned = {rules.data(), rules.size(),
                                           same_bits};
        const stp_shape shape = {n_ranks, 1, gpu};
        return stp_learned_save(path_.c_str(), &learned, &shape, &err_);
    }

    std::string Text() const
    {
        return ReadFile(path_);
    }

    // The rules without head and comments.
    std::string Rules() const
    {
        std::string rules;
        for (const std::string &line : SplitLines(Text()))
            if (line[0] != '#' && line.rfind("collective,", 0) != 0)
                rules += line + "\n";
        return rules;
    }

    TemporaryFolder folder_;
    std::string path_ = folder_.Path("learned.conf");
    stp_error err_{};
};

TEST_F(LearnedFile, IsAPolicyThatThePluginReads)
{
    ASSERT_EQ(STP_OK, Save({Rule(ncclFuncAllGather, 4096, NCCL_ALGO_RING,
                                 NCCL_PROTO_LL128),
                            Rule(ncclFuncAllReduce, 1 << 20, NCCL_ALGO_TREE,
                                 NCCL_PROTO_LL, 16)}));

    EXPECT_EQ("allgather,4096,8191,ring,ll128,-1,1,4,NVIDIA H200\n"
              "allreduce,1048576,2097151,tree,ll,16,1,4,NVIDIA H200\n",
              Rules());
    EXPECT_THAT(Text(), HasSubstr("# 1.25x (1.2 to 1.3), 40 calls\n"));
    stp_policy *policy = nullptr;
    ASSERT_EQ(STP_OK, stp_policy_load(STP_POLICY_OF_ARMS, path_.c_str(),
                                      &policy, &err_))
        << err_.text;
    EXPECT_EQ(2u, stp_policy_size(policy));
    stp_policy_free(policy);
    EXPECT_EQ(std::filesystem::perms(0644),
              std::filesystem::status(path_).permissions());
}

TEST_F(LearnedFile, KeepsWhatOthersLearned)
{
    ASSERT_EQ(STP_OK, Save({Rule(ncclFuncAllReduce, 4096, 1, 1)}, 4));
    ASSERT_EQ(STP_OK, Save({Rule(ncclFuncAllReduce, 4096, 1, 2)}, 8));
    ASSERT_EQ(STP_OK, Save({Rule(ncclFuncAllReduce, 8192, 0, 0)}, 4));

    EXPECT_EQ("allreduce,4096,8191,ring,ll128,-1,1,4,NVIDIA H200\n"
              "allreduce,4096,8191,ring,simple,-1,1,8,NVIDIA H200\n"
              "allreduce,8192,16383,tree,ll,-1,1,4,NVIDIA H200\n",
              Rules());

    // The count leaves out the second rule of the array.
    const stp_learned rules[] = {Rule(ncclFuncAllReduce, 8192, 1, 1),
                                 Rule(ncclFuncAllReduce, 4096, 1, 1)};
    const stp_learned_rules first = {rules, 1, false};
    const stp_shape shape = {4, 1, "NVIDIA H200"};
    ASSERT_EQ(STP_OK, stp_learned_save(path_.c_str(), &first, &shape, &err_));
    EXPECT_EQ("allreduce,4096,8191,ring,ll128,-1,1,4,NVIDIA H200\n"
              "allreduce,4096,8191,ring,simple,-1,1,8,NVIDIA H200\n"
              "allreduce,8192,16383,ring,ll128,-1,1,4,NVIDIA H200\n",
              Rules());
}

TEST_F(LearnedFile, PromisesTheSameBitsOnlyIfAllOfItsRulesKeepThem)
{
    auto promises = [&] {
        stp_policy *policy = nullptr;
        EXPECT_EQ(STP_OK, stp_policy_load(STP_POLICY_OF_ARMS, path_.c_str(),
                                          &policy, &err_));
        const bool same_bits = stp_policy_same_bits(policy);
        stp_policy_free(policy);
        return same_bits;
    };
    auto save = [&](uint64_t min, bool same_bits) {
        return Save({Rule(ncclFuncAllGather, min, 1, 1)}, 4, "NVIDIA H200",
                    same_bits);
    };

    ASSERT_EQ(STP_OK, save(4096, true));
    EXPECT_TRUE(promises());
    ASSERT_EQ(STP_OK, save(8192, true)); // by the next job, too
    EXPECT_TRUE(promises());
    ASSERT_EQ(STP_OK, save(16384, false)); // by one that need not
    EXPECT_FALSE(promises());
    ASSERT_EQ(STP_OK, save(32768, true)); // whose rules are still there
    EXPECT_FALSE(promises());
}

TEST_F(LearnedFile, ReplacesWhatItKnowsBetter)
{
    ASSERT_EQ(STP_OK, Save({Rule(ncclFuncAllReduce, 4096, 1, 1),
                            Rule(ncclFuncAllReduce, 8192, 1, 1),
                            Rule(ncclFuncAllReduce, 16384, 1, 1)}));
    // NCCL's own choice turned out to be the best at 8192.
    ASSERT_EQ(STP_OK, Save({Rule(ncclFuncAllReduce, 4096, 1, 2),
                            Rule(ncclFuncAllReduce, 8192, -1, 0)}));

    EXPECT_EQ("allreduce,16384,32767,ring,ll128,-1,1,4,NVIDIA H200\n"
              "allreduce,4096,8191,ring,simple,-1,1,4,NVIDIA H200\n",
              Rules());
    EXPECT_THAT(Text(), Not(HasSubstr("-1,-1")));
}

TEST_F(LearnedFile, LeavesAFileThatIsNoneOfItsOwn)
{
    const std::string texts[] = {
        "allreduce,0,1,ring,ll,-1,1,4\n",
        "# steptune-online: lear", // not even its first line
        std::string(100, '\0'),           "\n",
        std::string(5 << 20, 'x'), // no line in as much as is read
    };

    for (const std::string &text : texts) {
        std::ofstream(path_) << text;
        EXPECT_EQ(STP_ERR_IO, Save({Rule(ncclFuncAllReduce, 4096, 1, 1)}));
        EXPECT_EQ("'" + path_ +
                      "' is no file of what was learned, and is left as it is",
                  err_.text);
        EXPECT_TRUE(text == Text());
    }
}

TEST_F(LearnedFile, LeavesRulesThatWouldMeanSomethingElseUnderItsColumns)
{
    const std::string texts[] = {
        STP_LEARNED_MAGIC "\nallreduce,0,1,ring,ll,-1,1,4\n",
        STP_LEARNED_MAGIC
        "\n\n# by hand\ncollective,min_bytes,max_bytes,algorithm,protocol,"
        "channels,nRanks,nNodes,gpu\nallreduce,0,1,ring,ll,-1,4,1,*\n",
        STP_LEARNED_MAGIC "\nallreduce",
    };

    for (const std::string &text : texts) {
        std::ofstream(path_) << text;
        EXPECT_EQ(STP_ERR_IO, Save({Rule(ncclFuncAllReduce, 4096, 1, 1)}));
        EXPECT_EQ("'" + path_ +
                      "' is left as it is: its rules do not stand under the "
                      "header collective,min_bytes,max_bytes,algorithm,"
                      "protocol,channels,nNodes,nRanks,gpu",
                  err_.text);
        EXPECT_EQ(text, Text());
    }
}

// They would refuse the file, and all that is learned later with it.
TEST_F(LearnedFile, LeavesRulesThatAreNone)
{
    const std::pair<const char *, const char *> cases[] = {
        {"allreduce,8,9,ring,ll,", "found 6"},
        {"allreduce,8,9,ring,ll", "found 5"},
        {"allreduce,8,9,rong,ll,-1,1,4,*\n", "algorithm 'rong'"},
        {"allreduce,9,8,ring,ll,-1,1,4,*\n", "max_bytes"},
    };

    for (const auto &[rule, why] : cases) {
        const std::string text =
            kColumns + "allreduce,8,9,ring,ll,-1,1,2,*\n" + rule;

        std::ofstream(path_) << text;
        EXPECT_EQ(STP_ERR_IO, Save({Rule(ncclFuncAllReduce, 4096, 1, 1)}));
        EXPECT_THAT(
            err_.text,
            testing::StartsWith("'" + path_ + "' is left as it is: line 4: "));
        EXPECT_THAT(err_.text, testing::HasSubstr(why));
        EXPECT_EQ(text, Text());
    }
}

TEST_F(LearnedFile, TakesTheWholeLinesOfAFileOfItsOwn)
{
    const struct {
        const char *name;
        std::string text, rules;
    } cases[] = {
        {"empty", "", ""},
        {"its name alone", STP_LEARNED_MAGIC, ""},
        {"its header alone", kColumns.substr(0, kColumns.size() - 1), ""},
        {"no line in as much as is read",
         STP_LEARNED_MAGIC + std::string(5 << 20, 'x'), ""},
        {"no comment, and of other ranks",
         kColumns + "allreduce,8,9,ring,ll,-1,1,2,*\n",
         "allreduce,8,9,ring,ll,-1,1,2,*\n"},
        {"ends alike, of other sizes",
         kColumns + "allreduce,8,9,ring,ll,-1,1,4,NVIDIA H200\n",
         "allreduce,8,9,ring,ll,-1,1,4,NVIDIA H200\n"},
    };

    for (const auto &c : cases) {
        std::ofstream(path_) << c.text;
        EXPECT_EQ(STP_OK, Save({Rule(ncclFuncAllReduce, 4096, 1, 1)}))
            << err_.text;
        EXPECT_EQ(c.rules +
                      "allreduce,4096,8191,ring,ll128,-1,1,4,NVIDIA H200\n",
                  Rules())
            << c.name;
    }
}

TEST_F(LearnedFile, LocksItsFolderWhileItIsWritten)
{
    struct stat folder;
    const std::string name = "learned.conf";
    const std::string back = std::filesystem::current_path().string();
    ASSERT_EQ(0, stat(folder_.path().c_str(), &folder));
    ASSERT_EQ(0, chdir(folder_.path().c_str()));

    for (const std::string &path : {path_, name})
        for (bool has_stdin : {true, false}) {
            std::unique_ptr<ClosedStdin> closed;
            if (!has_stdin)
                closed = std::make_unique<ClosedStdin>();
            const std::string whole = path_;
            lock = Lock();
            path_ = path;
            EXPECT_EQ(STP_OK, Save({Rule(ncclFuncAllReduce, 4096, 1, 1)}));
            path_ = whole;
            EXPECT_THAT(lock.inodes, Each(folder.st_ino));
            EXPECT_THAT(lock.inodes, Not(IsEmpty()));
            EXPECT_TRUE(lock.is_closed_on_exec);
        }
    EXPECT_EQ(0, chdir(back.c_str()));
}

TEST_F(LearnedFile, StaysWhereAnotherProcessKeepsTheLock)
{
    ASSERT_EQ(STP_OK, Save({Rule(ncclFuncAllReduce, 4096, 1, 1)}));
    const std::string before = Text();
    const std::ptrdiff_t n = CountOpenFiles();

    lock.is_kept = true;
    EXPECT_EQ(STP_ERR_IO, Save({Rule(ncclFuncAllReduce, 8192, 1, 1)}));
    EXPECT_EQ("another process keeps the lock of the folder of '" + path_ + "'",
              err_.text);
    EXPECT_EQ(n, CountOpenFiles());
    EXPECT_EQ(before, Text());
    lock.is_kept = false;
    EXPECT_EQ(STP_OK, Save({Rule(ncclFuncAllReduce, 8192, 1, 1)}));
}

TEST_F(LearnedFile, StaysWhereThereIsNoMemory)
{
    ASSERT_EQ(STP_OK, Save({Rule(ncclFuncAllReduce, 4096, 1, 1)}));
    const std::string before = Text();
    const std::ptrdiff_t n = CountOpenFiles();

    for (int n_had : {0, 1}) { // of the new file and of the old one
        n_streams = n_had;
        EXPECT_EQ(STP_ERR_NOMEM, Save({Rule(ncclFuncAllReduce, 8192, 1, 1)}));
        n_streams = -1;
        EXPECT_EQ(n, CountOpenFiles());
        EXPECT_EQ(before, Text());
    }
}

TEST_F(LearnedFile, StaysWhereANewOneHasNoRoom)
{
    struct rlimit limit, little;
    getrlimit(RLIMIT_FSIZE, &limit);
    ASSERT_EQ(STP_OK, Save({Rule(ncclFuncAllReduce, 4096, 1, 1)}));
    const std::string before = Text();
    const auto was = signal(SIGXFSZ, SIG_IGN);

    little = limit;
    little.rlim_cur = 100;
    setrlimit(RLIMIT_FSIZE, &little);
    const stp_status status = Save({Rule(ncclFuncAllReduce, 8192, 1, 1)});
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, was);

    EXPECT_EQ(STP_ERR_IO, status);
    EXPECT_EQ("cannot write '" + path_ + "': File too large", err_.text);
    EXPECT_EQ(before, Text());
}

TEST_F(LearnedFile, SaysWhereItCannotWrite)
{
    path_ = folder_.Path("none/learned.conf");
    EXPECT_EQ(STP_ERR_IO, Save({Rule(ncclFuncAllReduce, 4096, 1, 1)}));
    EXPECT_THAT(err_.text, HasSubstr("No such file or directory"));
}

TEST_F(LearnedFile, ADeviceStaysADevice)
{
    ASSERT_EQ(0, symlink("/dev/null", path_.c_str()));
    EXPECT_EQ(STP_OK, Save({Rule(ncclFuncAllReduce, 4096, 1, 1)}));

    EXPECT_TRUE(std::filesystem::is_symlink(path_));
    EXPECT_TRUE(std::filesystem::is_character_file(path_));
}

TEST_F(LearnedFile, NamesNoGpuThatACsvCannotHold)
{
    ASSERT_EQ(STP_OK, Save({Rule(ncclFuncAllReduce, 4096, 1, 1)}, 4, "a,b"));
    EXPECT_EQ("allreduce,4096,8191,ring,ll128,-1,1,4,*\n", Rules());
}

// Rules of other shapes, so that nothing replaces them.
std::string ManyRules(size_t n_bytes)
{
    std::string text = kColumns;
    for (size_t i = 1; text.size() < n_bytes; i++)
        text += "# 1.25x (1.2 to 1.3), 40 calls\nallreduce,4096,8191,ring,ll,"
                "-1,1," +
                std::to_string(i) + ",*\n";
    return text;
}

TEST_F(LearnedFile, KeepsWholeRulesWhereThereIsNoRoomForAll)
{
    const std::string gpu(240, 'g'); // a rule as long as they come

    for (size_t n_bytes : {size_t{5} << 20, size_t{4} << 20}) {
        std::ofstream(path_) << ManyRules(n_bytes);
        for (int i = 0; i < 3; i++) {
            ASSERT_EQ(STP_OK, Save({Rule(ncclFuncAllReduce, 8192, 1, 1)}, 4,
                                   gpu.c_str()));
            EXPECT_GE(size_t{4} << 20, Text().size());
            EXPECT_LE((size_t{4} << 20) - 4096, Text().size());
            stp_policy *policy = nullptr;
            ASSERT_EQ(STP_OK, stp_policy_load(STP_POLICY_OF_ARMS, path_.c_str(),
                                              &policy, &err_))
                << err_.line << " " << err_.text;
            stp_policy_free(policy);
            EXPECT_THAT(Text(), testing::EndsWith("allreduce,8192,16383,ring,"
                                                  "ll128,-1,1,4," +
                                                  gpu + "\n"));
        }
    }
}

TEST_F(LearnedFile, ManyProcessesLoseNothing)
{
    constexpr int n = 16;

    for (int i = 0; i < n; i++)
        if (fork() == 0)
            _exit(Save({Rule(ncclFuncAllReduce, UINT64_C(4096) << i, 1, 1)}) !=
                  STP_OK);
    for (int i = 0; i < n; i++) {
        int status = 1;
        wait(&status);
        EXPECT_EQ(0, status);
    }

    std::string rules = Rules();
    EXPECT_EQ(n, std::count(rules.begin(), rules.end(), '\n')) << rules;
}

} // namespace
