// Conversations of a store's server, of ranks that meet through one, and of its
// client, with peers that say anything.
#include "fuzz/fuzz.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

extern "C" {
#include "launch/store_server.h"
#include "launch/store_world.h"
#include "store/clock.h"
#include "store/store_client.h"
}

#include "launch/store_requests.h"

namespace fuzz
{

namespace
{

using namespace requests;

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

    std::string SomeKey(unsigned rank)
    {
        const char *keys[] = {"x/",   "next/", "left/", "a",
                              "join", "b",     "",      "x/-"};
        std::string key = keys[Roll(8)];
        if (key.back() == '/')
            key += std::to_string(Roll(8) == 0 ? Roll(5) : rank);
        return Roll(30) == 0 ? Value(Garbage(40)) : Key(key);
    }

    std::string SomeValue()
    {
        const stp_exchange header{static_cast<uint32_t>(Roll(4)),
                                  static_cast<uint32_t>(Roll(3) * Number())};
        return Value((Roll(2) ? Bytes(header) : "") +
                     (Roll(2) ? std::string(72, 'x') : Garbage(100)));
    }

    std::string Request(unsigned rank)
    {
        const auto query = static_cast<stp_query>(Roll(STP_N_QUERIES + 1));
        const uint64_t n = Roll(20) == 0 ? Number() : Roll(4);
        std::string rest;
        switch (query) {
        case STP_VALIDATE:
            return Roll(2) ? Validate() : Join(rank, 3, "test");
        case STP_SET:
        case STP_APPEND:
            return Query(query, SomeKey(rank) + SomeValue());
        case STP_COMPARE_SET:
            return Query(query, SomeKey(rank) + SomeValue() + SomeValue());
        case STP_GET:
        case STP_DELETE_KEY:
            return Query(query, SomeKey(rank));
        case STP_ADD:
            return Query(query, SomeKey(rank) + U64(Number()));
        case STP_CHECK:
        case STP_WAIT:
            for (uint64_t i = 0; i < n && i < 4; i++)
                rest += SomeKey(rank);
            return Query(query, U64(n) + rest);
        default:
            return Query(query, Garbage(4));
        }
    }

    // What a rank, or rank 0 (the end of a GET), may say, and then not quite.
    std::string Conversation(unsigned rank)
    {
        std::string said;
        for (size_t n = Roll(6); n > 0; n--)
            said += rank == 0 ? SomeValue() : Request(rank);
        if (rank != 0 && Roll(2))
            said = Give(rank, 3, std::string(72, 'x')) + GetNext(rank) + said;
        if (rank == 0 && Roll(2))
            said = Value(Bytes(stp_exchange{3, STP_OK}) +
                         std::string(3 * 72, Roll(2) ? 'x' : '\xff')) +
                   said;
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

// A server, many connections at once, and at the end one that is served.
std::string FuzzServer(Dice &dice)
{
    std::vector<int> fds;
    stp_server *server;
    stp_error err{};
    std::string fault;
    if (stp_server_new("test", nullptr, &server, &err) != STP_OK)
        return err.text;
    for (size_t n = 4 + dice.Roll(20); n > 0; n--) {
        const unsigned rank = static_cast<unsigned>(dice.Roll(3));
        int pair[2];
        switch (dice.Roll(4)) {
        case 0:
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
                abort();
            stp_server_adopt(server, pair[0], static_cast<int>(rank), "a");
            fds.push_back(pair[1]);
            break;
        case 1:
            if (!fds.empty())
                shutdown(fds[dice.Roll(fds.size())], SHUT_RDWR);
            break;
        default:
            for (size_t i = 0; i < 3 && !fds.empty(); i++)
                Say(fds[dice.Roll(fds.size())], dice.Conversation(1 + rank));
        }
        stp_server_step(server, 0);
    }
    // A key that no byte of the others changes theirs to.
    const char key[] = "of the last one";
    const int last = Said(Query(STP_SET, Key(key) + Value("v")) +
                              Query(STP_SET, Key("a") + Value("v")),
                          &fds);
    char reply[9];
    stp_server_adopt(server, last, 9, key);
    for (int i = 0; i < 9; i++)
        stp_server_step(server, 0);
    if (recv(fds.back(), reply, 9, MSG_DONTWAIT) != 9)
        fault = "the server does not serve any more";
    stp_server_free(server);
    CloseAll(fds);
    return fault;
}

// One rank of three, of which the others say what they say.
std::string FuzzRank(Dice &dice, unsigned rank)
{
    std::vector<int> peers, mine;
    stp_store_options options{};
    stp_world world{}, part{};
    stp_error err{};
    char value[72] = "", all[3 * 72];

    if (rank == 0)
        mine = {-1, Said(dice.Conversation(1), &peers),
                Said(dice.Conversation(2), &peers)};
    else
        mine = {Said(dice.Conversation(0), &peers)};
    options.name = "fuzz";
    options.token = "test";
    options.rank = rank;
    options.size = 3;
    options.fds = mine.data();
    stp_status status = stp_store_world_open(&options, &world, &err);
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
        replies += dice.Roll(2) ? dice.SomeValue() : U64(dice.Number());
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
            is_served = stp_client_compare_set(&client, "k", "v", 1, nullptr,
                                               value, 32, &size);
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

    switch (dice.Roll(4)) {
    case 0:
        return FuzzServer(dice);
    case 1:
        return FuzzRank(dice, 0);
    case 2:
        return FuzzRank(dice, 1 + static_cast<unsigned>(dice.Roll(2)));
    default:
        return FuzzClient(dice);
    }
}

} // namespace fuzz
