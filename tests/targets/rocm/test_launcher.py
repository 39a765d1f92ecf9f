"""The launcher for AMD's driver, seen by a stand-in for it, and by HIP itself where it is."""

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from septran.emulator.launch import CudaProgram, KernelLaunch, Pointer, ScalarArgument
from septran.targets.c_compiler import c_compiler
from septran.targets.cuda.run.launcher import (
    ROCM,
    DriverError,
    KernelArgumentError,
    TensorSpec,
    compile_launcher,
    make_function,
    table,
)
from septran.targets.rocm.executable import DRIVERS

HOST = 1  # kDLCPU: tensors of the host stand for those of a GPU
PASSED = (
    Pointer("A", "float32", "A"),
    Pointer("room", "float32", "room"),
    ScalarArgument("x", "x"),
)
LAUNCH = KernelLaunch("scale_kernel", 304, 256, 1, 60_000, PASSED)
PROGRAM = CudaProgram("", (LAUNCH,), (("room", 4096),), ("A",), (("x", "float32"),), "gfx942")
TENSORS = (TensorSpec("A", "float32", (64,)),)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = c_compiler()
    if compiler is None:
        pytest.skip("no C compiler here")
    path = tmp_path_factory.mktemp("hip") / "fake_hip.so"
    source = Path(__file__).parent / "fake_hip.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", str(source), "-o", str(path)], check=True)
    return path


@pytest.fixture
def hip(library, monkeypatch):
    monkeypatch.setenv("SEPTRAN_LIBAMDHIP64", str(library))
    fake = ctypes.CDLL(str(library))
    fake.fake_log.restype, fake.fake_allocated.restype = ctypes.c_char_p, ctypes.c_long
    fake.fake_reset()
    fake.fake_current(0)
    return fake


def log(hip) -> list[str]:
    return [line for line in hip.fake_log().decode().splitlines() if line != "init 0"]


def function():
    code = b"ELFxyz"
    return make_function(table("scale", PROGRAM, TENSORS, HOST), code, compile_launcher(ROCM))


def aligned(count) -> np.ndarray:
    raw = np.zeros(4 * count + 4096, np.uint8)
    start = -raw.ctypes.data % 4096
    return raw[start : start + 4 * count].view(np.float32)


def test_a_call_loads_allocates_and_launches(hip):
    call, a = function(), aligned(64)
    call(a, 2.5)
    assert log(hip) == [
        "load ELFxyz", "function scale_kernel of 16", "allocate 4096",
        "launch scale_kernel grid 304 1 1 block 256 1 1 shared 60000 stream 0 extra 0 "
        "first %0 last 2.5",
    ]  # fmt: skip
    assert hip.fake_allocated() == 0
    hip.fake_reset()
    call(a, 1.0)
    assert [line.split()[0] for line in log(hip)] == ["allocate", "launch"]


def test_the_device_that_was_current_is_so_again(hip):
    hip.fake_current(1)
    function()(aligned(64), 1.0)
    changes = [line for line in log(hip) if line.startswith("device")]
    assert changes == ["device 0", "device 1"]


def test_what_the_driver_refuses_is_said(hip):
    hip.fake_fail_launch(719)
    wanted = r"scale: scale_kernel failed: unspecified launch failure \(HIP error 719\)"
    with pytest.raises(DriverError, match=wanted):
        function()(aligned(64), 1.0)
    assert hip.fake_allocated() == 0


def test_another_tensor_is_refused(hip):
    with pytest.raises(KernelArgumentError, match="axis 0 of A has 65 elements, not 64"):
        function()(aligned(65), 1.0)
    assert log(hip) == []


def of_hip(code: str) -> str:
    """What a process says that loads HIP, which may write to its standard error."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    return done.stdout + done.stderr


@pytest.fixture
def real_hip():
    for name in DRIVERS:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    pytest.skip("HIP is not here: apt-get install libamdhip64-5")


def test_hip_itself_says_whether_there_is_a_gpu(real_hip):
    count = ctypes.c_int()
    said = of_hip("from septran.targets.rocm.executable import missing; print(missing())")
    if real_hip.hipGetDeviceCount(ctypes.byref(count)) or not count.value:
        assert "HIP finds no AMD GPU (error 10" in said
    else:
        assert said == "None\n"


def test_a_launch_without_a_gpu_is_refused_by_hip_itself(real_hip):
    """Of tensors of the host: with a GPU, the code object is what is refused."""
    said = of_hip(
        "import numpy as np\n"
        "from septran.targets.cuda.run.launcher import *\n"
        "from septran.emulator.launch import *\n"
        "launch = KernelLaunch('k', 1, 256, 1, 0, (Pointer('A', 'float32', 'A'),))\n"
        "program = CudaProgram('', (launch,), (), ('A',), (), 'gfx942')\n"
        "tensors = (TensorSpec('A', 'float32', (64,)),)\n"
        "made = table('none', program, tensors, 1)\n"
        "try:\n"
        "    make_function(made, b'no code object', compile_launcher(ROCM))(\n"
        "        np.zeros(64, np.float32))\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    assert "DriverError none: " in said
    assert "(HIP error" in said
