"""Shuffles, votes, reductions, atomics: against NumPy."""

import numpy as np
import pytest

from septran.emulator import EmulatedDeadlockError, MisuseError, UnmodelledError

KERNEL = 'extern "C" __global__ void k({}) {{ int l = threadIdx.x; {} }}'


def words(text, launch, block=32, inputs=None, out=32, **options):
    """What a kernel of `block` threads writes to `o`."""
    result = np.zeros(out, np.int32)
    given = {"x": inputs} if inputs is not None else {}
    parameters = ("const int* x, " if given else "") + "int* o"
    launch(KERNEL.format(parameters, text), {**given, "o": result}, block=block, **options)
    return result


lanes = np.arange(32, dtype=np.int32)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("__shfl_sync(~0u, l * 3, 5)", np.full(32, 15)),
        ("__shfl_sync(~0u, l * 3, l + 1, 8)", (lanes // 8 * 8 + (lanes + 1) % 8) * 3),
        ("__shfl_xor_sync(~0u, l, 5)", lanes ^ 5),
        ("__shfl_up_sync(~0u, l, 2)", np.where(lanes < 2, lanes, lanes - 2)),
        ("__shfl_down_sync(~0u, l, 3, 16)", np.where(lanes % 16 + 3 < 16, lanes + 3, lanes)),
        ("__ballot_sync(~0u, l % 3 == 0)", np.full(32, sum(1 << i for i in range(0, 32, 3)))),
        ("__any_sync(~0u, l == 40) + 2 * __all_sync(~0u, l < 32)", np.full(32, 2)),
        ("__reduce_add_sync(~0u, l)", np.full(32, 496)),
        ("__reduce_max_sync(~0u, -l)", np.full(32, 0)),
        ("(int)__match_any_sync(~0u, l % 16)", (1 << lanes % 16) | (1 << (lanes % 16 + 16))),
        ("(int)__byte_perm(0x33221100, 0x77665544, 0x5140)", np.full(32, 0x55114400)),
    ],
)
@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.one_in(3)
def test_lanes_exchange_values(launch, text, expected, seed):
    assert np.array_equal(
        words(f"o[l] = {text};", launch, seed=seed), expected.astype(np.int64).astype(np.int32)
    )


def test_values_of_eight_bytes_are_shuffled(launch):
    o = np.zeros(32)
    launch(KERNEL.format("double* o", "o[l] = __shfl_xor_sync(~0u, l + 0.5, 1);"), {"o": o})
    assert np.array_equal(o, (lanes ^ 1) + 0.5)


def test_half_a_warp_can_shuffle_alone(launch):
    found = words("if (l < 16) o[l] = __shfl_xor_sync(0xffffu, l, 15); else o[l] = 7;", launch)
    assert found.tolist() == [*range(15, -1, -1), *[7] * 16]


def test_one_lane_is_elected(launch):
    text = """int p = 0;
      asm volatile("{ .reg .pred %%q; elect.sync _|%%q, %1; @%%q mov.s32 %0, 1; }"
                   : "+r"(p) : "r"(0xffffffff)); o[l] = p;"""
    assert words(text, launch, block=64, out=64).reshape(2, 32).sum(1).tolist() == [1, 1]


def test_registers_tell_the_place(launch):
    text = """int a, b, c; long long t;
      asm("mov.u32 %0, %%laneid;" : "=r"(a)); asm("mov.u32 %0, %%warpid;" : "=r"(b));
      asm("mov.u32 %0, %%ctaid.x;" : "=r"(c));
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
      int n = blockIdx.x * blockDim.x + l; o[n] = a + 100 * b + 1000 * c + 10000 * (t >= 0);"""
    found = words(text, launch, block=64, out=128, grid=2)
    n = np.arange(128)
    assert np.array_equal(found, n % 32 + 100 * (n // 32 % 2) + 1000 * (n // 64) + 10000)


def test_atomics_count_once_each(launch):
    text = """__shared__ int s[2]; if (l < 2) s[l] = 0; __syncthreads();
      atomicAdd(&s[l % 2], l); atomicMax(&o[1], l); atomicAdd(&o[2], 1);
      __syncthreads(); if (!l) o[0] = s[0] + 1000 * s[1];"""
    found = words(text, launch, block=64, grid=3)
    assert found[:3].tolist() == [sum(range(0, 64, 2)) + 1000 * sum(range(1, 64, 2)), 63, 192]


def test_float_atomics_and_compare_and_swap(launch):
    o = np.zeros(2, np.float32)
    text = "atomicAdd(o, 0.5f); if (l == 3) atomicCAS((int*)o + 1, 0, __float_as_int(2.f));"
    launch(KERNEL.format("float* o", text), {"o": o}, block=64)
    assert o.tolist() == [32, 2]


def test_a_block_need_not_be_full_warps(launch):
    found = words("o[l] = __syncthreads_count(l % 2);", launch, block=40, out=40)
    assert found.tolist() == [20] * 40


def test_lanes_that_have_returned_are_not_missed(launch):
    found = words("if (l >= 20) return; o[l] = __shfl_sync(~0u, l, 3); __syncthreads();", launch)
    assert found[:20].tolist() == [3] * 20


def test_diverged_lanes_are_an_error(launch):
    with pytest.raises(MisuseError, match="lanes of a warp diverge"):
        words("if (l < 4) o[l] = __shfl_sync(~0u, l, 0); else __syncwarp();", launch)


def test_a_shuffle_that_lacks_lanes_deadlocks(launch):
    with pytest.raises(EmulatedDeadlockError, match=r"4 threads \(0 to 3\): a shuffle"):
        words("if (l < 4) o[l] = __shfl_sync(~0u, l, 0); else __syncthreads();", launch)


def test_what_depends_on_hardware_is_refused(launch):
    with pytest.raises(UnmodelledError, match="activemask"):
        words("o[l] = __activemask();", launch)
