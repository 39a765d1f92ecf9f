"""Small violations, each of one rule of the hardware: told by that rule and no other.

All are branches of one kernel, which is compiled once; branch 0 does nothing.
"""

from __future__ import annotations

import numpy as np
import pytest

from septran.emulator import (
    AlignmentError,
    ArrivalError,
    EmulatedBoundsError,
    EmulatedDeadlockError,
    MisuseError,
    ProxyError,
    UnmodelledError,
)

ONE = "if (!l) "
BULK = """asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
       " [%0], [%1], 16, [%2];" :: "r"(at(s)), "l"(x), "r"(at(b)));"""
REFUSED = {
    "a rank that there is not": (
        'asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(at(s) | 5u << 24));',
        EmulatedBoundsError, "names rank 5 of a cluster of 1 blocks"),
    "global memory as shared": (
        "arrive(o);", EmulatedBoundsError, "not in shared memory is taken as one"),
    "a loop that only loads": (
        "if (!l) while (*(volatile int*)o == -1) {}", EmulatedDeadlockError,
        "without a barrier: it spins"),
    "a copy onto what threads wrote": (
        "s[l] = l; if (!l) { bar_init(b, 1); fence_init(); } __syncthreads();"
        f"if (!l) {{ expect(b, 16); {BULK} }}", ProxyError,
        "the copy engine overwrites .* without fence.proxy.async"),
    "a seventeenth barrier": (
        'asm volatile("bar.sync %0, 32;" :: "r"(16));', MisuseError,
        "barrier 16: a block has 16"),
    "a wait without an arrival": (
        'asm volatile("barrier.cluster.wait;");', MisuseError, "without an arrive before it"),
    "no tensor map": (
        f"{ONE} load2(s, (const CUtensorMap*)x, b, 0, 0);", MisuseError,
        "something else than a tensor map"),
    "a source longer than the copy": (
        "copy16(s, x, 17);", MisuseError, "cp.async of 16 bytes from a source of 17"),
    "a copy to four bytes further": (
        "copy16(s + 1, x, 16);", AlignmentError, "cp.async of 16 bytes at an address"),
    "a bulk store from eight bytes further": (
        f"""{ONE} asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 16;"
            :: "l"(o), "r"(at(s) + 8));""", AlignmentError, "a bulk copy of 16 bytes"),
    "more arrivals by copies than are counted": (
        f"""{ONE} {{ bar_init(b, 1); fence_init(); expect(b, 16);
            asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
                         :: "r"(at(b))); }}""", ArrivalError, "more arrivals than it counts"),
    "rows of ldmatrix at eight bytes": (
        """asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
            : "=r"(v) : "r"(at(s) + 16 * l + 8));""", AlignmentError,
        "the row of lane 0 is at .* no multiple of 16"),
    "registers beyond their array": (
        """
        uint32_t r[2];
        uint32_t* d = &r[0];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
            : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(at(s) + 16 * l));
        v = r[1];""", EmulatedBoundsError, "number 2 is outside of the array of 8 bytes"),
    "an arrival between two mbarriers": (
        'asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(b) + 4));',
        AlignmentError, "mbarrier.arrive of an mbarrier at address"),
    "an mbarrier at four bytes": (
        'asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(b) + 4));',
        AlignmentError, "mbarrier.init at address"),
    "an mbarrier of no arrivals": (
        f"{ONE} bar_init(b, 0);", ArrivalError, "mbarrier.init for 0 arrivals"),
    "an mbarrier that is in use": (
        f"{ONE} {{ bar_init(b, 2); arrive(b); bar_init(b, 2); }}", MisuseError,
        "mbarrier.init of one that is in use"),
    "too many bytes expected": (
        f"{ONE} {{ bar_init(b, 1); expect(b, 1 << 20); }}", ArrivalError,
        "expects 1048576 bytes, more than"),
    "a copy that nobody expects": (
        f"{ONE} {{ bar_init(b, 1); fence_init(); expect(b, 16); {BULK} {BULK} wait(b, 0); }}",
        ArrivalError, "was over before this copy of 16 bytes arrived"),
    "too many bytes told": (
        f"""{ONE} {{ bar_init(b, 1); asm volatile("mbarrier.complete_tx.shared::cta.b64 [%0], %1;"
            :: "r"(at(b)), "r"(1 << 20)); }}""", ArrivalError, "far more bytes than it expected"),
    "too many mbarriers": (
        f"{ONE} for (int i = 0; i < 500; ++i) bar_init(b, 1);", UnmodelledError,
        "more mbarriers and engines"),
    "a lane that leaves itself out": (
        "v = __shfl_sync(0xfffffffeu, l, 1);", MisuseError,
        "the lane is not in its own mask 0xfffffffe"),
}  # fmt: skip


@pytest.fixture(scope="module")
def text(ptx):
    cases = "\n".join(
        f"case {number}: {{ {body} break; }}"
        for number, (body, *_) in enumerate(REFUSED.values(), 1)
    )
    return (
        ptx
        + f"""
    extern "C" __global__ void k(const int* w, const int* x, int* o) {{
      __shared__ __align__(128) int s[256]; __shared__ uint64_t b[4];
      int l = threadIdx.x; uint32_t v = 0;
      switch (*w) {{ {cases} }}
      o[l] = v;
}}"""  # its arrays are known by where it ends, the first column
    )


def run(launch, text, number):
    arrays = {
        "w": np.array([number], np.int32), "x": np.zeros(256, np.int32),
        "o": np.full(256, -1, np.int32),
    }  # fmt: skip
    launch(text, arrays, mode="late")
    return arrays["o"]


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.one_in(3)
def test_each_is_refused(launch, text, name):
    _, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        run(launch, text, [*REFUSED].index(name) + 1)


def test_nothing_is_not(launch, text):
    assert (run(launch, text, 0)[:32] == 0).all()


def test_dynamic_shared_memory_has_one_alignment(launch, ptx):
    text = (
        ptx
        + """
    __device__ int* other() { extern __shared__ __align__(16) int t[]; return t; }
    extern "C" __global__ void k(int* o) {
      extern __shared__ __align__(128) int s[];
      s[threadIdx.x] = 1; o[threadIdx.x] = other()[threadIdx.x];
    }"""
    )
    with pytest.raises(MisuseError, match="declared twice with different alignments"):
        launch(text, {"o": np.zeros(32, np.int32)}, shared=128)
