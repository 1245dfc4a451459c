// Worlds of the first processes of a larger one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "launch/hub_processes.h"

namespace
{

using namespace processes;
using testing::Each;
using testing::ElementsAre;

// In a part of the first 'n': what 'inside' says, or "out" from outside it.
std::string InPart(stp_world &world, unsigned n, const Body &inside)
{
    stp_world part;
    stp_error err{};
    if (world.ops->part(world.self, n, &part, &err) != STP_OK)
        return err.text;
    std::string said = part.size == 0 ? "out" : inside(part);
    part.ops->close(part.self);
    return said;
}

TEST(HubPart, IsAWorldOfTheFirst)
{
    Hub hub(4, [](stp_world &world) {
        std::string said;
        for (unsigned n : {1, 3, 2, 4})
            said += InPart(world, n,
                           [](stp_world &part) {
                               return std::to_string(part.rank) + "/" +
                                      std::to_string(part.size) + "/" +
                                      std::to_string(part.local_size) +
                                      Exchange(part);
                           }) +
                    " ";
        return said + Exchange(world);
    });

    EXPECT_THAT(hub.Said(), ElementsAre("0/1/1ok 0/3/3ok 0/2/2ok 0/4/4ok ok",
                                        "out 1/3/3ok 1/2/2ok 1/4/4ok ok",
                                        "out 2/3/3ok out 2/4/4ok ok",
                                        "out out out 3/4/4ok ok"));
}

TEST(HubPart, HasPartsOfItsOwn)
{
    Hub hub(4, [](stp_world &world) {
        return InPart(world, 3, [](stp_world &part) {
            return InPart(part, 2,
                          [](stp_world &least) { return Exchange(least); });
        });
    });

    EXPECT_THAT(hub.Said(), ElementsAre("ok", "ok", "out", "out"));
}

TEST(HubPart, IsNeverEmptyNorLargerThanItsWorld)
{
    Hub hub(2, [](stp_world &world) {
        auto nothing = [](stp_world &) { return "made"; };
        return InPart(world, 0, nothing) + ", " + InPart(world, 3, nothing);
    });

    EXPECT_THAT(hub.Said(), Each("0 of 2 processes, 3 of 2 processes"));
}

// Those left out wait with more than their sockets hold.
TEST(HubPart, DoesNotMindWhoWaitsOutside)
{
    Hub hub(5, [](stp_world &world) {
        std::string said = InPart(world, 2, [](stp_world &part) {
            std::string inside = "ok";
            for (int i = 0; i < 20 && inside == "ok"; i++)
                inside = Exchange(part, 10000);
            return inside;
        });
        return said + " " + Exchange(world, 2000000);
    });

    EXPECT_THAT(hub.Said(),
                ElementsAre("ok ok", "ok ok", "out ok", "out ok", "out ok"));
}

struct PartDeathCase {
    const char *name;
    unsigned rank; // of 4, of which the first two are in the part
};

class HubPartDeath : public testing::TestWithParam<PartDeathCase>
{
};

TEST_P(HubPartDeath, IsToldInsideAndOutside)
{
    unsigned dying = GetParam().rank;
    Hub hub(4, [&](stp_world &world) {
        Exchange(world);
        std::string said = InPart(world, 2, [&](stp_world &part) {
            if (part.rank == dying)
                BeKilled();
            return AwaitDeath(part);
        });
        if (world.rank == dying)
            BeKilled();
        return said == "out" ? Exchange(world) : said;
    });
    std::string want = hub.name(dying) + " died";

    EXPECT_THAT(AllBut(dying, hub.Said()), Each(want));
}

INSTANTIATE_TEST_SUITE_P(Table, HubPartDeath,
                         testing::Values(PartDeathCase{"first", 0},
                                         PartDeathCase{"inside", 1},
                                         PartDeathCase{"outside", 3}),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

TEST(HubPart, NamesWhoExchangesInAnother)
{
    Hub hub(3, [](stp_world &world) {
        if (world.rank == 1)
            return Exchange(world);
        return InPart(world, 2, [](stp_world &part) { return Exchange(part); });
    });
    std::string want =
        hub.name(1) + " exchanges among 3 processes, rank 0 among 2";

    EXPECT_THAT(hub.Said(), ElementsAre(want, want, "out"));
}

} // namespace
