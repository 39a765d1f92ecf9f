"""Fixtures of the CUDA target: a stand-in for NVIDIA's driver, and compilers where there are."""

import ctypes
import subprocess
from pathlib import Path

import pytest

from septran.targets.c_compiler import c_compiler
from septran.targets.cuda.run.toolchain import INSTALL_DISASSEMBLER, available, disassemblers


class FakeDriver:
    """Loaded in the place of libcuda; `log` is what it has been asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path))
        self.library.fake_log.restype = ctypes.c_char_p
        self.library.fake_allocated.restype = ctypes.c_long

    @property
    def log(self) -> list[str]:
        return self.library.fake_log().decode().splitlines()

    def reset(self) -> None:
        self.library.fake_reset()

    def fail_launch(self, status: int) -> None:
        self.library.fake_fail_launch(status)

    @property
    def allocated(self) -> int:
        return int(self.library.fake_allocated())


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory) -> Path:
    compiler = c_compiler()
    if compiler is None:
        pytest.skip("no C compiler here")
    path = tmp_path_factory.mktemp("driver") / "fake_driver.so"  # NVRTC would use a libcuda.so.1
    source = Path(__file__).parent / "fake_driver.c"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", str(source), "-o", str(path)],
        check=True,
    )  # fmt: skip
    return path


@pytest.fixture
def driver(fake_library, monkeypatch) -> FakeDriver:
    monkeypatch.setenv("SEPTRAN_LIBCUDA", str(fake_library))
    fake = FakeDriver(fake_library)
    fake.reset()
    fake.fail_launch(0)
    return fake


@pytest.fixture
def cuda_compiler():
    found = available()
    if found is None:
        pytest.skip("no compiler for CUDA here")
    return found


@pytest.fixture
def disassembler():
    """Skip where machine code cannot be shown."""
    if not disassemblers():
        pytest.skip(f"no disassembler here: {INSTALL_DISASSEMBLER}")
