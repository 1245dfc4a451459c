// Where the times of a device's last run are from.
#pragma once

extern "C" {
#include "device/device.h"
}

inline stp_source SourceOf(const stp_device &device)
{
    bool single_pass = true;

    return stp_device_source(&device, &single_pass);
}
