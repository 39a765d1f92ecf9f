"""What the tests of processes run beside themselves: ``python workers.py JOB ARGUMENT...``.

Importing TVM takes seconds, so a job imports once and forks before it has run a kernel.
The cache is the one of SEPTRAN_CACHE_DIR. What is wrong raises, and fails the process.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import septran
from septran.runtime.cache import Cache
from septran.targets.cpu.target import TARGET, CpuTarget

SHAPES = tuple((3 + n, 17 + 5 * n) for n in range(6))
X = {shape: np.random.default_rng(0).standard_normal(shape).astype("f4") for shape in SHAPES}


def softmax(shape):
    kernel = septran.compile("softmax", "cpu-x86", shapes={"X": shape})
    result = kernel(X[shape])
    exact = np.exp(X[shape].astype("f8"))
    np.testing.assert_allclose(result, exact / exact.sum(1, keepdims=True), rtol=1e-5)
    return result.tobytes()


def counted(log):
    """Have each build, in whatever process, leave a line in `log`."""
    build = CpuTarget.build

    def counting(self, ir, program):
        with open(log, "ab", buffering=0) as file:  # noqa: PTH123 - one write, appended
            file.write(f"{program.buffers[0].shape}\n".encode())
        return build(self, ir, program)

    CpuTarget.build = counting


def forked(job):
    """Start `job` in a process of its own; its number."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        job()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def status(process, seconds=60.0):
    """The exit code; kills and fails what does not end in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, code = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(code)
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise TimeoutError(f"a process is still running after {seconds} s")


def race(log):
    """Processes, of two threads each, that want the same kernels at once."""
    counted(log)

    def job():
        order = random.Random(os.getpid()).sample(SHAPES, len(SHAPES))
        with ThreadPoolExecutor(2) as pool:
            results = dict(zip(order, pool.map(softmax, order), strict=True))
        assert {shape: softmax(shape) for shape in SHAPES} == results

    assert [status(p) for p in [forked(job) for _ in range(6)]] == [0] * 6


def kill(rounds):
    """Writers that are killed at any moment leave no entry that is torn, and no lock."""
    entries = Cache.default().root / "entries"

    def job():
        rng = random.Random(os.getpid())
        while True:
            softmax(rng.choice(SHAPES[:3]))
            for folder in entries.iterdir():
                if rng.random() < 0.5:
                    shutil.rmtree(folder, ignore_errors=True)

    found = 0
    for number in range(int(rounds)):
        processes = [forked(job) for _ in range(2)]
        while not (entries.exists() and any(entries.iterdir())):
            time.sleep(0.01)  # both are at it
        time.sleep(0.02 * number)
        for process in processes:
            os.kill(process, signal.SIGKILL)
        assert [status(p) for p in processes] == [-signal.SIGKILL] * 2
        for folder in entries.iterdir() if entries.exists() else ():
            if Cache.default().find(folder.name):
                TARGET.load(folder)
                found += 1
    for shape in SHAPES:
        softmax(shape)
    assert found


def fork():
    """Kernels of before a fork, and new ones, in the child and in its threads."""
    wanted = [softmax(shape) for shape in SHAPES]
    gemm = septran.compile("gemm", "cpu-x86")
    a = np.random.default_rng(0).standard_normal((300, 200)).astype("f4")
    product = gemm(a, a.T.copy())
    time.sleep(0.1)  # the pool's threads sleep by now

    def job():
        assert (gemm(a, a.T.copy()) == product).all()
        assert [softmax(shape) for shape in SHAPES] == wanted
        septran.compile("softmax", "cpu-x86")(np.ones((2, 3), "f4"))
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda _: gemm(a, a.T.copy()), range(4)))
        assert all((result == product).all() for result in results)

    assert status(forked(job), 30) == 0
    assert (gemm(a, a.T.copy()) == product).all()


def interrupt(rounds):
    """SIGINT at any moment of compiling: KeyboardInterrupt, and the next try works."""

    def insist(heard, delay):
        while not heard.wait(delay):
            os.kill(os.getpid(), signal.SIGINT)
            delay = 2.0  # Python drops what a signal raises in a destructor: then once more

    # A shell's background jobs are started deaf to SIGINT, and so are their children.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def job():
        rng = random.Random(os.getpid())
        caught = 0
        for _ in range(int(rounds)):
            heard = threading.Event()
            pest = threading.Thread(target=insist, args=(heard, rng.random() * 0.15))
            pest.start()
            try:
                while True:
                    softmax(SHAPES[0])
                    Cache.default().clear()
            except KeyboardInterrupt:
                heard.set()
                caught += 1
            pest.join()
            softmax(SHAPES[0])
        assert caught == int(rounds)
        assert not list((Cache.default().root / "staging").iterdir())

    assert status(forked(job), 240) == 0  # 10 s alone; other tests run beside it


if __name__ == "__main__":
    os.environ["SEPTRAN_CACHE"] = "0"
    septran.compile("softmax", "cpu-x86", shapes={"M": 2, "N": 2})  # imports all; runs nothing
    os.environ["SEPTRAN_CACHE"] = "1"
    globals()[sys.argv[1]](*sys.argv[2:])
