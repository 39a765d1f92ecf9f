"""Run candidates in a process of its own: ``python -m septran.tuning.worker``.

It reads one JSON request a line and answers each with one line. A candidate may crash, hang or
fill the memory; the process that asked only sees that no answer comes. The output of a candidate
is discarded.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from septran.runtime.archive import load
from septran.runtime.checks import Guarded
from septran.runtime.gpu import on_device
from septran.runtime.kernel import Kernel
from septran.runtime.profile import Profile
from septran.torch_when_needed import import_torch_when_needed

SPARE_BYTES = 4 << 30
"""The bytes of memory that a candidate may use besides its tensors."""


def main() -> None:
    """Answer requests until there are no more."""
    import_torch_when_needed()
    # Answers go by a copy of standard output, as candidates may print to it.
    answers = os.fdopen(os.dup(1), "w")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    _end_with_the_parent()
    for line in sys.stdin:
        try:
            answer = run(json.loads(line))
        except MemoryError:
            answer = {"kind": "crashed", "message": "out of memory"}
        except Exception as error:
            answer = {"kind": "failed", "message": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Load a saved kernel, run it between guard zones on its sample inputs, and time it.

    With ``results`` the outputs are written into that folder, for the parent to compare.
    """
    kernel = load(request["kernel"])
    _bound_memory(kernel)
    inputs = kernel.sample(request["seed"])
    outputs = _outputs(kernel)
    scalars = request["scalars"]
    arrays = [*inputs.values(), *(guarded.array for guarded in outputs.values())]
    with on_device(arrays, kernel.device) as (_, moved):
        kernel(
            *moved[: len(inputs)],
            out=dict(zip(outputs, moved[len(inputs) :], strict=True)),
            **scalars,
        )
    for name, guarded in outputs.items():
        if guarded.overrun():
            return {"kind": "wrong", "message": f"memory beside {name} was written to"}
        if request["results"]:
            (Path(request["results"]) / name).write_bytes(guarded.array.tobytes())
    profile = kernel.profile(*inputs.values(), **scalars)
    if isinstance(profile, Profile):
        return {"kind": "measured", "seconds": profile.median}
    return {"kind": "measured", "seconds": profile.seconds, "cycles": profile.cycles}


def _outputs(kernel: Kernel) -> dict[str, Guarded]:
    tensors = kernel.specialisations[-1].tensors
    return {t.name: Guarded.of(t, None) for t in tensors if t.writes}


def _bound_memory(kernel: Kernel) -> None:
    """Limit the address space, so that a candidate that needs too much fails alone."""
    if sys.platform != "linux":
        return
    import resource

    tensors = kernel.specialisations[-1].tensors
    arrays = sum(8 * int(np.prod(t.shape or ())) for t in tensors)
    now = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + 8 * arrays + SPARE_BYTES, most))


def _end_with_the_parent() -> None:
    """On Linux, end the worker with its parent, so that a hanging one does not outlive it."""
    if sys.platform == "linux":
        import ctypes
        import signal

        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG


if __name__ == "__main__":
    main()
