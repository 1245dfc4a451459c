// libnccl opened at run time: what is said where there is none that will do.
#include <gmock/gmock.h>

#include <cstdlib>

extern "C" {
#include "device/cuda/nccl_api.h"
}

namespace
{

using testing::AllOf;
using testing::HasSubstr;

class NcclApi : public testing::Test
{
  protected:
    stp_status Open(const char *path)
    {
        setenv("STEPTUNE_NCCL", path, 1);
        const stp_status status = stp_nccl_open(&api_, &err_);
        unsetenv("STEPTUNE_NCCL");
        return status;
    }

    stp_nccl_api api_{};
    stp_error err_{};
};

TEST_F(NcclApi, SaysWhereItLookedAndHowToNameAnother)
{
    EXPECT_EQ(STP_ERR_NOTHING, Open("/no/such/libnccl.so.2"));

    EXPECT_THAT(err_.text, AllOf(HasSubstr("no NCCL: /no/such/libnccl.so.2"),
                                 HasSubstr("STEPTUNE_NCCL")));
}

TEST_F(NcclApi, RefusesAVersionThatIsTooOld)
{
    EXPECT_EQ(STP_ERR_NOTHING, Open(STP_OLD_NCCL));

    EXPECT_THAT(err_.text, HasSubstr("is NCCL 2.18.5, expected 2.21 or later"));
    EXPECT_EQ(0, api_.version);
}

TEST_F(NcclApi, RefusesWhatIsNoNccl)
{
    EXPECT_EQ(STP_ERR_NOTHING, Open(STP_NO_NCCL));

    EXPECT_THAT(err_.text, HasSubstr("has no ncclGetVersion: expected NCCL "
                                     "2.21 or later"));
}

TEST(NcclVersion, IsNamedAsNcclNamesIt)
{
    char name[16];

    stp_nccl_version_name(22809, name);
    EXPECT_STREQ("2.28.9", name);
    stp_nccl_version_name(23007, name);
    EXPECT_STREQ("2.30.7", name);
}

} // namespace
