"""Fixtures of the OpenCL target: a device, where there is one."""

import pytest

from septran.targets.opencl.run.device import INSTALL, found, missing


@pytest.fixture
def device():
    lacking = missing()
    if lacking is not None:
        pytest.skip(f"{lacking} ({INSTALL})")
    return found()
