"""A module that answers requests by sleeping."""

from __future__ import annotations

import os
import time

from septran.tuning.answering import answer_requests


def run(request):
    """Sleep as long as is asked."""
    time.sleep(request["sleep"])
    return {"kind": "measured", "seconds": 1.0, "process": os.getppid()}


if __name__ == "__main__":
    answer_requests(run)
