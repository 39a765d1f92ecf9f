"""Named barriers, clusters, registers, deadlocks: who waits where."""

import numpy as np
import pytest

from septran.emulator import (
    ArrivalError,
    EmulatedDeadlockError,
    MisuseError,
    ThreadRaceError,
    UnfinishedError,
)


@pytest.fixture
def run(launch, ptx):
    def call(body, *, block=64, size=1024, **options):
        text = (
            ptx
            + f"""
        extern "C" __global__ void k(int* o) {{
          __shared__ __align__(16) int s[256];
          __shared__ uint64_t b[4];
          int l = threadIdx.x, n = blockIdx.x * blockDim.x + l;
          {body}
        }}"""
        )
        o = np.full(size, -1, np.int32)
        return o, launch(text, {"o": o}, block=block, **options)

    return call


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_ping_pong_by_named_barriers(run, seed):
    """Two warps take turns, as warpgroups of attention do."""
    o, _ = run(
        """int w = l / 32;
        if (w == 0) asm volatile("bar.arrive 1, 64;" ::: "memory");
        for (int i = 0; i < 6; ++i) {
          asm volatile("bar.sync %0, 64;" :: "r"(w == 1 ? 1 : 2) : "memory");
          if (l % 32 == 0) { if (w == 1 && i == 0) s[0] = 0; o[s[0]] = w; s[0] += 1; }
          __syncwarp();
          if (w == 1 || i < 5)
            asm volatile("bar.arrive %0, 64;" :: "r"(w == 1 ? 2 : 1) : "memory");
        }""",
        seed=seed,
    )
    assert o[:12].tolist() == [1, 0] * 6


DEADLOCKS = {
    'if (l < 32) asm volatile("bar.sync 3, 64;");': [
        "32 threads (0 to 31): bar.sync of barrier 3 (32 of 64 threads are there)"],
    'asm volatile("bar.sync 3, 96;");': ["64 threads (0 to 63): bar.sync of barrier 3 (64 of 96"],
    "if (!l) bar_init(b, 3); __syncthreads(); if (l < 2) arrive(b); wait(b, 0);": [
        "64 threads (0 to 63): mbarrier.try_wait for parity 0",
        "phase 0, 1 of 3 arrivals missing"],
    "if (!l) { bar_init(b, 1); fence_init(); expect(b, 64); } __syncthreads(); wait(b, 0);": [
        "64 bytes still expected"],
    "if (l < 20) __syncthreads(); else if (l < 32) __syncwarp();": [
        "__syncwarp", "__syncthreads"],
    'if (blockIdx.x) asm volatile("barrier.cluster.arrive; barrier.cluster.wait;");': [],
}  # fmt: skip


@pytest.mark.parametrize("body", list(DEADLOCKS)[:5])
@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.one_in(3, first=2)
def test_deadlocks(run, body, seed):
    with pytest.raises((EmulatedDeadlockError, MisuseError)) as caught:
        run(body, seed=seed)
    said = str(caught.value)
    assert all(part in said for part in DEADLOCKS[body]), said
    assert body[:60] in said


def test_a_loop_that_only_asks_is_found_to_wait_for_ever(run):
    with pytest.raises(EmulatedDeadlockError, match=r"mbarrier\.test_wait"):
        run("""if (!l) bar_init(b, 1); __syncthreads();
          int p = 0;
          while (!p) asm volatile("{.reg .pred q; mbarrier.test_wait.parity.shared.b64 q, [%1], 0;"
                                  "selp.b32 %0, 1, 0, q;}" : "=r"(p) : "r"(at(b)));""")


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_a_loop_that_asks_gets_on(run, seed):
    o, _ = run(
        """if (!l) bar_init(b, 32); __syncthreads();
        if (l < 32) { s[l] = l; arrive(b); return; }
        int p = 0;
        while (!p) asm volatile("{.reg .pred q; mbarrier.test_wait.parity.shared.b64 q, [%1], 0;"
                                "selp.b32 %0, 1, 0, q;}" : "=r"(p) : "r"(at(b)));
        o[l] = s[l - 32];""",
        seed=seed,
    )
    assert o[32:64].tolist() == list(range(32))


COUNTS = {
    "if (!l) { bar_init(b, 2); arrive(b); }": "in the middle of a phase (phase 0, 1 of 2",
    "if (!l) { bar_init(b, 1); expect(b, 16); }": "16 bytes still expected",
    'asm volatile("bar.arrive 5, 128;");': "64 of 128 threads are at barrier 5",
    'if (l < 32) asm volatile("bar.sync 5, 64;"); else asm volatile("bar.sync 5, 96;");':
        "barrier 5 for",
    """if (!l) { bar_init(b, 2);
       asm volatile("mbarrier.arrive.shared.b64 _, [%0], 3;" :: "r"(at(b))); }""":
        "3 arrivals at the mbarrier",
}  # fmt: skip


@pytest.mark.parametrize("body", COUNTS)
@pytest.mark.one_in(2)
def test_wrong_counts(run, body):
    with pytest.raises(ArrivalError) as caught:
        run(body)
    assert COUNTS[body] in str(caught.value)


def test_misuse(run):
    with pytest.raises(MisuseError, match="not a multiple of 32"):
        run('asm volatile("bar.sync 1, 40;");')
    with pytest.raises(MisuseError, match="no mbarrier was initialised"):
        run("arrive(b);")
    with pytest.raises(MisuseError, match="an mbarrier's memory is used as data"):
        run("if (!l) bar_init(b, 1); __syncthreads(); if (!l) b[0] = 1;")
    with pytest.raises(MisuseError, match="not a multiple of 8"):
        run('asm volatile("setmaxnreg.inc.sync.aligned.u32 100;");', block=128)
    with pytest.raises(ThreadRaceError, match="without a barrier after its initialisation"):
        run("if (!l) bar_init(b, 64);\n if (l == 0) return; wait(b, 0);")


ROLES = """if (l < 128) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(PRODUCER));
        else asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(CONSUMER));
        o[l] = 1;"""


def roles(producer, consumer):
    return ROLES.replace("PRODUCER", str(producer)).replace("CONSUMER", str(consumer))


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize("shares", [(40, 232), (24, 240), (96, 200), (88, 208)])
@pytest.mark.one_in(2)
def test_registers_come_from_the_pool_of_the_block(run, shares, seed):
    """384 threads are launched with 168 registers each: 3 * 168 = 504 = 40 + 2 * 232."""
    o, _ = run(roles(*shares), block=384, seed=seed)
    assert (o[:384] == 1).all()


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize("shares", [(96, 208), (48, 232), (160, 240)])
def test_more_registers_than_the_block_was_launched_with_are_waited_for_for_ever(run, shares, seed):
    """96 + 2 * 208 = 512 are those of a multiprocessor, and not the block's."""
    with pytest.raises(
        EmulatedDeadlockError, match=r"setmaxnreg\.inc to .* a thread .the block's pool"
    ) as e:
        run(roles(*shares), block=384, seed=seed)
    assert f"setmaxnreg.inc to {shares[1]} registers" in str(e.value)
    assert "launched with, 168 a thread" in str(e.value)
    assert "setmaxnreg.inc.sync" in e.value.place.text


def test_launch_bounds_say_how_many_registers_a_block_has(launch, ptx):
    body = 'asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(128)); o[threadIdx.x] = 1;'
    text = ptx + f'extern "C" __global__ void __launch_bounds__(256, BLOCKS) k(int* o) {{ {body} }}'
    launch(text.replace("BLOCKS", "2"), {"o": np.zeros(256, np.int32)}, block=256)
    with pytest.raises(EmulatedDeadlockError, match="launched with, 80 a thread"):
        launch(text.replace("BLOCKS", "3"), {"o": np.zeros(256, np.int32)}, block=256)


def test_registers_are_given_and_taken_in_the_right_direction(run):
    inc, dec = (
        f'asm volatile("setmaxnreg.{w}.sync.aligned.u32 %0;" :: "n"(N));' for w in ("inc", "dec")
    )
    with pytest.raises(MisuseError, match=r"setmaxnreg\.inc to 24 registers by a warp that has 40"):
        run(dec.replace("N", "40") + inc.replace("N", "24"), block=384)
    run(inc.replace("N", "40"), block=384)  # the kernel is compiled for 40
    with pytest.raises(
        MisuseError, match=r"setmaxnreg\.dec to 240 registers by a warp that has 168"
    ):
        run(dec.replace("N", "240"), block=384)


CLUSTER = """asm volatile("barrier.cluster.arrive.release.aligned;"
                           "barrier.cluster.wait.acquire.aligned;");"""


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_blocks_of_a_cluster_read_each_other(run, seed):
    o, _ = run(
        f"""s[l] = n; {CLUSTER}
        uint32_t rank, a; int v;
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        asm("mapa.shared::cluster.u32 %0, %1, %2;"
            : "=r"(a) : "r"(at(s + 31 - l)), "r"((rank + 1) % 4));
        asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(a));
        o[n] = v; {CLUSTER}""",
        block=32, grid=8, cluster=4, seed=seed,
    )  # fmt: skip
    n = np.arange(256)
    block = n // 32
    expected = (block // 4 * 4 + (block + 1) % 4) * 32 + 31 - n % 32
    assert np.array_equal(o[:256], expected)


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_arrivals_from_another_block(run, seed):
    o, _ = run(
        f"""if (!l) {{ bar_init(b, 2); fence_init(); }} {CLUSTER}
        uint32_t a;
        if (l < 2) {{
          asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(at(b)), "r"(l));
          asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(a));
        }}
        wait(b, 0); o[n] = 1; {CLUSTER}""",
        block=32, grid=2, cluster=2, seed=seed,
    )  # fmt: skip
    assert (o[:64] == 1).all()


def test_a_cluster_needs_its_barrier(run):
    read = """uint32_t a; int v; s[l] = l; SYNC
      asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(at(s + l)), "r"(1));
      asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(a)); o[n] = v; END"""
    from septran.emulator import EmulationError

    options = {"block": 32, "grid": 2, "cluster": 2}
    run(read.replace("SYNC", CLUSTER).replace("END", CLUSTER), **options)
    with pytest.raises(EmulationError):
        run(read.replace("SYNC", "").replace("END", CLUSTER), **options)


def test_a_kernel_may_not_leave_a_store_behind(launch, ptx, tensor_map):
    text = (
        ptx
        + """
    extern "C" __global__ void k(const __grid_constant__ CUtensorMap o) {
      extern __shared__ __align__(128) float s[];
      s[threadIdx.x] = 1; fence_async(); __syncthreads();
      if (threadIdx.x == 0) { store2(&o, s, 0, 0); commit_stores(); }
    }"""
    )
    o = np.zeros((1, 32), np.float32)
    with pytest.raises(UnfinishedError, match="wait_group"):
        launch(text, {"o": o}, shared=128, maps=[tensor_map("o", o, (32, 1))])
