/* online_trace.h - the trace that the learning plugin records, and what NCCL
 * tells its profiler, event by event */
#pragma once

#include "plugin/online/online_abi.h"

namespace online_plugin
{

using Fields = std::vector<std::string>;

// The columns, as they stand in the file.
enum {
    kHost,
    kProcess,
    kComm,
    kRanks,
    kGroup,
    kGraph,
    kColl,
    kBytes,
    kType,
    kBegin,
    kEnd,
    kColumns
};

// The rows of a trace.
inline std::vector<Fields> RowsOf(const std::string &path)
{
    std::vector<Fields> rows;
    for (const std::string &line : LinesOf(path)) {
        Fields fields(1);
        if (line[0] == '#' || line[0] == 't')
            continue;
        for (char c : line)
            if (c == ',')
                fields.emplace_back();
            else
                fields.back() += c;
        EXPECT_EQ(size_t{kColumns}, fields.size()) << line;
        rows.push_back(fields);
    }
    return rows;
}

class OnlineTraceAbi : public OnlineAbi
{
  protected:
    void SetUp() override
    {
        OnlineAbi::SetUp();
        Set("STEPTUNE_TRACE", (dir_ / "trace.csv").string());
        ranks_ = Init(2, 2, false);
    }

    std::vector<Fields> Rows()
    {
        Finalize(ranks_);
        return RowsOf((dir_ / "trace.csv").string());
    }

    void *Launch()
    {
        return LaunchOn(ranks_[0], 1 << 20, kOwn);
    }

    // A channel that ran from 'begin_ns' on; its handle, for Ended().
    void *Began(void *event, uint64_t begin_ns)
    {
        ncclProfilerEvent_t what{};
        void *channel = nullptr;
        what.type.v5 = NCCL_PROFILE_KERNEL_CH;
        what.parentObj = event;
        what.kernelCh.pTimer = begin_ns;
        profiler_->startEvent(ranks_[0].profiler, &channel, &what);
        EXPECT_NE(nullptr, channel);
        return channel;
    }

    void Ended(void *channel, uint64_t end_ns)
    {
        ncclProfilerStateArgs_t args{};
        args.kernelCh.pTimer = end_ns;
        profiler_->recordEventState(channel, NCCL_PROFILE_KERNEL_CH_STOP,
                                    &args);
        profiler_->stopEvent(channel);
    }

    // By kernels, then by copy engines.
    void LaunchUnknown(const char *func, const char *datatype)
    {
        for (uint64_t type : {NCCL_PROFILE_COLL, NCCL_PROFILE_CE_COLL}) {
            ncclProfilerEvent_t what{};
            void *event = &what;
            what.type.v5 = type;
            what.coll.func = func;
            what.coll.count = 1024;
            what.coll.datatype = datatype;
            what.coll.nChannels = kChannels;
            what.coll.proto = "LL";
            profiler_->startEvent(ranks_[0].profiler, &event, &what);
            EXPECT_EQ(nullptr, event);
        }
    }

    // Starts an event that precedes a launch; NULL where the profiler does not
    // follow it.
    void *Tell(const ncclProfilerEvent_t &what)
    {
        void *event = nullptr;
        EXPECT_EQ(ncclSuccess,
                  profiler_->startEvent(ranks_[0].profiler, &event, &what));
        return event;
    }

    void *StartGroup(int depth)
    {
        ncclProfilerEvent_t what{};
        what.type.v5 = NCCL_PROFILE_GROUP_API;
        what.groupApi.groupDepth = depth;
        return Tell(what);
    }

    void *StartCall(void *group, const char *datatype, bool is_captured = false)
    {
        ncclProfilerEvent_t what{};
        what.type.v5 = NCCL_PROFILE_COLL_API;
        what.parentObj = group;
        what.collApi.datatype = datatype;
        what.collApi.graphCaptured = is_captured;
        return Tell(what);
    }

    void *LaunchCall(void *call, const char *func, size_t count,
                     const char *datatype, uint64_t type = NCCL_PROFILE_COLL)
    {
        ncclProfilerEvent_t what{};
        what.type.v5 = type;
        what.parentObj = call;
        what.coll.func = func;
        what.coll.count = count;
        what.coll.datatype = datatype;
        what.coll.nChannels = kChannels;
        what.coll.proto = "LL";
        return Tell(what);
    }

    // So many collectives of which nothing is told.
    void LaunchMore(int n)
    {
        for (int i = 0; i < n; i++)
            EXPECT_NE(nullptr, Launch());
    }

    std::vector<Rank> ranks_;
};

} // namespace online_plugin
