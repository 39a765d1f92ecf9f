"""Whose threads run parallel loops: torch's once torch is there, as many as torch may use."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import septran
from septran.targets.cpu.run import threads
from septran.targets.cpu.run.launcher import PIECES, SETTLING, SLOTS, launcher
from septran.targets.cpu.run.threads import set_threads, usable_cores

pytestmark = pytest.mark.one_width  # who runs a loop has nothing to do with the vectors in it

CORES = usable_cores()
CLOCKS = itertools.count(1)
several = pytest.mark.skipif(CORES < 2, reason="one core: nothing runs in parallel")
Body = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


@pytest.fixture(autouse=True)
def _usual_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    set_threads(CORES)


@pytest.fixture(scope="module")
def softmax():
    kernel = septran.compile("softmax", "cpu-x86")
    x = torch.randn(512, 256)
    kernel(x)
    return kernel, x


def threads_of(kernel, x):
    """How many threads carry out the blocks of a call."""
    return len({record.lane for record in kernel.timeline(x).records})


def run(code):
    found = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr


def launch(body, wanted=0):
    """Call the launcher as a kernel does; `body` gets its number and how many there are."""

    def called(number, environment, _):
        return body(number, ctypes.c_int32.from_address(environment + 8).value)

    address = launcher().module["launch"]()
    function = ctypes.CFUNCTYPE(ctypes.c_int, Body, ctypes.c_void_p, ctypes.c_int)(address)
    return function(Body(called), None, wanted)


@pytest.mark.slow
def test_threads_may_be_set_before_anything_is_compiled():
    run("from septran.targets.cpu.run.threads import set_threads; set_threads(1)")


@pytest.mark.slow
def test_torchs_threads_are_taken_when_torch_is_used_but_not_after_a_fork():
    run("""if True:
        import os, numpy as np, septran
        from septran.targets.cpu.run.launcher import launcher
        kernel = septran.compile("softmax", "cpu-x86")
        x = np.random.default_rng(0).standard_normal((512, 256)).astype("f4")
        first = kernel(x)
        assert not launcher().shares
        import torch
        t = torch.from_numpy(x)
        torch.softmax(t, 1)
        assert (kernel(t).numpy() == first).all() and launcher().shares
        assert (kernel(x) == first).all()
        child = os.fork()
        if child == 0:
            right = (kernel(t).numpy() == first).all() and (kernel(x[:50]) == first[:50]).all()
            os._exit(0 if right and not launcher().shares else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (kernel(x) == first).all() and launcher().shares
    """)


def test_kernels_run_where_there_is_no_torch():
    run("""if True:
        import sys
        sys.modules["torch"] = None  # importing it fails
        import numpy as np, septran
        from septran.targets.cpu.run.launcher import launcher
        kernel = septran.compile("softmax", "cpu-x86")
        x = np.ones((512, 256), "f4")
        assert (kernel(x) == 1 / 256).all() and not launcher().shares
    """)


@pytest.mark.slow
@several
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are listed in /proc")
def test_a_kernel_starts_no_threads_beside_those_of_torch():
    run("""if True:
        import os, torch, septran
        x = torch.randn(512, 256)
        kernel = septran.compile("softmax", "cpu-x86")
        torch.softmax(x, 1)
        before = set(os.listdir("/proc/self/task"))
        kernel(x), kernel(x), torch.softmax(x, 1)
        assert set(os.listdir("/proc/self/task")) == before
    """)


def parts():
    """How many threads a loop is made for; each takes so long that all of them come."""
    seen = set()

    def body(_, count):
        seen.add((count, threading.get_native_id()))
        time.sleep(0.001)
        return 0

    launcher().left_out.value = 0
    assert launch(body) == 0
    [pieces] = {count for count, _ in seen}
    threads = len({thread for _, thread in seen})
    assert pieces == (threads * PIECES if threads > 1 else 1)
    return threads


@several
def test_torch_says_how_many_threads(softmax):
    for count in (1, 2):
        torch.set_num_threads(count)
        assert parts() == count


@several
def test_a_thread_of_pythons_uses_as_many_as_torch_was_told(softmax):
    torch.set_num_threads(1)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(parts).result() == 1
        assert pool.submit(threads_of, *softmax).result() == 1


@several
def test_a_limit_of_threads_holds(softmax):
    torch.set_num_threads(2)
    set_threads(1)
    assert parts() == 1
    assert threads_of(*softmax) == 1


@several
def test_a_kernel_keeps_to_the_cores_that_its_thread_may_use(softmax):
    torch.set_num_threads(2)
    cores = os.sched_getaffinity(0)
    assert parts() == 2
    os.sched_setaffinity(0, {min(cores)})
    try:
        assert parts() == 1
        assert threads_of(*softmax) == 1
    finally:
        os.sched_setaffinity(0, cores)
    assert parts() == 2


@several
def test_a_kernel_keeps_to_the_quota_of_its_group(softmax, monkeypatch):
    torch.set_num_threads(2)
    monkeypatch.setattr(threads, "quota_cores", lambda: 1)
    assert usable_cores() == 1
    set_threads(2)
    assert parts() == 1


@pytest.mark.parametrize(
    ("member", "files", "cores"),
    [
        ("0::/", {"cpu.max": "max 100000"}, 0),
        ("0::/", {"cpu.max": "200000 100000"}, 2),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, 2),
        ("0::/a", {"a/cpu.max": "50000 100000", "cpu.max": "300000 100000"}, 1),
        ("0::/not/seen/here", {"cpu.max": "400000 100000"}, 4),
        (
            "5:cpu,cpuacct:/a\n4:memory:/b",
            {
                "cpu,cpuacct/a/cpu.cfs_quota_us": "250000",
                "cpu,cpuacct/a/cpu.cfs_period_us": "100000",
            },
            3,
        ),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 0),
        ("", {}, 0),
    ],
)
def test_a_quota_is_read_from_the_control_groups(tmp_path, member, files, cores):
    for name, text in files.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")
    (tmp_path / "member").write_text(member, encoding="utf-8")
    assert threads.quota_cores(tmp_path / "groups", tmp_path / "member") == cores


@pytest.mark.slow
@several
def test_the_environment_says_how_many_threads():
    run("""if True:
        import os
        os.environ["OMP_NUM_THREADS"] = "1"
        import torch, septran
        kernel, x = septran.compile("softmax", "cpu-x86"), torch.randn(512, 256)
        kernel(x)
        assert len({record.lane for record in kernel.timeline(x).records}) == 1
    """)


def test_each_piece_is_carried_out_once(softmax):
    torch.set_num_threads(CORES)
    seen = []
    pieces = CORES * PIECES if CORES > 1 else 1

    def body(number, count):
        seen.append((number, count))
        return 0

    launcher().left_out.value = 0
    assert launch(body) == 0
    assert sorted(seen) == [(number, pieces) for number in range(pieces)]


@several
def test_pieces_of_a_thread_that_is_late_are_taken_by_others(softmax):
    torch.set_num_threads(2)
    done, others = threading.Semaphore(0), []

    def body(number, count):
        if number == 0:  # as if it had lost its core: until all the others have been carried out
            others.extend(done.acquire(timeout=20) for _ in range(count - 1))
        else:
            done.release()
        return 0

    launcher().left_out.value = 0
    assert launch(body) == 0
    assert others == [True] * (2 * PIECES - 1)


@several
def test_after_a_launch_that_mostly_waited_a_thread_less_is_taken_for_a_while(softmax):
    torch.set_num_threads(2)
    first, counts = threading.get_native_id(), []

    def waits(*_):
        """The other thread has begun before the calling one goes on, and is the last."""
        if threading.get_native_id() == first:
            late.wait(20)
        else:
            late.set()
            time.sleep(0.02)
        return 0

    late = threading.Event()
    launcher().left_out.value = 0
    assert launch(waits) == 0
    assert launcher().left_out.value == 1

    def count(_, count):
        counts.append(count)
        return 0

    assert launch(count) == 0
    assert counts == [1]
    time.sleep(1.0)  # 16 times what was lost, and room
    assert launch(count) == 0
    assert set(counts[1:]) == {2 * PIECES}


class Scheduler:
    """A system whose threads all run on the first core of the mask until they are moved.

    Its clock goes on when it is told to.
    """

    def __init__(self):
        self.cores, self.places, self.asked = sorted(os.sched_getaffinity(0)), {}, []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p)
        where = ctypes.CFUNCTYPE(ctypes.c_int)(self.where)
        clock = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int64))
        # Later than what the system's clock, or another one's of these, had said.
        self.time = time.monotonic_ns() + 100 * SETTLING * next(CLOCKS)
        self.functions = {
            "sched_getcpu": where, "sched_setaffinity": kind(self.move),
            "clock_gettime": clock(self.tell),
        }  # fmt: skip

    def where(self):
        return self.places.get(threading.get_native_id(), self.cores[0])

    def move(self, _, size, mask):
        bits = int.from_bytes(ctypes.string_at(mask, size), "little")
        allowed = {core for core in range(8 * size) if bits >> core & 1}
        if self.where() not in allowed:
            self.places[threading.get_native_id()] = min(allowed)
        self.asked.append(allowed)
        return 0

    def tell(self, _, time):
        time[0], time[1] = divmod(self.time, 1_000_000_000)
        return 0


@pytest.fixture
def scheduler(monkeypatch):
    system, slots = Scheduler(), launcher().slots
    before = {name: slots[SLOTS.index(name)] for name in system.functions}
    for name, function in system.functions.items():
        slots[SLOTS.index(name)] = ctypes.cast(function, ctypes.c_void_p).value
    yield system
    for name, address in before.items():
        slots[SLOTS.index(name)] = address


@several
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
@pytest.mark.parametrize("pool", ["torch", "tvm"])
def test_a_thread_on_the_core_of_another_is_moved_once_in_a_while(softmax, scheduler, pool):
    torch.set_num_threads(2)
    set_threads(2)
    openmp = launcher().slots[1]
    if pool == "tvm":
        launcher().part()
    met = threading.Barrier(2)

    def body(number, count):
        # Both are there at once: none does the other's part.
        if number in (0, count // 2):
            met.wait(20)
        return 0

    def launched():
        launcher().left_out.value = 0
        assert launch(body, 0 if pool == "torch" else 2) == 0
        return len(scheduler.asked)

    try:
        launched()
        everywhere, [first] = set(scheduler.cores), set(scheduler.cores[:1])
        assert scheduler.asked == [everywhere - {first}, everywhere]
        assert len(scheduler.places) == 1
        scheduler.time += SETTLING
        assert launched() == 2  # they are apart
        scheduler.places.clear()
        assert launched() == 4
        scheduler.places.clear()
        assert launched() == 4  # so soon nobody is moved again
        scheduler.time += SETTLING
        assert launched() == 6
    finally:
        launcher().slots[1] = openmp


@several
def test_what_fails_in_one_thread_fails_the_call(softmax):
    torch.set_num_threads(2)
    launcher().left_out.value = 0
    assert launch(lambda number, _: -1 if number == 1 else 0) == -1
    assert launch(lambda *_: 0) == 0


def test_threads_of_pythons_call_kernels_and_torch_at_once(softmax):
    kernel, x = softmax
    wanted = kernel(x)
    beside = torch.softmax(x, 1)

    def calls(_):
        for _ in range(20):
            assert torch.equal(kernel(x), wanted)
            assert torch.equal(torch.softmax(x, 1), beside)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(calls, range(3)))
