// Whether arms that a sweep calls the same to the bit are so in communicators
// that it never saw, with data that it never saw.
#include <chrono>
#include <cinttypes>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

extern "C" {
#include "bench/sweep.h"
#include "core/names.h"
}

#include "device/device_fixture.h"
#include "gpu_engines.h"

namespace
{

constexpr uint64_t kMaxBytes = 32 << 20;
constexpr uint64_t kSeed = 77; // of NCCL's own choice in each communicator

unsigned FromEnvironment(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    return text != nullptr ? strtoul(text, nullptr, 10) : otherwise;
}

// A collective, and the arms that were the same for it.
struct Claim {
    stp_collective what;
    std::vector<stp_arm> same;
    uint64_t auto_bits = 0;
};

class Bits : public DeviceFixture
{
  protected:
    void SetUp() override
    {
        if (CountRanks() == 1)
            GTEST_SKIP() << "needs two GPUs: one rank adds nothing";
    }

    void Open()
    {
        stp_device_close(&device_);
        options_.max_bytes = kMaxBytes;
        Ok(OpenGpuDevice(&options_, &device_, &err_));
    }

    uint64_t Hash(const stp_arm &arm, const stp_collective &what, uint64_t seed,
                  bool rounds)
    {
        stp_found found{};
        Select(arm);
        Ok(stp_device_check(&device_, &what, seed, rounds, &found, &err_));
        EXPECT_EQ(0u, found.n_wrong);
        return found.bits;
    }

    // The rows of a sweep of one size.
    stp_dataset Sweep(int coll, int type, uint64_t n_bytes,
                      const stp_arms &arms)
    {
        stp_sizes sizes{};
        stp_sweep_plan plan{};
        stp_dataset data{};
        sizes.size[sizes.n++] = n_bytes;
        plan.colls = &coll;
        plan.n_colls = 1;
        plan.sizes = &sizes;
        plan.arms = &arms;
        plan.rounds = plan.iters = plan.check = 1;
        plan.bits_max = UINT64_MAX;
        plan.type = type;
        plan.op = STP_OP_SUM;
        plan.auto_places = plan.arm_places = STP_OUT_OF_PLACE;
        Ok(stp_sweep_run(&device_, &plan, nullptr, nullptr, &data, &err_));
        return data;
    }

    std::vector<Claim> MakeClaims()
    {
        const stp_device_info info = Info();
        const uint64_t unit = 8 * info.n_ranks;
        stp_arms arms;
        std::vector<Claim> claims;
        size_t n_same = 0, n_other = 0;

        Ok(stp_arms_parse("all", &arms, &err_));
        Ok(stp_arms_add_channels(&arms, "2,8", &err_));
        Ok(stp_arms_add_setups(&arms, info.setups, &err_));
        for (int coll = 0; coll < NCCL_NUM_TUNED_FUNCS; coll++)
            for (int type :
                 {STP_TYPE_F32, STP_TYPE_BF16, STP_TYPE_F16, STP_TYPE_F64,
                  STP_TYPE_FP8_E4M3, STP_TYPE_FP8_E5M2, STP_TYPE_I32})
                for (uint64_t n : {1, 37, 1021, 32771, 131072, 400009}) {
                    Claim claim;
                    stp_dataset data = Sweep(coll, type, n * unit, arms);
                    claim.what = Make(coll, n * unit, type);
                    for (size_t i = 0; i < data.n_rows; i++) {
                        const stp_measurement &m = data.rows[i];
                        if (m.arm.kind == STP_ARM_AUTO)
                            continue;
                        n_same += m.bits == STP_BITS_SAME;
                        n_other += m.bits == STP_BITS_OTHER;
                        if (m.bits == STP_BITS_SAME)
                            claim.same.push_back(m.arm);
                        EXPECT_TRUE(
                            m.bits != STP_BITS_OTHER ||
                            (stp_coll_reduces(coll) && info.n_ranks > 2))
                            << stp_coll_name(coll);
                    }
                    stp_dataset_free(&data);
                    claim.auto_bits = Hash(kAuto, claim.what, kSeed, true);
                    claims.push_back(claim);
                }
        printf("%zu messages: %zu arms are the same, %zu are not\n",
               claims.size(), n_same, n_other);
        return claims;
    }

    stp_device_options options_{};
};

// STP_BITS_COMMUNICATORS says of how many, STP_BITS_SECONDS for how long.
TEST_F(Bits, ArmsThatAreCalledTheSameAreSoInFreshCommunicators)
{
    const unsigned n_wanted = FromEnvironment("STP_BITS_COMMUNICATORS", 60);
    const auto end =
        std::chrono::steady_clock::now() +
        std::chrono::seconds(FromEnvironment("STP_BITS_SECONDS", 150));
    std::map<std::string, unsigned> n_other; // by arm
    unsigned n_communicators = 1, n_compared = 0, n_auto = 0;
    std::mt19937_64 random(1);

    Open();
    const std::vector<Claim> claims = MakeClaims();
    while (n_communicators < n_wanted &&
           std::chrono::steady_clock::now() < end && !HasFailure()) {
        std::map<std::string, bool> setups; // a communicator each
        Open();
        for (int k = 0; k < 24; k++) {
            const Claim &claim = claims[random() % claims.size()];
            const uint64_t seed = random();
            const bool rounds = random() % 4 != 0;
            const uint64_t own = Hash(kAuto, claim.what, seed, rounds);

            n_auto++;
            EXPECT_EQ(claim.auto_bits, Hash(kAuto, claim.what, kSeed, true))
                << "NCCL's own choice in another communicator, "
                << stp_coll_name(claim.what.coll) << " "
                << stp_type_name(claim.what.type) << " of "
                << claim.what.n_bytes;
            for (const stp_arm &arm : claim.same) {
                char name[STP_ARM_NAME];
                stp_arm_name(&arm, name);
                n_compared++;
                n_other[name] += own != Hash(arm, claim.what, seed, rounds);
                if (arm.kind == STP_ARM_SETUP)
                    setups[name] = true;
                EXPECT_EQ(0u, n_other[name])
                    << name << ": " << stp_coll_name(claim.what.coll) << " "
                    << stp_type_name(claim.what.type) << " of "
                    << claim.what.n_bytes << ", seed " << seed;
            }
        }
        n_communicators += 1 + static_cast<unsigned>(setups.size());
    }
    unsigned sum = 0;
    for (const auto &arm : n_other)
        sum += arm.second;
    printf("%u communicators: %u results of arms that are called the same, %u "
           "are not; %u of NCCL's own choice, compared with the first "
           "communicator's\n",
           n_communicators, n_compared, sum, n_auto);
    EXPECT_GT(n_compared, 0u);
}

} // namespace
