// Where the times of a device's last run are from.
#ifndef SOURCE_OF_H
#define SOURCE_OF_H

extern "C" {
#include "device/device.h"
}

inline stp_source SourceOf(const stp_device &device)
{
    bool single_pass = true;

    return stp_device_source(&device, &single_pass);
}

#endif // SOURCE_OF_H
