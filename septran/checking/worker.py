"""Run cases in a process of its own: ``python -m septran.checking.worker``.

It reads one JSON request a line and answers each with one line, as `septran.tuning.worker` does: a
case may crash or hang, and the process that asked only sees that no answer comes.
"""

from __future__ import annotations

from typing import Any

from septran.checking.running import run_case
from septran.checking.subject import CheckCase, Subject
from septran.tuning.answering import answer_requests


def main() -> None:
    """Answer requests until there are no more."""
    answer_requests(answer)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return what became of the case that `request` has."""
    subject, case = Subject(**request["subject"]), CheckCase.from_dict(request["case"])
    return run_case(subject, case, request["way"]).to_dict()


if __name__ == "__main__":
    main()
