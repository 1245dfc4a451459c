// Environment variables, as lines of NAME=VALUE.
#include "fuzz/fuzz.h"

#include <cstdlib>
#include <sstream>
#include <vector>

extern "C" {
#include "launch/torchrun.h"
#include "plugin/online/online_settings.h"
#include "plugin/settings.h"
}

namespace fuzz
{

namespace
{

// Nothing of what the sanitizers, or the C library, read.
bool IsOurs(const std::string &name)
{
    for (const char *begin : {"LOCAL_", "MASTER_", "NCCL_", "RANK", "SLURM_",
                              "STEPTUNE_", "TORCHELASTIC_", "WORLD_SIZE"})
        if (name.rfind(begin, 0) == 0)
            return true;
    return false;
}

// Sets variables for as long as it lives.
class Environment
{
  public:
    explicit Environment(std::string_view text)
    {
        std::istringstream lines{std::string(text)};
        std::string line;

        while (std::getline(lines, line)) {
            const size_t equals = line.find('=');
            const std::string name = line.substr(0, equals);
            if (equals == std::string::npos || !IsOurs(name))
                continue;
            setenv(name.c_str(), line.c_str() + equals + 1, 1);
            names_.push_back(name);
        }
    }
    ~Environment()
    {
        for (const std::string &name : names_)
            unsetenv(name.c_str());
    }
    Environment(const Environment &) = delete;
    Environment &operator=(const Environment &) = delete;

  private:
    std::vector<std::string> names_;
};

std::string CheckOnline(const stp_online_settings &settings)
{
    const stp_bandit_rules &rules = settings.rules.bandit;

    if (rules.n_arms > STP_BANDIT_ARMS - 1)
        return "too many arms";
    if (!(rules.epsilon >= 0 && rules.epsilon <= 1 && rules.budget >= 0 &&
          rules.budget <= 1))
        return "a share that is none";
    return "";
}

} // namespace

std::string Settings(std::string_view bytes)
{
    static stp_plugin_settings settings;
    static stp_online_settings online;
    static char path[STP_PATH_SIZE];
    stp_torchrun torchrun{};
    const Environment environment(bytes);
    stp_error err{};
    std::string fault;

    if (stp_settings_read(&settings, &err) != STP_OK)
        fault += FaultOf(err);
    fault += stp_online_settings_read(1, &online, &err) != STP_OK
                 ? FaultOf(err)
                 : CheckOnline(online);
    for (stp_policy_kind kind : {STP_POLICY_OF_MEMORY, STP_POLICY_OF_STAGE})
        if (stp_settings_setups(kind, path, &err) != STP_OK)
            fault += FaultOf(err);
    if (stp_torchrun_read(&torchrun, &err) != STP_OK)
        fault += FaultOf(err);
    if (stp_launcher_rank(8) >= 8)
        fault += "a rank of more than there are";
    return fault;
}

} // namespace fuzz
