/* What the language has beside functions, and the recorder: commands for the simulator. */
#pragma once

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
