"""What tests of code for ARM processors need: programs that run it here."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

import septran
from septran.targets.cpu.run.foreign import COMPILER, EMULATOR, PACKAGES


@pytest.fixture(scope="session")
def emulator():
    """Skips where nothing runs code for ARM processors."""
    for name in (EMULATOR, COMPILER):
        if shutil.which(name) is None:
            pytest.skip(f"no {name} here; Debian's packages are {PACKAGES}")


@pytest.fixture(scope="session")
def kernel_for():
    """Compiles an operator for cpu-arm with any of its processors."""

    def compiled(arch, operator, dtypes=None, static=None, **shapes):
        machine = replace(septran.load_machine("cpu-arm"), arch=arch)
        return septran.compile(
            operator, "cpu-arm", machine=machine, shapes=shapes, dtypes=dtypes, static=static
        )

    return compiled
