/* A part of Ascend C's interface, for a host's compiler: each call notes what the hardware would do.
 *
 * Names, parameters, units and limits are those of the vendor's published reference; nothing here is
 * the vendor's code. What a call moves or computes is appended as records of SepTran's simulator,
 * whose numbers `septran_machine.h` has, which is made from the machine file. A call that breaks a
 * rule of the reference (an alignment, a limit, a missing barrier of a pipe), or that this model
 * cannot say exactly, stops the recording with a message.
 *
 * Two memories are not held as the hardware lays them out, but so that the simulator's matrix unit
 * reads them: L0B's fractals are not turned, and L0C's lie row by row. Only LoadData, Mmad and
 * Fixpipe reach the two, and `Loads` and `Sums` check that these agree on how they lie.
 */
#ifndef SEPTRAN_KERNEL_OPERATOR_H
#define SEPTRAN_KERNEL_OPERATOR_H

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <type_traits>
#include <vector>

#include "septran_machine.h"

/* ---- what the language has beside functions */

#define __aicore__
#define __global__
#define __gm__
using GM_ADDR = uint8_t *;

struct half {
    uint16_t bits = 0;
    half() = default;
    explicit half(float value);
};
struct bfloat16_t { uint16_t bits; };

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_FIX, PIPE_ALL };

/* ---- the recorder */

extern "C" {
extern int32_t septran_line;
void septran_begin(int32_t core);
int64_t septran_take(const void **first);
void septran_forget(void);
const char *septran_problem(void);
}

namespace septran {

struct Record {
    int32_t code, core, line, pad;
    int64_t arguments[ARGUMENTS];
};

struct Range { int64_t first, last; };

/* The fractals of L0A and L0B: how many a LoadData laid side by side, and which of them one is. */
struct Load { int32_t length = 0, place = 0; bool turned = false; };
/* The sums at an address of L0C: rows and columns in fractals. */
struct Sums { int32_t down = 0, across = 0; };
/* What all elements of a block of 32 bytes are: a number, or an element of a column of others. */
struct Uniform { bool number = false; double value = 0; int64_t source = 0; uint32_t count = 0, item = 0; };

struct State {
    std::vector<Record> records;
    int32_t core = 0;
    char problem[512] = "";
    bool cube = false, known = false;
    Load left[128], right[128];
    std::map<int64_t, Sums> sums;
    std::map<int, int> setters;
    std::map<int64_t, Uniform> uniform;
    std::vector<Range> written;
    int64_t bands[1024] = {}, matrices = 0;   /* of L1's fractals: the row of fractals that each was filled in */
};

inline State state;

inline bool failed() { return state.problem[0] != 0; }

template <typename... Arguments>
void fail(const char *text, Arguments... arguments)
{
    if (failed()) return;
    if constexpr (sizeof...(Arguments) == 0) {
        std::snprintf(state.problem, sizeof state.problem, "%s", text);
    } else {
        std::snprintf(state.problem, sizeof state.problem, text, arguments...);
    }
    state.problem[sizeof state.problem - 1] = 0;
}

template <typename... Arguments>
void note(int32_t code, Arguments... arguments)
{
    if (failed()) return;
    Record one{};
    one.code = code;
    one.core = state.core;
    one.line = septran_line;
    const int64_t values[] = {static_cast<int64_t>(arguments)...};
    std::memcpy(one.arguments, values, sizeof values);
    state.records.push_back(one);
}

inline int64_t bits(double value)
{
    int64_t result;
    std::memcpy(&result, &value, sizeof result);
    return result;
}

/* Which core a block of statements is for; the model goes through both in the program's order. */
inline bool enter(bool cube)
{
    state.cube = cube;
    state.known = true;
    return true;
}

/* A kernel of one kind of core needs no blocks for it. */
inline void task(int type)
{
    if (type != 9) enter(type == 6);
}

inline int queue(pipe_t pipe)
{
    if (!state.known) fail("a call to a pipe outside of ASCEND_IS_AIC and ASCEND_IS_AIV");
    const int number = state.cube ? (pipe == PIPE_MTE2   ? AIC_MTE2
                                     : pipe == PIPE_MTE1 ? AIC_MTE1
                                     : pipe == PIPE_M    ? AIC_M
                                     : pipe == PIPE_FIX  ? AIC_FIX
                                                         : -1)
                                  : (pipe == PIPE_MTE2   ? AIV_MTE2
                                     : pipe == PIPE_V    ? AIV_V
                                     : pipe == PIPE_MTE3 ? AIV_MTE3
                                                         : -1);
    if (number < 0) fail("the %s core has no pipe %d", state.cube ? "cube" : "vector", int(pipe));
    return number;
}

template <typename T> constexpr int dtype()
{
    if constexpr (std::is_same_v<T, float>) return FLOAT32;
    else if constexpr (std::is_same_v<T, half>) return FLOAT16;
    else if constexpr (std::is_same_v<T, bfloat16_t>) return BFLOAT16;
    else if constexpr (std::is_same_v<T, int8_t>) return INT8;
    else if constexpr (std::is_same_v<T, uint8_t>) return UINT8;
    else if constexpr (std::is_same_v<T, int16_t>) return INT16;
    else if constexpr (std::is_same_v<T, uint16_t>) return UINT16;
    else if constexpr (std::is_same_v<T, int32_t>) return INT32;
    else if constexpr (std::is_same_v<T, uint32_t>) return UINT32;
    else if constexpr (std::is_same_v<T, int64_t>) return INT64;
    else return UINT64;
}

inline double number(float value) { return value; }
inline double number(int32_t value) { return value; }
inline double number(int16_t value) { return value; }
inline double number(half value)
{
    const int sign = value.bits >> 15, exponent = value.bits >> 10 & 31, fraction = value.bits & 1023;
    double found = exponent == 31 ? (fraction ? NAN : INFINITY)
                   : exponent     ? std::ldexp(1024 + fraction, exponent - 25)
                                  : std::ldexp(fraction, -24);
    return sign ? -found : found;
}

/* The double behind a number that was made for a function of half: its float, rounded once. */
inline uint16_t rounded(float value)
{
    uint32_t from;
    std::memcpy(&from, &value, sizeof from);
    const uint16_t sign = uint16_t(from >> 16 & 0x8000);
    if (std::isnan(value)) return sign | 0x7e00;
    const double size = std::fabs(double(value));
    if (size >= 65520) return sign | 0x7c00;
    int exponent = size ? std::ilogb(size) : -25;
    if (exponent < -14) exponent = -14;
    /* nearbyint rounds ties to even; a fraction of 2048 is the next exponent's 1024 as it is added. */
    const int fraction = int(std::nearbyint(std::ldexp(size, 10 - exponent)));
    return sign | uint16_t((exponent + 14 << 10) + fraction);
}

template <typename T> int64_t value_of(double value)
{
    return std::is_integral_v<T> ? static_cast<int64_t>(value) : bits(value);
}

inline bool overlap(Range a, Range b) { return a.first < b.last && b.first < a.last; }

/* What a vector instruction writes: nobody of its pipe may touch it before the next barrier. */
inline void vector_touches(Range range, bool writes)
{
    for (const Range &one : state.written)
        if (overlap(one, range)) {
            fail("what an instruction of the vector pipe wrote is used without PipeBarrier<PIPE_V>");
            return;
        }
    if (!writes) return;
    for (auto one = state.uniform.begin(); one != state.uniform.end();) {
        const Uniform &u = one->second;
        const int64_t end = u.number ? one->first + 32 : one->first + int64_t(u.count) * 32;
        const bool spoilt = overlap({one->first, end}, range) ||
            (!u.number && overlap({u.source, u.source + int64_t(u.count) * u.item}, range));
        one = spoilt ? state.uniform.erase(one) : std::next(one);
    }
}

}  // namespace septran

inline half::half(float value) : bits(septran::rounded(value)) {}

namespace AscendC {

using septran::fail;
using septran::note;

/* ---- tensors and their memories */

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

/* ---- events and barriers */

enum class HardEvent : uint8_t {
    MTE2_MTE1, MTE1_MTE2, MTE1_M, M_MTE1, MTE2_V, V_MTE2, MTE3_V, V_MTE3, MTE3_MTE2, MTE2_MTE3,
    M_FIX, FIX_M, FIX_MTE2, MTE2_FIX, MTE2_M, M_MTE2, MTE1_FIX, FIX_MTE1
};
using TEventID = int32_t;

inline void pipes_of(HardEvent event, pipe_t &from, pipe_t &to)
{
    constexpr pipe_t ends[][2] = {
        {PIPE_MTE2, PIPE_MTE1}, {PIPE_MTE1, PIPE_MTE2}, {PIPE_MTE1, PIPE_M}, {PIPE_M, PIPE_MTE1},
        {PIPE_MTE2, PIPE_V}, {PIPE_V, PIPE_MTE2}, {PIPE_MTE3, PIPE_V}, {PIPE_V, PIPE_MTE3},
        {PIPE_MTE3, PIPE_MTE2}, {PIPE_MTE2, PIPE_MTE3}, {PIPE_M, PIPE_FIX}, {PIPE_FIX, PIPE_M},
        {PIPE_FIX, PIPE_MTE2}, {PIPE_MTE2, PIPE_FIX}, {PIPE_MTE2, PIPE_M}, {PIPE_M, PIPE_MTE2},
        {PIPE_MTE1, PIPE_FIX}, {PIPE_FIX, PIPE_MTE1},
    };
    from = ends[static_cast<int>(event)][0];
    to = ends[static_cast<int>(event)][1];
}

inline void flag(int code, HardEvent event, TEventID id)
{
    pipe_t from, to;
    pipes_of(event, from, to);
    if (id < 0 || id > 7) fail("event %d, where there are 8 of each kind", int(id));
    const int source = septran::queue(from), target = septran::queue(to);
    note(code, source, target, id);
}

template <HardEvent event> void SetFlag(TEventID id) { flag(septran::CODE_set_flag, event, id); }
template <HardEvent event> void WaitFlag(TEventID id) { flag(septran::CODE_wait_flag, event, id); }

/* Between the two cores of an AI core: who waits holds all of its pipes back. */
constexpr int CUBE_QUEUES[] = {septran::AIC_MTE2, septran::AIC_MTE1, septran::AIC_M, septran::AIC_FIX};
constexpr int VECTOR_QUEUES[] = {septran::AIV_MTE2, septran::AIV_V, septran::AIV_MTE3};

template <uint8_t mode, pipe_t pipe> void CrossCoreSetFlag(uint16_t id)
{
    static_assert(mode == 2, "only the flags between the cube and the vector core are known");
    if (id > 10) fail("CrossCoreSetFlag with the number %d, where there are 0 to 10", int(id));
    const int source = septran::queue(pipe);
    septran::state.setters[id] = source;
    if (septran::state.cube) for (int target : VECTOR_QUEUES) note(septran::CODE_set_flag, source, target, id);
    else for (int target : CUBE_QUEUES) note(septran::CODE_set_flag, source, target, id);
}

template <uint8_t mode = 0, pipe_t pipe = PIPE_S> void CrossCoreWaitFlag(uint16_t id)
{
    const auto found = septran::state.setters.find(id);
    if (found == septran::state.setters.end()) {
        fail("CrossCoreWaitFlag for the number %d, which nobody has set", int(id));
        return;
    }
    const int source = found->second;
    if (septran::state.cube) for (int target : CUBE_QUEUES) note(septran::CODE_wait_flag, source, target, id);
    else for (int target : VECTOR_QUEUES) note(septran::CODE_wait_flag, source, target, id);
}

template <pipe_t pipe> void PipeBarrier()
{
    if constexpr (pipe == PIPE_V || pipe == PIPE_ALL) septran::state.written.clear();
}

template <bool vectorOnly = true> void SyncAll()
{
    septran::state.written.clear();
    note(septran::CODE_barrier);
}

/* ---- copies */

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

/* ---- the cube core */

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

/* ---- the vector core: one instruction goes over `repeats` of 256 bytes, of which `mask` elements count */

struct BinaryRepeatParams {
    uint8_t dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1, dstRepStride = 8, src0RepStride = 8, src1RepStride = 8;
};
struct UnaryRepeatParams {
    uint16_t dstBlkStride = 1, srcBlkStride = 1;
    uint8_t dstRepStride = 8, srcRepStride = 8;
};
struct CopyRepeatParams {
    uint16_t dstStride = 1, srcStride = 1, dstRepeatSize = 8, srcRepeatSize = 8;
};
struct BrcbRepeatParams {
    uint16_t dstBlkStride = 1, dstRepStride = 8;
};
enum class RoundMode { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };
enum class ReduceOrder { ORDER_VALUE_INDEX, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX };

/* A tile for the simulator: an address and bytes between rows and between columns. */
struct Tile {
    int64_t address = 0, row = 0, col = 0;
    bool number = false;
    double value = 0;
};

template <typename T> Tile rows_of(const LocalTensor<T> &x, uint64_t repeats, uint64_t mask, int block, int repeat, bool writes)
{
    constexpr int item = sizeof(T);
    check_unified(x.at(), writes ? "what a vector instruction writes" : "what a vector instruction reads");
    if (block == 1) {
        for (uint64_t n = 0; n < repeats && !septran::failed(); ++n) {
            const int64_t first = x.address() + int64_t(n) * repeat * 32;
            septran::vector_touches({first, first + int64_t(mask) * item}, writes);
        }
        return {x.address(), int64_t(repeat) * 32, item};
    }
    if (block != 0 || writes) fail("this model knows block strides of 1, and of 0 for what is read");
    const auto found = septran::state.uniform.find(x.address());
    if (found == septran::state.uniform.end()) {
        fail("a block stride of 0 reads a block whose elements are not known to be alike");
        return {};
    }
    septran::vector_touches({x.address(), x.address() + 32}, false);
    const septran::Uniform &u = found->second;
    if (u.number) {
        if (repeat != 0 && repeats > 1) fail("only one block was filled with a number");
        return {0, 0, 0, true, u.value};
    }
    if (repeat > 1 || (repeat == 1 && repeats > u.count)) fail("more blocks are read than Brcb has written");
    return {u.source, repeat ? item : 0, 0};
}

template <typename T> void check_repeats(uint64_t mask, uint8_t repeats)
{
    if (mask < 1 || mask > 256 / sizeof(T)) fail("a mask of %d elements", int(mask));
    if (repeats < 1) fail("an instruction with no repeats");
}

template <typename T> void binary(int code, int immediate, const Tile &d, const Tile &x, const Tile &y, uint64_t rows, uint64_t cols)
{
    const int queue = septran::queue(PIPE_V), type = septran::dtype<T>();
    if (x.number && y.number) fail("both operands are numbers");
    if (x.number || y.number) {
        const Tile &tile = x.number ? y : x;
        note(immediate, queue, d.address, d.row, d.col, tile.address, tile.row, tile.col,
             septran::value_of<T>(x.number ? x.value : y.value), x.number, rows, cols, type);
    } else {
        note(code, queue, d.address, d.row, d.col, x.address, x.row, x.col, y.address, y.row, y.col, rows, cols, type);
    }
}

inline void written(const Tile &d, uint64_t rows, uint64_t cols)
{
    for (uint64_t row = 0; row < rows; ++row)
        septran::state.written.push_back({d.address + int64_t(row) * d.row, d.address + int64_t(row) * d.row + int64_t(cols) * d.col});
}

#define SEPTRAN_BINARY(Name, function)                                                                                \
    template <typename T>                                                                                             \
    void Name(const LocalTensor<T> &dst, const LocalTensor<T> &x, const LocalTensor<T> &y, uint64_t mask,             \
              uint8_t repeats, const BinaryRepeatParams &p)                                                           \
    {                                                                                                                 \
        septran::arithmetic<T>();                                                                                     \
        check_repeats<T>(mask, repeats);                                                                              \
        const Tile a = rows_of(x, repeats, mask, p.src0BlkStride, p.src0RepStride, false);                            \
        const Tile b = rows_of(y, repeats, mask, p.src1BlkStride, p.src1RepStride, false);                            \
        const Tile d = rows_of(dst, repeats, mask, p.dstBlkStride, p.dstRepStride, true);                             \
        binary<T>(septran::CODE_vec_##function, septran::CODE_vec_##function##_imm, d, a, b, repeats, mask);          \
        written(d, repeats, mask);                                                                                    \
    }                                                                                                                 \
    template <typename T>                                                                                             \
    void Name(const LocalTensor<T> &dst, const LocalTensor<T> &x, const LocalTensor<T> &y, int32_t count)             \
    {                                                                                                                 \
        septran::arithmetic<T>();                                                                                     \
        const Tile a = rows_of(x, 1, count, 1, 0, false), b = rows_of(y, 1, count, 1, 0, false);                      \
        const Tile d = rows_of(dst, 1, count, 1, 0, true);                                                            \
        binary<T>(septran::CODE_vec_##function, septran::CODE_vec_##function##_imm, d, a, b, 1, count);               \
        written(d, 1, count);                                                                                         \
    }
}  // namespace AscendC

namespace septran {
/* What Add, Mul and their kind take on this vector core. */
template <typename T> constexpr void arithmetic()
{
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, half> || std::is_same_v<T, int32_t> || std::is_same_v<T, int16_t>,
                  "the vector core computes in float, half, int32_t and int16_t");
}
template <typename T> constexpr void floats()
{
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, half>, "this function is of float and half");
}
}  // namespace septran

namespace AscendC {
SEPTRAN_BINARY(Add, add)
SEPTRAN_BINARY(Sub, subtract)
SEPTRAN_BINARY(Mul, multiply)
SEPTRAN_BINARY(Max, maximum)
SEPTRAN_BINARY(Min, minimum)
SEPTRAN_BINARY(Div, divide)

template <typename T> void immediate(int code, const Tile &d, const Tile &x, double value, uint64_t rows, uint64_t cols)
{
    note(code, septran::queue(PIPE_V), d.address, d.row, d.col, x.address, x.row, x.col, septran::value_of<T>(value), 0,
         rows, cols, septran::dtype<T>());
    written(d, rows, cols);
}

#define SEPTRAN_SCALAR(Name, function)                                                                                \
    template <typename T>                                                                                             \
    void Name(const LocalTensor<T> &dst, const LocalTensor<T> &x, const T &value, uint64_t mask, uint8_t repeats,     \
              const UnaryRepeatParams &p)                                                                             \
    {                                                                                                                 \
        septran::arithmetic<T>();                                                                                     \
        check_repeats<T>(mask, repeats);                                                                              \
        const Tile a = rows_of(x, repeats, mask, p.srcBlkStride, p.srcRepStride, false);                              \
        const Tile d = rows_of(dst, repeats, mask, p.dstBlkStride, p.dstRepStride, true);                             \
        immediate<T>(septran::CODE_vec_##function##_imm, d, a, septran::number(value), repeats, mask);                \
    }                                                                                                                 \
    template <typename T>                                                                                             \
    void Name(const LocalTensor<T> &dst, const LocalTensor<T> &x, const T &value, int32_t count)                      \
    {                                                                                                                 \
        septran::arithmetic<T>();                                                                                     \
        const Tile a = rows_of(x, 1, count, 1, 0, false), d = rows_of(dst, 1, count, 1, 0, true);                     \
        immediate<T>(septran::CODE_vec_##function##_imm, d, a, septran::number(value), 1, count);                     \
    }
SEPTRAN_SCALAR(Adds, add)
SEPTRAN_SCALAR(Muls, multiply)
SEPTRAN_SCALAR(Maxs, maximum)
SEPTRAN_SCALAR(Mins, minimum)

template <typename T> void unary(int code, const Tile &d, const Tile &x, uint64_t rows, uint64_t cols)
{
    note(code, septran::queue(PIPE_V), d.address, d.row, d.col, x.address, x.row, x.col, rows, cols, septran::dtype<T>());
    written(d, rows, cols);
}

#define SEPTRAN_UNARY_COUNT(Name, function)                                                                           \
    template <typename T> void Name(const LocalTensor<T> &dst, const LocalTensor<T> &x, int32_t count)                \
    {                                                                                                                 \
        septran::floats<T>();                                                                                         \
        const Tile a = rows_of(x, 1, count, 1, 0, false), d = rows_of(dst, 1, count, 1, 0, true);                     \
        unary<T>(septran::CODE_vec_##function, d, a, 1, count);                                                       \
    }
#define SEPTRAN_UNARY(Name, function)                                                                                 \
    SEPTRAN_UNARY_COUNT(Name, function)                                                                               \
    template <typename T>                                                                                             \
    void Name(const LocalTensor<T> &dst, const LocalTensor<T> &x, uint64_t mask, uint8_t repeats,                     \
              const UnaryRepeatParams &p)                                                                             \
    {                                                                                                                 \
        septran::floats<T>();                                                                                         \
        check_repeats<T>(mask, repeats);                                                                              \
        const Tile a = rows_of(x, repeats, mask, p.srcBlkStride, p.srcRepStride, false);                              \
        const Tile d = rows_of(dst, repeats, mask, p.dstBlkStride, p.dstRepStride, true);                             \
        unary<T>(septran::CODE_vec_##function, d, a, repeats, mask);                                                  \
    }
SEPTRAN_UNARY(Exp, exp)
SEPTRAN_UNARY(Ln, log)
SEPTRAN_UNARY(Sqrt, sqrt)
SEPTRAN_UNARY(Abs, abs)
/* Of the library above the instructions: without memory of the caller's, of elements in a row. */
SEPTRAN_UNARY_COUNT(Sigmoid, sigmoid)
SEPTRAN_UNARY_COUNT(Log2, log2)
SEPTRAN_UNARY_COUNT(Tanh, tanh)
SEPTRAN_UNARY_COUNT(Erf, erf)
SEPTRAN_UNARY_COUNT(Sin, sin)
SEPTRAN_UNARY_COUNT(Cos, cos)
SEPTRAN_UNARY_COUNT(Floor, floor)
SEPTRAN_UNARY_COUNT(Ceil, ceil)

/* A number to the power of each element. */
template <typename T> void Power(const LocalTensor<T> &dst, const T &base, const LocalTensor<T> &x, uint32_t count)
{
    septran::floats<T>();
    if (septran::number(base) != 2) fail("this model knows powers of 2 only");
    const Tile a = rows_of(x, 1, count, 1, 0, false), d = rows_of(dst, 1, count, 1, 0, true);
    unary<T>(septran::CODE_vec_exp2, d, a, 1, count);
}

template <typename T> constexpr bool is_float = !std::is_integral_v<T>;

/* From one type to another. */
template <typename T, typename U> void Cast(const LocalTensor<T> &dst, const LocalTensor<U> &x, const RoundMode &mode, uint32_t count)
{
    if constexpr (is_float<T> && (is_float<U> || std::is_integral_v<U>)) {
        const bool exact = is_float<U> && sizeof(T) > sizeof(U);
        if (mode != (exact ? RoundMode::CAST_NONE : RoundMode::CAST_RINT) && mode != RoundMode::CAST_NONE)
            fail("this model rounds to the nearest, ties to even");
    } else if (is_float<U> && mode != RoundMode::CAST_TRUNC) {
        fail("this model makes integers of floats by CAST_TRUNC");
    }
    const Tile a = rows_of(x, 1, count, 1, 0, false), d = rows_of(dst, 1, count, 1, 0, true);
    note(septran::CODE_vec_cast, septran::queue(PIPE_V), d.address, 0, d.col, a.address, 0, a.col, 1, count, septran::dtype<T>(),
         septran::dtype<U>());
    written(d, 1, count);
}

template <typename T> void Copy(const LocalTensor<T> &dst, const LocalTensor<T> &x, uint64_t mask, uint8_t repeats, const CopyRepeatParams &p)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Copy moves elements of 16 and 32 bits");
    check_repeats<T>(mask, repeats);
    const Tile a = rows_of(x, repeats, mask, p.srcStride, p.srcRepeatSize, false);
    const Tile d = rows_of(dst, repeats, mask, p.dstStride, p.dstRepeatSize, true);
    note(septran::CODE_vec_copy, septran::queue(PIPE_V), d.address, d.row, d.col, a.address, a.row, a.col, repeats, mask, septran::dtype<T>());
    written(d, repeats, mask);
}

template <typename T> void fill(const LocalTensor<T> &dst, double value, uint64_t rows, uint64_t cols, int repeat)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Duplicate writes elements of 16 and 32 bits");
    const Tile d = rows_of(dst, rows, cols, 1, repeat, true);
    /* A block in the code generator's own memory is read as a number, wherever it is used. */
    if (rows == 1 && cols * sizeof(T) == 32 && d.address >= septran::SCRATCH) {
        septran::state.uniform[d.address] = {true, value, 0, 0, 0};
    } else {
        note(septran::CODE_vec_fill, septran::queue(PIPE_V), d.address, d.row, d.col, septran::value_of<T>(value), rows, cols, septran::dtype<T>());
    }
    written(d, rows, cols);
}

template <typename T> void Duplicate(const LocalTensor<T> &dst, const T &value, int32_t count)
{
    fill(dst, septran::number(value), 1, count, 0);
}
template <typename T>
void Duplicate(const LocalTensor<T> &dst, const T &value, uint64_t mask, uint8_t repeats, uint16_t block, uint8_t repeat)
{
    check_repeats<T>(mask, repeats);
    if (block != 1) fail("this model knows block strides of 1");
    fill(dst, septran::number(value), repeats, mask, repeat);
}

/* Each of eight elements a repeat into a block of its own. */
template <typename T> void Brcb(const LocalTensor<T> &dst, const LocalTensor<T> &x, uint8_t repeats, const BrcbRepeatParams &p)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Brcb takes elements of 16 and 32 bits");
    check_unified(dst.at(), "the target of Brcb");
    check_unified(x.at(), "the source of Brcb");
    if (p.dstBlkStride != 1 || p.dstRepStride != 8) fail("this model knows Brcb to blocks side by side");
    const septran::Range blocks{dst.address(), dst.address() + int64_t(repeats) * 256};
    const septran::Range source{x.address(), x.address() + int64_t(repeats) * 8 * int64_t(sizeof(T))};
    septran::vector_touches({source.first, source.last}, false);
    septran::vector_touches(blocks, true);
    septran::state.uniform[dst.address()] = {false, 0, x.address(), uint32_t(repeats) * 8, sizeof(T)};
    septran::state.written.push_back(blocks);
}

template <typename T>
void reduce(int code, const LocalTensor<T> &dst, const LocalTensor<T> &x, int32_t mask, int32_t repeats, int32_t to, int32_t block, int32_t repeat)
{
    septran::floats<T>();
    check_repeats<T>(mask, uint8_t(repeats));
    if (repeats > 255) fail("an instruction with %d repeats, where there are 255", int(repeats));
    const Tile a = rows_of(x, repeats, mask, block, repeat, false);
    const int64_t item = sizeof(T), row = to * item;
    for (int32_t n = 0; n < repeats && !septran::failed(); ++n)
        septran::vector_touches({dst.address() + n * row, dst.address() + n * row + item}, true);
    note(code, septran::queue(PIPE_V), dst.address(), row, a.address, a.row, a.col, repeats, mask, 0, septran::dtype<T>());
    for (int32_t n = 0; n < repeats; ++n)
        septran::state.written.push_back({dst.address() + n * row, dst.address() + n * row + item});
}

/* One result a repeat, `dstRepStride` elements from the next. */
template <typename T>
void WholeReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &x, int32_t mask, int32_t repeats, int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride)
{
    reduce(septran::CODE_vec_reduce_sum, dst, x, mask, repeats, dstRepStride, srcBlkStride, srcRepStride);
}
template <typename T>
void WholeReduceMax(const LocalTensor<T> &dst, const LocalTensor<T> &x, int32_t mask, int32_t repeats, int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride, ReduceOrder order)
{
    if (order != ReduceOrder::ORDER_ONLY_VALUE) fail("this model knows WholeReduceMax of values only");
    reduce(septran::CODE_vec_reduce_max, dst, x, mask, repeats, dstRepStride, srcBlkStride, srcRepStride);
}
template <typename T>
void WholeReduceMin(const LocalTensor<T> &dst, const LocalTensor<T> &x, int32_t mask, int32_t repeats, int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride, ReduceOrder order)
{
    if (order != ReduceOrder::ORDER_ONLY_VALUE) fail("this model knows WholeReduceMin of values only");
    reduce(septran::CODE_vec_reduce_min, dst, x, mask, repeats, dstRepStride, srcBlkStride, srcRepStride);
}

}  // namespace AscendC

#define ASCEND_IS_AIC (septran::enter(true))
#define ASCEND_IS_AIV (septran::enter(false))
#define KERNEL_TYPE_AIV_ONLY 5
#define KERNEL_TYPE_AIC_ONLY 6
#define KERNEL_TYPE_MIX_AIC_1_1 9
#define KERNEL_TASK_TYPE_DEFAULT(type) septran::task(type)

/* ---- what the host's process calls */

int32_t septran_line = 0;

extern "C" {
void septran_begin(int32_t core)
{
    septran::state = septran::State{};
    septran::state.core = core;
    septran_line = 0;
}
int64_t septran_take(const void **first)
{
    *first = septran::state.records.data();
    return septran::failed() ? -2 : int64_t(septran::state.records.size());
}
void septran_forget(void) { septran::state = septran::State{}; }
const char *septran_problem(void) { return septran::state.problem; }
}

#endif
