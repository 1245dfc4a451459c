// store_peer - our end of a store, for store_torch.py:
//   check PORT        uses the store at a port as a client
//   join              joins a run as torchrun's environment describes it
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
#include "launch/torchrun.h"
#include "store/clock.h"
#include "store/store_client.h"
}

namespace
{

int Fail(const char *why)
{
    fprintf(stderr, "store_peer: %s\n", why);
    return 1;
}

int Check(unsigned port)
{
    const auto address = stp_store_at("127.0.0.1", port);
    stp_client c{};
    bool is_there = true;
    int64_t sum = 0;
    char value[8] = "";
    size_t size = 0;
    if (stp_client_open(&c, &address, "test", stp_now_ms() + 10000) &&
        stp_client_check(&c, "k", &is_there) && !is_there &&
        stp_client_set(&c, "k", "value", 5) &&
        stp_client_get(&c, "k", value, sizeof(value), &size) && size == 5 &&
        memcmp(value, "value", 5) == 0 &&
        stp_client_get(&c, "theirs", value, sizeof(value), &size) &&
        size == 5 && memcmp(value, "torch", 5) == 0 &&
        stp_client_add(&c, "n", 40, &sum) && stp_client_add(&c, "n", 2, &sum) &&
        sum == 42 &&
        stp_client_compare_set(&c, "new", "x", 1, value, 8, &size) &&
        size == 1 && stp_client_delete(&c, "n") &&
        stp_client_check(&c, "n", &is_there) && !is_there)
        return 0;
    return Fail(c.why[0] != '\0' ? c.why : "another answer than expected");
}

int Join()
{
    stp_torchrun settings;
    stp_world world;
    stp_error err{};
    if (stp_torchrun_read(&settings, &err) != STP_OK)
        return Fail(err.text);
    settings.limit_ms = 20000;
    if (stp_torchrun_join(&settings, &world, &err) != STP_OK)
        return Fail(err.text);
    std::vector<unsigned> all(world.size);
    bool is_right =
        world.ops->exchange(world.self, &world.rank, sizeof(world.rank),
                            all.data(), &err) == STP_OK;
    for (unsigned r = 0; r < world.size; r++)
        is_right = is_right && all[r] == r;
    world.ops->close(world.self);
    return is_right ? 0 : Fail(err.text);
}

} // namespace

int main(int argc, char **argv)
{
    const std::string command = argc > 1 ? argv[1] : "";
    if (command == "check" && argc == 3)
        return Check(static_cast<unsigned>(atoi(argv[2])));
    return command == "join" ? Join() : Fail("check PORT or join");
}
