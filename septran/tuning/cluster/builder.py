"""Make a kernel's file of its tile program: ``python -m septran.tuning.cluster.builder``.

It unpickles: who may send jobs to a cluster's workers may run code there anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from septran.tuning.answering import answer_requests
from septran.tuning.cluster.parts import KernelParts


def build(request: Mapping[str, Any]) -> dict[str, Any]:
    """Compile what ``parts`` has; the kernel is written to the folder ``results``."""
    parts = KernelParts.from_bytes(Path(request["parts"]).read_bytes())
    parts.save(Path(request["results"]) / "kernel.zip")
    return {"kind": "built"}


if __name__ == "__main__":
    answer_requests(build)
