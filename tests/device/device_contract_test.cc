// The contract suites on recorded and modelled machines, and on CPUs alone and
// over Gloo.
#include "device/contract.h"

extern "C" {
#include "device/cpu/engine_cpu.h"
#include "device/mock/engine_mock.h"
#include "device/module.h"
}

#ifdef STP_GLOO_MODULE
#include "support/forked_ranks.h"
#endif

namespace
{

template <const char *const &kMachine> class Mock : public RanksUnderTest
{
  public:
    stp_status Open(stp_device_options *options, stp_engines *engines,
                    stp_error *err) override
    {
        const std::string path =
            std::string(STP_FIXTURES "/machines/") + kMachine;

        options->world = &stp_world_of_one;
        return stp_mock_open(path.c_str(), 0, 1, options, engines, err);
    }
};

constexpr const char *kH200x4 = "h200x4";
constexpr const char *kH100n2x8 = "h100n2x8";
constexpr const char *kB200x8 = "b200x8";

const ContractCase kRecorded[] = {
    {"recorded", MakeRanks<Mock<kH200x4>>},
    {"modelled", MakeRanks<Mock<kH100n2x8>>},
};
const ContractCase kModelled[] = {{"modelled", MakeRanks<Mock<kB200x8>>}};

INSTANTIATE_TEST_SUITE_P(Mock, DeviceContract, testing::ValuesIn(kRecorded),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Mock, EngineContract, testing::ValuesIn(kModelled),
                         NameOf);

#ifdef STP_HAVE_OPENBLAS

class Alone : public RanksUnderTest
{
  public:
    stp_status Open(stp_device_options *options, stp_engines *engines,
                    stp_error *err) override
    {
        options->world = &stp_world_of_one;
        return stp_cpu_open(nullptr, options, engines, err);
    }
};

const ContractCase kAlone[] = {{"alone", MakeRanks<Alone>}};

INSTANTIATE_TEST_SUITE_P(Cpu, EngineContract, testing::ValuesIn(kAlone),
                         NameOf);

#endif

#ifdef STP_GLOO_MODULE

template <unsigned kRanks> class Gloo : public RanksUnderTest
{
  public:
    stp_status Open(stp_device_options *options, stp_engines *engines,
                    stp_error *err) override
    {
        const stp_module *module = nullptr;
        const stp_status status =
            stp_module_open(STP_GLOO_MODULE, &module, err);

        options->world = ranks_.world();
        return status == STP_OK ? module->open(options, engines, err) : status;
    }

  private:
    ForkedRanks ranks_{kRanks};
};

const ContractCase kGloo[] = {
    {"alone", MakeRanks<Gloo<1>>},
    {"two_ranks", MakeRanks<Gloo<2>>},
    {"three_ranks", MakeRanks<Gloo<3>>, true},
    {"four_ranks", MakeRanks<Gloo<4>>, true},
};

INSTANTIATE_TEST_SUITE_P(Gloo, DeviceContract, testing::ValuesIn(kGloo),
                         NameOf);
#ifdef STP_HAVE_OPENBLAS
INSTANTIATE_TEST_SUITE_P(Gloo, EngineContract, testing::Values(kGloo[2]),
                         NameOf);
#endif

#endif

} // namespace
