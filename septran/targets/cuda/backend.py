"""The facts about NVIDIA GPUs that layers below the targets need."""

from septran.backends import Backend


def _compiler() -> str:
    from septran.targets.cuda.run.toolchain import INSTALL, available, compiler, is_asked_for

    found = compiler() if is_asked_for() else available()
    if found is None:
        return f"not found: CUDA text is generated and emulated, not compiled ({INSTALL})"
    return f"{found}, {found.path}"


def _disassembler() -> str:
    from septran.targets.cuda.run.toolchain import INSTALL_DISASSEMBLER, disassemblers

    found = next(iter(disassemblers()), None)
    return str(found or f"not found: no SASS is shown ({INSTALL_DISASSEMBLER})")


def _gpu() -> str:
    from septran.targets.cuda.run.executable import missing

    return missing() or "found: kernels for NVIDIA GPUs run here"


BACKEND = Backend(
    "cuda",
    device="cuda",
    keys=frozenset({"persistent", "cluster", "raster", "overlap", "pingpong"}),
    exchange="SHARED",
    banked=True,
    dynamic=True,
    looks={"cuda compiler": _compiler, "cuda disassembler": _disassembler, "nvidia gpu": _gpu},
)
