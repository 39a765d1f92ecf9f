"""The facts about OpenCL devices that layers below the targets need."""

from septran.backends import Backend


def _device() -> str:
    from septran.targets.cuda.run.toolchain import is_asked_for
    from septran.targets.opencl.run.device import VARIABLE, found, missing

    lacking = None if is_asked_for(VARIABLE) else missing()
    return f"not found: {lacking}" if lacking else str(found())


# Tensors are in the host's memory: a call copies them to the device where that has its own.
BACKEND = Backend(
    "opencl",
    keys=frozenset({"raster"}),
    exchange="SHARED",
    banked=True,
    looks={"opencl device": _device},
)
