"""Fixtures of the ROCm target: generated HIP text, and what may lack here."""

from functools import cache

import pytest

import septran
from septran.emulator import build
from septran.targets.rocm.toolchain import INSTALL, available


@cache
def _program(logic, dtype, machine, shapes):
    stages = septran.produce_stages(logic, machine, shapes=dict(shapes), dtypes=dtype)
    return stages.tensor_ir.cuda


@pytest.fixture(scope="session")
def program():
    """`program(logic, dtype, M=...)` is the HIP text of a kernel with its launches."""

    def make(logic, dtype, machine="amd-mi300x", **shapes):
        return _program(logic, dtype, machine, tuple(sorted(shapes.items())))

    return make


@pytest.fixture(autouse=True)
def _needs_a_compiler():
    try:
        build.compiler()
    except build.HostCompilerError:
        pytest.skip("the emulator needs a C++ compiler, and none is here")


@pytest.fixture
def hip_compiler():
    found = available()
    if found is None:
        pytest.skip(f"no clang for AMD's GPUs is here: {INSTALL}")
    return found
