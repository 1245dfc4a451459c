// Messages of a star's processes, as bytes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

extern "C" {
#include "launch/star.h"
}

namespace frames
{

template <class T> std::string Bytes(const T &value)
{
    return std::string(reinterpret_cast<const char *>(&value), sizeof(value));
}

inline std::string Frame(uint32_t kind, uint32_t n, const std::string &bytes,
                         uint64_t more = 0)
{
    return Bytes(stp_star_frame{kind, n, bytes.size() + more}) + bytes;
}

// Gives 'bytes' to an exchange among 'n'.
inline std::string Give(uint32_t n, const std::string &bytes)
{
    return Frame(STP_STAR_GIVE, n, bytes);
}

inline std::string End(uint32_t status, const std::string &text)
{
    return Frame(STP_STAR_END, status, text);
}

inline std::string Hello(unsigned rank, unsigned size,
                         const char *token = "run/0",
                         unsigned version = STP_STAR_VERSION)
{
    stp_star_hello hello{{}, version, size, rank, ""};
    memcpy(hello.magic, STP_STAR_MAGIC, sizeof(hello.magic));
    snprintf(hello.token, sizeof(hello.token), "%s", token);
    return Bytes(hello);
}

} // namespace frames
