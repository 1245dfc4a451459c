// Small trainings for tests.
#pragma once

#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

extern "C" {
#include "device/cpu/engine_cpu.h"
#include "train/train.h"
#include "train/trainer.h"
}

// 3 layers, which hold several buckets.
inline const stp_train_model kSmallModel = {"small", 3, {11, 16, 9, 5}};

// 20 steps of 64 samples.
inline stp_train_config SmallTraining(stp_train_mode mode,
                                      stp_precision precision)
{
    stp_train_config config;

    stp_train_default(&config);
    config.model = &kSmallModel;
    config.mode = mode;
    config.precision = precision;
    config.batch = 64;
    config.n_samples = 640;
    config.n_epochs = 2;
    config.warmup = 1;
    config.rate = 0.5;
    config.bucket_bytes = 600;
    config.first_bucket_bytes = 200;
    return config;
}

// As go_on, with how often it still says yes.
inline bool StepsLeft(void *left)
{
    return (*static_cast<int *>(left))-- > 0;
}

// An engine of this process alone, closed at the end.
class LoneEngine
{
  public:
    LoneEngine()
    {
        stp_device_options options{};
        stp_error err{};

        options.world = &stp_world_of_one;
        EXPECT_EQ(STP_OK, stp_cpu_open(nullptr, &options, &engines_, &err))
            << err.text;
    }

    ~LoneEngine()
    {
        get()->ops->close(get()->self);
    }

    LoneEngine(const LoneEngine &) = delete;
    LoneEngine &operator=(const LoneEngine &) = delete;

    const stp_engine *get() const
    {
        return &engines_.all[0];
    }

  private:
    stp_engines engines_{};
};

struct Trained {
    stp_status status = STP_OK;
    std::string error;
    std::vector<double> losses;
    stp_train_result result{}; // but for its arrays
};

inline Trained Train(const stp_engine *engine, const stp_train_config &config)
{
    Trained trained;
    stp_error err{};

    trained.status = stp_train_measure(engine, &config, &trained.result, &err);
    if (trained.status != STP_OK) {
        trained.error = err.text;
        return trained;
    }
    trained.losses.assign(trained.result.losses,
                          trained.result.losses + trained.result.n_steps);
    free(trained.result.losses);
    free(trained.result.epochs);
    return trained;
}

inline Trained TrainAlone(const stp_train_config &config)
{
    const LoneEngine engine;

    return Train(engine.get(), config);
}

struct Plant {
    stp_engine_ops ops;
    decltype(stp_engine_ops::note) real;
    unsigned call; // 0: none
    unsigned n_calls;
};

inline thread_local Plant plant; // of a rank

// An engine of this rank that overflows in one step, from 1 and with the
// warm-up, and that in one place: the gradient of the last layer's bias, which
// is in the shard of one rank.  Step 0: never.
inline stp_engine PlantOverflow(const stp_engine *engine,
                                const stp_train_model &model, unsigned step)
{
    plant = {*engine->ops, engine->ops->note,
             step == 0 ? 0 : (step - 1) * model.n_layers + 1, 0};
    plant.ops.note = [](void *self, const stp_work *work, stp_error *err) {
        const stp_kernel &kernel = work->as.kernel;
        stp_status status = plant.real(self, work, err);
        if (work->kind != STP_WORK_KERNEL ||
            kernel.kind != STP_KERNEL_COLUMN_SUM || status != STP_OK ||
            ++plant.n_calls != plant.call)
            return status;
        stp_work overflow{};
        overflow.kind = STP_WORK_KERNEL;
        overflow.as.kernel.kind = STP_KERNEL_SCALE;
        overflow.as.kernel.type = kernel.type_to;
        overflow.as.kernel.n = 1;
        overflow.as.kernel.factor = INFINITY;
        overflow.as.kernel.to = kernel.to;
        return plant.real(self, &overflow, err);
    };
    return {&plant.ops, engine->self};
}

inline void ExpectLosses(const std::vector<double> &want,
                         const std::vector<double> &got, double tolerance)
{
    ASSERT_EQ(want.size(), got.size());
    for (size_t i = 0; i < want.size(); i++)
        EXPECT_NEAR(want[i], got[i], tolerance * want[i]) << "step " << i + 1;
}
