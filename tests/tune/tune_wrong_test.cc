// Arms that compute wrong results on a recorded machine, which by itself has
// none to check: they get no rule, and a policy that does is not written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/in_folder.h"
#include "support/mock_device.h"

extern "C" {
#include "analyse/wrong.h"
#include "nccl_tuner_abi.h"
#include "tune/tune.h"

static stp_arm selected;
static bool (*is_wrong)(const stp_arm &arm);

void __real_stp_device_get_info(const stp_device *, stp_device_info *);
void __wrap_stp_device_get_info(const stp_device *device, stp_device_info *info)
{
    __real_stp_device_get_info(device, info);
    info->has_data = true;
}

stp_status __real_stp_device_select_arm(const stp_device *, const stp_arm *,
                                        stp_error *);
stp_status __wrap_stp_device_select_arm(const stp_device *device,
                                        const stp_arm *arm, stp_error *err)
{
    selected = *arm;
    return __real_stp_device_select_arm(device, arm, err);
}

stp_status __wrap_stp_device_check(const stp_device *, const stp_collective *,
                                   uint64_t, uint64_t *n_wrong_ret, stp_error *)
{
    *n_wrong_ret = is_wrong(selected) ? 5000 : 0;
    return STP_OK;
}
}

namespace
{

using testing::ElementsAre;
using testing::StartsWith;

class TuneWrong : public InFolder
{
  protected:
    // Tunes all-gathers, in which arms of h200x4 gain.
    stp_status Tune()
    {
        stp_tune_host host{};
        stp_tune_plan plan{};
        stp_tune_files files;

        host.open = [](void *, unsigned, const char *plugin, bool,
                       stp_device *device, stp_error *err) {
            return OpenMockDevice("h200x4", 1, device, err, plugin);
        };
        host.progress = [](void *, stp_tune_stage, size_t, size_t) {
            return true;
        };
        host.goes_on = [](void *) { return true; };
        host.tell = [](void *user, const char *text) {
            if (strstr(text, "wrong elements") != nullptr)
                static_cast<TuneWrong *>(user)->told_.push_back(text);
        };
        host.user = this;
        plan.measure.colls[0] = ncclFuncAllGather;
        plan.measure.n_colls = 1;
        plan.measure.types[0] = STP_TYPE_BF16;
        plan.measure.n_types = 1;
        plan.resolution = 2;
        plan.min_gain = 0.02;
        plan.no_iterate = true;
        plan.plugin = STP_PLUGIN;
        stp_tune_result_free(&result_);
        result_ = {};
        told_.clear();
        EXPECT_TRUE(stp_tune_name_files(Path("t.conf").c_str(), &files));
        return stp_tune_run(&plan, &host, &files, &result_, &err_);
    }

    ~TuneWrong() override
    {
        stp_tune_result_free(&result_);
    }

    stp_tune_result result_{};
    stp_error err_{};
    std::vector<std::string> told_;
};

TEST_F(TuneWrong, ArmsGetNoRule)
{
    is_wrong = [](const stp_arm &) { return false; };
    ASSERT_EQ(STP_OK, Tune()) << err_.text;
    ASSERT_LT(0u, result_.alone.derived.n_rules);

    is_wrong = [](const stp_arm &arm) {
        return arm.kind == STP_ARM_FORCED && arm.proto == NCCL_PROTO_LL128;
    };
    ASSERT_EQ(STP_OK, Tune()) << err_.text;
    EXPECT_THAT(told_, ElementsAre(StartsWith("allgather: ring/ll128 has ")));
    for (size_t i = 0; i < result_.alone.derived.n_rules; i++)
        EXPECT_NE(NCCL_PROTO_LL128, result_.alone.derived.rules[i].arm.proto);

    is_wrong = [](const stp_arm &arm) { return arm.kind == STP_ARM_AUTO; };
    ASSERT_EQ(STP_OK, Tune()) << err_.text;
    EXPECT_EQ(0u, result_.alone.derived.n_rules);
    EXPECT_TRUE(stp_kind_is_wrong(&result_.alone.data, STP_ARM_AUTO));
}

TEST_F(TuneWrong, APolicyThatIsIsNotWritten)
{
    is_wrong = [](const stp_arm &arm) { return arm.kind == STP_ARM_PLUGIN; };

    EXPECT_EQ(STP_ERR_DEVICE, Tune());
    EXPECT_THAT(err_.text,
                StartsWith("with the new policy results have wrong"));
    EXPECT_FALSE(std::filesystem::exists(Path("t.conf")));
}

} // namespace
