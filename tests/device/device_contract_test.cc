// The contract suite on recorded and modelled machines, and on CPUs over Gloo.
#include "device/device_contract.h"

extern "C" {
#include "device/mock/device_mock.h"
}

#ifdef STP_GLOO_MODULE
extern "C" {
#include "device/module.h"
}

#include "support/forked_ranks.h"
#endif

namespace
{

template <const char *const &kMachine>
class MockUnderTest : public DeviceUnderTest
{
  public:
    stp_status Open(uint64_t, stp_device *device, stp_error *err) override
    {
        const std::string path =
            std::string(STP_FIXTURES "/machines/") + kMachine;
        stp_device_mock_options options{};

        options.machine_path = path.c_str();
        options.seed = 1;
        return stp_device_mock_open(&options, device, err);
    }
};

template <typename Device> std::unique_ptr<DeviceUnderTest> Make()
{
    return std::make_unique<Device>();
}

constexpr const char *kRecorded = "h200x4";
constexpr const char *kModelled = "h100n2x8";

const DeviceCase kMocks[] = {
    {"recorded", Make<MockUnderTest<kRecorded>>},
    {"modelled", Make<MockUnderTest<kModelled>>},
};

INSTANTIATE_TEST_SUITE_P(Mock, DeviceContract, testing::ValuesIn(kMocks),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

#ifdef STP_GLOO_MODULE

template <unsigned kRanks> class GlooUnderTest : public DeviceUnderTest
{
  public:
    stp_status Open(uint64_t max_bytes, stp_device *device,
                    stp_error *err) override
    {
        const stp_module *module = nullptr;
        stp_device_options options{};

        stp_status status = stp_module_open(STP_GLOO_MODULE, &module, err);
        if (status != STP_OK)
            return status;
        options.world = ranks_.world();
        options.max_bytes = max_bytes;
        options.time_limit_s = 60;
        return module->open(&options, device, err);
    }

  private:
    ForkedRanks ranks_{kRanks};
};

const DeviceCase kGloo[] = {
    {"alone", Make<GlooUnderTest<1>>},
    {"two_ranks", Make<GlooUnderTest<2>>},
    {"three_ranks", Make<GlooUnderTest<3>>},
};

INSTANTIATE_TEST_SUITE_P(Gloo, DeviceContract, testing::ValuesIn(kGloo),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

#endif

} // namespace
