// Structs that are freed where their test ends.
#pragma once

// All 0 at first.
template <typename T, void (*kFree)(T *)> struct Owned : T {
    Owned() : T{}
    {
    }
    ~Owned()
    {
        kFree(this);
    }
    Owned(const Owned &) = delete;
    Owned &operator=(const Owned &) = delete;
};
