/* Events and barriers, between pipes and between the two cores. */
#pragma once

#include "tensors.h"

namespace AscendC {

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

}  // namespace AscendC
