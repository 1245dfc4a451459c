// Tests of the driver and the GPU that every other test here needs.
#include <dlfcn.h>
#include <gtest/gtest.h>

namespace
{

TEST(Device, IsThere)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    ASSERT_NE(nullptr, cuda) << "no NVIDIA driver here: " << dlerror()
                             << ". `ctest -L gpu` is for machines with GPUs; "
                                "`ctest -L unit` is not.";
    auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(cuda, "cuInit"));
    auto count =
        reinterpret_cast<int (*)(int *)>(dlsym(cuda, "cuDeviceGetCount"));
    ASSERT_NE(nullptr, init);
    ASSERT_NE(nullptr, count);
    int n = 0;

    ASSERT_EQ(0, init(0)) << "the driver does not start (CUresult)";
    ASSERT_EQ(0, count(&n));

    EXPECT_GE(n, 1) << "the driver sees no GPU";
}

} // namespace
