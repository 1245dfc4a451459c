// Conversations of ranks that meet, and of a store's client, with peers that
// say anything.
#include "fuzz/fuzz.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

extern "C" {
#include "launch/star.h"
#include "store/clock.h"
#include "store/store_client.h"
}

#include "launch/star_frames.h"

namespace fuzz
{

namespace
{

using namespace frames;

// Decisions out of the target's bytes; 0 once there are none left.
class Dice
{
  public:
    explicit Dice(std::string_view bytes) : bytes_(bytes)
    {
    }

    bool IsEmpty() const
    {
        return bytes_.empty();
    }

    // Below 'n'.
    size_t Roll(size_t n)
    {
        return (n <= 256 ? Byte() : Word()) % n;
    }

    std::string Take(size_t n)
    {
        const std::string taken(bytes_.substr(0, n));
        bytes_.remove_prefix(taken.size());
        return taken;
    }

    std::string Garbage(size_t max)
    {
        return Take(Roll(max + 1));
    }

    uint64_t Number()
    {
        const uint64_t numbers[] = {
            0,    1,       2,        3,         63,        64,   72,
            4095, 1 << 20, 64 << 20, 1UL << 32, 1UL << 63, ~0UL, Word()};
        return numbers[Roll(sizeof(numbers) / sizeof(numbers[0]))];
    }

    // A value of a store, with its length.
    std::string SomeValue()
    {
        const std::string value = Roll(2) ? std::string(72, 'x') : Garbage(100);
        return Bytes(uint64_t{value.size()}) + value;
    }

    std::string SomeFrame()
    {
        const uint32_t kind =
            STP_STAR_GIVE + static_cast<uint32_t>(Roll(6)); // or none
        return Frame(kind, static_cast<uint32_t>(Roll(5) ? Roll(4) : Number()),
                     Roll(3) == 0   ? ""
                     : Roll(2) != 0 ? std::string(72, 'x')
                                    : Garbage(100),
                     Roll(8) == 0 ? Number() : 0);
    }

    // Bytes that a rank, or rank 0, may send, with random damage.
    std::string Conversation(unsigned rank)
    {
        std::string said;
        if (Roll(2))
            said = rank == 0
                       ? Frame(STP_STAR_ALL, 3,
                               std::string(3 * 72, Roll(2) ? 'x' : '\xff'))
                       : Give(3, std::string(72, 'x'));
        for (size_t n = Roll(6); n > 0; n--)
            said += SomeFrame();
        for (size_t n = Roll(3) * Roll(4); n > 0 && !said.empty(); n--)
            said[Roll(said.size())] = static_cast<char>(Byte());
        if (Roll(4) == 0)
            said.resize(Roll(said.size() + 1));
        return Roll(20) == 0 ? Garbage(300) : said;
    }

  private:
    std::string_view bytes_;

    uint8_t Byte()
    {
        const std::string taken = Take(1);
        return taken.empty() ? 0 : static_cast<uint8_t>(taken[0]);
    }

    uint64_t Word()
    {
        uint64_t word = 0;
        const std::string taken = Take(sizeof(word));
        memcpy(&word, taken.data(), taken.size());
        return word;
    }
};

void Say(int fd, const std::string &bytes)
{
    (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// A connection on which these bytes have come, and nothing follows.
int Said(const std::string &bytes, std::vector<int> *peers)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        abort();
    Say(fds[1], bytes);
    shutdown(fds[1], SHUT_WR);
    peers->push_back(fds[1]);
    return fds[0];
}

void CloseAll(const std::vector<int> &fds)
{
    for (int fd : fds)
        close(fd);
}

// One rank of three, of which the others say what they say.
std::string FuzzRank(Dice &dice, unsigned rank)
{
    std::vector<int> peers, mine;
    stp_star_options options{};
    stp_world world{}, part{};
    stp_error err{};
    char value[72] = "", all[3 * 72];

    if (rank == 0)
        mine = {-1, Said(dice.Conversation(1), &peers),
                Said(dice.Conversation(2), &peers)};
    else
        mine = {Said(dice.Conversation(0), &peers)};
    options.name = "fuzz";
    options.rank = rank;
    options.size = 3;
    options.fds = mine.data();
    stp_status status = stp_star_open(&options, &world, &err);
    if (status == STP_OK) {
        for (int i = 0; i < 3 && status == STP_OK; i++)
            status = world.ops->exchange(world.self, value, 72, all, &err);
        if (world.ops->part(world.self, 2, &part, nullptr) == STP_OK) {
            if (status == STP_OK && part.size > 0)
                part.ops->exchange(part.self, value, 8, all, &err);
            part.ops->close(part.self);
        }
        if (world.ops->alive(world.self, &err) && status != STP_OK)
            err.text[0] = '\0';
        world.ops->close(world.self);
    }
    CloseAll(peers);
    return status == STP_OK ? "" : FaultOf(err);
}

std::string FuzzClient(Dice &dice)
{
    std::vector<int> peers;
    std::string replies = dice.Roll(2) ? std::string(dice.Roll(4), '\0') : "";
    while (dice.Roll(4) != 0)
        replies += dice.Roll(2) ? dice.SomeValue() : Bytes(dice.Number());
    stp_client client{};
    client.ops = &stp_store_tcp;
    client.fd = Said(replies, &peers);
    client.deadline_ms = stp_now_ms() + 10000;
    stp_store_prefix("test", client.prefix);
    char value[32];
    size_t size = 0;
    bool is_there;
    int64_t sum;
    bool is_served = true;
    for (int i = 0; i < 4 && is_served; i++) {
        switch (dice.Roll(4)) {
        case 0:
            is_served = stp_client_get(&client, "k", value, 32, &size);
            break;
        case 1:
            is_served = stp_client_check(&client, "k", &is_there);
            break;
        case 2:
            is_served = stp_client_add(&client, "k", 1, &sum);
            break;
        default:
            is_served =
                stp_client_compare_set(&client, "k", "v", 1, value, 32, &size);
        }
    }
    stp_client_close(&client);
    CloseAll(peers);
    return size > 32                             ? "a long value"
           : !is_served && client.why[0] == '\0' ? "no reason"
                                                 : "";
}

} // namespace

std::string StoreOfJob(std::string_view bytes)
{
    Dice dice(bytes);

    switch (dice.Roll(3)) {
    case 0:
        return FuzzRank(dice, 0);
    case 1:
        return FuzzRank(dice, 1 + static_cast<unsigned>(dice.Roll(2)));
    default:
        return FuzzClient(dice);
    }
}

} // namespace fuzz
