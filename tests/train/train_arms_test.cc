// Arms that take turns in a training on one rank.
#include "train/train_runs.h"

extern "C" {
#include "nccl_tuner_abi.h"
#include "train/train_arms.h"
}

namespace
{

stp_arms ArmsOf(const char *list)
{
    stp_arms arms{};
    stp_error err{};

    EXPECT_EQ(STP_OK, stp_arms_parse(list, &arms, &err)) << err.text;
    return arms;
}

// A rank that says to run ring/simple whatever is selected, and of setups
// Kernel_A but where NCCL would have no symmetric kernel: for all-gathers.
struct Pretence {
    stp_engine_ops ops;
    decltype(stp_engine_ops::collective) collective;
    stp_arm arm;  // that is selected
    int captured; // ncclFunc_t
    bool captures;
    stp_arm broken;    // results of this arm are wrong
    unsigned n_breaks; // so often
} pretence;

stp_status Collective(void *self, unsigned stream, const stp_transfer *t,
                      stp_error *err)
{
    pretence.captured = t->coll;
    if (pretence.captures)
        return STP_OK;
    const stp_status status = pretence.collective(self, stream, t, err);
    if (status != STP_OK || pretence.n_breaks == 0 ||
        !stp_arm_equal(&pretence.arm, &pretence.broken))
        return status;
    pretence.n_breaks--;
    stp_kernel overflow{};
    overflow.kind = STP_KERNEL_SCALE;
    overflow.type = t->type;
    overflow.n = 3;
    overflow.factor = INFINITY;
    overflow.to = t->out;
    return pretence.ops.kernel(self, stream, &overflow, err);
}

stp_engine Pretend(const stp_engine *engine)
{
    pretence = {*engine->ops, engine->ops->collective, {}, 0, false, {}, 0};
    pretence.ops.collective = Collective;
    pretence.ops.select_arm = [](void *, const stp_arm *arm, stp_error *) {
        pretence.arm = *arm;
        return STP_OK;
    };
    pretence.ops.listen = [](void *) {};
    pretence.ops.heard = [](void *, stp_device_run *run, stp_question *) {
        run->algo = NCCL_ALGO_RING;
        run->proto = NCCL_PROTO_SIMPLE;
        run->n_channels = 16;
    };
    pretence.ops.begin_capture = [](void *, stp_error *) {
        pretence.captures = true;
        return STP_OK;
    };
    pretence.ops.end_capture = [](void *, stp_error *) {
        pretence.captures = false;
        return STP_OK;
    };
    pretence.ops.captured = [](const void *, char kernel[STP_KERNEL_NAME]) {
        snprintf(kernel, STP_KERNEL_NAME, "%s",
                 pretence.captured == ncclFuncAllGather ? "" : "Kernel_A");
    };
    return {&pretence.ops, engine->self};
}

// "sym: allgather ring/simple/16, ...", of each arm.
std::string Ran(const stp_train_result &result)
{
    std::string text;

    for (size_t i = 0; i < result.ran.n_rows; i++) {
        const stp_measurement &row = result.ran.rows[i];
        char name[STP_ARM_NAME];
        stp_arm_name(&row.arm, name);
        text += std::string(name) +
                (row.coll == ncclFuncAllGather ? " gathers " : " reduces ") +
                std::to_string(row.n_bytes) + ": " +
                (row.ran_kernel[0] != '\0'
                     ? row.ran_kernel
                     : std::to_string(row.ran_algo) + "/" +
                           std::to_string(row.ran_proto) + "/" +
                           std::to_string(row.ran_channels)) +
                "\n";
    }
    return text;
}

TEST(TrainArms, TakeTurnsForwardAndBackward)
{
    const struct {
        const char *list;
        unsigned rounds, epochs;
        const char *turns;
    } cases[] = {
        {"auto,reg,sym", 3, 1, "012210012"},
        {"auto,auto2", 3, 1, "011001"},
        {"auto,auto2", 2, 2, "00111100"},
        {"auto,reg,sym,ce", 2, 1, "01233210"},
        {"auto", 3, 1, "000"},
        {"auto,reg", 0, 2, "00"},
    };

    for (const auto &c : cases) {
        const stp_arms arms = ArmsOf(c.list);
        stp_train_config config;
        stp_train_default(&config);
        config.arms = &arms;
        config.rounds = c.rounds;
        config.n_epochs = c.epochs;
        std::string turns;
        for (unsigned e = 0; e < stp_train_n_epochs(&config); e++)
            turns += std::to_string(stp_train_arm_of(&config, e));
        EXPECT_EQ(c.turns, turns) << c.list;
    }
}

// The collectives that are tried before on other data leave nothing behind.
TEST(TrainArms, LeaveTheLossesAsTheyAre)
{
    const stp_arms arms = ArmsOf("auto,auto2");

    for (stp_train_mode mode :
         {STP_TRAIN_NAIVE, STP_TRAIN_BUCKETED, STP_TRAIN_SHARDED})
        for (stp_precision precision :
             {STP_PRECISION_FP32, STP_PRECISION_BF16}) {
            SCOPED_TRACE(stp_train_mode_name(mode));
            stp_train_config config = SmallTraining(mode, precision);
            config.n_epochs = 4;
            const Trained alone = TrainAlone(config);
            config.n_epochs = 1;
            config.rounds = 2;
            config.arms = &arms;
            const Trained turns = TrainAlone(config);
            EXPECT_EQ(STP_OK, alone.status) << alone.error;
            EXPECT_EQ(STP_OK, turns.status) << turns.error;
            EXPECT_EQ(alone.losses, turns.losses);
        }
}

// Between tensors they must stay so: sums over ranks would grow there until
// they overflow.
TEST(TrainArms, LeaveZerosBehind)
{
    const LoneEngine engine;
    const stp_arms arms = ArmsOf("auto,auto2");
    stp_train_config config =
        SmallTraining(STP_TRAIN_SHARDED, STP_PRECISION_FP32);
    stp_trainer t;
    stp_train_result result{};
    stp_error err{};
    config.rounds = 1;
    config.arms = &arms;
    ASSERT_EQ(STP_OK, stp_trainer_begin(&t, engine.get(), &config, &err))
        << err.text;

    stp_train_try_arms(&t, &result);

    for (void *flat : {t.gradients, t.weights}) {
        std::vector<float> all(t.layout.n, 1);
        STP_DO(&t, download, all.data(), flat, all.size() * sizeof(float));
        EXPECT_EQ(std::vector<float>(t.layout.n), all);
    }
    EXPECT_EQ(STP_OK, t.status) << t.err.text;
    EXPECT_EQ(4u, result.ran.n_rows);
    stp_train_result_free(&result);
}

TEST(TrainArms, AreRefusedForWrongResults)
{
    const LoneEngine lone;
    const stp_engine engine = Pretend(lone.get());
    const stp_arms arms = ArmsOf("auto,ring,sym");
    stp_train_config config =
        SmallTraining(STP_TRAIN_INTERLEAVED, STP_PRECISION_FP32);
    config.rounds = 1;
    config.arms = &arms;
    pretence.broken = arms.arm[2];
    pretence.n_breaks = 1;

    const Trained trained = Train(&engine, config);

    EXPECT_EQ(STP_ERR_LIMIT, trained.status);
    EXPECT_EQ("arm sym: 3 of 133 elements of allreduce of 532 bytes are wrong "
              "on rank 0, expected none",
              trained.error);
    EXPECT_EQ(STP_ARM_AUTO, pretence.arm.kind); // as it was before
}

TEST(TrainArms, HaveNoTurnsWhereNcclRunsAnother)
{
    const LoneEngine lone;
    const stp_engine engine = Pretend(lone.get());
    const stp_arms arms = ArmsOf("auto,tree,ring/simple,sym");
    stp_train_config config =
        SmallTraining(STP_TRAIN_SHARDED, STP_PRECISION_FP32);
    stp_train_result result{};
    stp_error err{};
    config.rounds = 2;
    config.n_epochs = 1;
    config.arms = &arms;

    ASSERT_EQ(STP_OK, stp_train_measure(&engine, &config, &result, &err))
        << err.text;

    ASSERT_EQ(3u, result.arms.n);
    EXPECT_TRUE(stp_arm_equal(&arms.arm[0], &result.arms.arm[0]));
    EXPECT_TRUE(stp_arm_equal(&arms.arm[2], &result.arms.arm[1]));
    EXPECT_TRUE(stp_arm_equal(&arms.arm[3], &result.arms.arm[2]));
    std::string turns;
    for (unsigned e = 0; e < result.n_epochs; e++)
        turns += std::to_string(result.epochs[e].arm);
    EXPECT_EQ("012210", turns);
    EXPECT_EQ("auto reduces 4096: 1/2/16\nauto gathers 4096: 1/2/16\n"
              "ring/simple reduces 4096: 1/2/16\n"
              "ring/simple gathers 4096: 1/2/16\n"
              "sym reduces 4096: Kernel_A\nsym gathers 4096: 1/2/16\n",
              Ran(result));
    stp_train_result_free(&result);
}

} // namespace
