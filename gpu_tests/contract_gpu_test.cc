// What device/device.h promises, kept by the GPUs of this host: one thread a
// GPU, one thread for all of them, and as CUDA graphs.
extern "C" {
#include "device/module.h"
}

#include "device/device_contract.h"

namespace
{

class CudaUnderTest : public DeviceUnderTest
{
  public:
    stp_status Open(uint64_t max_bytes, stp_device *device,
                    stp_error *err) override
    {
        const stp_module *module = nullptr;
        stp_status status = stp_module_open(STP_CUDA_MODULE, &module, err);

        if (status != STP_OK)
            return status;
        options_.world = &stp_world_of_one;
        options_.max_bytes = max_bytes;
        options_.time_limit_s = 60;
        return module->open(&options_, device, err);
    }

  protected:
    stp_device_options options_{};
};

class OneThread : public CudaUnderTest
{
  public:
    // As many GPUs as there are: found by asking for one too many.
    stp_status Open(uint64_t max_bytes, stp_device *device,
                    stp_error *err) override
    {
        stp_status status = STP_ERR_NOTHING;

        options_.n_threads = 1;
        for (options_.n_gpus = 8; options_.n_gpus > 0; options_.n_gpus /= 2) {
            status = CudaUnderTest::Open(max_bytes, device, err);
            if (status != STP_ERR_NOTHING)
                break;
        }
        return status;
    }
};

class Graphs : public CudaUnderTest
{
  public:
    Graphs()
    {
        options_.graph = 1;
    }
};

template <typename Device> std::unique_ptr<DeviceUnderTest> Make()
{
    return std::make_unique<Device>();
}

const DeviceCase kCases[] = {
    {"thread_a_gpu", Make<CudaUnderTest>},
    {"one_thread", Make<OneThread>},
    {"graphs", Make<Graphs>},
};

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceContract, testing::ValuesIn(kCases),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

} // namespace
