// fixtures/regressions/*.csv: a file is a test.  Each says in its comments on
// which machine and with which policy its collectives are to be replayed, and
// in its rows what must come of them.
#include "support/cli_fixture.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

TEST_F(Cli, RegressionsComeOutAsTheyExpect)
{
    STP_SLOW();
    int n_files = 0;

    for (const auto &file :
         fs::directory_iterator(STP_FIXTURES "/regressions")) {
        if (file.path().extension() != ".csv")
            continue;
        Outcome o = Run("replay --trace '" + file.path().string() + "'");
        EXPECT_EQ(0, o.status) << o.err;
        n_files++;
    }

    EXPECT_GE(n_files, 7);
}

} // namespace
