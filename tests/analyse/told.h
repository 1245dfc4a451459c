// What a progress function was told.
#ifndef TOLD_H
#define TOLD_H

#include <cstddef>
#include <utility>
#include <vector>

struct Told {
    size_t stop_at = 0; // stops once that many are done; 0: never
    std::vector<std::pair<size_t, size_t>> calls; // done, of how many

    static bool Progress(void *user, size_t done, size_t total)
    {
        auto *told = static_cast<Told *>(user);

        told->calls.push_back({done, total});
        return done != told->stop_at;
    }
    // One after the other, up to all.
    bool IsComplete() const
    {
        for (size_t i = 0; i < calls.size(); i++)
            if (calls[i] != std::pair(i + 1, calls.size()))
                return false;
        return !calls.empty();
    }
};

#endif // TOLD_H
