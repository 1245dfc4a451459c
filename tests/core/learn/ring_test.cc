// Tests of the ring through which one thread passes notes to another.
#include <gtest/gtest.h>

#include <thread>

extern "C" {
#include "core/learn/ring.h"
}

namespace
{

class Ring : public testing::Test
{
  protected:
    Ring() : ring_(stp_ring_new())
    {
    }
    ~Ring() override
    {
        stp_ring_free(ring_);
    }

    bool Put(uint64_t t_ns, stp_note_kind kind = STP_NOTE_SET)
    {
        stp_note note{};
        note.kind = kind;
        note.t_ns = t_ns;
        return stp_ring_put(ring_, &note);
    }

    stp_ring *ring_;
};

TEST_F(Ring, KeepsTheOrder)
{
    stp_note note;

    EXPECT_FALSE(stp_ring_take(ring_, &note));
    for (uint64_t i = 0; i < 3u * STP_RING_SIZE; i++) {
        EXPECT_TRUE(Put(2 * i));
        EXPECT_TRUE(Put(2 * i + 1));
        ASSERT_TRUE(stp_ring_take(ring_, &note));
        EXPECT_EQ(2 * i, note.t_ns);
        ASSERT_TRUE(stp_ring_take(ring_, &note));
        EXPECT_EQ(2 * i + 1, note.t_ns);
    }
}

TEST_F(Ring, LosesNotesWhileItIsFull)
{
    stp_note note;

    for (uint64_t i = 0; i < STP_RING_SIZE; i++)
        ASSERT_TRUE(Put(i));
    EXPECT_FALSE(Put(7777));
    EXPECT_FALSE(Put(7778));
    ASSERT_TRUE(stp_ring_take(ring_, &note));
    EXPECT_EQ(0u, note.t_ns);
    EXPECT_TRUE(Put(STP_RING_SIZE));
    for (uint64_t i = 1; i <= STP_RING_SIZE; i++) {
        ASSERT_TRUE(stp_ring_take(ring_, &note));
        EXPECT_EQ(i, note.t_ns);
    }
    EXPECT_FALSE(stp_ring_take(ring_, &note));
}

TEST_F(Ring, HandsWholeNotesFromThreadToThread)
{
    constexpr uint64_t n = 200000;
    std::thread putter([this] {
        for (uint64_t i = 1; i <= n;) {
            stp_note note{};
            note.kind = STP_NOTE_TIME;
            note.key = static_cast<uint8_t>(i);
            note.t_ns = i;
            if (stp_ring_put(ring_, &note))
                i++;
            else
                std::this_thread::yield();
        }
    });
    for (uint64_t i = 1; i <= n;) {
        stp_note note;
        if (!stp_ring_take(ring_, &note)) {
            std::this_thread::yield();
            continue;
        }
        ASSERT_EQ(i, note.t_ns);
        ASSERT_EQ(static_cast<uint8_t>(i), note.key);
        i++;
    }
    putter.join();
}

} // namespace
