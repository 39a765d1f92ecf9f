/* The cube core: loads of operands, products, sums to main memory. */
#pragma once

#include "tensors.h"

namespace AscendC {

struct LoadData2DParams {
    uint16_t startIndex = 0;
    uint8_t repeatTimes = 0;
    uint16_t srcStride = 0;
    uint8_t sid = 0;
    uint16_t dstGap = 0;
    bool ifTranspose = false;
    uint8_t addrMode = 0;
};
struct LoadData2dTransposeParams {
    uint16_t startIndex = 0;
    uint8_t repeatTimes = 0;
    uint16_t srcStride = 0, dstGap = 0, dstFracGap = 0;
};

template <typename T> septran::Load *loads(const LocalTensor<T> &dst, int64_t count)
{
    const bool left = dst.position() == TPosition::A2;
    const int64_t place = dst.address() - (left ? septran::L0A : septran::L0B);
    if (!left && dst.position() != TPosition::B2) fail("LoadData writes to L0A and L0B only");
    if (place % 512) fail("LoadData to byte %lld, which is no multiple of 512", (long long)place);
    if (place < 0 || place / 512 + count > 128) fail("LoadData beyond the end of its memory");
    if (septran::failed()) return nullptr;
    return (left ? septran::state.left : septran::state.right) + place / 512;
}

/* Fractals as they are, or each turned. */
template <typename T>
void LoadData(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LoadData2DParams &p)
{
    septran::Load *mine = loads(dst, p.repeatTimes * (p.dstGap + 1) - p.dstGap);
    if (p.ifTranspose && sizeof(T) != 2) fail("LoadData turns elements of 16 bits only");
    if (p.ifTranspose && dst.position() == TPosition::A2) fail("this model turns fractals for L0B only");
    if (p.repeatTimes < 1) fail("LoadData of no fractals");
    if (p.dstGap) fail("this model knows LoadData to fractals side by side only");
    const int queue = septran::queue(PIPE_MTE1);
    if (septran::failed()) return;
    for (int n = 0; n < p.repeatTimes; ++n) mine[n] = {p.repeatTimes, n, p.ifTranspose};
    note(septran::CODE_dma_copy, queue, dst.address(), 512, src.address() + int64_t(p.startIndex) * 512,
         int64_t(p.srcStride) * 512, p.repeatTimes, 512);
}

/* Squares of 16 x 16 elements (of 32 bits: of two fractals each), turned. */
template <typename T>
void LoadDataWithTranspose(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LoadData2dTransposeParams &p)
{
    constexpr int64_t item = sizeof(T), parts = item / 2, square = 256 * item;
    static_assert(item == 2 || item == 4, "this model turns elements of 16 and 32 bits");
    const bool left = dst.position() == TPosition::A2;
    septran::Load *mine = loads(dst, p.repeatTimes * parts);
    const int queue = septran::queue(PIPE_MTE1);
    if (septran::failed()) return;
    /* For L0A the parts of a square lie side by side; for L0B in two rows of fractals. */
    const int gap = parts == 1 ? 0 : left ? 1 : 0, between = parts == 1 || left ? 0 : p.repeatTimes - 1;
    if (p.dstGap != gap || (parts > 1 && p.dstFracGap != between))
        fail("this model knows LoadDataWithTranspose with dstGap %d and dstFracGap %d only here", gap, between);
    const int count = int(p.repeatTimes * parts);
    for (int n = 0; n < count; ++n) mine[n] = {left ? count : p.repeatTimes, left ? n : n % p.repeatTimes, true};
    int64_t from = src.address() + p.startIndex * square;
    for (int n = 0; n < p.repeatTimes; ++n)
        for (int64_t part = 0; part < parts; ++part) {
            const int64_t place = (from - septran::L1 + n * p.srcStride * square) / 512 + part;
            /* A half of a square beyond the end of its row of fractals is of no sum that exists. */
            const int64_t *band = septran::state.bands + place;
            if (part && place < 1024 && band[0] != band[-1]) continue;
            note(septran::CODE_dma_copy, queue, dst.address() + n * square + part * 512, 512,
                 from + n * p.srcStride * square + part * 512, 512, 1, 512);
        }
}

struct MmadParams {
    uint16_t m = 0, n = 0, k = 0;
    uint8_t unitFlag = 0;
    bool cmatrixSource = false, cmatrixInitVal = true;
};

inline void check_loads(const septran::Load *first, int rows, int across, bool turned, const char *what)
{
    for (int row = 0; row < rows; ++row)
        for (int n = 0; n < across; ++n) {
            const septran::Load &one = first[row * across + n];
            if (one.length != across || one.place != n || one.turned != turned) {
                fail("Mmad reads rows of %d fractals of %s, and LoadData laid %d there", across, what, one.length);
                return;
            }
        }
}

template <typename C, typename A, typename B>
void Mmad(const LocalTensor<C> &c, const LocalTensor<A> &a, const LocalTensor<B> &b, const MmadParams &p)
{
    static_assert(std::is_same_v<A, B>, "this model multiplies elements of one type");
    constexpr int item = sizeof(A), c0 = 32 / item;
    if (p.m < 1 || p.m > 4095 || p.n < 1 || p.n > 4095 || p.k < 1 || p.k > 4095)
        fail("Mmad of %d x %d x %d: 1 to 4095", int(p.m), int(p.n), int(p.k));
    if (c.address() % 1024 || a.address() % 512 || b.address() % 512) fail("Mmad on operands that begin within a fractal");
    const int down = (p.m + 15) / 16, across = (p.n + 15) / 16;
    const int steps = (p.k + c0 - 1) / c0;
    const int queue = septran::queue(PIPE_M);
    const int64_t at = (a.address() - septran::L0A) / 512, bt = (b.address() - septran::L0B) / 512;
    if (at < 0 || at + down * steps > 128 || bt < 0 || bt + across * steps > 128) fail("Mmad reads beyond the end of L0A or L0B");
    if (septran::failed()) return;
    const septran::Load *left = septran::state.left + at, *right = septran::state.right + bt;
    check_loads(left, down, steps, left->turned, "L0A");
    check_loads(right, steps, across, right->turned, "L0B");
    const septran::Sums old = septran::state.sums[c.address()];
    if (!p.cmatrixInitVal && (old.down != down || old.across != across))
        fail("Mmad adds %d x %d fractals to sums of %d x %d", down, across, old.down, old.across);
    septran::state.sums[c.address()] = {down, across};
    /* A turned left operand lies as columns of 16 rows, an unturned right one as columns of c0 elements. */
    const int high = left->turned ? 16 : p.m, deep = right->turned ? p.k : c0;
    for (int row = 0; row < p.m; row += high)
        for (int step = 0; step < p.k; step += deep) {
            const int rows = p.m - row < high ? p.m - row : high, sum = p.k - step < deep ? p.k - step : deep;
            const int64_t left_at = left->turned ? int64_t(row / 16) * steps * 512 + step / 16 * 256 * item + step % 16 * 32 : int64_t(step / c0) * 512;
            const int64_t right_at = int64_t(step / c0) * across * 512;
            note(septran::CODE_mma, queue, c.address() + int64_t(row / 16) * across * 1024, across * 1024,
                 a.address() + left_at, left->turned ? 16 * 16 * item : steps * 512, left->turned,
                 b.address() + right_at, right->turned ? across * 16 * 16 * item : 512, !right->turned, rows, p.n, sum,
                 septran::dtype<C>(), septran::dtype<A>(), !p.cmatrixInitVal || step > 0);
        }
}

template <typename T> struct InitConstValueParams {
    uint16_t repeatTimes = 0, blockNum = 0, dstGap = 0;
    T initValue{};
};

/* Blocks of 32 bytes of L1 become a number. */
template <typename T> void InitConstValue(const LocalTensor<T> &dst, const InitConstValueParams<T> &p)
{
    if (dst.position() != TPosition::A1) fail("this model knows InitConstValue in L1 only");
    if (dst.address() % 32) fail("the target of InitConstValue is no multiple of 32");
    if (septran::number(p.initValue) != 0) fail("this model knows InitConstValue of zeros only");
    const int64_t pitch = (int64_t(p.blockNum) + p.dstGap) * 32;
    for (int64_t at = 0; at < p.repeatTimes * pitch; at += 32)
        if (at % pitch < p.blockNum * 32) {
            const int64_t place = (dst.address() - septran::L1 + at) / 512;
            if (place >= 0 && place < 1024) septran::state.bands[place] = 1;
        }
    note(septran::CODE_dma_zero, septran::queue(PIPE_MTE2), dst.address(), pitch, p.repeatTimes, p.blockNum * 32);
}

enum QuantMode_t { NoQuant };
struct FixpipeParamsV220 {
    uint16_t nSize = 0, mSize = 0, srcStride = 0;
    uint32_t dstStride = 0;
    bool reluEn = false;
    QuantMode_t quantPre = NoQuant;
    uint64_t deqScalar = 0;
    uint16_t ndNum = 1, srcNdStride = 0, dstNdStride = 0;
    uint8_t unitFlag = 0;
};

/* Sums as rows of main memory. */
template <typename T, typename U>
void Fixpipe(const GlobalTensor<T> &dst, const LocalTensor<U> &src, const FixpipeParamsV220 &p)
{
    static_assert(std::is_same_v<T, U>, "this model moves sums as they are");
    if (p.nSize < 1 || p.nSize > 4095 || p.mSize < 1 || p.mSize > 8192) fail("Fixpipe beyond its limits");
    if (p.ndNum != 1 || p.reluEn) fail("this model knows Fixpipe of one matrix without relu");
    const auto found = septran::state.sums.find(src.address());
    const int queue = septran::queue(PIPE_FIX);
    if (found == septran::state.sums.end()) {
        fail("Fixpipe reads sums that no Mmad wrote");
        return;
    }
    const septran::Sums &sums = found->second;
    if (p.srcStride != sums.down * 16 || p.mSize > sums.down * 16 || p.nSize > sums.across * 16)
        fail("Fixpipe reads %d x %d with a stride of %d, and Mmad wrote %d x %d fractals", int(p.mSize), int(p.nSize),
             int(p.srcStride), sums.down, sums.across);
    note(septran::CODE_dma_unblock, queue, dst.address(), int64_t(p.dstStride) * int64_t(sizeof(T)), src.address(),
         sums.across * 1024, p.mSize, p.nSize, sizeof(T), 16, 16);
}

}  // namespace AscendC
