// Policies where memory runs out: each allocation is refused once.
#include <functional>

#include "faults/failing_memory.h"
#include "support/policy_text.h"
#include "support/temporary_folder.h"

using namespace policy_text;

namespace
{

// Refuses the first allocation, then the second, until 'run' does not meet the
// one to be refused.  Returns how many it met.
int RefuseEach(const std::function<stp_status(stp_error *)> &run)
{
    for (int n = 0;; n++) {
        stp_error err{};

        failing_memory::until_failure = n + 1;
        const stp_status status = run(&err);
        const bool has_failed = failing_memory::until_failure == 0;
        failing_memory::until_failure = 0;
        if (!has_failed) {
            EXPECT_EQ(STP_OK, status) << err.text;
            return n;
        }
        EXPECT_EQ(STP_ERR_NOMEM, status) << n;
        EXPECT_STREQ("out of memory", err.text) << n;
        EXPECT_EQ(0u, err.line) << n;
    }
}

// Nothing is returned where memory runs out.
template <class Made> class Output
{
  public:
    Made **Address()
    {
        return &made_;
    }
    stp_status Check(stp_status status)
    {
        if (status == STP_OK)
            owner_.reset(made_);
        else
            EXPECT_EQ(reinterpret_cast<Made *>(this), made_);
        return status;
    }

  private:
    Made *made_ = reinterpret_cast<Made *>(this);
    std::unique_ptr<Made, Free> owner_;
};

// More rules and names than there is room for at first.
std::string ManyRules()
{
    std::string csv = "collective,algorithm,protocol,gpu\n";

    for (int i = 0; i < 100; i++)
        csv += "reduce,ring,ll,GPU " + std::to_string(i % 3) + "\n";
    return csv;
}

TEST(PolicyParse, SaysThatMemoryIsOut)
{
    const std::string csv = ManyRules();

    EXPECT_LE(6, RefuseEach([&csv](stp_error *err) {
                  Output<stp_policy> policy;

                  return policy.Check(stp_policy_parse(STP_POLICY_OF_ARMS,
                                                       csv.data(), csv.size(),
                                                       policy.Address(), err));
              }));
}

TEST(PolicyLoad, SaysThatMemoryIsOut)
{
    const TemporaryFolder folder;
    const std::string path = folder.Path("policy");
    std::ofstream(path) << std::string(1 << 17, '\n') << ManyRules();

    EXPECT_LE(7, RefuseEach([&path](stp_error *err) {
                  Output<stp_policy> policy;

                  return policy.Check(stp_policy_load(
                      STP_POLICY_OF_ARMS, path.c_str(), policy.Address(), err));
              }));
}

// The rules need more entries than there are rules.
TEST(PolicyCompile, SaysThatMemoryIsOut)
{
    const stp_shape shape = {8, 1, nullptr};
    std::string csv;
    for (int i = 1; i <= 20; i++)
        csv += "allreduce," + std::to_string(i) + ",inf,ring,ll,1,1,8," +
               std::to_string(i) + "\n";
    const Policy policy = Parse(csv);

    EXPECT_LE(12, RefuseEach([&](stp_error *err) {
                  Output<stp_compiled> compiled;

                  return compiled.Check(stp_policy_compile(
                      policy.get(), &shape, compiled.Address(), err));
              }));
}

} // namespace
