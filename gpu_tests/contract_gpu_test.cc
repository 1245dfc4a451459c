// The contract of device/device.h, kept by the GPUs of this host: one thread a
// GPU, one thread for all of them, and as CUDA graphs.
#include "device/contract.h"
#include "gpu_engines.h"

namespace
{

class Gpus : public RanksUnderTest
{
  public:
    stp_status Open(stp_device_options *options, stp_engines *engines,
                    stp_error *err) override
    {
        return OpenGpus(options, engines, err);
    }
};

class OneThread : public RanksUnderTest
{
  public:
    // As many GPUs as there are: found by asking for too many.
    stp_status Open(stp_device_options *options, stp_engines *engines,
                    stp_error *err) override
    {
        stp_status status = STP_ERR_NOTHING;

        options->n_threads = 1;
        for (options->n_gpus = CountRanks() == 2 ? 2 : 8; options->n_gpus > 0;
             options->n_gpus /= 2) {
            status = OpenGpus(options, engines, err);
            if (status != STP_ERR_NOTHING)
                break;
        }
        return status;
    }
};

class Graphs : public RanksUnderTest
{
  public:
    stp_status Open(stp_device_options *options, stp_engines *engines,
                    stp_error *err) override
    {
        options->graph = true;
        return OpenGpus(options, engines, err);
    }
};

std::vector<ContractCase> Cases()
{
    std::vector<ContractCase> cases = {{"thread_a_gpu", MakeRanks<Gpus>},
                                       {"one_thread", MakeRanks<OneThread>}};

    if (!RanksShareAGpu())
        cases.push_back({"graphs", MakeRanks<Graphs>});
    return cases;
}

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceContract, testing::ValuesIn(Cases()),
                         NameOf);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EngineContract); // one device
                                                               // a process
} // namespace
