"""The facts about AMD GPUs that layers below the targets need."""

from septran.backends import Backend


def _compiler() -> str:
    from septran.targets.cuda.run.toolchain import is_asked_for
    from septran.targets.rocm.toolchain import INSTALL, VARIABLE, available, compiler

    found = compiler() if is_asked_for(VARIABLE) else available()
    if found is None:
        return f"not found: HIP text is generated and emulated, not compiled ({INSTALL})"
    return str(found)


def _gpu() -> str:
    from septran.targets.rocm.executable import missing

    return missing() or "found: kernels for AMD GPUs run here"


BACKEND = Backend(
    "rocm",
    device="cuda",  # torch's name of AMD's GPUs, too
    keys=frozenset({"raster"}),
    exchange="SHARED",
    banked=True,
    looks={"hip compiler": _compiler, "amd gpu": _gpu},
)
