/* Copies between main memory, UB and L1. */
#pragma once

#include "tensors.h"

namespace AscendC {

struct DataCopyExtParams {
    uint16_t blockCount = 1;
    uint32_t blockLen = 0, srcStride = 0, dstStride = 0, rsv = 0;
};
template <typename T> struct DataCopyPadExtParams {
    bool isPad = false;
    uint8_t leftPadding = 0, rightPadding = 0;
    T paddingValue{};
};

inline void check_unified(int64_t address, const char *what)
{
    if (address % 32) fail("%s begins at byte %lld of UB, which is no multiple of 32", what,
                           (long long)(address - septran::UB));
}

inline void check_blocks(const DataCopyExtParams &p)
{
    if (p.blockCount < 1 || p.blockCount > 4095) fail("DataCopyPad of %d blocks: 1 to 4095", int(p.blockCount));
    if (p.blockLen < 1 || p.blockLen > 2097151) fail("DataCopyPad of blocks of %u bytes", p.blockLen);
}

/* From main memory: gaps between blocks are bytes there, and of 32 bytes in UB. */
template <typename T>
void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyExtParams &p,
                 const DataCopyPadExtParams<T> &)
{
    check_blocks(p);
    check_unified(dst.at(), "the target of DataCopyPad");
    const int64_t held = (int64_t(p.blockLen) + 31) / 32 * 32, pitch = held + int64_t(p.dstStride) * 32;
    const int queue = septran::queue(PIPE_MTE2);
    septran::vector_touches({0, 0}, false);
    for (auto one = septran::state.uniform.begin(); one != septran::state.uniform.end();) {
        const septran::Range mine{dst.address(), dst.address() + pitch * p.blockCount};
        const septran::Range theirs{one->second.source, one->second.source + int64_t(one->second.count) * one->second.item};
        one = !one->second.number && septran::overlap(mine, theirs) ? septran::state.uniform.erase(one) : std::next(one);
    }
    note(septran::CODE_dma_copy, queue, dst.address(), pitch, src.address(), int64_t(p.blockLen) + p.srcStride,
         p.blockCount, p.blockLen);
    /* What fills a block up to 32 bytes is of no use, and overwrites what was there. */
    if (held != p.blockLen)
        note(septran::CODE_dma_zero, queue, dst.address() + p.blockLen, pitch, p.blockCount, held - p.blockLen);
}

template <typename T>
void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyExtParams &p)
{
    check_blocks(p);
    check_unified(src.at(), "the source of DataCopyPad");
    const int64_t pitch = (int64_t(p.blockLen) + 31) / 32 * 32 + int64_t(p.srcStride) * 32;
    note(septran::CODE_dma_copy, septran::queue(PIPE_MTE3), dst.address(), int64_t(p.blockLen) + p.dstStride,
         src.address(), pitch, p.blockCount, p.blockLen);
}

struct Nd2NzParams {
    uint16_t ndNum = 0, nValue = 0, dValue = 0, srcNdMatrixStride = 0, srcDValue = 0, dstNzC0Stride = 0,
             dstNzNStride = 0, dstNzMatrixStride = 0;
};

/* Rows of main memory into columns of fractals: 32 bytes of each row side by side. */
template <typename T>
void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const Nd2NzParams &p)
{
    constexpr int64_t item = sizeof(T), c0 = 32 / item;
    if (p.ndNum > 4095 || p.nValue > 16384 || p.srcDValue == 0 || p.dstNzC0Stride > 16384)
        fail("DataCopy with Nd2NzParams beyond their limits");
    if (dst.address() % 32) fail("the target of DataCopy in L1 is no multiple of 32");
    const int queue = septran::queue(PIPE_MTE2);
    const int64_t groups = (p.dValue + c0 - 1) / c0;
    for (int64_t n = 0; n < p.ndNum; ++n) {
        ++septran::state.matrices;
        for (int64_t g = 0; g < groups; ++g)
            for (int64_t row = 0; row < p.nValue; row += 16) {
                const int64_t place = dst.address() - septran::L1 + n * p.dstNzMatrixStride * item +
                    (g * p.dstNzC0Stride + row * p.dstNzNStride) * 32;
                if (place >= 0 && place / 512 < 1024)
                    septran::state.bands[place / 512] = septran::state.matrices * 4096 + row;
            }
    }
    const bool bands = p.nValue == 16 && p.dstNzC0Stride == 16 && p.dstNzNStride == 1 &&
        p.srcNdMatrixStride == 16 * p.srcDValue && p.dstNzMatrixStride >= groups * 16 * c0;
    if (bands || (p.ndNum == 1 && p.nValue == 16 && p.dstNzC0Stride == 16 && p.dstNzNStride == 1)) {
        note(septran::CODE_dma_block, queue, dst.address(), p.dstNzMatrixStride * item, src.address(),
             p.srcDValue * item, int64_t(p.ndNum) * 16, p.dValue, item, 16, c0);
        return;
    }
    for (int64_t n = 0; n < p.ndNum; ++n)
        for (int64_t g = 0; g < groups; ++g) {
            const int64_t to = dst.address() + n * p.dstNzMatrixStride * item + g * p.dstNzC0Stride * 32;
            const int64_t from = src.address() + (n * p.srcNdMatrixStride + g * c0) * item;
            const int64_t wide = (p.dValue - g * c0 < c0 ? p.dValue - g * c0 : c0) * item;
            note(septran::CODE_dma_copy, queue, to, p.dstNzNStride * 32, from, p.srcDValue * item, p.nValue, wide);
            if (wide < 32)
                note(septran::CODE_dma_zero, queue, to + wide, p.dstNzNStride * 32, p.nValue, 32 - wide);
        }
}

}  // namespace AscendC
