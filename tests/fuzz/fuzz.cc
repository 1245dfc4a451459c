// libFuzzer's entry: FUZZ_TARGET names the target.
#include "fuzz/fuzz.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const name = getenv("FUZZ_TARGET");
    static const fuzz::Target *const target =
        name != nullptr ? fuzz::Find(name) : nullptr;

    if (target == nullptr) {
        fprintf(stderr, "FUZZ_TARGET is not set to a folder of "
                        "tests/fuzz/corpus\n");
        exit(2);
    }
    const std::string fault =
        target->run({reinterpret_cast<const char *>(data), size});
    if (!fault.empty()) {
        fprintf(stderr, "fault: %s\n", fault.c_str());
        abort();
    }
    return 0;
}
