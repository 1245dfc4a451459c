// What a client of a store sends, as bytes.
#ifndef STP_STORE_REQUESTS_H
#define STP_STORE_REQUESTS_H

#include <cstdint>
#include <cstring>
#include <string>

extern "C" {
#include "launch/store_world.h"
#include "store/store.h"
}

namespace requests
{

template <class T> std::string Bytes(const T &value)
{
    return std::string(reinterpret_cast<const char *>(&value), sizeof(value));
}

inline std::string U64(uint64_t number)
{
    return Bytes(number);
}

inline std::string Value(const std::string &bytes)
{
    return U64(bytes.size()) + bytes;
}

inline std::string Key(const std::string &key, const char *token = "test")
{
    char prefix[STP_STORE_PREFIX];
    stp_store_prefix(token, prefix);
    return Value(prefix + key);
}

inline std::string Query(stp_query query, const std::string &rest = "")
{
    return std::string(1, static_cast<char>(query)) + rest;
}

inline std::string Validate(uint32_t magic = STP_STORE_MAGIC)
{
    return Query(STP_VALIDATE, Bytes(magic));
}

// Gives 'value' to an exchange among 'n'.
inline std::string Give(unsigned rank, uint32_t n, const std::string &value)
{
    return Query(STP_SET, Key("x/" + std::to_string(rank)) +
                              Value(Bytes(stp_exchange{n, STP_OK}) + value));
}

inline std::string GetNext(unsigned rank, const char *token = "test")
{
    return Query(STP_GET, Key("next/" + std::to_string(rank), token));
}

// Asks to join.
inline std::string Join(unsigned rank, unsigned size,
                        const char *token = "run/0",
                        unsigned version = STP_JOIN_VERSION)
{
    stp_join join{{}, version, size, rank};
    memcpy(join.magic, STP_JOIN_MAGIC, sizeof(join.magic));
    return Validate() +
           Query(STP_COMPARE_SET,
                 Key(STP_JOIN_KEY, token) + Value("") + Value(Bytes(join)));
}

} // namespace requests

#endif // STP_STORE_REQUESTS_H
