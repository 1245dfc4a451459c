// steptune train that is ended by a signal.
#include <csignal>

#include "support/cli_fixture.h"

namespace
{

using namespace cli;
using namespace testing;

class TrainCommand : public Cli
{
  protected:
    std::vector<std::string> Results() const
    {
        return Files("results");
    }
};

const std::string kMatrix = "train --on cpu --batch 16 --samples 32 "
                            "--epochs 1 --warmup 0 --modes naive,single "
                            "-o results ";

TEST_F(TrainCommand, KeepsWhatWasDoneBeforeASignal)
{
    // a few seconds in all, of which the first configuration takes a part
    const std::string many = "--epochs 100 --precision fp32,bf16,fp16,fp64 "
                             "--ga 1,2,4,8 ";
    const struct {
        int signal;
        bool to_all; // ranks get it twice
    } cases[] = {
        {SIGINT, true}, {SIGINT, false}, {SIGTERM, true}, {SIGTERM, false}};

    for (const auto &c : cases) {
        const pid_t child = Start(kMatrix + many + "--gpus 1,2 --fresh");
        const auto is_json = [](const std::string &name) {
            return fs::path(name).extension() == ".json";
        };
        const auto saved = [&] {
            const std::vector<std::string> names = Results();
            return std::any_of(names.begin(), names.end(), is_json);
        };
        for (int i = 0; i < 12000 && !saved(); i++)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        kill(c.to_all ? -child : child, c.signal);
        EXPECT_EQ(1, Wait(child));
        EXPECT_THAT(Read("err"),
                    ContainsRegex("steptune train: stopped by a signal after "
                                  "[0-9]+ of 32 configurations; the same "
                                  "command goes on from there\n$"));
        ASSERT_LE(2u, Results().size()); // of one configuration, or more

        Outcome o = Run(kMatrix + "--epochs 100 --gpus 1");
        EXPECT_EQ(0, o.status) << o.err;
        EXPECT_THAT(o.err, HasSubstr("1 of 1 configurations were in results"));
        fs::remove_all(dir_ / "results");
    }
}

// Whether a process has a handler for SIGTERM by now.
bool Listens(pid_t process)
{
    std::ifstream status("/proc/" + std::to_string(process) + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind("SigCgt:", 0) == 0)
            return std::stoull(line.substr(7), nullptr, 16) >> (SIGTERM - 1) &
                   1;
    return false;
}

TEST_F(TrainCommand, StopsBetweenTwoEpochs)
{
    const pid_t child = Start(kMatrix + "--gpus 1 --epochs 1000000");
    const auto listens = [&] {
        const std::vector<pid_t> ranks = ChildrenOf(child);
        return !ranks.empty() && Listens(ranks[0]);
    };
    for (int i = 0; i < 12000 && !listens(); i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));

    kill(child, SIGTERM);

    EXPECT_EQ(1, Wait(child));
    EXPECT_THAT(Read("err"), HasSubstr("stopped by a signal after 0 of 1"));
    EXPECT_THAT(Results(), IsEmpty());
}

} // namespace
