// A recorded machine as a device.
#pragma once

#include <string>

extern "C" {
#include "device/mock/engine_mock.h"
}

// The path of a machine that is a folder, or a name of fixtures/machines.
inline std::string MockPath(const std::string &machine)
{
    return machine.find('/') == std::string::npos
               ? STP_FIXTURES "/machines/" + machine
               : machine;
}

// With these options, and a rank that measures; '*engine' is the rank.
inline stp_status OpenMockDevice(const std::string &machine, uint64_t seed,
                                 stp_device_options options, stp_device *device,
                                 stp_engine *engine, stp_error *err)
{
    stp_engines engines{};

    options.world = &stp_world_of_one;
    options.measures = true;
    const stp_status status = stp_mock_open(MockPath(machine).c_str(), 0, seed,
                                            &options, &engines, err);
    if (engine != nullptr)
        *engine = engines.all[0];
    return status == STP_OK ? stp_device_open(&options, &engines, device, err)
                            : status;
}

inline stp_status OpenMockDevice(const std::string &machine, uint64_t seed,
                                 stp_device *device, stp_error *err,
                                 const char *plugin = nullptr,
                                 const char *graphs_file = nullptr)
{
    stp_device_options options{};

    options.plugin = plugin;
    options.graphs_file = graphs_file;
    return OpenMockDevice(machine, seed, options, device, nullptr, err);
}
