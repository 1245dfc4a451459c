// From measurements to comparisons, by hand-made numbers.
#include <gmock/gmock.h>

#include <cmath>

#include "nccl_tuner_abi.h"
#include "support/measured_data.h"

using namespace measured;

namespace
{

TEST(Compare, PairsEachRoundWithTheAutoOfThatRound)
{
    Data d; // drift doubles everything in round 1
    d.Add(1024, kRingLl128, {50, 100, 25}).Add(1024, kAuto, {60, 120, 30});

    Compared c(d);

    ASSERT_EQ(1u, c.all.n_points);
    const stp_point &p = c.all.points[0];
    EXPECT_DOUBLE_EQ(70, p.auto_us);
    ASSERT_EQ(1u, p.n_arms);
    EXPECT_NEAR(1.2, p.arms[0].gain.gain, 1e-12);
    EXPECT_NEAR(1.2, p.arms[0].gain.low, 1e-9);
    EXPECT_EQ(3u, p.arms[0].gain.n_pairs);
    EXPECT_NEAR(175.0 / 3, p.arms[0].us, 1e-12);
    EXPECT_EQ(NCCL_ALGO_RING, p.auto_algo);
    EXPECT_EQ(NCCL_PROTO_SIMPLE, p.auto_proto);
}
TEST(Compare, AveragesAnArmThatRanTwiceInARound)
{
    Data d;
    d.Add(1024, kAuto, {50, 80}).Add(1024, kAuto, {70, 80});
    d.Add(1024, kTreeLl, {50, 50}).Add(1024, kAutoAgain, {50, 80});

    Compared c(d);

    EXPECT_NEAR(std::sqrt(60.0 / 50 * 80 / 50),
                c.all.points[0].arms[1].gain.gain, 1e-12);
    EXPECT_EQ(2u, c.all.points[0].arms[1].gain.n_pairs);
    ASSERT_EQ(2u, c.all.points[0].n_arms) << "AUTO once more is an arm";
    EXPECT_EQ(STP_ARM_AUTO_AGAIN, c.all.points[0].arms[0].arm.kind);
}
TEST(Compare, SeparatesTypesOperationsRootsPlacesAndGraphs)
{
    Data d;
    d.Add(1024, kAuto, {60, 60}).Add(1024, kTreeLl, {50, 50});
    AddChanged(&d, [](stp_measurement *m) { m->graph = true; });
    AddChanged(&d, [](stp_measurement *m) { m->in_place = true; });
    AddChanged(&d, [](stp_measurement *m) { m->us.median *= 2, m->type = 7; });
    AddChanged(&d, [](stp_measurement *m) { m->us.median *= 2, m->op = 2; });
    AddChanged(&d, [](stp_measurement *m) { m->us.median *= 2, m->root = 3; });

    Compared c(d);

    ASSERT_EQ(32u, c.all.n_points);
    for (size_t i = 0; i < 32; i++) {
        const stp_point &p = c.all.points[i];
        EXPECT_EQ(i % 2 == 1, p.graph);
        EXPECT_EQ(i / 2 % 2 == 1, p.in_place);
        EXPECT_EQ(i / 4 % 2 == 1 ? 3u : 0u, p.root);
        EXPECT_EQ(i / 8 % 2 == 1 ? 2 : 0, p.op);
        EXPECT_EQ(i / 16 % 2 == 1 ? 7 : 0, p.type);
        EXPECT_EQ(1u, p.n_arms);
        EXPECT_NEAR(1.2, p.arms[0].gain.gain, 1e-12);
    }
}

TEST(Compare, ArmsOutOfPlaceAloneLeaveAutoInPlaceAlone)
{
    Data d;
    d.AddAuto(1024);
    AddChanged(&d, [](stp_measurement *m) { m->in_place = true; });
    d.AddGain(1024, kTreeLl, 1.5);

    Compared c(d);

    ASSERT_EQ(2u, c.all.n_points);
    EXPECT_EQ(1u, c.all.points[0].n_arms);
    EXPECT_TRUE(c.all.points[1].in_place);
    EXPECT_EQ(0u, c.all.points[1].n_arms);
}

TEST(Compare, IsOnlyAsGoodAsTheWorseOfBothSources)
{
    Data d;
    d.Add(1024, kAuto, {60, 60}, STP_SOURCE_INTERPOLATED);
    d.Add(1024, kTreeLl, {50, 50}, STP_SOURCE_RECORDED);

    Compared c(d);

    EXPECT_EQ(STP_SOURCE_INTERPOLATED, c.all.points[0].arms[0].source);
}

TEST(Compare, RefusesASizeThatWasMeasuredWithoutAuto)
{
    Data d;
    d.AddAuto(1024).AddGain(1024, kTreeLl, 1).AddGain(4096, kTreeLl, 1);
    stp_comparisons out{};
    stp_error err{};

    EXPECT_EQ(STP_ERR_SYNTAX, stp_compare(&d.data, &out, &err));
    EXPECT_STREQ("allreduce of 4096 bytes has no row of the arm auto "
                 "to compare with",
                 err.text);
    EXPECT_EQ(nullptr, out.points);

    for (size_t i = 0; i < d.data.n_rows; i++)
        d.data.rows[i].work = {STP_MODE_OVERLAP, 0, 8, 1, {}, 1, nullptr};
    EXPECT_EQ(STP_ERR_SYNTAX, stp_compare(&d.data, &out, &err));
    EXPECT_THAT(err.text, testing::StartsWith("overlap of allreduce of 4096 "));
}

} // namespace
