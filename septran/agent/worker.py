"""Run the server's tools in a process of its own: ``python -m septran.agent.worker``.

Logic is a user's Python: it may crash, hang or fill the memory, which costs one call.
"""

from __future__ import annotations

import os
import traceback
from typing import Any

from septran.agent.tools import TOOLS
from septran.errors import Errors, SepTranError
from septran.tuning.answering import answer_requests, bound_memory

SPARE_BYTES = "SEPTRAN_AGENT_BYTES"
"""The variable with the bytes of memory that calls may use beside the compiler itself."""


def main() -> None:
    """Answer requests until there are no more."""
    bound_memory(int(os.environ.get(SPARE_BYTES, 4 << 30)))
    answer_requests(answer)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a tool, or the mistakes in the user's files; nothing to nothing."""
    if not request:
        return {"kind": "answer", "answer": {}}
    try:
        return {"kind": "answer", "answer": TOOLS[request["tool"]](request["arguments"])}
    except SepTranError as error:
        inner = error.errors if isinstance(error, Errors) else (error,)
        mistakes = [_mistake(one) for one in inner]
        return {"kind": "mistake", "message": str(error), "mistakes": mistakes}
    except MemoryError:
        raise
    except Exception:
        return {"kind": "failed", "message": traceback.format_exc(limit=-4)}


def _mistake(error: SepTranError) -> dict[str, Any]:
    where = str(error.where) if error.where else ""
    return {"code": error.code, "message": error.message, "where": where, "hint": error.hint or ""}


if __name__ == "__main__":
    main()
