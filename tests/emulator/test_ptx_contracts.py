"""PTX modules: each contract of the hardware has a kernel that keeps it and ones that break it.

A kernel reads `which` of its variants it is; variant 0 is right. So each is compiled once.
"""

import numpy as np
import pytest

from septran.emulator import (
    AlignmentError,
    EmulatedBoundsError,
    EmulatedDeadlockError,
    MisuseError,
    ProxyError,
    RegisterError,
    ThreadRaceError,
    UnfinishedError,
    UnknownInstructionError,
    UnmodelledError,
    UnwrittenSharedError,
)

HEAD = """.version 8.8
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u64 w_, .param .u64 i_, .param .u64 o_) {BOUNDS
{
  .reg .pred %p, %one; .reg .b32 %t, %w, %s, %m, %a<8>; .reg .b64 %g, %i, %o, %q, %d<4>;
  .reg .f32 %f<8>; .reg .pred %v<20>;
  ld.param.u64 %g, [w_]; ld.param.u64 %i, [i_]; ld.param.u64 %o, [o_];
  ld.global.u32 %w, [%g];
  mov.u32 %t, %tid.x;
  setp.eq.u32 %one, %t, 0;
  mov.u32 %s, smem;
"""
VARIANTS = "\n".join(f"  setp.eq.u32 %v{n}, %w, {n};" for n in range(1, 20))


def module(body, bounds=""):
    return HEAD.replace("{BOUNDS", bounds) + VARIANTS + body + "\n  ret;\n}\n"


def check(launch, text, cases, **options):
    """Variant 0 is right; each of `cases` is an error with these words, at a line of PTX."""
    for which, (kind, words, *more) in {0: (None, ""), **cases}.items():
        arrays = {
            "w": np.array([which], np.int32), "i": np.arange(1024, dtype=np.int32),
            "o": np.full(1024, -1, np.int32),
        }  # fmt: skip
        given = {**options, **(more[0] if more else {})}
        if kind is None:
            for mode in ("eager", "late", "random"):
                launch(text, arrays, mode=mode, seed=1, **given)
            continue
        with pytest.raises(kind, match=words) as caught:
            launch(text, arrays, **{"mode": "late", "seed": 1, **given})
        assert caught.value.place is not None
        assert caught.value.place.line > 0 or "returns" in words  # when a thread is over
    return arrays["o"]


WGMMA = module("""
  shl.b32 %a1, %t, 4; add.s32 %a1, %a1, %s;
  mov.b32 %a2, 0;
  st.shared.v4.b32 [%a1], {%a2, %a2, %a2, %a2};
  setp.lt.and.u32 %p, %t, 16, !%v6;
  @%p st.shared.v4.b32 [%a1+2048], {%a2, %a2, %a2, %a2};
  @!%v1 fence.proxy.async;
  bar.sync 0;
  // Addresses have the rank of their block in bits 24 and up: a descriptor must not.
  and.b32 %a3, %s, 0xffffff;
  @%v2 mov.b32 %a3, %s;
  @%v3 add.s32 %a3, %a3, 256;
  cvt.u64.u32 %d0, %a3; shr.u64 %d0, %d0, 4;
  or.b64 %d1, %d0, 0x0000001000080000;      // 128 bytes to the next k, 256 to the next 8 rows
  @%v3 or.b64 %d1, %d1, 0x4000000000000000; // a swizzle of 128 bytes
  @%v4 or.b64 %d1, %d1, 0x0002000000000000; // a base offset
  add.s64 %d2, %d1, 128;
  mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
  setp.eq.and.u32 %p, %t, 5, %v10;
  @%p exit;
  @!%v5 wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d1, %d2, 1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  @%v9 exit;
  @%v7 add.f32 %f4, %f0, %f1;
  @%v8 mov.f32 %f2, %f4;
  wgmma.wait_group.sync.aligned 0;
  mul.wide.u32 %q, %t, 4; add.s64 %o, %o, %q;
  st.global.f32 [%o], %f0;
  @%v7 st.global.f32 [%o], %f4;
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
""")


def test_descriptors_fences_and_accumulators(launch):
    found = check(launch, WGMMA, {
        1: (ProxyError, "wgmma reads .* without fence.proxy.async"),
        2: (UnwrittenSharedError, "nobody has written", {"strict": True}),
        3: (AlignmentError, "inside the 1024-byte pattern of its swizzle"),
        4: (UnmodelledError, "base offset"),
        5: (RegisterError, "without a wgmma.fence"),
        6: (UnwrittenSharedError, "nobody has written", {"strict": True}),
        7: (RegisterError, "is read while a wgmma"),
        8: (RegisterError, "is written while a wgmma"),
        9: (RegisterError, "returns while a wgmma .* is in flight"),
        10: (MisuseError, "lanes have partly returned"),
    }, block=128, shared=5120, cluster=2, grid=2)  # fmt: skip
    assert (found[:128] == -1).all()  # the last variant wrote nothing


COPIES = module("""
  add.s32 %m, %s, 4096;
  @%one mbarrier.init.shared::cta.b64 [%m], 1;
  @!%v10 fence.proxy.async;
  bar.sync 0;
  mov.b32 %a0, 1024;
  @%v1 mov.b32 %a0, 1008;
  @%v2 mov.b32 %a0, 1040;
  mov.b32 %a1, %s;
  @%v3 add.s32 %a1, %a1, 8;
  @%one mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], %a0;
  @%one cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%a1], [%i], 1024, [%m];
  mov.b32 %a2, 0;
  @%v4 mov.b32 %a2, 1;
  @%v11 mov.b32 %a2, 2;
  @%v5 bra after;
again:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [%m], %a2;
  @!%p bra again;
after:
  shl.b32 %a3, %t, 2; add.s32 %a3, %a3, %s;
  ld.shared.b32 %a4, [%a3];
  @%v6 bra second;
  bar.sync 0;
second:
  @%one mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 1024;
  @%one cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%i], 1024, [%m];
  not.b32 %a5, %a2; and.b32 %a5, %a5, 1;
more:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [%m], %a5;
  @!%p bra more;
  ld.shared.b32 %a4, [%a3]; add.s32 %a4, %a4, 1;
  bar.sync 0;
  st.shared.b32 [%a3], %a4;
  @!%v7 fence.proxy.async;
  @!%v8 bar.sync 0;
  @%one cp.async.bulk.global.shared::cta.bulk_group [%o], [%s], 1024;
  @%one cp.async.bulk.commit_group;
  @%v9 bra end;
  @%one cp.async.bulk.wait_group 0;
end:
""")


def test_copies_and_their_barriers(launch):
    check(launch, COPIES, {
        1: (EmulatedDeadlockError, "16 bytes more arrived than were expected"),
        2: (EmulatedDeadlockError, "16 bytes still expected"),
        3: (AlignmentError, "must be multiples of 16"),
        4: ((UnfinishedError, UnwrittenSharedError), "has not been waited for|nobody has written"),
        5: ((UnfinishedError, UnwrittenSharedError), "has not been waited for|nobody has written"),
        6: ((ThreadRaceError, UnfinishedError), "without a barrier after", {"mode": "random"}),
        7: (ProxyError, "the copy engine reads .* without fence.proxy.async"),
        8: ((ThreadRaceError, ProxyError, UnfinishedError), "without|may still be reading"),
        9: (UnfinishedError, "returns while the copy engine may still read"),
        # What documents ask for, and compilers leave out whose kernels are right on GPUs:
        10: (ProxyError, "initialisation .* was not fenced", {"strict": True}),
        11: (MisuseError, "for parity 2", {"strict": True}),
    }, block=256, shared=5120)  # fmt: skip


def test_what_hardware_does_without(launch):
    """Without `strict` a missing fence after mbarrier.init and parities of other bits are right."""
    for which in (10, 11):
        arrays = {
            "w": np.array([which], np.int32), "i": np.arange(1024, dtype=np.int32),
            "o": np.full(1024, -1, np.int32),
        }  # fmt: skip
        launch(COPIES, arrays, block=256, shared=5120, mode="late")
        assert (arrays["o"][:256] == np.arange(1, 257)).all()


MAPS = module("""
  mov.b32 %a0, 0; add.s32 %a1, %s, 128;
zero:
  st.shared.b32 [%a1+-4], %a0; sub.s32 %a1, %a1, 4;
  setp.gt.u32 %p, %a1, %s;
  @%p bra zero;
  tensormap.replace.tile.rank.shared::cta.b1024.b32 [%s], 1;
  @%v1 tensormap.replace.tile.rank.shared::cta.b1024.b32 [%s], 5;
  tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%s], 1, 256;
  @%v2 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%s], 5, 16;
  tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%s], 0, 1;
  @%v3 tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%s], 0, 2;
  tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%s], 0;
  @%v4 tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%s], 1;
  tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%s], 3;
  @%v5 tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%s], 4;
  tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%s], 0;
  @%v6 tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%s], 1;
  @%v7 add.s32 %s, %s, 16;
  @%v7 tensormap.replace.tile.rank.shared::cta.b1024.b32 [%s], 1;
""")


def test_fields_of_tensor_maps(launch):
    check(launch, MAPS, {
        1: (MisuseError, "a rank less 1 of 5"),
        2: (MisuseError, "axis 5"),
        3: (UnmodelledError, "element strides other than 1"),
        4: (UnmodelledError, "interleaved tensor maps"),
        5: (UnmodelledError, "swizzles other than of 32, 64, 128 bytes"),
        6: (UnmodelledError, "filling with NaN"),
        7: (AlignmentError, "16 beyond a multiple"),
    }, block=1, shared=1024)  # fmt: skip


CLUSTER = module("""
  mov.u32 %a0, %cluster_ctarank;
  xor.b32 %a1, %a0, 1;
  @%v1 mov.b32 %a1, 2;
  mapa.shared::cluster.u32 %a2, %s, %a1;
  shl.b32 %a3, %t, 2; add.s32 %a2, %a2, %a3;
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  setp.eq.u32 %p, %a0, 1;
  and.pred %p, %p, %v2;
  @%p exit;                                   // while its neighbour still writes to it
  @%v2 nanosleep.u32 100000;
  st.shared::cluster.u32 [%a2], %a0;
  @!%v3 barrier.cluster.arrive.aligned;
  @!%v3 barrier.cluster.wait.aligned;
  add.s32 %a4, %s, %a3;
  @%v4 mov.b32 %a4, %a2;
  @%v4 mbarrier.init.shared::cta.b64 [%a4], 1;
  ld.shared.u32 %a5, [%a4];
  mad.lo.u32 %a6, %a0, 32, %t;
  mul.wide.u32 %q, %a6, 4; add.s64 %o, %o, %q;
  st.global.u32 [%o], %a5;
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
""")


def test_ranks_of_a_cluster(launch):
    check(launch, CLUSTER, {
        1: (MisuseError, "mapa to rank 2 of 2 blocks"),
        2: ((EmulatedBoundsError, EmulatedDeadlockError), "which has ended, is used",
            {"mode": "eager"}),
        3: ((ThreadRaceError, UnwrittenSharedError), "without a barrier|nobody has written"),
        4: (EmulatedBoundsError, "its own|own shared memory"),
    }, block=32, shared=1024, cluster=2, grid=2)  # fmt: skip


POOL = module("""
  setp.lt.u32 %p, %t, 128;
  @!%p bra others;
  @%v1 bra kept;
  setmaxnreg.dec.sync.aligned.u32 40;
  bra kept;
others:
  @%v2 setmaxnreg.dec.sync.aligned.u32 232;
  @!%v3 setmaxnreg.inc.sync.aligned.u32 232;
  @%v3 setmaxnreg.inc.sync.aligned.u32 240;
kept:
""", ".maxntid 384, 1, 1 .minnctapersm 1")  # fmt: skip


def test_a_blocks_pool_of_registers(launch):
    """168 registers at launch: 128 threads give 128 each, 256 take 64 each and no more."""
    check(launch, POOL, {
        1: (EmulatedDeadlockError, "the block's pool"),
        2: (MisuseError, "to 232 registers by a warp that has 168"),
        3: (EmulatedDeadlockError, "the block's pool"),
    }, block=384)  # fmt: skip


ACCESSES = module("""
  mul.wide.u32 %q, %t, 4;
  add.s64 %d0, %i, %q; add.s64 %d1, %o, %q;
  @%v1 add.s64 %d0, %i, 4;
  @%v1 ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%d0];
  @%v2 ld.global.b32 %a0, [%d0+4096];
  shl.b32 %a4, %t, 2; add.s32 %a4, %a4, %s;
  @%v3 ld.shared.b32 %a0, [%a4];
  st.shared.b32 [%a4], %t;
  @%v4 ld.shared.b32 %a0, [%s];
  @%v5 bar.sync 1, 96;
  @%v6 trap;
  @%v7 ld.b32 %a0, [%q];
  ld.shared.b32 %a0, [%a4];
  st.global.b32 [%d1], %a0;
""")


def test_plain_accesses(launch):
    check(launch, ACCESSES, {
        1: (AlignmentError, "4 beyond a multiple"),
        2: (EmulatedBoundsError, "of i, which has 4096 bytes"),
        3: (UnwrittenSharedError, "nobody has written"),
        4: (ThreadRaceError, "without a barrier"),
        5: (EmulatedDeadlockError, "bar.sync of barrier 1"),
        6: (MisuseError, "the kernel traps"),
        7: (EmulatedBoundsError, "an address that no array has"),
    }, block=64, shared=1024)  # fmt: skip


UNKNOWN = {
    "tcgen05.alloc.sync.b32 [%s], 32;": "tcgen05.alloc",
    "mov.u32 %a0, %nosuch;": "neither a register nor a number",
    "bra nowhere;": "no label 'nowhere'",
    "add.rn.s32 %a0, %a1, %a2;": "add.rn.s32",
    ".reg .b7 %x;": "registers of type 'b7'",
    "call.uni absent, ();": "not in the file",
}


@pytest.mark.parametrize("line", UNKNOWN)
def test_unknown_text_is_an_error_with_its_line(launch, line):
    text = module(f"\n  .loc 1 42 3\n  {line}") + '.file 1 "/some/where/logic.py"\n'
    arrays = {n: np.zeros(4, np.int32) for n in "wio"}
    with pytest.raises(UnknownInstructionError, match=UNKNOWN[line]) as caught:
        launch(text, arrays)
    assert caught.value.place.line == text.splitlines().index(f"  {line}") + 1


def test_the_source_of_a_line_is_named(launch):
    text = module("\n  .loc 1 42 3\n  trap;") + '.file 1 "/some/where/logic.py"\n'
    arrays = {n: np.zeros(4, np.int32) for n in "wio"}
    with pytest.raises(MisuseError, match=r"logic\.py:42"):
        launch(text, arrays)
