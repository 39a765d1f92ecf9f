"""A worker whose candidates misbehave: what is planted is the request's ``kernel``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from septran.tuning import worker


def run(request):
    """Do what is asked, and tell who one is."""
    match request["kernel"]:
        case "segv":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "abort":
            os.abort()
        case "exit":
            os._exit(0)
        case "deaf":
            os.closerange(3, 64)  # the answers' pipe, too
            time.sleep(600)
        case "loop":
            while True:
                pass
        case "memory":
            import resource

            _, most = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (4 << 30, most))
            bytearray(10 << 30)
        case "forks":
            child = [sys.executable, "-c", "import time; time.sleep(600)"]
            pids = [subprocess.Popen(child).pid for _ in range(3)]
            Path(request["results"]).write_text(" ".join(map(str, pids)))
            time.sleep(600)
        case "flood":
            for _ in range(20_000):
                sys.stdout.write("x" * 100)
                os.write(2, b"y" * 100)
        case "error":
            raise RuntimeError("planted")
    return {"kind": "measured", "seconds": 1.0, "pid": os.getpid()}


if __name__ == "__main__":
    worker.run = run
    worker.main()
