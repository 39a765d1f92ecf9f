"""What threads do to shared and global memory: races, bounds, unwritten bytes, bank conflicts."""

import numpy as np
import pytest

from septran.emulator import (
    AlignmentError,
    EmulatedBoundsError,
    MisuseError,
    ProxyError,
    ThreadRaceError,
    UnwrittenSharedError,
)

MODES = (None, 0, 1, 2)


@pytest.fixture
def run(launch, ptx):
    def call(body, *, block=64, size=1024, **options):
        text = (
            ptx
            + f"""
        extern "C" __global__ void k(float* o) {{
          __shared__ __align__(16) float s[{size}];
          int l = threadIdx.x;
          {body}
        }}"""
        )
        o = np.full(size, -1, np.float32)
        found = launch(text, {"o": o}, block=block, **options)
        return o, found

    return call


@pytest.mark.parametrize("seed", MODES)
def test_a_barrier_orders(run, seed):
    o, _ = run("s[l] = l; __syncthreads(); o[l] = s[63 - l]; __syncthreads(); s[l] = 0;", seed=seed)
    assert o[:64].tolist() == list(range(63, -1, -1))


@pytest.mark.parametrize("seed", MODES)
@pytest.mark.parametrize(
    "body",
    [
        "s[l] = l; o[l] = s[63 - l];",  # read after write
        "s[l] = l; __syncwarp(); o[l] = s[63 - l];",  # the other warp's
        "s[l] = l; __syncthreads(); o[l] = s[63 - l]; s[l] = 0;",  # write after read
        "s[l % 32] = l;",  # two values
        "if (l == 0) s[0] = 1; if (l == 33) atomicAdd(s, 1.f);",
        "s[l] = l; __syncthreads(); if (l < 32) s[l] += s[l ^ 1];",  # within a warp
        "*(float4*)(s + 4 * l) = make_float4(l, l, l, l); o[l] = s[l];",
    ],
)
@pytest.mark.one_in(3, first=2)
def test_races(run, body, seed):
    with pytest.raises((ThreadRaceError, UnwrittenSharedError)) as caught:
        run(body, seed=seed)
    assert "line " in str(caught.value)


def test_a_race_names_both_sides(run):
    with pytest.raises(ThreadRaceError) as caught:
        run("if (l == 40) s[5] = 1;\n if (l == 3) s[5] = 2;\n")
    said = str(caught.value)
    assert "4 bytes" in said
    assert "if (l == 40) s[5] = 1;" in said
    assert "if (l == 3) s[5] = 2;" in said


@pytest.mark.parametrize("seed", MODES)
@pytest.mark.parametrize(
    "body",
    [
        "s[l / 32] = 3; __syncthreads(); o[l] = s[0];",  # equal values
        "s[l] = l; __syncwarp(); o[l] = s[l ^ 1];",
        "s[l] = 0; __syncthreads(); atomicAdd(s + l % 3, 1.f); __syncthreads(); o[l] = s[0];",
        "((char*)s)[l] = l; __syncthreads(); o[l] = ((char*)s)[l ^ 1];",  # bytes of one word
        """s[l] = l; if (l < 32) asm volatile("bar.arrive 2, 64;" ::: "memory");
           else { asm volatile("bar.sync 2, 64;" ::: "memory"); o[l] = s[l - 32]; }""",
        """__shared__ uint64_t b; if (!l) bar_init(&b, 64); __syncthreads();
           s[l] = l; arrive(&b); wait(&b, 0); o[l] = s[63 - l];""",
    ],
)
@pytest.mark.one_in(3)
def test_no_races(run, body, seed):
    run(body, seed=seed)


def test_an_arrival_orders_one_way_only(run):
    body = """if (l < 32) { asm volatile("bar.arrive 2, 64;" ::: "memory"); o[l] = s[l + 32]; }
              else { s[l] = l; asm volatile("bar.sync 2, 64;" ::: "memory"); }"""
    with pytest.raises((ThreadRaceError, UnwrittenSharedError)):
        run(body)


def test_what_nobody_wrote(run):
    with pytest.raises(UnwrittenSharedError, match="4 bytes from byte 260 of static shared memory"):
        run("if (l < 32) s[l] = l; __syncthreads(); o[l] = l < 32 ? s[l] : s[65];")


BOUNDS = {
    "s[1024 + l] = 0;": "a store of 4 bytes at byte 4096 of static shared memory",
    "o[l] = s[-1];": "a load of 4 bytes at byte -",
    "o[l + 1000] = 0;": "a store of 4 bytes at byte 4096 of o, which has 4096 bytes",
    "o[l] = o[l - 1];": "a load of 4 bytes at byte -4 of o",
    "o[l + (1 << 24)] = 0;": "an address that no array has",
}


@pytest.mark.parametrize("body", BOUNDS)
@pytest.mark.one_in(2)
def test_bounds(run, body):
    with pytest.raises(EmulatedBoundsError) as caught:
        run(body)
    assert BOUNDS[body] in str(caught.value)


def test_vectors_must_be_aligned(run):
    with pytest.raises(AlignmentError, match="16 bytes at an address that is 4 beyond"):
        run("*(float4*)(o + 4 * l + 1) = make_float4(0, 0, 0, 0);")
    with pytest.raises(AlignmentError, match="8 bytes"):
        run("*(float2*)(s + 2 * l + 1) = make_float2(0, 0);")


def test_no_more_shared_memory_than_there_is(launch, run):
    with pytest.raises(
        MisuseError, match="needs 240000 bytes of shared memory; a block has 232448"
    ):
        run("o[l] = 0;", shared=240000)
    with pytest.raises(EmulatedBoundsError, match="needs 2"):
        run("s[l] = 0;", size=50000, shared=60000)
    with pytest.raises(MisuseError, match="a block has 166912"):
        run("o[l] = 0;", shared=200000, arch="sm_80")


def test_read_only_arrays_stay_as_they_are(launch):
    x = np.zeros(4, np.float32)
    x.flags.writeable = False
    text = 'extern "C" __global__ void k(float* x) { x[threadIdx.x % 4] = V; }'
    launch(text.replace("V", "0"), {"x": x})
    with pytest.raises(MisuseError, match="write to x, which is read-only"):
        launch(text.replace("V", "1"), {"x": x})


def test_arrays_are_untouched_by_a_kernel_that_fails(run, launch):
    o = np.zeros(8, np.float32)
    text = 'extern "C" __global__ void k(float* o) { o[threadIdx.x] = 1; }'
    with pytest.raises(EmulatedBoundsError):
        launch(text, {"o": o})
    assert not o.any()


@pytest.mark.parametrize("seed", MODES)
@pytest.mark.parametrize(
    ("body", "wavefronts", "ideal"),
    [
        ("s[l] = l;", 2, 2),
        ("s[0] = 1;", 2, 2),  # one word for all
        ("s[2 * l] = l;", 4, 2),
        ("s[32 * (l % 32)] = 1;", 64, 2),
        ("s[8 * (l % 32)] = 1;", 16, 2),
        ("*(float4*)(s + 4 * l) = make_float4(l, l, l, l);", 8, 8),  # quarters of a warp
        ("*(float2*)(s + 2 * l) = make_float2(l, l);", 4, 4),  # halves
        ("*(float4*)(s + 32 * (l % 8)) = make_float4(1, 1, 1, 1);", 64, 8),
        ("for (int i = 0; i < 4; ++i) s[l * 4 + i] = i;", 32, 8),
    ],
)
@pytest.mark.one_in(3)
def test_bank_conflicts(run, body, wavefronts, ideal, seed):
    _, found = run(body, seed=seed)
    (access,) = found.accesses
    assert (access.wavefronts, access.ideal) == (wavefronts, ideal)
    assert body in access.place.text
    assert found.conflicts == ((access,) if wavefronts > ideal else ())


def test_conflicts_of_matrix_instructions(launch, ptx):
    text = (
        ptx
        + """
    extern "C" __global__ void k(float* o) {
      __shared__ __align__(128) unsigned short s[2048];
      for (int i = threadIdx.x; i < 2048; i += 32) s[i] = 0;
      __syncwarp();
      uint32_t r[4];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at(s + threadIdx.x * STEP)));
    }"""
    )
    for step, wavefronts in ((8, 4), (64, 32), (32, 16), (40, 4)):
        found = launch(text.replace("STEP", str(step)), {"o": np.zeros(1, np.float32)})
        (access,) = [a for a in found.accesses if "ldmatrix" in a.place.text]
        assert (access.requests, access.wavefronts, access.ideal) == (4, wavefronts, 4)


def test_a_generic_store_needs_a_proxy_fence(launch, ptx, tensor_map):
    text = (
        ptx
        + """
    extern "C" __global__ void k(const __grid_constant__ CUtensorMap o) {
      extern __shared__ __align__(128) float s[];
      s[threadIdx.x] = threadIdx.x;
      BEFORE __syncthreads(); AFTER
      if (threadIdx.x == 0) { store2(&o, s, 0, 0); commit_stores(); wait_stores(); }
    }"""
    )
    for before, after, right in (("fence_async();", "", 1), ("", "fence_async();", 1), ("", "", 0)):
        o = np.zeros((4, 32), np.float32)
        args = (text.replace("BEFORE", before).replace("AFTER", after), {"o": o})
        options = {"block": 128, "shared": 512, "maps": [tensor_map("o", o, (32, 4))]}
        if right:
            launch(*args, **options)
            assert np.array_equal(o.reshape(-1), np.arange(128))
        else:
            with pytest.raises(ProxyError, match=r"without fence\.proxy\.async"):
                launch(*args, **options)


def test_unwritten_operands_are_nan_or_an_error(launch, ptx):
    text = (
        ptx
        + """
    extern "C" __global__ void k(float* o) {
      __shared__ __align__(128) __half s[64];
      int l = threadIdx.x;
      s[l] = 1.f;
      __syncwarp();
      uint32_t r;
      asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                   : "=r"(r) : "r"(at(s + l % 8 * 8)));
      o[l] = ((__half*)&r)[0];
    }"""
    )
    o = np.zeros(32, np.float32)
    found = launch(text, {"o": o})
    assert (o[:16] == 1).all()
    assert np.isnan(o[16:]).all()
    assert found.statistics["poisoned"] > 0
    with pytest.raises(UnwrittenSharedError):
        launch(text, {"o": o}, strict=True)
