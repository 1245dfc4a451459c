// store_storm - N random conversations with a store and with ranks that meet
// through one, each by its seed.  Not a test: it takes minutes.  Exit status 1
// if one of them ends otherwise than it should; a hang ends it by a signal.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "launch/store_fuzz.h"

int main(int argc, char **argv)
{
    const uint64_t n = argc > 1 ? strtoull(argv[1], nullptr, 10) : 100000;
    const uint64_t from = argc > 2 ? strtoull(argv[2], nullptr, 10) : 1;

    if (argc > 3 || n == 0) {
        fprintf(stderr, "usage: store_storm [CONVERSATIONS [SEED]]\n");
        return 2;
    }
    for (uint64_t i = 0; i < n; i++) {
        const std::string fault = fuzz::Run(from + i);
        if (!fault.empty()) {
            printf("seed %" PRIu64 ": %s\n", from + i, fault.c_str());
            return 1;
        }
        if (i % 10000 == 9999) {
            printf("%" PRIu64 " conversations\n", i + 1);
            fflush(stdout);
        }
    }
    printf("%" PRIu64 " conversations from seed %" PRIu64 ", no fault\n", n,
           from);
    return 0;
}
