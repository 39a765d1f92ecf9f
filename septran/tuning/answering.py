"""The other end of a `MeasuringWorker`: a process that answers requests, one a line.

What it runs may crash, hang or fill the memory; the process that asked only sees that no answer
comes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from septran.torch_when_needed import import_torch_when_needed

Answer = Callable[[dict[str, Any]], dict[str, Any]]


def answer_requests(answer: Answer) -> None:
    """Answer the requests on standard input until there are no more."""
    import_torch_when_needed()
    # Answers go by a copy of standard output, as what is run may print to it.
    answers = os.fdopen(os.dup(1), "w")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    _end_with_the_parent()
    for line in sys.stdin:
        try:
            found = answer(json.loads(line))
        except MemoryError:
            found = {"kind": "crashed", "message": "out of memory"}
        except Exception as error:
            found = {"kind": "failed", "message": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


def bound_memory(spare: int) -> None:
    """Limit the address space to so many bytes more: what needs too much fails alone."""
    if sys.platform != "linux":
        return
    import resource

    now = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + spare, most))


def _end_with_the_parent() -> None:
    """On Linux, end the worker with its parent, so that a hanging one does not outlive it."""
    if sys.platform == "linux":
        import ctypes
        import signal

        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG
