// Measurements that are read and written as text.
#pragma once

#include <gmock/gmock.h>

extern "C" {
#include "report/measurements/measurements_csv.h"
#include "report/results/results.h"
}

#include "support/owned.h"
#include "support/written.h"

class Measured : public testing::Test
{
  protected:
    stp_status ReadCsv(const std::string &text)
    {
        return stp_measurements_read(text.data(), text.size(), &data_, &err_);
    }

    static std::string Json(const stp_dataset &data)
    {
        return Written([&](FILE *fp) { stp_print_sweep_json(&data, fp); });
    }

    static std::string Csv(const stp_dataset &data)
    {
        return Written([&](FILE *fp) {
            stp_measurements_write(&data, "test", fp);
            return STP_OK;
        });
    }

    Owned<stp_dataset, stp_dataset_free> data_;
    stp_error err_{};
};
