// Datatypes, reductions, and what collectives do with them.
#include <gtest/gtest.h>

#include <string>

extern "C" {
#include "core/dtype.h"
}

#include "nccl_tuner_abi.h"

namespace
{

TEST(Types, AreNumberedAsNcclDoesAndHaveTwoNames)
{
    const struct {
        stp_type type;
        std::string name, nccl_name;
        unsigned size;
        bool is_integer, is_fp8;
    } cases[] = {
        {STP_TYPE_I8, "i8", "int8", 1, true, false},
        {STP_TYPE_U8, "u8", "uint8", 1, true, false},
        {STP_TYPE_I32, "i32", "int32", 4, true, false},
        {STP_TYPE_U32, "u32", "uint32", 4, true, false},
        {STP_TYPE_I64, "i64", "int64", 8, true, false},
        {STP_TYPE_U64, "u64", "uint64", 8, true, false},
        {STP_TYPE_F16, "f16", "half", 2, false, false},
        {STP_TYPE_F32, "f32", "float", 4, false, false},
        {STP_TYPE_F64, "f64", "double", 8, false, false},
        {STP_TYPE_BF16, "bf16", "bfloat16", 2, false, false},
        {STP_TYPE_FP8_E4M3, "fp8e4m3", "f8e4m3", 1, false, true},
        {STP_TYPE_FP8_E5M2, "fp8e5m2", "f8e5m2", 1, false, true},
    };
    int number = 0;

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        EXPECT_EQ(number++, c.type);
        EXPECT_EQ(c.name, stp_type_name(c.type));
        EXPECT_EQ(c.nccl_name, stp_type_nccl_name(c.type));
        EXPECT_EQ(c.size, stp_type_size(c.type));
        EXPECT_EQ(c.is_integer, stp_type_is_integer(c.type));
        EXPECT_EQ(c.is_fp8, stp_type_is_fp8(c.type));
        for (const std::string &name : {c.name, c.nccl_name})
            EXPECT_EQ(c.type, stp_type_from_name(name.data(), name.size()))
                << name;
    }
    EXPECT_EQ(STP_N_TYPES, number);
    for (const std::string name : {"", "i16", "i322", "I8"})
        EXPECT_EQ(-1, stp_type_from_name(name.data(), name.size())) << name;
}

TEST(Operations, AreNumberedAsNcclDoes)
{
    const std::string names[] = {"sum", "prod", "max",
                                 "min", "avg",  "premulsum"};
    int number = 0;

    for (const std::string &name : names) {
        EXPECT_EQ(name, stp_op_name(number));
        EXPECT_EQ(number, stp_op_from_name(name.data(), name.size()));
        number++;
    }
    EXPECT_EQ(STP_OP_PREMULSUM + 1, number);
    EXPECT_EQ(STP_OP_AVG + 1, STP_N_OPS);
    for (const std::string name : {"", "su", "sums", "SUM", "and", "mult"})
        EXPECT_EQ(-1, stp_op_from_name(name.data(), name.size())) << name;
}

TEST(Collectives, CombineElementsOrHaveARoot)
{
    const struct {
        int coll;
        bool reduces, has_root;
    } cases[] = {
        {ncclFuncBroadcast, false, true},  {ncclFuncReduce, true, true},
        {ncclFuncAllGather, false, false}, {ncclFuncReduceScatter, true, false},
        {ncclFuncAllReduce, true, false},
    };

    for (const auto &c : cases) {
        EXPECT_EQ(c.reduces, stp_coll_reduces(c.coll)) << c.coll;
        EXPECT_EQ(c.has_root, stp_coll_has_root(c.coll)) << c.coll;
    }
}

} // namespace
