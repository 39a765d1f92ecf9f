"""The device that kernels run on: the first that is found, or the one that is asked for."""

from __future__ import annotations

import functools
import os
import warnings
from dataclasses import dataclass
from typing import Any

from septran.errors import TargetError

VARIABLE = "SEPTRAN_OPENCL"
"""Part of the name of a device or its platform; ``none`` for no device."""
INSTALL = 'pip install "septran[opencl]" brings PoCL, which runs kernels on the CPU'


class NoOpenClDeviceError(TargetError):
    """No driver for OpenCL is found here, or none has the device that is asked for."""

    code = "SEP561"


class OpenClRefusedError(TargetError):
    """A driver refused a kernel: its device lacks what the kernel needs, or the text is wrong."""

    code = "SEP562"


@dataclass(frozen=True)
class Device:
    """A device with its context and its queue, in which commands run in order."""

    device: Any
    context: Any
    queue: Any

    @property
    def platform(self) -> str:
        """The driver's name and version."""
        platform = self.device.platform
        # PoCL calls itself by a long name, and puts the short one into its version.
        name = "PoCL" if "PoCL" in platform.version else platform.name
        words = platform.version.replace("OpenCL", "").replace("PoCL", "").split()
        return " ".join([name, *words[1:2]])

    @property
    def options(self) -> list[str]:
        """What the driver compiles with: the oldest language that has all, no fast mathematics."""
        import pyopencl as cl

        found = ["-cl-std=CL1.2"]
        if self.device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
            found.append("-cl-fp32-correctly-rounded-divide-sqrt")
        return found

    def __str__(self) -> str:
        return f"{self.device.name} by {self.platform}"


def found() -> Device:
    """Return the device; raises NoOpenClDeviceError."""
    wish = os.environ.get(VARIABLE, "")
    got = _chosen(wish)
    if isinstance(got, str):
        mend = f"unset {VARIABLE}, or give it a part of a device's name" if wish else INSTALL
        raise NoOpenClDeviceError(
            f"there is no OpenCL device: {got}",
            hint=f"{mend}; OpenCL C, tile programs and --interpret need none",
        )
    return got


def missing() -> str | None:
    """Why kernels cannot run here; None where there is a device."""
    got = _chosen(os.environ.get(VARIABLE, ""))
    return got if isinstance(got, str) else None


@functools.cache
def _chosen(wish: str) -> Device | str:
    """The device, or why there is none."""
    if wish == "none":
        return f"{VARIABLE} is none"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what it may use besides, and does not find
            import pyopencl as cl
    except ImportError:
        return "pyopencl is not installed"
    try:
        devices = [d for platform in cl.get_platforms() for d in platform.get_devices()]
    except cl.Error as error:
        return f"OpenCL's loader finds no driver ({error})"
    words = wish.lower()
    chosen = [d for d in devices if words in f"{d.platform.name} {d.name}".lower()]
    if not chosen:
        names = ", ".join(d.name for d in devices) or "no device"
        return f"{VARIABLE} asks for {wish!r}, and there is {names}" if wish else "no device"
    context = cl.Context([chosen[0]])
    return Device(chosen[0], context, cl.CommandQueue(context))
