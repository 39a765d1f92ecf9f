"""Run candidates in a process of its own: ``python -m septran.tuning.worker``.

It reads one JSON request a line and answers each with one line. A candidate may crash, hang or
fill the memory; the process that asked only sees that no answer comes. The output of a candidate
is discarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from septran.runtime.archive import load
from septran.runtime.checks import Guarded
from septran.runtime.gpu import on_device
from septran.runtime.kernel import Kernel
from septran.runtime.profile import Profile
from septran.tuning.answering import answer_requests, bound_memory

SPARE_BYTES = 4 << 30
"""The bytes of memory that a candidate may use besides its tensors."""


def main() -> None:
    """Answer requests until there are no more."""
    answer_requests(run)


def run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Load a saved kernel, run it between guard zones on its sample inputs, and time it.

    With ``results`` the outputs are written into that folder, for the parent to compare.
    """
    kernel = load(request["kernel"])
    tensors = kernel.specialisations[-1].tensors
    bytes_of_all = sum(8 * int(np.prod(t.shape or ())) for t in tensors)
    bound_memory(bytes_of_all + SPARE_BYTES)
    inputs = kernel.sample(request["seed"])
    outputs = _outputs(kernel)
    scalars = request["scalars"]
    passed = [*inputs.values(), *(guarded.array for guarded in outputs.values())]
    with on_device(passed, kernel.device) as (_, moved):
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


if __name__ == "__main__":
    main()
