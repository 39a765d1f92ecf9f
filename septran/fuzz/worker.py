"""Run cases in a process of its own: ``python -m septran.fuzz.worker``.

It reads one JSON request a line and answers each with one line, as `septran.tuning.worker` does: a
case may crash or hang, and the process that asked only sees that no answer comes.
"""

from __future__ import annotations

import os
from typing import Any

from septran.fuzz.campaign import run_case
from septran.fuzz.cases import make_case
from septran.fuzz.executors import ExecutorOptions
from septran.tuning.answering import answer_requests


def main() -> None:
    """Answer requests until there are no more."""
    os.environ.setdefault("SEPTRAN_CACHE", "0")  # no program comes a second time
    answer_requests(answer)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the outcome of the case that `request` names."""
    trace = request["trace"]
    case = make_case(request["seed"], None if trace is None else tuple(trace))
    outcome = run_case(case, ExecutorOptions(request["emulate"], request["guard"]))
    return {
        "kind": outcome.kind, "executor": outcome.executor, "message": outcome.message,
        "worst": outcome.worst, "ran": list(outcome.ran),
    }  # fmt: skip


if __name__ == "__main__":
    main()
