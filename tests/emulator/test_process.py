"""Kernels run in a process of their own: what ends it is an error, and it leaves nothing behind."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from septran.emulator import EmulationError, process
from septran.emulator.process import CrashError

COUNT = "o[threadIdx.x] = threadIdx.x + 1;"


@pytest.fixture
def run(launch):
    def call(body, *, block=32, **options):
        text = f'extern "C" __global__ void k(int* o, int* x) {{\n  {body}\n}}'
        arrays = {"o": np.zeros(64, np.int32), "x": np.zeros(4, np.int32)}
        launch(text, arrays, block=block, **options)
        return arrays["o"].tolist()

    return call


def is_right(run):
    return run(COUNT)[:32] == list(range(1, 33))


FAULTS = {
    "SIGFPE": "int z = x[0];\n  if (threadIdx.x == 5) o[0] = 7 / z;",
    "SIGILL": "if (threadIdx.x == 5)\n    __builtin_trap();",
    "SIGABRT": "if (threadIdx.x == 5)\n    __builtin_abort();",
    "SIGSEGV": "if (threadIdx.x == 5)\n    __asm__ volatile(\"movl $1, 0\" ::: \"memory\");",
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", FAULTS)
def test_a_native_fault_is_an_error_with_its_place(run, name, monkeypatch):
    from septran.emulator import translation

    # an assembly statement of the host, which no CUDA text has
    monkeypatch.setattr(translation, "statements", lambda source: ())
    if name == "SIGSEGV" and os.uname().machine != "x86_64":
        pytest.skip("written for x86-64")
    with pytest.raises(CrashError, match=f"k: its native code ended .*: {name}") as caught:
        run(FAULTS[name])
    error = caught.value
    assert isinstance(error, EmulationError)
    assert error.code == "SEP597"
    assert (error.block, error.thread) == (0, 5)
    if name != "SIGABRT" and os.uname().machine == "x86_64":  # which is in the C library
        assert error.place.line == 3
    assert is_right(run), "the next call has a fresh process"


def test_a_kernel_that_does_not_end_is_stopped(run):
    with pytest.raises(CrashError, match=r"did not end within 0\.5 s") as caught:
        run('for (;;) asm volatile("");', seconds=0.5)
    assert caught.value.block == 0
    assert is_right(run)


def test_all_launches_of_a_call_run_until_one_fails(ptx):
    from septran.emulator import emulate
    from septran.emulator.launch import CudaProgram, KernelLaunch, Pointer

    text = """extern "C" __global__ void good(int* o) { o[threadIdx.x] += 1; }
    extern "C" __global__ void bad(int* o) { __builtin_trap(); }"""
    arguments = (Pointer("o", "", "o"),)
    launches = [
        KernelLaunch(name, 1, 32, 1, 0, arguments) for name in ("good", "good", "bad", "good")
    ]
    o = np.zeros(32, np.int32)
    emulate(CudaProgram(text, tuple(launches[:2]), (), ("o",)), {"o": o})
    assert (o == 2).all()
    with pytest.raises(CrashError, match=r"bad \(launch 3 of 4\)"):
        emulate(CudaProgram(text, tuple(launches), (), ("o",)), {"o": o})


def test_one_process_serves_all_calls(run):
    assert is_right(run)
    first = [w.process.pid for w in process._pool.all]
    for _ in range(3):
        assert is_right(run)
    assert [w.process.pid for w in process._pool.all] == first


def test_memory_is_given_back(run):
    files = len(list(Path("/dev/fd").iterdir()))
    for _ in range(5):
        assert is_right(run)
    gc.collect()
    assert len(list(Path("/dev/fd").iterdir())) <= files + 2


def test_a_process_with_many_libraries_is_replaced(run, monkeypatch):
    monkeypatch.setattr(process, "MOST_LIBRARIES", 0)
    assert is_right(run)
    assert not process._pool.free


def test_threads_have_processes_of_their_own(run):
    assert is_right(run)
    found = []
    threads = [threading.Thread(target=lambda: found.append(is_right(run))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4
    time.sleep(0.05)  # a worker that a thread started outlives that thread
    assert is_right(run)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_starts_its_own(run):
    assert is_right(run)
    before = {w.process.pid for w in process._pool.all}
    context = multiprocessing.get_context("fork")
    answers = context.Queue()

    def child():
        answers.put((is_right(run), {w.process.pid for w in process._pool.all}))

    other = context.Process(target=child)
    other.start()
    right, pids = answers.get(timeout=120)
    other.join()
    assert right
    assert not pids & before
    assert is_right(run), "the parent's still serves it"


SESSION = """
    import os, sys, threading, numpy as np
    from septran.emulator import emulate
    from septran.emulator import process
    from septran.emulator.launch import CudaProgram, KernelLaunch, Pointer

    def run(body, filled=0, **options):
        text = 'extern "C" __global__ void k(int* o) { ' + body + ' }'
        one = KernelLaunch("k", 1, 32, 1, 0, (Pointer("o", "", "o"),))
        o = np.full(32, filled, np.int32)
        emulate(CudaProgram(text, (one,), (), ("o",)), {"o": o}, **options)

    run("o[threadIdx.x] = threadIdx.x + 1;")
    print(process._pool.all[0].process.pid, flush=True)
"""


def ended(pid):
    for _ in range(200):
        stat = Path(f"/proc/{pid}/stat")
        try:
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.one_in(3, first=1)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", ["end", "kill", "kill while it runs"])
def test_a_worker_ends_with_its_session(how, tmp_path):
    text = textwrap.dedent(SESSION)
    if how == "kill":
        text += "import time; time.sleep(600)\n"
    if how == "kill while it runs":
        # compiled before it runs for ever, as a killed compilation leaves its folder
        text += "stay = 'if (!*o) for (;;) asm volatile(\"\");'\nrun(stay, 1); print(); run(stay)\n"
    session = subprocess.Popen(
        [sys.executable, "-uc", text], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    pid = int(session.stdout.readline())
    if how == "kill while it runs":
        session.stdout.readline()
    if how != "end":
        time.sleep(0.3)
        session.send_signal(signal.SIGKILL)
    session.wait(60)
    session.stdout.close()
    assert ended(pid)
    assert not list(tmp_path.iterdir())


def test_an_interrupted_call_does_not_disturb_the_next(run):
    def interrupt():
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    # A shell's background jobs are started deaf to SIGINT, and so are their children.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Thread(target=interrupt)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            run('for (;;) asm volatile("");')
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert is_right(run)


@pytest.mark.parametrize("size", [128, 5, 64])
def test_an_argument_lies_where_its_type_wants_it(size):
    """By chance malloc gives a multiple of 64 now and then: many at once do not all get one."""
    import ctypes

    from septran.emulator.native import aligned_copy

    kept = [aligned_copy(bytes([n % 256]) * size, 64) for n in range(64)]
    assert not [x for x in kept if ctypes.addressof(x) % 64]
    assert [bytes(x) for x in kept] == [bytes([n]) * size for n in range(64)]


def test_a_tensor_map_in_the_kernel_is_at_a_multiple_of_64_bytes(launch, ptx, tensor_map):
    """An AVX-512 host would fault; others only see it by the address."""
    text = f"""{ptx}
    extern "C" __global__ void k(const __grid_constant__ CUtensorMap m, int* o) {{
      if (threadIdx.x == 0) o[0] = int((unsigned long long)&m % 64);
    }}"""
    x, found = np.zeros((8, 64), np.float16), []
    for _ in range(16):
        o = np.full(1, -1, np.int32)
        launch(text, {"m": x, "o": o}, maps=[tensor_map("m", x, (64, 8))])
        found.append(int(o[0]))
    assert found == [0] * 16
