// steptune as a user runs it: what the tests of the command share.
#pragma once

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "support/temporary_folder.h"

namespace cli
{

namespace fs = std::filesystem;

struct Outcome {
    int status = -1;
    std::string out;
    std::string err;
};

inline size_t Count(const std::string &text, const std::string &word)
{
    size_t n = 0;
    for (size_t at = text.find(word); at != std::string::npos;
         at = text.find(word, at + 1))
        n++;
    return n;
}

class Cli : public testing::Test
{
  protected:
    void SetUp() override
    {
        // nothing comes from whoever runs the tests
        std::vector<std::string> names = {"RANK", "WORLD_SIZE", "FAKE_NCCL",
                                          "VIRTUAL_ENV", "CONDA_PREFIX"};
        for (char **e = environ; *e != nullptr; e++) {
            const std::string name = std::string(*e, strcspn(*e, "="));
            if (name.rfind("NCCL_", 0) == 0 || name.rfind("STEPTUNE_", 0) == 0)
                names.push_back(name);
        }
        for (const std::string &name : names)
            unsetenv(name.c_str());
        // there is no GPU here, even where there is one
        setenv("CUDA_VISIBLE_DEVICES", "", 1);
    }
    void TearDown() override
    {
        for (const auto &[name, value] : before_)
            if (value)
                setenv(name.c_str(), value->c_str(), 1);
            else
                unsetenv(name.c_str());
    }

    // Sets a variable until the end of the test.
    void Set(const std::string &name, const std::string &value)
    {
        const char *now = getenv(name.c_str());
        before_.insert({name, now != nullptr ? std::optional<std::string>(now)
                                             : std::nullopt});
        setenv(name.c_str(), value.c_str(), 1);
    }

    // Runs it in the test's folder.
    Outcome Run(const std::string &arguments) const
    {
        return RunProgram(STP_STEPTUNE, arguments);
    }

    Outcome RunProgram(const std::string &program,
                       const std::string &arguments) const
    {
        Outcome o;
        std::string command = "cd '" + dir_.string() + "' && " + program + " " +
                              arguments + " >out 2>err </dev/null";
        int status = std::system(command.c_str());
        o.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        o.out = Read("out");
        o.err = Read("err");
        fs::remove(dir_ / "out");
        fs::remove(dir_ / "err");
        return o;
    }

    struct Refusal {
        const char *arguments;
        int status;
        const char *err; // a part; from "steptune " on the beginning, and up to
                         // a newline all of it
    };

    // Each is refused in a sentence, and prints nothing else.
    void ExpectRefusals(const std::string &command,
                        const std::vector<Refusal> &refusals) const
    {
        for (const Refusal &r : refusals) {
            SCOPED_TRACE(command + r.arguments);
            const Outcome o = Run(command + r.arguments);
            const std::string err = r.err;

            EXPECT_EQ(r.status, o.status) << o.err;
            EXPECT_EQ("", o.out);
            // argp says where help is, in a line or two
            if (r.status <= 2) {
                EXPECT_LE(Count(o.err, "\n"), r.status == 2 ? 3u : 1u);
            }
            if (err.rfind("steptune ", 0) != 0) {
                EXPECT_THAT(o.err, testing::HasSubstr(err));
            } else if (err.back() == '\n' && r.status != 2) {
                EXPECT_EQ(err, o.err);
            } else {
                EXPECT_THAT(o.err, testing::StartsWith(err));
            }
        }
    }

    std::string Read(const std::string &name) const
    {
        return ReadFile(dir_ / name);
    }

    void Write(const std::string &name, const std::string &text) const
    {
        std::ofstream(dir_ / name) << text;
    }

    // Names in a folder of the test's own; none if the folder does not exist.
    std::vector<std::string> Files(const char *folder = ".") const
    {
        std::vector<std::string> names;
        if (fs::exists(dir_ / folder))
            for (const auto &entry : fs::directory_iterator(dir_ / folder))
                names.push_back(entry.path().filename());
        std::sort(names.begin(), names.end());
        return names;
    }

    // Starts it in a process group of its own, as a terminal does.
    pid_t Start(const std::string &arguments)
    {
        return StartTo("", arguments);
    }

    // Likewise; it prints to outSUFFIX and errSUFFIX.
    pid_t StartTo(const std::string &suffix, const std::string &arguments)
    {
        pid_t child = fork();
        if (child == 0) {
            setpgid(0, 0);
            const std::string command = "cd '" + dir_.string() +
                                        "' && exec " STP_STEPTUNE " " +
                                        arguments + " >out" + suffix +
                                        " 2>err" + suffix + " </dev/null";
            execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
            _exit(127);
        }
        setpgid(child, child);
        return child;
    }

    // Waits until something was saved.
    void WaitForFile(const char *name)
    {
        for (int i = 0; i < 12000 && !fs::exists(dir_ / name); i++)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        ASSERT_TRUE(fs::exists(dir_ / name));
    }

    static int Wait(pid_t child)
    {
        int status = -1;
        waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }

    static std::vector<pid_t> ChildrenOf(pid_t parent)
    {
        const std::string pid = std::to_string(parent);
        std::ifstream list("/proc/" + pid + "/task/" + pid + "/children");
        return {std::istream_iterator<pid_t>(list), {}};
    }

    TemporaryFolder folder_;
    const fs::path dir_ = folder_.path();

  private:
    std::map<std::string, std::optional<std::string>> before_;
};

using Json = std::unique_ptr<cJSON, decltype(&cJSON_Delete)>;

inline Json Parse(const std::string &text)
{
    return Json(cJSON_Parse(text.c_str()), cJSON_Delete);
}

inline std::string String(const cJSON *object, const char *key)
{
    const char *s =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return s != nullptr ? s : "";
}

} // namespace cli
