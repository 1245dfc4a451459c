// Every machine folder with NCCL's recorded choices is a test: mock NCCL
// computes the same from the search graphs.
#include <filesystem>

#include "support/mock_test.h"
#include "support/recorded_choices.h"

namespace
{

namespace fs = std::filesystem;

TEST(RecordedMachines, HaveTheirTablesChoicesAndChannels)
{
    int n_machines = 0;

    for (const auto &folder :
         fs::directory_iterator(STP_FIXTURES "/machines")) {
        if (!fs::exists(folder.path() / "choices.csv"))
            continue;
        SCOPED_TRACE(folder.path().filename().string());
        int n_rows = ExpectChoices(folder.path().string());
        EXPECT_GE(n_rows, 100);
        if (folder.path().filename() == "h200x4") {
            EXPECT_EQ(176, n_rows);
        }
        if (fs::exists(folder.path() / "forced.csv")) {
            EXPECT_GE(ExpectChoices(folder.path().string(), "forced.csv"), 100);
        }
        n_machines++;
    }
    EXPECT_GE(n_machines, 1);
}

} // namespace
