/* Tensors and their memories. */
#pragma once

#include "recorder.h"

namespace AscendC {

using septran::fail;
using septran::note;

enum class TPosition : uint8_t { GM, A1, A2, B1, B2, CO1, VECIN, VECOUT, VECCALC };

template <typename T> class GlobalTensor {
public:
    void SetGlobalBuffer(T *start, uint64_t = 0) { address_ = reinterpret_cast<int64_t>(start); }
    GlobalTensor operator[](uint64_t elements) const
    {
        GlobalTensor found = *this;
        found.address_ += static_cast<int64_t>(elements) * int64_t(sizeof(T));
        return found;
    }
    T GetValue(uint64_t element) const { return reinterpret_cast<const T *>(address_)[element]; }
    int64_t address() const { return address_; }

private:
    int64_t address_ = 0;
};

template <typename T> class LocalTensor {
public:
    LocalTensor() = default;
    LocalTensor(TPosition position, int64_t address) : position_(position), address_(address) {}
    LocalTensor operator[](uint32_t elements) const
    {
        return {position_, address_ + int64_t(elements) * int64_t(sizeof(T))};
    }
    template <typename U> LocalTensor<U> ReinterpretCast() const { return {position_, address_}; }
    TPosition position() const { return position_; }
    /* Where it is for the simulator: the end of UB is a memory of its own there. */
    int64_t address() const
    {
        if (position_ == TPosition::VECCALC && address_ - septran::UB >= septran::UB_BYTES)
            return address_ - septran::UB - septran::UB_BYTES + septran::SCRATCH;
        return address_;
    }
    int64_t at() const { return address_; }

private:
    TPosition position_ = TPosition::VECCALC;
    int64_t address_ = 0;
};

template <TPosition position> class TBuf {
public:
    template <typename T> LocalTensor<T> GetWithOffset(uint32_t size, uint32_t offset) const
    {
        if (uint64_t(size) * sizeof(T) + offset > bytes)
            fail("a tensor of %u elements at byte %u is beyond the end of its TBuf", size, offset);
        constexpr int64_t base = position == TPosition::A1 || position == TPosition::B1 ? septran::L1
            : position == TPosition::A2                                             ? septran::L0A
            : position == TPosition::B2                                             ? septran::L0B
            : position == TPosition::CO1                                            ? septran::L0C
                                                                                    : septran::UB;
        return {position, base + offset};
    }
    uint32_t bytes = 0;
};

class TPipe {
public:
    template <TPosition position> bool InitBuffer(TBuf<position> &buffer, uint32_t bytes)
    {
        constexpr int64_t most = position == TPosition::A1 || position == TPosition::B1 ? septran::L1_BYTES
            : position == TPosition::A2 || position == TPosition::B2                ? 65536
            : position == TPosition::CO1                                            ? 131072
                                                                                    : 196608;
        if (bytes > most) fail("a TBuf of %u bytes, where the memory has %lld", bytes, (long long)most);
        buffer.bytes = bytes;
        return true;
    }
    void Destroy() {}
};

inline int64_t GetBlockIdx() { return septran::state.core; }

}  // namespace AscendC
