"""The copy engine's boxes, bulk copies and cp.async, against NumPy; what is refused."""

import numpy as np
import pytest

from septran.emulator import (
    AlignmentError,
    EmulatedBoundsError,
    MisuseError,
    ThreadRaceError,
    UnfinishedError,
    UnmodelledError,
)
from septran.emulator.launch import TensorMap

LOAD = """
extern "C" __global__ void k({maps}unsigned char* o) {{
  extern __shared__ __align__(1024) unsigned char s[];
  __shared__ uint64_t b;
  if (threadIdx.x == 0) {{ bar_init(&b, 1); fence_init(); }}
  __syncthreads();
  if (threadIdx.x == 0) {{ expect(&b, {bytes}); {load} }}
  wait(&b, 0);
  for (int i = threadIdx.x; i < {bytes}; i += blockDim.x) o[i] = s[i];
}}
"""
MAP = "const __grid_constant__ CUtensorMap x, "


def load(rank, at):
    """The instruction that copies a box of `x` at coordinates to shared memory."""
    names = ", ".join(f"%{3 + i}" for i in range(rank))
    values = ", ".join(f'"r"({c})' for c in at)
    return (
        f'asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx'
        f'::bytes [%0], [%1, {{{names}}}], [%2];" :: "r"(at(s)), "l"(&x), "r"(at(&b)), {values});'
    )


def clipped(x, at, box):
    """The box of `x` at innermost-first coordinates, with zeros where there is nothing."""
    box, at = box[::-1], at[::-1]
    out = np.zeros(box, x.dtype)
    lows = [max(0, -c) for c in at]
    highs = [max(low, min(b, e - c)) for low, b, e, c in zip(lows, box, x.shape, at, strict=True)]
    inside = tuple(slice(low, high) for low, high in zip(lows, highs, strict=True))
    source = tuple(slice(c + low, c + high) for c, low, high in zip(at, lows, highs, strict=True))
    out[inside] = x[source]
    return out


def unswizzled(raw, span, rows):
    """Bytes of rows of `span` whose 16-byte chunks the copy engine has permuted."""
    lines = raw[: rows * span].reshape(rows, span // 16, 16)
    out = np.empty_like(lines)
    for r in range(rows):
        for c in range(span // 16):
            out[r, c] = lines[r, c ^ (r * span // 128 % (span // 16))]
    return out.reshape(rows, span)


@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize(
    ("shape", "box", "at"),
    [
        ((64,), (32,), (16,)),
        ((48,), (64,), (-8,)),
        ((10, 24), (16, 4), (4, 3)),
        ((10, 24), (16, 8), (12, 6)),
        ((10, 24), (16, 4), (-6, -2)),
        ((10, 24), (16, 4), (24, 0)),
        ((3, 5, 16), (8, 2, 2), (8, 4, 2)),
        ((2, 3, 4, 8), (8, 2, 2, 2), (0, 3, -1, 1)),
        ((2, 2, 3, 4, 8), (8, 3, 2, 2, 2), (0, 1, 2, 0, 1)),
    ],
)
@pytest.mark.one_in(3)
def test_boxes_of_each_rank(launch, ptx, tensor_map, random, shape, box, at, seed):
    x = random("float32", *shape)
    bytes_ = 4 * int(np.prod(box))
    o = np.zeros(bytes_, np.uint8)
    text = ptx + LOAD.format(maps=MAP, bytes=bytes_, load=load(len(shape), at))
    launch(text, {"x": x, "o": o}, maps=[tensor_map("x", x, box)], shared=bytes_, seed=seed)
    assert np.array_equal(o.view(np.float32).reshape(box[::-1]), clipped(x, at, box))


@pytest.mark.parametrize("span", [32, 64, 128])
def test_swizzles(launch, ptx, tensor_map, random, span):
    x = random("float16", 40, 160)
    box, at = (span // 2, 16), (24, 30)
    bytes_ = span * 16
    o = np.zeros(bytes_, np.uint8)
    text = ptx + LOAD.format(maps=MAP, bytes=bytes_, load=load(2, at))
    launch(text, {"x": x, "o": o}, maps=[tensor_map("x", x, box, span)], shared=bytes_)
    assert np.array_equal(unswizzled(o, span, 16).view(np.float16), clipped(x, at, box))


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize("span", [0, 64])
def test_stores_are_clipped_and_unswizzled(launch, ptx, tensor_map, random, span, seed):
    x, o = random("float16", 10, 40), np.full((10, 40), -1, np.float16)
    text = (
        ptx
        + """
    extern "C" __global__ void k(const __grid_constant__ CUtensorMap x,
                                 const __grid_constant__ CUtensorMap o) {
      extern __shared__ __align__(1024) unsigned char s[];
      __shared__ uint64_t b;
      if (threadIdx.x == 0) {
        bar_init(&b, 1); fence_init();
        for (int i = 0; i < 2; ++i) {
          expect(&b, 512); load2(s, &x, &b, 24 * i, 4 * i); wait(&b, i);
          store2(&o, s, 24 * i, 4 * i); commit_stores(); wait_stores_read();
        }
      }
    }"""
    )
    maps = [tensor_map(n, v, (32, 8), span) for n, v in (("x", x), ("o", o))]
    launch(text, {"x": x, "o": o}, maps=maps, shared=512, seed=seed)
    expected = np.full_like(o, -1)
    for c, r in ((0, 0), (24, 4)):
        expected[r : r + 8, c : c + 32] = x[r : r + 8, c : c + 32]
    assert np.array_equal(o, expected)


REDUCE = """
    extern "C" __global__ void k(const __grid_constant__ CUtensorMap x,
                                 const __grid_constant__ CUtensorMap o) {
      extern __shared__ __align__(128) unsigned char s[];
      __shared__ uint64_t b;
      if (threadIdx.x == 0) {
        bar_init(&b, 1); fence_init(); expect(&b, BYTES); load2(s, &x, &b, 0, 0); wait(&b, 0);
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.HOW.tile.bulk_group"
                     " [%0, {%2, %2}], [%1];" :: "l"(&o), "r"(at(s)), "r"(0));
        commit_stores(); wait_stores();
      }
    }"""


def reduce_all(launch, text, tensor_map, how, x, o):
    text = text.replace("BYTES", str(x.nbytes)).replace("HOW", how)
    maps = [tensor_map(n, v, x.shape[::-1]) for n, v in (("x", x), ("o", o))]
    launch(text, {"x": x, "o": o}, maps=maps, shared=x.nbytes, seed=0)


def test_reductions_of_bytes_are_not_modelled(launch, ptx, tensor_map, random):
    x, o = random("uint8", 8, 16), random("uint8", 8, 16)
    with pytest.raises(UnmodelledError, match="a reduction by the copy engine of this kind"):
        reduce_all(launch, ptx + REDUCE, tensor_map, "add", x, o)


@pytest.mark.parametrize("how", ["add", "min", "max"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.one_in(2, first=1)
def test_the_copy_engine_reduces(launch, ptx, tensor_map, random, how, dtype):
    x, o = random(dtype, 8, 8), random(dtype, 8, 8)
    before = o.copy()
    reduce_all(launch, ptx + REDUCE, tensor_map, how, x, o)
    combine = {"add": np.add, "min": np.minimum, "max": np.maximum}[how]
    assert np.array_equal(o, combine(before, x))


def test_bulk_copies(launch, ptx, random):
    x, o = random("float32", 64), np.zeros(64, np.float32)
    text = (
        ptx
        + """
    extern "C" __global__ void k(const float* x, float* o) {
      __shared__ __align__(16) float s[64]; __shared__ uint64_t b;
      if (threadIdx.x == 0) {
        bar_init(&b, 1); fence_init(); expect(&b, 256);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                     " [%0], [%1], 256, [%2];" :: "r"(at(s)), "l"(x), "r"(at(&b)));
        wait(&b, 0);
        s[3] = 7; fence_async();
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;"
                     :: "l"(o), "r"(at(s)));
        commit_stores(); wait_stores();
      }
    }"""
    )
    launch(text, {"x": x, "o": o}, seed=0)
    x[3] = 7
    assert np.array_equal(o, x)


COPY = """
extern "C" __global__ void k(const unsigned char* x, unsigned char* o) {
  __shared__ __align__(16) unsigned char s[512];
  int l = threadIdx.x;
  asm volatile("cp.async.CACHE.shared.global [%0], [%1], SIZE, %2;"
               :: "r"(at(s + l * SIZE)), "l"(x + l * SIZE), "r"(l % (SIZE + 1)));
  commit_copies();
  PAUSE
  __syncthreads();
  for (int i = 0; i < SIZE; ++i) o[l * SIZE + i] = s[(l ^ 1) * SIZE + i];
}"""


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_copies_by_threads_fill_with_zeros(launch, ptx, size, seed):
    x, o = np.arange(1, 32 * size + 1).astype(np.uint8), np.zeros(32 * size, np.uint8)
    text = ptx + COPY.replace("CACHE", "cg" if size == 16 else "ca").replace("SIZE", str(size))
    launch(text.replace("PAUSE", "wait_copies();"), {"x": x, "o": o}, seed=seed)
    expected = x.reshape(32, size).copy()
    for lane in range(32):
        expected[lane, lane % (size + 1) :] = 0
    assert np.array_equal(o.reshape(32, size), expected[np.arange(32) ^ 1])


@pytest.mark.parametrize("seed", [None, 0])
def test_copies_that_are_not_waited_for(launch, ptx, seed):
    x, o = np.zeros(512, np.uint8), np.zeros(512, np.uint8)
    text = ptx + COPY.replace("CACHE", "cg").replace("SIZE", "16").replace("PAUSE", "")
    with pytest.raises(UnfinishedError, match=r"a cp\.async of thread"):
        launch(text, {"x": x, "o": o}, seed=seed)


def test_groups_are_waited_for_in_order(launch, ptx):
    """With one group left open, only the first has arrived."""
    text = (
        ptx
        + """
    extern "C" __global__ void k(const uint4* x, uint4* o) {
      __shared__ uint4 s[2];
      if (threadIdx.x) return;
      copy16(s, x, 16); commit_copies(); copy16(s + 1, x + 1, 16); commit_copies();
      asm volatile("cp.async.wait_group 1;"); o[0] = s[0];
      PAUSE o[1] = s[1];
    }"""
    )
    x, o = np.arange(8, dtype=np.uint32), np.zeros(8, np.uint32)
    launch(text.replace("PAUSE", "wait_copies();"), {"x": x, "o": o}, seed=0)
    assert np.array_equal(o, x)
    with pytest.raises(UnfinishedError):
        launch(text.replace("PAUSE", ""), {"x": x, "o": o}, seed=0)


@pytest.mark.parametrize("seed", [None, 0, 2])
def test_an_mbarrier_counts_copies_by_threads(launch, ptx, seed):
    x, o = np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32)
    text = (
        ptx
        + """
    extern "C" __global__ void k(const uint4* x, uint4* o) {
      __shared__ uint4 s[32]; __shared__ uint64_t b;
      int l = threadIdx.x;
      if (!l) bar_init(&b, 32);
      __syncthreads();
      copy16(s + l, x + l, 16);
      asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(at(&b)));
      wait(&b, 0);
      o[l] = s[31 - l];
    }"""
    )
    launch(text, {"x": x, "o": o}, seed=seed)
    assert np.array_equal(o.reshape(32, 4), x.reshape(32, 4)[::-1])


MULTICAST = """
    extern "C" __global__ void k(const __grid_constant__ CUtensorMap x, float* o) {
      extern __shared__ __align__(128) float s[];
      __shared__ uint64_t b;
      uint32_t rank;
      asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
      if (threadIdx.x == 0) { bar_init(&b, 1); fence_init(); }
      asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;");
      if (threadIdx.x == 0) {
        expect(&b, 512);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
          ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
          :: "r"(at(s + 64 * rank)), "l"(&x), "r"(at(&b)), "r"(0), "r"(rank * 2), "h"(MASK));
      }
      wait(&b, 0);
      for (int i = threadIdx.x; i < 128; i += 32) o[rank * 128 + i] = s[i];
      asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;");
    }"""


@pytest.fixture
def multicast(launch, ptx, tensor_map, random):
    """`multicast(mask)`: two blocks send two rows of x each to those of the mask."""

    def run(mask, seed=None):
        x, o = random("float32", 4, 64), np.zeros((2, 128), np.float32)
        text = ptx + MULTICAST.replace("MASK", f"(short){mask}")
        launch(text, {"x": x, "o": o}, maps=[tensor_map("x", x, (64, 1))], shared=512, grid=2,
               cluster=2, seed=seed)  # fmt: skip
        return x, o

    return run


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_multicast_reaches_each_block_of_the_mask(multicast, seed):
    x, o = multicast(3, seed)
    assert np.array_equal(o, np.stack([x[[0, 2]].reshape(-1)] * 2))


def test_multicast_to_a_block_that_there_is_not(multicast):
    with pytest.raises(MisuseError, match="multicast to rank 2 of 2 blocks"):
        multicast(7)


BAD_MAPS = {
    "a stride": ({"strides": (40,)}, MisuseError, "multiples of 16"),
    "a box too large": ({"box": (16, 257)}, MisuseError, "256 is the most"),
    "rows no multiple of 16": ({"box": (3, 2)}, MisuseError, "no multiple of 16"),
    "rows over the swizzle": ({"box": (16, 2), "swizzle": 32}, MisuseError,
                             "longer than the swizzle"),
    "rows under the swizzle": ({"box": (8, 2), "swizzle": 64}, UnmodelledError, "not modelled"),
    "more than the array": ({"extents": (16, 9)}, EmulatedBoundsError, "reaches 576 bytes into x"),
    "an offset": ({"offset": 8}, MisuseError, "no multiple of 16"),
    "too many axes": ({"extents": (16,) * 6, "strides": (64,) * 5, "box": (16,) * 6}, MisuseError,
                      "6 axes"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_MAPS)
def test_bad_tensor_maps(launch, ptx, name):
    changes, kind, said = BAD_MAPS[name]
    fields = {"extents": (16, 8), "strides": (64,), "box": (16, 2), "swizzle": 0} | changes
    bad = TensorMap(buffer="x", dtype="float32", name="x", **fields)
    x, o = np.zeros((8, 16), np.float32), np.zeros(128, np.uint8)
    text = ptx + LOAD.format(maps=MAP, bytes=128, load=load(2, (0, 0)))
    with pytest.raises(kind, match=said):
        launch(text, {"x": x, "o": o}, maps=[bad], shared=1024)


def test_a_map_of_another_rank(launch, ptx, tensor_map):
    x, o = np.zeros((8, 16), np.float32), np.zeros(128, np.uint8)
    text = ptx + LOAD.format(maps=MAP, bytes=128, load=load(3, (0, 0, 0)))
    with pytest.raises(MisuseError, match="a 3d copy with a tensor map of rank 2"):
        launch(text, {"x": x, "o": o}, maps=[tensor_map("x", x, (16, 2))], shared=1024)


def test_an_address_that_is_not_aligned(launch, ptx, tensor_map):
    x, o = np.zeros((8, 16), np.float32), np.zeros(128, np.uint8)
    text = ptx + LOAD.format(
        maps=MAP, bytes=128, load=load(2, (0, 0)).replace("at(s)", "at(s + 8)")
    )
    with pytest.raises(AlignmentError, match="not a multiple of 16"):
        launch(text, {"x": x, "o": o}, maps=[tensor_map("x", x, (16, 2))], shared=1024)


def test_shared_memory_is_aligned_as_declared_and_no_better(launch, ptx, tensor_map):
    x, o = np.zeros((8, 64), np.float16), np.zeros(1024, np.uint8)
    text = ptx + LOAD.format(maps=MAP, bytes=1024, load=load(2, (0, 0)))
    with pytest.raises(AlignmentError, match="not a multiple of 128"):
        launch(text.replace("__align__(1024)", "__align__(16)"), {"x": x, "o": o},
               maps=[tensor_map("x", x, (64, 8), 128)], shared=1024)  # fmt: skip


def test_a_buffer_that_is_read_while_it_is_filled_anew(launch, ptx, tensor_map):
    """The second copy into a buffer starts although threads may still read the first."""
    x, o = np.zeros((8, 16), np.float32), np.zeros(1024, np.uint8)
    text = (
        ptx
        + """
    extern "C" __global__ void k(const __grid_constant__ CUtensorMap x, unsigned char* o) {
      extern __shared__ __align__(128) unsigned char s[];
      __shared__ uint64_t b[2];
      if (threadIdx.x == 0) { bar_init(b, 1); bar_init(b + 1, 1); fence_init(); }
      __syncthreads();
      if (threadIdx.x == 0) { expect(b, 128); load2(s, &x, b, 0, 0); }
      wait(b, 0);
      o[threadIdx.x] = s[threadIdx.x];
      SYNC
      if (threadIdx.x == 0) { expect(b + 1, 128); load2(s, &x, b + 1, 0, 0); }
      wait(b + 1, 0);
    }"""
    )
    options = {"maps": [tensor_map("x", x, (16, 2))], "shared": 1024, "block": 64}
    launch(text.replace("SYNC", "__syncthreads();"), {"x": x, "o": o}, **options)
    with pytest.raises((ThreadRaceError, UnfinishedError)):  # by who comes first
        launch(text.replace("SYNC", ""), {"x": x, "o": o}, **options)
