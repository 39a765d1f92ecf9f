/* The vector core: one instruction goes over `repeats` of 256 bytes, of which `mask` elements count. */
#pragma once

#include "copies.h"

namespace AscendC {

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
