// Gloo as a transport, and the module of it.
//
// Gloo 0.5 has no reduce-scatter that works for any number of ranks and
// elements: it is an all-reduce of everything, as PyTorch's Gloo backend does
// it.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
#include "device/cpu/engine_cpu.h"
#include "device/cpu/reduce.h"
#include "device/module.h"
}

#include "nccl_tuner_abi.h"

namespace
{

using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kConnectTime{10000};
constexpr Milliseconds kNoTimeLimit{24 * 3600 * 1000};

/* ---- connecting ---- */

// Keys and values of all ranks, exchanged through the world: all set() in the
// same order, so that the one a rank sets comes with those of the others.
class WorldStore : public gloo::rendezvous::Store
{
  public:
    explicit WorldStore(const stp_world *world) : world_(world)
    {
    }

    void set(const std::string &key, const std::vector<char> &value) override
    {
        const std::vector<std::string> keys = Exchange(key.data(), key.size());
        const std::vector<std::string> values =
            Exchange(value.data(), value.size());

        for (unsigned r = 0; r < world_->size; r++)
            values_[keys[r]].assign(values[r].begin(), values[r].end());
    }

    std::vector<char> get(const std::string &key) override
    {
        return values_.at(key);
    }

    void wait(const std::vector<std::string> &keys) override
    {
        for (const std::string &key : keys)
            values_.at(key);
    }

  private:
    void ExchangeBytes(const void *mine, size_t size, void *all)
    {
        stp_error err;

        if (world_->ops->exchange(world_->self, mine, size, all, &err) !=
            STP_OK)
            throw std::runtime_error(err.text);
    }

    // The bytes of every rank, which need not be equally many.
    std::vector<std::string> Exchange(const char *bytes, size_t size)
    {
        std::vector<uint64_t> sizes(world_->size);
        uint64_t mine = size;
        uint64_t longest = 1;

        ExchangeBytes(&mine, sizeof(mine), sizes.data());
        for (uint64_t other : sizes)
            longest = std::max(longest, other);
        std::vector<char> padded(longest);
        std::vector<char> all(longest * world_->size);
        std::copy(bytes, bytes + size, padded.begin());
        ExchangeBytes(padded.data(), longest, all.data());
        std::vector<std::string> result;
        for (unsigned r = 0; r < world_->size; r++)
            result.emplace_back(&all[r * longest], sizes[r]);
        return result;
    }

    const stp_world *world_;
    std::map<std::string, std::vector<char>> values_;
};

// The first network interface that is up and leads to other hosts.
std::string FirstInterface()
{
    struct ifaddrs *all = nullptr;
    std::string name;

    if (getifaddrs(&all) != 0)
        return name;
    for (const struct ifaddrs *i = all; i != nullptr; i = i->ifa_next)
        if (name.empty() && i->ifa_addr != nullptr &&
            i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) != 0 &&
            (i->ifa_flags & IFF_LOOPBACK) == 0)
            name = i->ifa_name;
    freeifaddrs(all);
    return name;
}

// GLOO_SOCKET_IFNAME is how PyTorch's users name the interface.
std::shared_ptr<gloo::transport::Device> MakeDevice(unsigned n_nodes)
{
    const char *interface = getenv("GLOO_SOCKET_IFNAME");
    gloo::transport::tcp::attr attr;

    if (interface != nullptr && interface[0] != '\0')
        attr.iface = interface;
    else if (n_nodes > 1)
        attr.iface = FirstInterface();
    else
        attr.hostname = "127.0.0.1";
    return gloo::transport::tcp::CreateDevice(attr);
}

struct Link {
    std::shared_ptr<gloo::rendezvous::Context> context;
    unsigned rank;
    unsigned n_ranks;
    const stp_world *world;
    unsigned n_nodes;
    unsigned time_limit_s;
    std::map<unsigned, Link> parts; // by the number of their split
};

// Connects the ranks that share 'store'.
void Connect(Link &link, gloo::rendezvous::Store &store)
{
    auto device = MakeDevice(link.n_nodes);

    link.context = std::make_shared<gloo::rendezvous::Context>(
        static_cast<int>(link.rank), static_cast<int>(link.n_ranks));
    link.context->setTimeout(kConnectTime);
    link.context->connectFullMesh(store, device);
    link.context->setTimeout(
        link.time_limit_s == 0
            ? kNoTimeLimit
            : Milliseconds(1000 * uint64_t{link.time_limit_s}));
}

/* ---- errors ---- */

// Gloo begins its messages with "[FILE:LINE] " of its own.
enum stp_status FailAs(const char *text, stp_error *err)
{
    if (text[0] == '[' && strstr(text, "] ") != nullptr)
        text = strstr(text, "] ") + 2;
    return stp_fail(err, STP_ERR_DEVICE, "Gloo: %s", text);
}

// C calls this file: no exception may leave it.
template <typename Body> enum stp_status Guard(stp_error *err, Body body)
{
    try {
        body();
        return STP_OK;
    } catch (const std::exception &e) {
        return FailAs(e.what(), err);
    } catch (...) {
        return FailAs("failed for an unknown reason", err);
    }
}

enum stp_status Open(const stp_world *world, unsigned n_nodes,
                     unsigned time_limit_s, void **self_ret, stp_error *err)
{
    return Guard(err, [&] {
        auto link = std::make_unique<Link>();
        WorldStore store(world);

        link->rank = world->rank;
        link->n_ranks = world->size;
        link->world = world;
        link->n_nodes = n_nodes;
        link->time_limit_s = time_limit_s;
        Connect(*link, store);
        *self_ret = link.release();
    });
}

// Groups have keys of their own in the store of all ranks.
enum stp_status Split(void *self, unsigned number,
                      const stp_rank_groups *groups, stp_error *err)
{
    return Guard(err, [&] {
        Link &link = *static_cast<Link *>(self);
        Link &part = link.parts[number];
        WorldStore store(link.world);
        gloo::rendezvous::PrefixStore own(
            std::to_string(stp_rank_groups_color(groups, link.rank)), store);

        part.rank = stp_rank_in_group(groups, link.rank);
        part.n_ranks = groups->size;
        part.world = link.world;
        part.n_nodes = link.n_nodes;
        part.time_limit_s = link.time_limit_s;
        Connect(part, own);
    });
}

/* ---- collectives ---- */

// Gloo's options want a C++ type, and look only at its size.
template <typename Options, typename Buffer>
void SetElements(Options &options, const stp_transfer &t, const Buffer &buffer)
{
    switch (stp_type_size(t.type)) {
    case 1:
        return buffer(options, uint8_t{});
    case 2:
        return buffer(options, uint16_t{});
    case 4:
        return buffer(options, uint32_t{});
    default:
        return buffer(options, uint64_t{});
    }
}

template <typename Options>
void SetInput(Options &options, const stp_transfer &t, uint64_t n)
{
    SetElements(options, t, [&](Options &o, auto element) {
        using T = decltype(element);
        o.setInput(static_cast<T *>(const_cast<void *>(t.in)), n);
    });
}

template <typename Options>
void SetOutput(Options &options, const stp_transfer &t, void *out, uint64_t n)
{
    SetElements(options, t, [&](Options &o, auto element) {
        using T = decltype(element);
        o.setOutput(static_cast<T *>(out), n);
    });
}

template <typename Options>
void Reduce(Options &options, const stp_transfer &t, unsigned stream)
{
    options.setReduceFunction(stp_reduce_function(t.type, t.op));
    options.setTag(stream);
}

void AllReduceInto(const Link &link, unsigned stream, const stp_transfer &t,
                   void *out, uint64_t n)
{
    gloo::AllreduceOptions options(link.context);

    if (t.in != out)
        SetInput(options, t, n);
    SetOutput(options, t, out, n);
    Reduce(options, t, stream);
    gloo::allreduce(options);
}

void AllReduce(const Link &link, unsigned stream, const stp_transfer &t)
{
    AllReduceInto(link, stream, t, t.out, t.n);
}

// In place, this rank's block is where it must be already.
void ReduceScatter(const Link &link, unsigned stream, const stp_transfer &t)
{
    const uint64_t nbytes = t.n * stp_type_size(t.type);

    AllReduceInto(link, stream, t,
                  t.in_place ? const_cast<void *>(t.in) : t.out,
                  t.n * link.n_ranks);
    if (!t.in_place)
        memmove(t.out, static_cast<char *>(t.out) + link.rank * nbytes, nbytes);
}

void ReduceToRoot(const Link &link, unsigned stream, const stp_transfer &t)
{
    gloo::ReduceOptions options(link.context);

    if (!t.in_place)
        SetInput(options, t, t.n);
    SetOutput(options, t, t.out, t.n);
    options.setRoot(t.root);
    Reduce(options, t, stream);
    gloo::reduce(options);
}

void Broadcast(const Link &link, unsigned stream, const stp_transfer &t)
{
    gloo::BroadcastOptions options(link.context);

    if (!t.in_place && static_cast<int>(link.rank) == t.root)
        SetInput(options, t, t.n);
    SetOutput(options, t, t.out, t.n);
    options.setRoot(t.root);
    options.setTag(stream);
    gloo::broadcast(options);
}

void AllGather(const Link &link, unsigned stream, const stp_transfer &t)
{
    gloo::AllgatherOptions options(link.context);

    if (!t.in_place)
        SetInput(options, t, t.n);
    SetOutput(options, t, t.out, t.n * link.n_ranks);
    options.setTag(stream);
    gloo::allgather(options);
}

enum stp_status Collective(void *self, unsigned stream,
                           const stp_transfer *transfer, stp_error *err)
{
    // by ncclFunc_t
    static void (*const run[])(const Link &, unsigned, const stp_transfer &) = {
        Broadcast, ReduceToRoot, AllGather, ReduceScatter, AllReduce};
    static_assert(ncclFuncBroadcast == 0 && ncclFuncAllReduce == 4,
                  "the order of run[]");

    return Guard(err, [&] {
        Link &all = *static_cast<Link *>(self);

        run[transfer->coll](transfer->split > 0 ? all.parts.at(transfer->split)
                                                : all,
                            stream, *transfer);
    });
}

enum stp_status Barrier(void *self, unsigned stream, stp_error *err)
{
    return Guard(err, [&] {
        gloo::BarrierOptions options(static_cast<Link *>(self)->context);

        options.setTag(stream);
        gloo::barrier(options);
    });
}

// A wait that times out makes Gloo close all connections and wake all that wait
// for them, here and on the other ranks.
void Abort(void *self, const char *)
{
    auto &context = *static_cast<Link *>(self)->context;
    stp_error ignored;

    Guard(&ignored, [&] {
        context.createUnboundBuffer(nullptr, 0)
            ->waitRecv(nullptr, Milliseconds(1));
    });
}

void Close(void *self)
{
    delete static_cast<Link *>(self);
}

#define TEXT_OF(x)                 #x
#define VERSION_TEXT(major, minor) TEXT_OF(major) "." TEXT_OF(minor)

const stp_transport_ops kGloo = {
    "gloo",
    "Gloo " VERSION_TEXT(GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR) " over tcp",
    Open,
    Split,
    Collective,
    Barrier,
    Abort,
    Close,
};

enum stp_status OpenRank(const stp_device_options *options,
                         stp_engines *engines_ret, stp_error *err)
{
    return stp_cpu_open(&kGloo, options, engines_ret, err);
}

} // namespace

extern "C" const stp_module stp_steptune_module = {STP_MODULE_ABI, OpenRank,
                                                   nullptr};
