// Every target on its corpus: as it is, cut short, and with bytes changed.
#include <algorithm>
#include <filesystem>
#include <random>

#include "fuzz/fuzz.h"
#include "support/read_file.h"
#include "support/slow.h"

namespace
{

namespace fs = std::filesystem;

std::vector<fs::path> Entries(const fs::path &folder)
{
    std::vector<fs::path> paths;

    for (const auto &entry : fs::directory_iterator(folder))
        paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    return paths;
}

// A copy without room behind it, so that AddressSanitizer sees who reads there.
std::string RunOn(const fuzz::Target &target, const std::string &bytes)
{
    const std::vector<char> copy(bytes.begin(), bytes.end());
    return target.run({copy.data(), copy.size()});
}

using Corpus = testing::TestWithParam<fs::path>;

TEST_P(Corpus, HarmsNothing)
{
    const fuzz::Target *target = fuzz::Find(GetParam().filename().string());
    ASSERT_NE(nullptr, target) << "no target has this name";
    const size_t n_changes = kSkipsSlow ? 20 : 100; // ci/fuzz makes millions

    for (const fs::path &path : Entries(GetParam())) {
        SCOPED_TRACE(path);
        const std::string bytes = ReadFile(path);
        std::mt19937 random(1);

        EXPECT_EQ("", RunOn(*target, bytes));
        for (size_t i = 0; i < n_changes && !bytes.empty(); i++) {
            std::string changed = bytes.substr(0, random() % bytes.size() + 1);
            for (size_t n = i % 4; n > 0; n--)
                changed[random() % changed.size()] =
                    static_cast<char>(random());
            ASSERT_EQ("", RunOn(*target, changed)) << "change " << i;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Of, Corpus,
                         testing::ValuesIn(Entries(STP_FUZZ_CORPUS)),
                         [](const auto &corpus) {
                             return corpus.param.filename().string();
                         });

} // namespace
